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
        """The matrix G itself."""
        return [products]

    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Cholesky factor of G."""
        return [pt.linalg.cholesky(pieces[0], lower=True)]

    def gram(self, pieces: Sequence[TensorVariable], rows: TensorVariable) -> TensorVariable:
        """Products with the matrix G."""
        return rows @ pieces[0] @ rows.T

    def identity(self) -> list[np.ndarray]:
        """Identity matrix."""
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
        """Diagonals L_ii² and G_ii of the dense factor."""
        squares = factor[0] ** 2
        return squares.diagonal(), squares.sum(axis=1)

    def rows(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """The rows of L⁻¹."""
        identity = pt.constant(np.eye(self.dimension, dtype=factor[0].dtype))
        return solve_lower(factor[0], identity, b_ndim=2)


class Averaged(Dense):
    r"""The average of a metric over many points: one mean for the drift, another for the noise.

    Proposals are x + a (mean G)⁻¹ f + s z, where z has covariance mean(G⁻¹). The drift is Newton's
    step for the average curvature. The covariance is at least (mean G)⁻¹ in every direction, and
    much larger if the posterior has a long tail in which G vanishes: with noise of covariance
    (mean G)⁻¹, chains would get stuck there.

    The factor consists of L, with (mean(G⁻¹))⁻¹ = LLᵀ, and of the matrix Lᵀ(mean G)⁻¹, which maps a
    force to the whitened drift.
    """

    def pieces(self, products: TensorVariable) -> list[TensorVariable]:
        """G and G⁻¹, to be averaged."""
        rows = self.rows(super().factor([products]))
        return [products, rows.T @ rows]

    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Factor of the two means."""
        mean, mean_inverse = pieces
        rows = self.rows(super().factor([mean_inverse]))
        [lower] = super().factor([rows.T @ rows])
        rows = self.rows(super().factor([mean]))
        return [lower, lower.T @ rows.T @ rows]

    def identity(self) -> list[np.ndarray]:
        """Two identity matrices."""
        return [np.eye(self.dimension), np.eye(self.dimension)]

    def solve(self, factor: Sequence[TensorVariable], vector: TensorVariable) -> TensorVariable:
        """Lᵀ(mean G)⁻¹ v."""
        return factor[1] @ vector
