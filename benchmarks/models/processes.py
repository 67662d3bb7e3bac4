"""Smooth functions and fields: Gaussian processes, splines and a field on a grid."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.interpolate import BSpline

__all__ = [
    "areal_counts",
    "gaussian_process",
    "hilbert_space_process",
    "latent_process",
    "splines",
]


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


def latent_process(size: int = 40, seed: int = 0) -> pm.Model:
    """Poisson counts whose log-rate is a Gaussian process."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 10, size=size))
    y = rng.poisson(np.exp(1.0 + np.sin(t)))
    with pm.Model() as model:
        length = pm.Gamma("length", 3, 1)
        amplitude = pm.HalfNormal("amplitude", 1)
        level = pm.Normal("level", 0, 2)
        process = pm.gp.Latent(cov_func=amplitude**2 * pm.gp.cov.Matern52(1, ls=length))
        pm.Poisson("y", pt.exp(level + process.prior("f", X=t[:, None])), observed=y)
    return model


def hilbert_space_process(size: int = 200, seed: int = 0) -> pm.Model:
    """A curve with noise, whose Gaussian process is approximated by 20 basis functions."""
    t, y = _curve(size, seed)
    with pm.Model() as model:
        length = pm.Gamma("length", 3, 1)
        amplitude = pm.HalfNormal("amplitude", 2)
        covariance = amplitude**2 * pm.gp.cov.ExpQuad(1, ls=length)
        process = pm.gp.HSGP(m=[20], c=1.5, cov_func=covariance)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", process.prior("f", X=t[:, None]), sigma, observed=y)
    return model


def splines(size: int = 200, knots: int = 15, seed: int = 0) -> pm.Model:
    """A curve with noise, by cubic B-splines whose weights have a learned scale."""
    t, y = _curve(size, seed)
    inner = np.quantile(t, np.linspace(0, 1, knots))
    padded = np.concatenate([np.repeat(inner[0], 3), inner, np.repeat(inner[-1], 3)])
    basis = BSpline.design_matrix(t, padded, 3).toarray()
    with pm.Model() as model:
        level = pm.Normal("level", 0, 5)
        tau = pm.HalfNormal("tau", 2)
        weights = pm.Normal("weights", 0, tau, shape=basis.shape[1])
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", level + basis @ weights, sigma, observed=y)
    return model


def _curve(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 10, size=size))
    return t, np.sin(t) + 0.2 * t + rng.normal(scale=0.4, size=size)


def areal_counts(side: int = 7, seed: int = 0) -> pm.Model:
    """Poisson counts on a square grid, with a conditional autoregression between neighbours."""
    rng = np.random.default_rng(seed)
    row, column = np.divmod(np.arange(side**2), side)
    apart = np.abs(row[:, None] - row) + np.abs(column[:, None] - column)
    neighbours = (apart == 1).astype(float)
    precision = 4.0 * (np.diag(neighbours.sum(axis=1)) - 0.9 * neighbours)
    field = np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=side**2))
    x = rng.normal(size=side**2)
    y = rng.poisson(np.exp(1.5 + 0.3 * x + field))
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2)
        slope = pm.Normal("slope", 0, 1)
        tau = pm.Gamma("tau", 2, 0.5)
        alpha = pm.Beta("alpha", 2, 1)
        phi = pm.CAR("phi", mu=np.zeros(side**2), W=neighbours, alpha=alpha, tau=tau)
        pm.Poisson("y", pt.exp(level + slope * x + phi), observed=y)
    return model
