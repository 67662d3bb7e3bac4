"""Time series: autoregressions, random walks and a change point."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import digamma, gammaln, polygamma

__all__ = [
    "autoregression",
    "change_point",
    "change_point_moments",
    "random_walk_volatility",
    "stochastic_volatility",
    "structural_trend",
]


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


def random_walk_volatility(length: int = 400, centred: bool = True, seed: int = 0) -> pm.Model:
    """Student-t returns whose log-volatility is a random walk, as in PyMC's gallery."""
    rng = np.random.default_rng(seed)
    truth = -1.0 + np.cumsum(0.15 * rng.normal(size=length))
    returns = np.exp(truth) * rng.standard_t(8, size=length)
    with pm.Model() as model:
        step = pm.Exponential("step", 10)
        walk = _random_walk("log_volatility", step, 1.0, length, centred)
        nu = pm.Exponential("nu", 0.1)
        pm.StudentT("y", nu=nu, mu=0.0, sigma=pt.exp(walk), observed=returns)
    return model


def structural_trend(length: int = 100, centred: bool = True, seed: int = 0) -> pm.Model:
    """A trend whose slope is a random walk, observed with noise."""
    rng = np.random.default_rng(seed)
    slopes = 0.1 + np.cumsum(0.1 * rng.normal(size=length))
    y = np.cumsum(slopes) + rng.normal(size=length)
    with pm.Model() as model:
        step = pm.HalfNormal("step", 0.5)
        slope = _random_walk("slope", step, 1.0, length, centred)
        start = pm.Normal("start", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", start + pt.cumsum(slope), sigma, observed=y)
    return model


def _random_walk(name: str, step, start_sd: float, length: int, centred: bool):
    """Declare a Gaussian random walk, by its values or by its standardised increments."""
    if centred:
        start = pm.Normal.dist(0, start_sd)
        return pm.GaussianRandomWalk(name, sigma=step, init_dist=start, steps=length - 1)
    raw = pm.Normal(f"{name}_raw", shape=length)
    scales = pt.concatenate([pt.constant([start_sd]), pt.repeat(step, length - 1)])
    return pm.Deterministic(name, pt.cumsum(scales * raw))


def autoregression(length: int = 300, seed: int = 0) -> pm.Model:
    """Linear regression with autoregressive noise of second order, given the first two values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(length, 2))
    noise = np.zeros(length)
    for t in range(2, length):
        noise[t] = 0.5 * noise[t - 1] + 0.3 * noise[t - 2] + 0.5 * rng.normal()
    y = 1.0 + x @ [0.5, -0.3] + noise
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        beta = pm.Normal("beta", 0, 2, shape=2)
        rho = pm.Normal("rho", 0, 0.5, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        mean = intercept + x @ beta
        residual = y - mean
        expected = mean[2:] + rho[0] * residual[1:-1] + rho[1] * residual[:-2]
        pm.Normal("y", expected, sigma, observed=y[2:])
    return model


def _change_point_counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.poisson(3.0, size=40), rng.poisson(1.0, size=60)])


def change_point() -> pm.Model:
    """Counts whose rate changes once, at a discrete time."""
    counts = _change_point_counts()
    with pm.Model() as model:
        change = pm.DiscreteUniform("change", 0, len(counts))
        early, late = pm.Gamma("early", 2, 1), pm.Gamma("late", 2, 1)
        rate = pt.switch(np.arange(len(counts)) < change, early, late)
        pm.Poisson("y", rate, observed=counts)
    return model


def change_point_moments() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the exact means and sds of the time of the change and of the logarithms of the rates.

    Given the time, a rate is Gamma(a, b) with a = 2 + its counts and b = 1 + its number of times;
    its marginal likelihood is Γ(a) b⁻ᵃ up to a constant, and log(rate) has mean ψ(a) − log b and
    variance ψ′(a).
    """
    counts = _change_point_counts()
    times = np.arange(len(counts) + 1)
    before = np.concatenate([[0], np.cumsum(counts)])
    gammas = {
        "early": (2.0 + before, 1.0 + times),
        "late": (2.0 + before[-1] - before, 1.0 + len(counts) - times),
    }
    weights = sum(gammaln(a) - a * np.log(b) for a, b in gammas.values())
    weights = np.exp(weights - np.max(weights))
    weights /= weights.sum()

    def mixed(means: np.ndarray, variances: np.ndarray | float):
        mean = weights @ means
        return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))

    rates = {
        name: mixed(digamma(a) - np.log(b), polygamma(1, a)) for name, (a, b) in gammas.items()
    }
    return {"change": mixed(times, 0.0), **rates}
