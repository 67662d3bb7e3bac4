"""Covariance matrices in the form in which a model gives them, and their changes."""

from collections.abc import Callable
from typing import NamedTuple

import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.shapes import without_leading_ones

__all__ = ["Scatter", "diagonal", "scatter_of", "scatter_of_cholesky", "trace", "written_as_square"]


class Scatter(NamedTuple):
    """A covariance matrix Σ as a function of the matrix by which the model gives it.

    Attributes
    ----------
    coordinate : TensorVariable
        Σ itself, its Cholesky factor or its inverse.
    precision : TensorVariable
        Σ⁻¹.
    relative : callable
        From a tangent of the coordinate to a matrix similar to S = Σ⁻¹dΣ.
    pull : callable
        Its adjoint, so that ``pull(½ relative(d))`` is the gradient in d of ¼ tr S².
    """

    coordinate: TensorVariable
    precision: TensorVariable
    relative: Callable[[TensorVariable], TensorVariable]
    pull: Callable[[TensorVariable], TensorVariable]


def scatter_of(cov: TensorVariable) -> Scatter:
    """Σ in terms of what the model computes it from: L of LLᵀ, T of T⁻¹, or Σ itself."""
    cov = without_leading_ones(cov, 2)
    chol = _written_as_cholesky(cov)
    if chol is not None:
        return scatter_of_cholesky(chol)
    if cov.owner is not None and cov.owner.op == pt.linalg.inv:
        tau = cov.owner.inputs[0]
        sigma = _inverse(tau)
        return Scatter(tau, tau, lambda d: -sigma @ d, lambda r: -r @ sigma)
    precision = _inverse(cov)
    return Scatter(cov, precision, lambda d: precision @ d, lambda r: r @ precision)


def scatter_of_cholesky(chol: TensorVariable) -> Scatter:
    """Σ = LLᵀ in terms of L."""
    inverse = pt.linalg.solve_triangular(chol, pt.eye(chol.shape[-1]), lower=True)
    inverse = _with_derivative_of_inverse(inverse, chol)

    def relative(tangent: TensorVariable) -> TensorVariable:
        half = inverse @ tangent
        return half + half.mT

    return Scatter(chol, inverse.mT @ inverse, relative, lambda r: 2.0 * inverse.mT @ r)


def trace(matrix: TensorVariable) -> TensorVariable:
    """Traces of matrices."""
    return pt.diagonal(matrix, axis1=-2, axis2=-1).sum(axis=-1)


def diagonal(number: TensorVariable, like: TensorVariable) -> TensorVariable:
    """The identity, of the size of another matrix, times numbers."""
    return number[..., None, None] * pt.eye(like.shape[-1])


def _inverse(matrix: TensorVariable) -> TensorVariable:
    """Inverse of a positive-definite matrix by its Cholesky factor; NaN if it has none."""
    chol = pt.linalg.cholesky(matrix, lower=True)
    half = pt.linalg.solve_triangular(chol, pt.eye(matrix.shape[-1]), lower=True)
    return _with_derivative_of_inverse(half.mT @ half, matrix)


def _with_derivative_of_inverse(inverse: TensorVariable, matrix: TensorVariable) -> TensorVariable:
    """``inverse``, with dA⁻¹ = −A⁻¹ dA A⁻¹ instead of the derivative of how it was computed.

    Two products per tangent, where the derivatives of a Cholesky factorisation and of a
    triangular solve take many more. Right for first derivatives only, which is what the
    product with K is differentiated for.
    """
    inverse = disconnected_grad(inverse)
    return inverse - inverse @ (matrix - disconnected_grad(matrix)) @ inverse


def _written_as_cholesky(cov: TensorVariable) -> TensorVariable | None:
    """L, if the matrix is written L Lᵀ with L known to be lower triangular."""
    root = written_as_square(cov)
    return root if root is not None and getattr(root.tag, "lower_triangular", False) else None


def written_as_square(matrix: TensorVariable) -> TensorVariable | None:
    """B, if the matrix is written B Bᵀ."""
    node = matrix.owner
    if node is None:
        return None
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    if not isinstance(op, Dot):
        return None
    left, right = node.inputs
    if right.owner is None or not isinstance(right.owner.op, DimShuffle):
        return None
    transposed = (*range(left.ndim - 2), left.ndim - 1, left.ndim - 2)
    same = right.owner.inputs[0] is left and tuple(right.owner.op.new_order) == transposed
    return left if same else None
