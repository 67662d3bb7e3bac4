"""The PyMC models of the benchmarks."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

__all__ = [
    "dense_regression",
    "eight_schools",
    "fitzhugh_nagumo",
    "funnel",
    "gaussian_process",
    "hierarchical_regression",
    "ill_conditioned_covariance",
    "ill_conditioned_gaussian",
    "independent_groups",
    "logistic_regression",
    "lotka_volterra",
    "poisson_glmm",
    "stochastic_volatility",
    "student_t_regression",
]

# Pelts of hares and lynxes that the Hudson's Bay Company collected, in thousands, 1900–1920
# (Howard 2009, "Modeling basics").
HARES = """
    30.0 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22.0 25.4 27.1
    40.3 57.0 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7
"""
LYNXES = """
    4.0 6.1 9.8 35.2 59.4 41.7 19.0 13.0 8.3 9.1 7.4
    8.0 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6
"""
PELTS = np.array([np.fromstring(numbers, sep=" ") for numbers in (HARES, LYNXES)])


def logistic_regression(x: np.ndarray, y: np.ndarray) -> pm.Model:
    """The paper's first experiment: prior N(0, 100 I), Bernoulli likelihood."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


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


def dense_regression(dimension: int, seed: int = 0) -> pm.Model:
    """Logistic regression on simulated data, five observations for each coefficient."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(5 * dimension, dimension)) / np.sqrt(dimension)
    return logistic_regression(x, rng.integers(0, 2, size=len(x)))


def fitzhugh_nagumo(times: np.ndarray, observed: np.ndarray, **prior) -> pm.Model:
    """The paper's second experiment: Exponential priors with mean 3, noise of sd 0.5.

    A Scan makes one classical Runge–Kutta step between two observations. As in the paper, chains
    start at the true parameters, since the posterior has other modes. The options are passed to
    the priors, for example ``default_transform=None`` for the natural scale.
    """

    def slopes(v, r, a, b, c):
        return c * (v - v**3 / 3 + r), -(v - a + b * r) / c

    with pm.Model() as model:
        truth = {"a": 0.2, "b": 0.2, "c": 3.0}
        a, b, c = (pm.Exponential(name, 1 / 3, initval=truth[name], **prior) for name in "abc")
        start = [pt.constant(value, dtype="float64") for value in (-1.0, 1.0)]
        states = _runge_kutta(slopes, start, [a, b, c], times[1] - times[0], len(times) - 1)
        mean = pt.stack([pt.concatenate([s[None], p]) for s, p in zip(start, states, strict=True)])
        pm.Normal("y", mean, 0.5, observed=observed)
    return model


def lotka_volterra(steps_per_year: int = 10) -> pm.Model:
    """Hares and lynxes with log-normal noise; rates, initial populations and noise are unknown."""
    years = PELTS.shape[1]

    def slopes(hares, lynxes, birth, predation, death, growth):
        return (birth - predation * lynxes) * hares, (growth * hares - death) * lynxes

    with pm.Model() as model:
        birth, death = (pm.LogNormal(name, -0.5, 0.5) for name in ("birth", "death"))
        predation, growth = (pm.LogNormal(name, -3.5, 0.5) for name in ("predation", "growth"))
        start = pm.LogNormal("start", np.log(10), 1, shape=2)
        sigma = pm.LogNormal("sigma", -1, 1, shape=2)
        rates = [birth, predation, death, growth]
        steps = steps_per_year * (years - 1)
        paths = _runge_kutta(slopes, [start[0], start[1]], rates, 1 / steps_per_year, steps)
        yearly = [
            pt.concatenate([start[i, None], path[steps_per_year - 1 :: steps_per_year]])
            for i, path in enumerate(paths)
        ]
        pm.LogNormal("pelts", pt.log(pt.stack(yearly)), sigma[:, None], observed=PELTS)
    return model


def _runge_kutta(slopes, start, parameters, step: float, count: int):
    """Return the states after each of `count` classical Runge–Kutta steps of two equations."""

    def advance(v, r, *rest):
        k1 = slopes(v, r, *rest)
        k2 = slopes(v + step / 2 * k1[0], r + step / 2 * k1[1], *rest)
        k3 = slopes(v + step / 2 * k2[0], r + step / 2 * k2[1], *rest)
        k4 = slopes(v + step * k3[0], r + step * k3[1], *rest)
        return [
            y + step / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i, y in enumerate((v, r))
        ]

    return pytensor.scan(
        advance,
        outputs_info=start,
        non_sequences=parameters,
        n_steps=count,
        return_updates=False,
    )


def stochastic_volatility(returns: np.ndarray) -> pm.Model:
    """The paper's third experiment, with its priors: an autoregressive log-variance."""
    with pm.Model() as model:
        beta = pm.Exponential("beta", 1.0)
        # Scaled inverse χ² with 10 degrees of freedom and scale 0.05.
        sigma = pt.sqrt(pm.InverseGamma("variance", 5.0, 0.25))
        phi = 2 * pm.Beta("persistence", 20.0, 1.5) - 1
        start = pm.Normal.dist(0.0, sigma / pt.sqrt(1 - phi**2), shape=1)
        x = pm.AR("x", phi[None], sigma=sigma, init_dist=start, shape=len(returns))
        pm.Normal("y", 0.0, beta * pt.exp(x / 2), observed=returns)
    return model


def eight_schools(centred: bool = True) -> pm.Model:
    """Rubin's (1981) eight schools."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = pm.Deterministic("theta", mu + tau * pm.Normal("raw", shape=8))
        pm.Normal("y", theta, errors, observed=effects)
    return model


def funnel(dimension: int = 9) -> pm.Model:
    """Neal's (2003) funnel: v ~ N(0, 3²), x_i ~ N(0, exp(v))."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pt.exp(v / 2), shape=dimension)
    return model


def poisson_glmm(groups: int = 30, size: int = 10, seed: int = 0) -> pm.Model:
    """Poisson counts with a common slope and a centred intercept for each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), size)
    z = rng.normal(size=len(group))
    y = rng.poisson(np.exp(0.5 + 0.6 * rng.normal(size=groups)[group] + 0.4 * z))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        slope = pm.Normal("slope", 0, 1)
        intercept = pm.Normal("intercept", mu, tau, shape=groups)
        pm.Poisson("y", pt.exp(intercept[group] + slope * z), observed=y)
    return model


def gaussian_process(size: int = 60, seed: int = 0) -> pm.Model:
    """Length scale, amplitude and noise of a Gaussian process, from its marginal likelihood."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 10, size=size))
    y = np.sin(t) + 0.3 * t + rng.normal(scale=0.3, size=size)
    with pm.Model() as model:
        length = pm.Gamma("length", 3, 1.5)
        amplitude = pm.HalfNormal("amplitude", 2)
        sigma = pm.HalfNormal("sigma", 1)
        process = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.Matern52(1, ls=length))
        process.marginal_likelihood("y", X=t[:, None], y=y, sigma=sigma)
    return model


def ill_conditioned_covariance(dimension: int = 50, seed: int = 0) -> np.ndarray:
    """Return a covariance with eigenvalues from 10⁻³ to 10³ in random directions."""
    normal = np.random.default_rng(seed).normal(size=(dimension, dimension))
    directions, _ = np.linalg.qr(normal)
    return (directions * np.logspace(-3, 3, dimension)) @ directions.T


def ill_conditioned_gaussian() -> pm.Model:
    """A multivariate normal whose directions differ a thousandfold in scale."""
    covariance = ill_conditioned_covariance()
    with pm.Model() as model:
        pm.MvNormal("x", np.zeros(len(covariance)), cov=covariance)
    return model


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
