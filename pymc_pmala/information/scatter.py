"""Covariance matrices and their tangents, in the form in which a model specifies them."""

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
    """A covariance matrix Σ as a function of the matrix by which the model specifies it.

    Attributes
    ----------
    coordinate : TensorVariable
        Σ itself, its Cholesky factor or its inverse.
    precision : TensorVariable
        Σ⁻¹.
    relative : callable
        Function from a tangent of the coordinate to a matrix similar to S = Σ⁻¹dΣ.
    pull : callable
        Adjoint of ``relative``: ``pull(½ relative(d))`` is the gradient of ¼ tr S² in d.
    """

    coordinate: TensorVariable
    precision: TensorVariable
    relative: Callable[[TensorVariable], TensorVariable]
    pull: Callable[[TensorVariable], TensorVariable]


def scatter_of(cov: TensorVariable) -> Scatter:
    """Express Σ by the matrix that the model computes it from: L of LLᵀ, T of T⁻¹, or Σ."""
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
    """Express Σ = LLᵀ by L."""
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
    """Multiples of the identity matrix of the same size as ``like``."""
    return number[..., None, None] * pt.eye(like.shape[-1])


def _inverse(matrix: TensorVariable) -> TensorVariable:
    """Inverse of a positive-definite matrix by Cholesky; NaN if not positive definite."""
    chol = pt.linalg.cholesky(matrix, lower=True)
    half = pt.linalg.solve_triangular(chol, pt.eye(matrix.shape[-1]), lower=True)
    return _with_derivative_of_inverse(half.mT @ half, matrix)


def _with_derivative_of_inverse(inverse: TensorVariable, matrix: TensorVariable) -> TensorVariable:
    """Return ``inverse`` with its derivative replaced by dA⁻¹ = −A⁻¹ dA A⁻¹.

    This takes two products per tangent; the derivatives of a Cholesky factorisation and of
    a triangular solve would take many more. It is correct only for first derivatives, and
    the product with K is differentiated only once.
    """
    inverse = disconnected_grad(inverse)
    return inverse - inverse @ (matrix - disconnected_grad(matrix)) @ inverse


def _written_as_cholesky(cov: TensorVariable) -> TensorVariable | None:
    """Return L if the matrix has the form L Lᵀ with L known to be lower triangular."""
    root = written_as_square(cov)
    return root if root is not None and getattr(root.tag, "lower_triangular", False) else None


def written_as_square(matrix: TensorVariable) -> TensorVariable | None:
    """Return B if the matrix has the form B Bᵀ, else None."""
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
