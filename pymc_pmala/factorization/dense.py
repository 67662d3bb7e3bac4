"""Triangular factors of a dense metric, and of its average."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.factorization.factorization import Factorization, solve_lower

__all__ = ["Averaged", "Dense"]


class Dense(Factorization):
    """A metric without structure: one Cholesky factor."""

    def __init__(self, dimension: int):
        self.dimension = dimension
        self.order = np.arange(dimension)

    def __str__(self) -> str:
        return "dense"

    @property
    def seeds(self) -> np.ndarray:
        """All coordinates."""
        return np.eye(self.dimension)

    def pieces(self, products: TensorVariable) -> list[TensorVariable]:
        """G itself."""
        return [products]

    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Its Cholesky factor."""
        return [pt.linalg.cholesky(pieces[0], lower=True)]

    def identity(self) -> list[np.ndarray]:
        """I."""
        return [np.eye(self.dimension)]

    def solve(self, factor: Sequence[TensorVariable], vector: TensorVariable) -> TensorVariable:
        """L⁻¹ v."""
        return solve_lower(factor[0], vector, b_ndim=1)

    def solve_transposed(
        self, factor: Sequence[TensorVariable], whitened: TensorVariable
    ) -> TensorVariable:
        """L⁻ᵀ w."""
        return solve_lower(factor[0], whitened, b_ndim=1, trans="T")

    def multiply_transposed(
        self, factor: Sequence[TensorVariable], vector: TensorVariable
    ) -> TensorVariable:
        """Lᵀ v."""
        return factor[0].T @ vector

    def half_log_det(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Σ log L_ii."""
        return pt.log(pt.diagonal(factor[0])).sum()

    def diagonals(self, factor: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Those of the one factor."""
        squares = factor[0] ** 2
        return squares.diagonal(), squares.sum(axis=1)

    def rows(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """The rows of L⁻¹."""
        identity = pt.constant(np.eye(self.dimension, dtype=factor[0].dtype))
        return solve_lower(factor[0], identity, b_ndim=2)


class Averaged(Dense):
    r"""The metric of many points at once: one mean of G to drift by, another to draw noise by.

    Proposals x + a (mean G)⁻¹ f + s z with z of covariance mean(G⁻¹). The first is Newton's
    step for the average curvature. The second is never the smaller, in any direction, and
    far larger where the posterior has a long tail in which G vanishes: with the noise of the
    first, chains stick there.

    The factor is L of (mean(G⁻¹))⁻¹ = LLᵀ, and the matrix Lᵀ(mean G)⁻¹, which takes a force
    to the whitened drift.
    """

    def pieces(self, products: TensorVariable) -> list[TensorVariable]:
        """G and G⁻¹, to be averaged."""
        rows = self.rows(super().factor([products]))
        return [products, rows.T @ rows]

    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Of the two means."""
        mean, mean_inverse = pieces
        rows = self.rows(super().factor([mean_inverse]))
        [lower] = super().factor([rows.T @ rows])
        rows = self.rows(super().factor([mean]))
        return [lower, lower.T @ rows.T @ rows]

    def identity(self) -> list[np.ndarray]:
        """I and I."""
        return [np.eye(self.dimension), np.eye(self.dimension)]

    def solve(self, factor: Sequence[TensorVariable], vector: TensorVariable) -> TensorVariable:
        """Lᵀ(mean G)⁻¹ v."""
        return factor[1] @ vector
