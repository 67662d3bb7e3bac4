"""Batch axes of a distribution's value and parameters."""

import numpy as np
import pytensor.tensor as pt
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
from pytensor import config
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.registry import NoInformation
from pymc_pmala.model.factors import Factor

__all__ = [
    "as_float",
    "constant_numbers",
    "copies_of",
    "sum_to_batch",
    "times_matrix",
    "without_leading_ones",
]


def without_leading_ones(variable: TensorVariable, ndim: int) -> TensorVariable:
    """Drop the batch axes that PyMC adds to unbatched parameters."""
    extra = 0
    while variable.ndim - extra > ndim and variable.type.shape[extra] == 1:
        extra += 1
    if not extra:
        return variable
    node = variable.owner
    padded = ("x",) * extra + tuple(range(variable.ndim - extra))
    if node is not None and isinstance(node.op, DimShuffle) and node.op.new_order == padded:
        return node.inputs[0]
    return pt.squeeze(variable, axis=tuple(range(extra)))


def copies_of(
    value: TensorVariable, value_core: int, parameter: TensorVariable, core: int
) -> TensorVariable | float:
    """Number of elements of the random variable that share each element of a parameter."""
    batch = value.ndim - value_core
    missing = batch - (parameter.ndim - core)
    copies = 1.0
    for axis in range(batch):
        if axis < missing or parameter.type.shape[axis - missing] == 1:
            copies = copies * as_float(value.shape[axis])
    return copies


def sum_to_batch(
    weight: TensorVariable, ndim: int, shape: tuple[int | None, ...]
) -> TensorVariable:
    """Sum over the batch axes that a parameter with this batch shape does not have."""
    missing = weight.ndim - ndim
    if missing > 0:
        weight = weight.sum(axis=tuple(range(missing)))
    for axis, length in enumerate(shape):
        if length == 1:
            weight = weight.sum(axis=axis, keepdims=True)
    return weight


def times_matrix(vectors: TensorVariable, matrix: TensorVariable) -> TensorVariable:
    """Products of symmetric matrices and vectors, either of which may be batched."""
    if matrix.ndim == 2:
        return vectors @ matrix
    return (vectors[..., None, :] @ matrix)[..., 0, :]


def as_float(variable: TensorVariable) -> TensorVariable:
    """Cast a variable to float."""
    return pt.cast(variable, config.floatX)


def constant_numbers(factor: Factor, parameter: TensorVariable) -> np.ndarray:
    """Return the values of a parameter that must be constant."""
    try:
        [numbers] = constant_fold([parameter])
    except NotConstantValueError as error:
        raise NoInformation(f"{factor.name!r}: {parameter} is not constant.") from error
    return np.asarray(numbers)
