"""Models written non-centred: free variables that enter a model as e = μ + σz.

Starting from z, the graph is followed as long as each result has a single use, which is an
invertible affine function of it. The map can be inverted whatever else the model does with z, so
a move that holds e is exact even where the search is wrong about its use.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compat import INDEXING_OPS, WRITING_OPS
from pymc_pmala.information.links import log
from pymc_pmala.information.patterns import is_positive
from pymc_pmala.interweaving.registry import Standardisation, sum_over

__all__ = ["Step", "affine_steps", "held_effects"]


_VIEWS = (Reshape, DimShuffle, ViewOp, *INDEXING_OPS)


class Step(NamedTuple):
    """One invertible affine operation.

    Attributes
    ----------
    output : TensorVariable
        The result of the operation in the graph of the model.
    operands : tuple of TensorVariable
        The other inputs of the operation.
    forward, backward : callable
        The operation and its inverse, as functions of one input and of the operands.
    log_slope : callable, optional
        Function from the operands to the logarithm of the Jacobian determinant of ``forward``;
        None if that is zero.
    shown, read : TensorVariable and callable, optional
        Where the model has the result, and how it reads that from the output, if not all of it.
    """

    output: TensorVariable
    operands: tuple[TensorVariable, ...]
    forward: Callable[..., TensorVariable]
    backward: Callable[..., TensorVariable]
    log_slope: Callable[..., TensorVariable] | None = None
    shown: TensorVariable | None = None
    read: Callable[[TensorVariable], TensorVariable] | None = None


def held_effects(steps: Sequence[Step]) -> Standardisation:
    """Return the map from z, the sampled value, to the effects e that the steps compute."""
    counts = np.cumsum([0, *(len(step.operands) for step in steps)])
    bounds = list(pairwise(counts))

    def forward(z: TensorVariable, *operands: TensorVariable) -> TensorVariable:
        for step, (start, stop) in zip(steps, bounds, strict=True):
            z = step.forward(z, *operands[start:stop])
        return z

    def backward(e: TensorVariable, *operands: TensorVariable) -> TensorVariable:
        for step, (start, stop) in zip(reversed(steps), reversed(bounds), strict=True):
            e = step.backward(e, *operands[start:stop])
        return e

    def log_jacobian(*operands: TensorVariable) -> TensorVariable:
        slopes = [
            step.log_slope(*operands[start:stop])
            for step, (start, stop) in zip(steps, bounds, strict=True)
            if step.log_slope is not None
        ]
        return -sum(slopes[1:], slopes[0])

    operands = tuple(operand for step in steps for operand in step.operands)
    return Standardisation(operands, forward, backward, log_jacobian, form="effects held")


def affine_steps(
    start: TensorVariable,
    clients: Mapping[Variable, Sequence[Apply]],
    ends: set[Variable],
    accept: Callable[[Step], bool],
) -> list[Step]:
    """Return the affine operations that the graph makes of a variable before any other.

    Parameters
    ----------
    start : TensorVariable
        The variable.
    clients : mapping
        The nodes that read each variable.
    ends : set of Variable
        Variables beyond which the search does not go: parameters of distributions.
    accept : callable
        Whether a step may be taken.
    """
    steps: list[Step] = []
    current: Any = start
    index: Apply | None = None
    shown = current
    while shown not in ends and len(clients.get(shown, ())) == 1:
        [node] = clients[shown]
        if index is None and _is_index(node, current):
            index, shown = node, node.outputs[0]
            continue
        step = _step(node, current) if index is None else _step_before(index, node, shown, current)
        if step is None or not accept(step):
            break
        steps.append(step)
        current, shown = step.output, node.outputs[0]
    return steps


def _is_index(node: Apply, current: TensorVariable) -> bool:
    """Whether a node reads elements at fixed places."""
    array, *places = node.inputs or [None]
    fixed = all(place.owner is None for place in places)
    return isinstance(node.op, INDEXING_OPS) and array is current and fixed


def _step_before(
    index: Apply, node: Apply, shown: TensorVariable, current: TensorVariable
) -> Step | None:
    """Return an operation of scalars on z[i] as the same operation on z, of which i is read."""
    others = [variable for variable in node.inputs if variable is not shown]
    if not isinstance(node.op, Elemwise) or not all(all(v.type.broadcastable) for v in others):
        return None
    same = [
        current if v is shown else v.reshape((1,) * current.ndim, ndim=current.ndim)
        for v in node.inputs
    ]
    step = _step(node.op.make_node(*same), current)
    if step is None:
        return None
    return step._replace(shown=node.outputs[0], read=lambda e: index.op(e, *index.inputs[1:]))


def _step(node: Apply, current: TensorVariable) -> Step | None:
    """Return the operation of a node on one of its inputs, if it is affine and invertible."""
    if sum(variable is current for variable in node.inputs) != 1:
        return None
    if isinstance(node.op, ViewOp) or _is_identity(node):
        return Step(node.outputs[0], (), lambda z: z, lambda e: e)
    if isinstance(node.op, Reshape | DimShuffle):
        return _reshaped(node, current)
    if isinstance(node.op, CumOp):
        return _cumulated(node, current)
    if _is_product(node):
        return _multiplied(node, current)
    if isinstance(node.op, Elemwise):
        return _arithmetic(node, current)
    return None


def _is_identity(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, scalar.Identity)


def _is_product(node: Apply) -> bool:
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    return isinstance(op, Dot) and all(v.ndim <= 2 for v in node.inputs)


def _reshaped(node: Apply, current: TensorVariable) -> Step | None:
    """A change of shape, undone by a reshape and a permutation of the axes."""
    output, op = node.outputs[0], node.op
    if current is not node.inputs[0] or None in current.type.shape or None in output.type.shape:
        return None
    shape = current.type.shape
    if isinstance(op, Reshape):
        return Step(output, (), lambda z: z.reshape(output.type.shape), lambda e: e.reshape(shape))
    order = [axis for axis in op.new_order if axis != "x"]
    permuted = tuple(shape[axis] for axis in order)
    if len(order) != len(shape):
        return None
    return Step(output, (), op, lambda e: e.reshape(permuted).transpose(np.argsort(order)))


def _cumulated(node: Apply, current: TensorVariable) -> Step | None:
    """A cumulative sum, undone by differences."""
    axis = node.op.axis
    if node.op.mode != "add" or axis is None or current.ndim == 0:
        return None

    def differences(e: TensorVariable) -> TensorVariable:
        moved = pt.moveaxis(e, axis, 0)
        return pt.moveaxis(pt.concatenate([moved[:1], moved[1:] - moved[:-1]], axis=0), 0, axis)

    return Step(node.outputs[0], (), node.op, differences)


def _multiplied(node: Apply, current: TensorVariable) -> Step | None:
    """A product with a triangular matrix: L z or z Lᵀ."""
    left, right = node.inputs
    matrix = left if current is right else right
    lower, upper = _is_lower_triangular(matrix), _is_lower_triangular(_transposed(matrix))
    if not (lower or upper) or matrix.ndim != 2:
        return None

    def backward(e: TensorVariable, matrix: TensorVariable) -> TensorVariable:
        if current is right:
            return _solve(matrix, e, lower)
        return _solve(matrix.T, e, not lower) if e.ndim == 1 else _solve(matrix.T, e.T, not lower).T

    def forward(z: TensorVariable, matrix: TensorVariable) -> TensorVariable:
        return matrix @ z if current is right else z @ matrix

    def log_slope(matrix: TensorVariable) -> TensorVariable:
        logs = pt.log(pt.abs(pt.diagonal(matrix)))
        if current.ndim == 1:
            return logs.sum()
        return sum_over(logs[:, None] if current is right else logs, current)

    return Step(node.outputs[0], (matrix,), forward, backward, log_slope)


def _solve(matrix: TensorVariable, right: TensorVariable, lower: bool) -> TensorVariable:
    return pt.linalg.solve_triangular(matrix, right, lower=lower, b_ndim=right.ndim)


def _transposed(matrix: TensorVariable) -> TensorVariable:
    node = matrix.owner
    if node is not None and isinstance(node.op, DimShuffle) and node.op.new_order == (1, 0):
        return node.inputs[0]
    return matrix.T


def _is_lower_triangular(matrix: TensorVariable) -> bool:
    """Whether a matrix is zero but for a written lower triangle, as PyMC unpacks one."""
    node = matrix.owner
    if node is None or not isinstance(node.op, WRITING_OPS) or len(node.inputs) != 4:
        return False
    _, _, rows, columns = node.inputs
    if not isinstance(rows, Constant) or not isinstance(columns, Constant):
        return False
    if matrix.type.shape[0] is None or matrix.type.shape[0] != matrix.type.shape[1]:
        return False
    lower = np.tril_indices(matrix.type.shape[0])
    return (
        getattr(matrix.tag, "lower_triangular", False)
        and np.array_equal(rows.data, lower[0])
        and np.array_equal(columns.data, lower[1])
    )


def _arithmetic(node: Apply, current: TensorVariable) -> Step | None:
    """A sum, difference, product or quotient that does not broadcast the current variable."""
    output, kind = node.outputs[0], type(node.op.scalar_op)
    others = [variable for variable in node.inputs if variable is not current]
    broadcast = [
        here == 1 and there != 1
        for here, there in zip(current.type.shape, output.type.shape, strict=True)
    ]
    if any(broadcast) or output.dtype != current.dtype:
        return None
    if kind is scalar.Neg:
        return Step(output, (), lambda z: -z, lambda e: -e)
    if kind is scalar.Add:
        other = others[0] if len(others) == 1 else pt.add(*others)
        return Step(output, (other,), lambda z, b: z + b, lambda e, b: e - b)
    if kind is scalar.Sub and current is node.inputs[0]:
        return Step(output, tuple(others), lambda z, b: z - b, lambda e, b: e + b)
    if kind is scalar.Sub:
        return Step(output, tuple(others), lambda z, b: b - z, lambda e, b: b - e)
    if not all(map(_is_nonzero, others)):
        return None
    if kind is scalar.Mul:
        other = others[0] if len(others) == 1 else pt.mul(*others)
        return Step(
            output, (other,), lambda z, a: z * a, lambda e, a: e / a,
            lambda a: sum_over(_log_size(a), current),
        )  # fmt: skip
    if kind is scalar.TrueDiv and current is node.inputs[0]:
        return Step(
            output, tuple(others), lambda z, a: z / a, lambda e, a: e * a,
            lambda a: -sum_over(_log_size(a), current),
        )  # fmt: skip
    return None


def _log_size(number: TensorVariable) -> TensorVariable:
    return log(number) if is_positive(number) else pt.log(pt.abs(number))


def _is_nonzero(variable: TensorVariable) -> bool:
    """Whether a factor is zero nowhere, or only where a sampled value itself is."""
    if isinstance(variable, Constant):
        return bool(np.all(np.asarray(variable.data) != 0))
    if is_positive(variable):
        return True
    node = variable.owner
    while node is not None and isinstance(node.op, _VIEWS):
        variable, node = node.inputs[0], node.inputs[0].owner
    # The only other inputs of a target's graph are shared variables, such as data.
    return node is None and not isinstance(variable, Constant | SharedVariable)
