"""Regressions: one vector of coefficients and a likelihood, without groups."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered

__all__ = [
    "censored_regression",
    "dense_regression",
    "group_comparison",
    "horseshoe_regression",
    "imputed_covariates",
    "logistic_regression",
    "negative_binomial_regression",
    "ordered_logit",
    "student_t_regression",
    "truncated_regression",
    "zero_inflated_poisson",
]


def logistic_regression(x: np.ndarray, y: np.ndarray) -> pm.Model:
    """The paper's first experiment: prior N(0, 100 I), Bernoulli likelihood."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def dense_regression(dimension: int, seed: int = 0) -> pm.Model:
    """Logistic regression on simulated data, five observations for each coefficient."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(5 * dimension, dimension)) / np.sqrt(dimension)
    return logistic_regression(x, rng.integers(0, 2, size=len(x)))


def student_t_regression(size: int = 200, predictors: int = 5, seed: int = 0) -> pm.Model:
    """Linear regression with Student-t noise of unknown degrees of freedom."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, predictors))
    y = x @ np.linspace(-1, 1, predictors) + 0.5 * rng.standard_t(4, size=size)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        beta = pm.Normal("beta", 0, 5, shape=predictors)
        sigma = pm.HalfNormal("sigma", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=intercept + x @ beta, sigma=sigma, observed=y)
    return model


def group_comparison(sizes: tuple[int, int] = (47, 42), seed: int = 0) -> pm.Model:
    """Kruschke's (2013) BEST: two groups with Student-t noise, as in PyMC's gallery."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], sizes)
    noise = rng.standard_t(4, size=len(group))
    y = np.array([101.5, 100.5])[group] + np.array([2.0, 1.0])[group] * noise
    with pm.Model() as model:
        mu = pm.Normal("mu", y.mean(), 2 * y.std(), shape=2)
        sigma = pm.Uniform("sigma", 0.1, 10, shape=2)
        nu = pm.Exponential("nu_minus_one", 1 / 29) + 1
        pm.StudentT("y", nu=nu, mu=mu[group], sigma=sigma[group], observed=y)
    return model


def ordered_logit(size: int = 500, predictors: int = 3, seed: int = 0) -> pm.Model:
    """Five ordered categories, whose cutpoints are learned."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, predictors))
    latent = x @ np.linspace(-1, 1, predictors) + rng.logistic(size=size)
    y = np.searchsorted([-2.0, -0.5, 0.5, 2.0], latent)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=predictors)
        start = np.linspace(-2, 2, 4)
        cutpoints = pm.Normal("cutpoints", 0, 3, transform=ordered, initval=start, shape=4)
        pm.OrderedLogistic("y", eta=x @ beta, cutpoints=cutpoints, observed=y)
    return model


def zero_inflated_poisson(size: int = 500, predictors: int = 3, seed: int = 0) -> pm.Model:
    """Poisson regression in which a third of the counts are zero for another reason."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, predictors))
    mean = np.exp(1.0 + x @ np.linspace(-0.5, 0.5, predictors))
    y = rng.poisson(mean) * (rng.random(size) < 0.67)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        beta = pm.Normal("beta", 0, 1, shape=predictors)
        psi = pm.Beta("psi", 1, 1)
        pm.ZeroInflatedPoisson("y", psi=psi, mu=pt.exp(intercept + x @ beta), observed=y)
    return model


def negative_binomial_regression(size: int = 4000, predictors: int = 3, seed: int = 0) -> pm.Model:
    """Overdispersed counts, with many observations and few parameters."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, predictors))
    mean = np.exp(2.0 + x @ np.linspace(-0.5, 0.5, predictors))
    y = rng.poisson(mean * rng.gamma(2.0, 1 / 2.0, size=size))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        beta = pm.Normal("beta", 0, 2, shape=predictors)
        alpha = pm.Exponential("alpha", 0.5)
        mu = pt.exp(intercept + x @ beta)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=y)
    return model


def censored_regression(size: int = 200, seed: int = 0) -> pm.Model:
    """Linear regression whose response is cut off at two limits."""
    x, y = _line(size, seed)
    with pm.Model() as model:
        noise = _line_prior(x)
        pm.Censored("y", noise, lower=-1.0, upper=2.0, observed=np.clip(y, -1.0, 2.0))
    return model


def truncated_regression(size: int = 300, seed: int = 0) -> pm.Model:
    """Linear regression in which observations outside two limits are lost."""
    x, y = _line(size, seed)
    kept = (y > -1.0) & (y < 2.0)
    with pm.Model() as model:
        noise = _line_prior(x[kept])
        pm.Truncated("y", noise, lower=-1.0, upper=2.0, observed=y[kept])
    return model


def _line(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=size)
    return x, 0.5 + x + 0.8 * rng.normal(size=size)


def _line_prior(x: np.ndarray):
    """Declare the parameters of a line, and return the distribution of its noisy values."""
    intercept = pm.Normal("intercept", 0, 2)
    slope = pm.Normal("slope", 0, 2)
    sigma = pm.HalfNormal("sigma", 2)
    return pm.Normal.dist(intercept + slope * x, sigma)


def imputed_covariates(size: int = 150, seed: int = 0) -> pm.Model:
    """Linear regression on a covariate of which a fifth is missing, and sampled with the rest."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=size)
    x = 1.0 + 0.5 * z + rng.normal(size=size)
    y = 0.5 + 0.8 * x - 0.4 * z + 0.7 * rng.normal(size=size)
    with pm.Model() as model:
        mean, slope = pm.Normal("mean", 0, 2), pm.Normal("slope", 0, 2)
        spread = pm.HalfNormal("spread", 2)
        seen = np.ma.masked_array(x, mask=rng.random(size) < 0.2)
        covariate = pm.Normal("x", mean + slope * z, spread, observed=seen)
        intercept = pm.Normal("intercept", 0, 2)
        beta = pm.Normal("beta", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", intercept + beta[0] * covariate + beta[1] * z, sigma, observed=y)
    return model


def horseshoe_regression(size: int = 100, predictors: int = 20, seed: int = 0) -> pm.Model:
    """Piironen and Vehtari's (2017) regularised horseshoe, with three large coefficients."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, predictors))
    y = x[:, :3] @ [2.0, -1.5, 1.0] + rng.normal(size=size)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2)
        tau = pm.HalfCauchy("tau", 0.1)
        local = pm.HalfCauchy("local", 1, shape=predictors)
        slab = pm.InverseGamma("slab", 2, 4)
        raw = pm.Normal("raw", 0, 1, shape=predictors)
        shrunk = local * pt.sqrt(slab / (slab + (tau * local) ** 2))
        beta = pm.Deterministic("beta", raw * tau * shrunk)
        pm.Normal("y", x @ beta, sigma, observed=y)
    return model
