"""Hierarchies: effects of groups with a learned scale, centred as people write them.

Models with the option `centred` have a non-centred form of the same posterior, which NUTS samples
without a funnel; a long run of it is the reference of the comparison.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = [
    "beta_binomial_groups",
    "binomial_groups",
    "correlated_slopes",
    "eight_schools",
    "hierarchical_regression",
    "independent_groups",
    "item_response",
    "poisson_glmm",
    "survival_with_frailty",
    "varying_slopes",
]


def _effects(name: str, mu, tau, centred: bool, **shape):
    """Declare normal effects with mean `mu` and sd `tau`, of the same name in both forms."""
    if centred:
        return pm.Normal(name, mu, tau, **shape)
    return pm.Deterministic(name, mu + tau * pm.Normal(f"{name}_raw", **shape))


def hierarchical_regression(dimension: int, seed: int = 0) -> pm.Model:
    """Varying intercepts with five observations each, and four shared parameters."""
    rng = np.random.default_rng(seed)
    groups = max(dimension - 4, 1)
    group = np.repeat(np.arange(groups), 5)
    z = rng.normal(size=len(group))
    y = rng.normal(size=groups)[group] + 0.5 * z + rng.normal(size=len(group))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfNormal("tau", 2)
        slope = pm.Normal("slope", 0, 2)
        sigma = pm.HalfNormal("sigma", 2)
        intercept = pm.Normal("intercept", mu, tau, shape=groups)
        pm.Normal("y", intercept[group] + slope * z, sigma, observed=y)
    return model


def independent_groups(groups: int = 50, seed: int = 0) -> pm.Model:
    """Separate regressions with four parameters each, in one model."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), 8)
    z, w = rng.normal(size=(2, len(group)))
    y = 1.0 + 0.5 * z - 0.3 * w + rng.normal(size=len(group))
    with pm.Model() as model:
        level, first, second = (
            pm.Normal(name, 0, 2, shape=groups) for name in ("level", "first", "second")
        )
        sigma = pm.HalfNormal("sigma", 2, shape=groups)
        mean = level[group] + first[group] * z + second[group] * w
        pm.Normal("y", mean, sigma[group], observed=y)
    return model


def eight_schools(centred: bool = True) -> pm.Model:
    """Rubin's (1981) eight schools."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = _effects("theta", mu, tau, centred, shape=8)
        pm.Normal("y", theta, errors, observed=effects)
    return model


def poisson_glmm(groups: int = 30, size: int = 10, centred: bool = True, seed: int = 0) -> pm.Model:
    """Poisson counts with a common slope and an intercept for each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), size)
    z = rng.normal(size=len(group))
    y = rng.poisson(np.exp(0.5 + 0.6 * rng.normal(size=groups)[group] + 0.4 * z))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        slope = pm.Normal("slope", 0, 1)
        intercept = _effects("intercept", mu, tau, centred, shape=groups)
        pm.Poisson("y", pt.exp(intercept[group] + slope * z), observed=y)
    return model


def varying_slopes(
    groups: int = 60, size: int = 6, centred: bool = True, seed: int = 0
) -> pm.Model:
    """Linear regression with an independent intercept and slope for each group."""
    group, z, y = _lines(groups, size, 0.0, seed)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=2)
        tau = pm.HalfNormal("tau", 1, shape=2)
        intercept = _effects("intercept", mean[0], tau[0], centred, shape=groups)
        slope = _effects("slope", mean[1], tau[1], centred, shape=groups)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", intercept[group] + slope[group] * z, sigma, observed=y)
    return model


def correlated_slopes(
    groups: int = 60, size: int = 6, centred: bool = True, seed: int = 0
) -> pm.Model:
    """Linear regression with correlated intercepts and slopes, under an LKJ prior."""
    group, z, y = _lines(groups, size, 0.5, seed)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=2)
        scales = pm.Exponential.dist(1.0, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", eta=2.0, n=2, sd_dist=scales)
        if centred:
            effects = pm.MvNormal("effects", mean, chol=chol, shape=(groups, 2))
        else:
            raw = pm.Normal("raw", shape=(groups, 2))
            effects = pm.Deterministic("effects", mean + raw @ chol.T)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", effects[group, 0] + effects[group, 1] * z, sigma, observed=y)
    return model


def _lines(groups: int, size: int, correlation: float, seed: int):
    """Simulate a line with noise for each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), size)
    z = rng.normal(size=len(group))
    covariance = [[0.8**2, correlation * 0.8 * 0.4], [correlation * 0.8 * 0.4, 0.4**2]]
    effects = rng.multivariate_normal([1.0, 0.5], covariance, size=groups)
    y = effects[group, 0] + effects[group, 1] * z + 0.7 * rng.normal(size=len(group))
    return group, z, y


def binomial_groups(groups: int = 70, centred: bool = True, seed: int = 0) -> pm.Model:
    """Successes in groups of unequal size, with normal log-odds."""
    trials, successes = _successes(groups, seed)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        logit = _effects("logit", mu, tau, centred, shape=groups)
        pm.Binomial("y", n=trials, logit_p=logit, observed=successes)
    return model


def beta_binomial_groups(groups: int = 70, seed: int = 0) -> pm.Model:
    """Successes in groups of unequal size, with Beta probabilities (Gelman et al. 2013, ch. 5)."""
    trials, successes = _successes(groups, seed)
    with pm.Model() as model:
        mean = pm.Beta("mean", 1, 1)
        concentration = pm.Gamma("concentration", 2, 0.1)
        p = pm.Beta("p", mean * concentration, (1 - mean) * concentration, shape=groups)
        pm.Binomial("y", n=trials, p=p, observed=successes)
    return model


def _successes(groups: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    trials = rng.integers(10, 50, size=groups)
    return trials, rng.binomial(trials, 1 / (1 + np.exp(1.8 - 0.7 * rng.normal(size=groups))))


def item_response(persons: int = 120, items: int = 25, seed: int = 0) -> pm.Model:
    """Two-parameter logistic item response: every person answers every item."""
    rng = np.random.default_rng(seed)
    slopes, thresholds = np.exp(0.4 * rng.normal(size=items)), rng.normal(size=items)
    logits = slopes * (rng.normal(size=(persons, 1)) - thresholds)
    y = rng.random((persons, items)) < 1 / (1 + np.exp(-logits))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        tau = pm.HalfNormal("tau", 1)
        ability = pm.Normal("ability", 0, 1, shape=persons)
        difficulty = pm.Normal("difficulty", mu, tau, shape=items)
        discrimination = pm.LogNormal("discrimination", 0, 0.5, shape=items)
        logit = discrimination * (ability[:, None] - difficulty)
        pm.Bernoulli("y", logit_p=logit, observed=y.astype(int))
    return model


def survival_with_frailty(clusters: int = 25, size: int = 8, seed: int = 0) -> pm.Model:
    """Weibull survival times, censored at the end, with a Gamma frailty for each cluster."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), size)
    x = rng.normal(size=(len(cluster), 2))
    hazard = rng.gamma(2.0, 1 / 2.0, size=clusters)[cluster] * np.exp(x @ [0.5, -0.3])
    times, end = (rng.exponential(size=len(cluster)) / hazard) ** (1 / 1.5), 1.5
    with pm.Model() as model:
        shape = pm.HalfNormal("shape", 2)
        intercept = pm.Normal("intercept", 0, 2)
        beta = pm.Normal("beta", 0, 1, shape=2)
        precision = pm.Gamma("precision", 2, 0.5)
        frailty = pm.Gamma("frailty", precision, precision, shape=clusters)
        log_hazard = intercept + x @ beta + pt.log(frailty[cluster])
        time = pm.Weibull.dist(alpha=shape, beta=pt.exp(-log_hazard / shape))
        pm.Censored("t", time, lower=None, upper=end, observed=np.minimum(times, end))
    return model
