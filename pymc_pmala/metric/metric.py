r"""Metrics G(x): their products and the contractions of their derivative, as expressions.

The derivative of G enters the samplers only through two contractions with A = G⁻¹. With
:math:`A = \sum_r l_r l_r^T` they need no derivative tensor:

.. math:: v_i = \sum_{jk} \partial_j G_{ik} A_{jk}
          = \sum_r \frac{d}{d\epsilon} [G(x + \epsilon l_r) l_r]_i,
          \qquad
          \nabla \log |G| = \nabla_x \sum_r l_r^T G(x) l_r .
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.differentiation import sum_present

__all__ = ["ConstantMetric", "FlooredMetric", "Metric", "SumMetric", "identity", "is_floored"]


class Metric(ABC):
    """A positive-definite matrix G at every point x, in symbolic form."""

    x: TensorVariable

    def matrix(self) -> TensorVariable:
        """G(x), d × d."""
        return self.products(identity(self.x))

    @abstractmethod
    def products(self, seeds: TensorVariable) -> TensorVariable:
        """The products G(x) u with the rows u of ``seeds``, as rows."""

    @abstractmethod
    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """The contraction v, with ``rows`` the l_r; None if G is constant."""

    @abstractmethod
    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """∇log|G|, with ``rows`` the l_r; None if G is constant."""


class ConstantMetric(Metric):
    """The same matrix everywhere."""

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        self.x = x
        self._matrix = matrix

    def matrix(self) -> TensorVariable:
        """G."""
        return self._matrix

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows G u."""
        return seeds @ self._matrix

    def divergence(self, rows: TensorVariable) -> None:
        """Zero."""
        return None

    def log_det_gradient(self, rows: TensorVariable) -> None:
        """Zero."""
        return None


class SumMetric(Metric):
    """The sum of metrics: their matrices and their contractions add up."""

    def __init__(self, terms: Sequence[Metric]):
        self.x = terms[0].x
        self.terms = terms

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Sum of the terms' products."""
        return pt.add(*[term.products(seeds) for term in self.terms])

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Sum of the terms' contractions."""
        return sum_present([term.divergence(rows) for term in self.terms])

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """Sum of the terms' gradients."""
        return sum_present([term.log_det_gradient(rows) for term in self.terms])


class FlooredMetric(Metric):
    r"""A metric that stays positive definite in directions without information.

    :math:`G + \delta\, \mathrm{diag}(G_{ii} + 1)` with δ a few thousand rounding errors:
    out of sight wherever a parameter is identified, enough for a Cholesky factor where none
    is. The floor's own derivative, as small, is left out of the contractions.
    """

    def __init__(self, metric: Metric):
        self.x = metric.x
        self.metric = metric

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows of G + δ diag(G_ii + 1), for seeds that single out every element."""
        products = self.metric.products(seeds)
        delta = _floor(products.dtype)
        diagonal = (seeds * products).sum(axis=0)
        return products + delta * seeds * (diagonal + 1.0)

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """The metric's own."""
        return self.metric.divergence(rows)

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """The metric's own."""
        return self.metric.log_det_gradient(rows)


def _floor(dtype: np.dtype | str) -> float:
    return 4096 * float(np.finfo(dtype).eps)


def is_floored(pivots: np.ndarray, diagonal: np.ndarray) -> bool:
    r"""Whether a floored metric has a direction in which the floor is all there is.

    The information on an element that the elements before it leave over is :math:`L_{ii}^2`.
    If a direction v ending at i has none, it is the floor's,
    :math:`\delta \sum_j (G_{jj} + 1) v_j^2 / v_i^2`: some d times
    :math:`\delta G_{ii}` where v weighs its elements alike, and δ for an element alone.

    Parameters
    ----------
    pivots, diagonal : ndarray
        :math:`L_{ii}^2` and :math:`G_{ii}`, of `Factorization.diagonals`.
    """
    delta, eps = _floor(pivots.dtype), np.finfo(pivots.dtype).eps
    # Single precision cannot tell a floored direction from strong correlation.
    relative = min(4.0 * len(pivots) * delta, math.sqrt(eps))
    return bool((pivots <= relative * diagonal + 2.0 * delta).any())


def identity(x: TensorVariable) -> TensorVariable:
    """The rows of the identity matrix, in the type of x."""
    # A constant, so that what is known before sampling is folded away before sampling.
    return pt.constant(np.eye(x.type.shape[0], dtype=x.dtype))
