"""Densities whose answer is known: a funnel and an ill-conditioned Gaussian."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["funnel", "ill_conditioned_covariance", "ill_conditioned_gaussian"]


def funnel(dimension: int = 9) -> pm.Model:
    """Neal's (2003) funnel: v ~ N(0, 3²), x_i ~ N(0, exp(v))."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pt.exp(v / 2), shape=dimension)
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
