"""PyMC models of the benchmark."""

import numpy as np
import pymc as pm

__all__ = [
    "dense_regression",
    "hierarchical_regression",
    "independent_groups",
    "logistic_regression",
]


def logistic_regression(x: np.ndarray, y: np.ndarray) -> pm.Model:
    """The paper's first experiment: prior N(0, 100 I), Bernoulli likelihood."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def hierarchical_regression(dimension: int, seed: int = 0) -> pm.Model:
    """Varying intercepts, five observations each, and four parameters that all share."""
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
