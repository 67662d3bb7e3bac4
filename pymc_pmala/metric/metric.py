r"""Metrics G(x): products with them and contractions of their derivative, as expressions.

The derivative of G enters the samplers only through two contractions with A = G⁻¹. With
:math:`A = \sum_r l_r l_r^T` they do not require the derivative tensor:

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

__all__ = [
    "ConstantMetric",
    "FlooredMetric",
    "Metric",
    "SumMetric",
    "add_floor",
    "identity",
    "is_floored",
]


class Metric(ABC):
    """A positive-definite matrix G at every point x, in symbolic form."""

    x: TensorVariable

    def matrix(self) -> TensorVariable:
        """The d × d matrix G(x)."""
        return self.products(identity(self.x))

    @abstractmethod
    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Products G(x) u with the rows u of ``seeds``, as rows."""

    def gram(self, rows: TensorVariable) -> TensorVariable:
        """Matrix of the products u G(x) wᵀ of the rows u, w of ``rows``."""
        return self.products(rows) @ rows.T

    @abstractmethod
    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Contraction v, with the l_r given by ``rows``; None if G is constant."""

    @abstractmethod
    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """Gradient ∇log|G|, with the l_r given by ``rows``; None if G is constant."""


class ConstantMetric(Metric):
    """The same matrix everywhere."""

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        self.x = x
        self._matrix = matrix

    def matrix(self) -> TensorVariable:
        """The matrix G."""
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
    """A sum of metrics: their matrices and contractions are added."""

    def __init__(self, terms: Sequence[Metric]):
        self.x = terms[0].x
        self.terms = terms

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Sum of the products with the terms."""
        return pt.add(*[term.products(seeds) for term in self.terms])

    def gram(self, rows: TensorVariable) -> TensorVariable:
        """Sum of the products of the terms."""
        return pt.add(*[term.gram(rows) for term in self.terms])

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Sum of the contractions of the terms."""
        return sum_present([term.divergence(rows) for term in self.terms])

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """Sum of the gradients of the terms."""
        return sum_present([term.log_det_gradient(rows) for term in self.terms])


class FlooredMetric(Metric):
    r"""A metric that stays positive definite in directions without information.

    The metric is :math:`G + \delta\, \mathrm{diag}(G_{ii} + 1)`, with δ a few thousand times the
    machine precision. The floor is negligible where all parameters are identified, and sufficient
    for a Cholesky factor to exist where they are not. Its derivative, which is equally small, is
    omitted from the contractions.
    """

    def __init__(self, metric: Metric):
        self.x = metric.x
        self.metric = metric

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Products with G + δ diag(G_ii + 1), for seeds from which all of G can be read."""
        products = self.metric.products(seeds)
        delta = _floor(products.dtype)
        diagonal = (seeds * products).sum(axis=0)
        return products + delta * seeds * (diagonal + 1.0)

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Contraction of the metric without the floor."""
        return self.metric.divergence(rows)

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """Gradient for the metric without the floor."""
        return self.metric.log_det_gradient(rows)


def add_floor(matrix: TensorVariable) -> TensorVariable:
    """Add δ diag(G_ii + 1) to a matrix G; see `FlooredMetric`."""
    return matrix + pt.diag(_floor(matrix.dtype) * (pt.diagonal(matrix) + 1.0))


def _floor(dtype: np.dtype | str) -> float:
    return 4096 * float(np.finfo(dtype).eps)


def is_floored(pivots: np.ndarray, diagonal: np.ndarray) -> bool:
    r"""Whether a floored metric has a direction that is informed only by the floor.

    :math:`L_{ii}^2` is the information on an element i given the elements before it. If the model
    has no information in a direction v whose last non-zero element is i, this is the contribution
    of the floor, :math:`\delta \sum_j (G_{jj} + 1) v_j^2 / v_i^2`: about d times
    :math:`\delta G_{ii}` if v has similar weights on all elements, and δ for a single element.

    Parameters
    ----------
    pivots, diagonal : ndarray
        :math:`L_{ii}^2` and :math:`G_{ii}`, from `Factorization.diagonals`.
    """
    delta, eps = _floor(pivots.dtype), np.finfo(pivots.dtype).eps
    # Single precision cannot distinguish a floored direction from strong correlation.
    relative = min(4.0 * len(pivots) * delta, math.sqrt(eps))
    return bool((pivots <= relative * diagonal + 2.0 * delta).any())


def identity(x: TensorVariable) -> TensorVariable:
    """Rows of the identity matrix, in the type of x."""
    # A constant, so that everything known before sampling is computed before sampling.
    return pt.constant(np.eye(x.type.shape[0], dtype=x.dtype))
