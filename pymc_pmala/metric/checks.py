"""Checks of a metric that a user supplies."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["check_expression", "check_shape", "constant_factor"]


def check_expression(returned: Any) -> TensorVariable:
    """Return what a metric function has returned as an expression of pytensor."""
    try:
        return pt.as_tensor_variable(returned)
    except (TypeError, ValueError, NotImplementedError):
        raise ValueError(
            f"The metric function returned {returned!r}, but it must return a matrix as an "
            "expression of pytensor, for example `pt.diag(...)` of a diagonal."
        ) from None


def check_shape(matrix: TensorVariable, dimension: int) -> None:
    """Raise an error if the graph of a metric shows that it is not a d × d matrix."""
    shape = matrix.type.shape
    if len(shape) != 2 or any(n not in (None, dimension) for n in shape):
        raise ValueError(
            f"The metric function returns a tensor of shape {shape}, but the sampled variables "
            f"have dimension {dimension}: return a matrix of shape ({dimension}, {dimension}), "
            "for example `pt.diag(...)` of a diagonal."
        )


def constant_factor(matrix: np.ndarray, dimension: int) -> np.ndarray:
    """Lower Cholesky factor of a metric given as a matrix or as its diagonal."""
    given = matrix.shape
    if matrix.ndim == 1:
        matrix = np.diag(matrix)
    if matrix.shape != (dimension, dimension):
        raise ValueError(
            f"The metric has shape {given}, but the sampled variables have dimension "
            f"{dimension}: a matrix of shape ({dimension}, {dimension}) or a diagonal of "
            f"length {dimension} is needed."
        )
    if not np.all(np.isfinite(matrix)):
        raise ValueError("The metric has elements that are not finite.")
    if not np.allclose(matrix, matrix.T, rtol=1e-5, atol=0.0):
        raise ValueError("The metric is not symmetric. If this is intended, pass (G + G.T) / 2.")
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError(
            "The metric is not positive definite: its smallest eigenvalue is "
            f"{np.linalg.eigvalsh(matrix)[0]:.3g}. A metric is a precision matrix, the inverse of "
            "a covariance matrix, so all its eigenvalues must be positive."
        ) from None
