r"""Families of zero-mean functions: the generator of the polynomials of first and second degree.

In whitened coordinates z, with drift β and covariance α of the diffusion,

.. math:: 2\mathcal{L} z_i = \beta_i, \qquad
          2\mathcal{L} z_i z_j = 2\alpha_{ij} + z_i \beta_j + z_j \beta_i .
"""

from collections.abc import Callable

import numpy as np

from pymc_pmala.tools.generator import Evaluation

__all__ = ["LARGEST_QUADRATIC", "constant_inverse", "has_exact_divergence", "polynomials"]

LARGEST_QUADRATIC = 25
"""Largest dimension in which functions of second degree are used: there are d(d + 1) of them."""


def constant_inverse(inverses: np.ndarray) -> np.ndarray | None:
    """Inverse of the mean metric, from the inverses at some points; None if none is finite."""
    finite = inverses[np.isfinite(inverses).all(axis=(1, 2))]
    try:
        return np.linalg.inv(np.linalg.inv(finite).mean(axis=0)) if len(finite) else None
    except np.linalg.LinAlgError:
        return None


def has_exact_divergence(evaluate: Callable[[np.ndarray], Evaluation], x: np.ndarray) -> bool:
    r"""Whether the divergence :math:`\sum_j \partial_j A_{ij}` agrees with differences of A.

    A metric may omit a part of its derivative that would be expensive. Its samplers are exact, but
    its drift does not have mean zero.
    """
    here = evaluate(x)
    scales = np.sqrt(np.diag(here.inverse))
    steps = 1e-4 * scales
    found = np.zeros_like(x)
    for j, step in enumerate(steps):
        shift = np.zeros_like(x)
        shift[j] = step
        ahead, behind = (evaluate(x + sign * shift).inverse[:, j] for sign in (1.0, -1.0))
        found += (ahead - behind) / (2.0 * step)
    # One unit of drift, in standard deviations, changes a mean by about one of them.
    away = np.abs(found - (here.drift - here.inverse @ here.slope)) / scales
    return bool((away < 1e-3).all())


def polynomials(
    x: np.ndarray, drift: np.ndarray, inverse: np.ndarray | None, whiten: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Functions of first and of second degree at n points.

    Parameters
    ----------
    x, drift : ndarray of shape (n, d)
    inverse : ndarray of shape (n, d, d) or (d, d), optional
        A at the points; without it there are no functions of second degree.
    whiten : ndarray of shape (d, d)
        W, with z = W (x − mean).
    """
    n, d = x.shape
    first = drift @ whiten.T
    if inverse is None:
        return first, np.empty((n, 0))
    z = (x - x.mean(axis=0)) @ whiten.T
    covariance = whiten @ inverse @ whiten.T
    i, j = np.triu_indices(d)
    mixed = z[:, i] * first[:, j] + z[:, j] * first[:, i]
    return first, 2.0 * covariance[..., i, j] + mixed
