"""The interface of a triangular factorization G = LLᵀ."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["Factorization", "solve_lower"]


class Factorization(ABC):
    """How a d × d metric is built from a few products, factorised, and used to solve systems.

    Whitened vectors (the result of ``solve``, the argument of ``solve_transposed``) have their
    own order, in which L is lower triangular.
    """

    dimension: int
    order: np.ndarray
    """Positions in x of the rows of L."""

    @abstractmethod
    def __str__(self) -> str:
        """The structure in words."""

    @property
    @abstractmethod
    def seeds(self) -> np.ndarray:
        """Directions u_c, as rows, from whose products G u_c all of G can be read."""

    @abstractmethod
    def pieces(self, products: TensorVariable) -> list[TensorVariable]:
        """The non-zero parts of G, read from the rows G u_c."""

    @abstractmethod
    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """The non-zero parts of L."""

    @abstractmethod
    def gram(self, pieces: Sequence[TensorVariable], rows: TensorVariable) -> TensorVariable:
        """Matrix uᵀ G w of some rows u and w, from the parts of G."""

    @abstractmethod
    def identity(self) -> list[np.ndarray]:
        """The parts of L for G = I."""

    @abstractmethod
    def solve(self, factor: Sequence[TensorVariable], vector: TensorVariable) -> TensorVariable:
        """L⁻¹ v, whitened."""

    @abstractmethod
    def solve_transposed(
        self, factor: Sequence[TensorVariable], whitened: TensorVariable
    ) -> TensorVariable:
        """L⁻ᵀ w."""

    @abstractmethod
    def multiply_transposed(
        self, factor: Sequence[TensorVariable], vector: TensorVariable
    ) -> TensorVariable:
        """Lᵀ v, whitened."""

    @abstractmethod
    def half_log_det(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Half of log |G|, that is log |L|."""

    @abstractmethod
    def diagonals(self, factor: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Values of L_ii² and G_ii = Σ_j L_ij², in the order of L."""

    @abstractmethod
    def rows(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Directions l_r with Σ_r l_r l_rᵀ = G⁻¹ wherever G is not zero."""


def solve_lower(
    lower: TensorVariable, right: TensorVariable, b_ndim: int, trans: str | int = 0
) -> TensorVariable:
    """Solve for L⁻¹ B, or for L⁻ᵀ B with ``trans="T"``."""
    return pt.linalg.solve_triangular(
        lower, right, lower=True, trans=trans, b_ndim=b_ndim, check_finite=False
    )
