"""Unobserved classes, proportions and factors."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered

__all__ = ["dirichlet_multinomial", "factor_analysis", "gaussian_mixture"]


def gaussian_mixture(size: int = 300, seed: int = 0) -> pm.Model:
    """Three Gaussian components, whose ordered means tell them apart."""
    rng = np.random.default_rng(seed)
    component = rng.choice(3, p=[0.3, 0.5, 0.2], size=size)
    y = np.array([-3.0, 0.0, 4.0])[component]
    y += np.array([0.8, 0.6, 1.0])[component] * rng.normal(size=size)
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        start = np.array([-2.0, 0.0, 2.0])
        mu = pm.Normal("mu", 0, 5, transform=ordered, initval=start, shape=3)
        sigma = pm.HalfNormal("sigma", 2, shape=3)
        pm.NormalMixture("y", weights, mu, sigma=sigma, observed=y)
    return model


def dirichlet_multinomial(sites: int = 30, classes: int = 5, seed: int = 0) -> pm.Model:
    """Overdispersed counts of classes at several sites."""
    rng = np.random.default_rng(seed)
    fractions = np.arange(1.0, classes + 1) / np.arange(1.0, classes + 1).sum()
    counts = np.array([rng.multinomial(50, rng.dirichlet(8.0 * fractions)) for _ in range(sites)])
    with pm.Model() as model:
        fraction = pm.Dirichlet("fraction", np.ones(classes))
        concentration = pm.LogNormal("concentration", 1, 1)
        totals = counts.sum(axis=1)
        pm.DirichletMultinomial("y", n=totals, a=fraction * concentration, observed=counts)
    return model


def factor_analysis(size: int = 100, items: int = 6, seed: int = 0) -> pm.Model:
    """Two factors behind six items.

    The matrix of loadings is lower triangular, which fixes the rotation of the factors, and
    positive, which fixes their signs: otherwise chains end in modes that differ by a sign.
    """
    rng = np.random.default_rng(seed)
    lower = np.tril_indices(items, m=2)
    truth = np.zeros((items, 2))
    truth[lower] = rng.uniform(0.5, 1.5, size=len(lower[0]))
    y = rng.normal(size=(size, 2)) @ truth.T + 0.5 * rng.normal(size=(size, items))
    with pm.Model() as model:
        loading = pm.HalfNormal("loading", 1, shape=len(lower[0]))
        loadings = pt.zeros((items, 2))[lower].set(loading)
        factors = pm.Normal("factors", 0, 1, shape=(size, 2))
        # A prior with mass near zero has a funnel there, where a factor repeats an item.
        sigma = pm.LogNormal("sigma", -0.7, 0.3, shape=items)
        pm.Normal("y", factors @ loadings.T, sigma, observed=y)
    return model
