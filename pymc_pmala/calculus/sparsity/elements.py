"""Rules for elementwise Ops and for Ops that move elements."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import TypeCastingOp
from pytensor.gradient import DisconnectedGrad
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import (
    Alloc,
    ExtractDiag,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_pmala.calculus.sparsity.dependence import Dependence, arranged
from pymc_pmala.calculus.sparsity.propagation import (
    Value,
    as_dependence,
    evaluate,
    is_discrete,
    rule,
)
from pymc_pmala.compat import INDEXING_OPS, WRITING_OPS, reading_op

# Unary functions f with f(0) = 0 that occur in derivatives.
_VANISHING = (scalar.Neg, scalar.Identity, scalar.Cast, scalar.Sqr, scalar.Abs)


@rule.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    kind = type(op.scalar_op)
    parts = [as_dependence(value, dimension) for value in inputs]
    shape = np.broadcast_shapes(*[part.shape for part in parts])
    if kind is scalar.Second:
        found = parts[1].broadcast_to(shape)
    elif kind is scalar.Switch and not isinstance(inputs[0], Dependence):
        [found] = arranged(parts[1:], lambda *numbers: [np.where(inputs[0], *numbers)])
    elif kind in (scalar.Add, scalar.Sub, scalar.Switch):
        # The condition of a switch is discrete: it is unknown, but depends on nothing.
        found = reduce(Dependence.plus, parts[1:] if kind is scalar.Switch else parts)
        found = found.broadcast_to(shape)
    elif kind is scalar.Mul:
        found = reduce(Dependence.times, parts)
    elif kind is scalar.TrueDiv:
        found = parts[0].times(parts[1].nowhere_zero())
    elif kind in _VANISHING:
        found = parts[0]
    else:
        found = reduce(Dependence.plus, parts).nowhere_zero()
    return [found] * len(node.outputs)


@rule.register(Shape)
@rule.register(Shape_i)
def _shape(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    shape = np.array(inputs[0].shape, dtype=np.int64)
    return [shape if isinstance(op, Shape) else np.asarray(shape[op.i])]


def _same(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    return [as_dependence(inputs[0], dimension)]


def _rearranged(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    """Elements of the outputs are elements of the inputs."""
    if isinstance(op, Join | MakeVector):
        moved = [i for i, v in enumerate(node.inputs) if not is_discrete(v)]
    else:
        moved = [0, 1] if isinstance(op, WRITING_OPS) else [0]
    if any(isinstance(v, Dependence) for i, v in enumerate(inputs) if i not in moved):
        return rule.dispatch(Op)(op, node, inputs, dimension)

    def arrange(*numbers: np.ndarray) -> list[np.ndarray]:
        replaced = list(inputs)
        for i, number in zip(moved, numbers, strict=True):
            replaced[i] = number
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        op.perform(node, replaced, storage)
        return [cell[0] for cell in storage]

    return arranged([as_dependence(inputs[i], dimension) for i in moved], arrange)


def _written(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    """Elements are replaced, or the written ones are added, several to one if need be."""
    fixed = not any(isinstance(value, Dependence) for value in inputs[2:])
    if op.set_instead_of_inc or not fixed:
        return _rearranged(op, node, inputs, dimension)
    into, added = (as_dependence(value, dimension) for value in inputs[:2])
    positions = np.arange(into.index.size).reshape(into.shape)
    read = reading_op(op).make_node(pt.constant(positions), *node.inputs[2:])
    [places] = evaluate(read, [positions, *inputs[2:]])
    order = np.argsort(places.ravel(), kind="stable")
    starts = np.searchsorted(places.ravel()[order], np.arange(into.index.size + 1))
    numbers = np.broadcast_to(added.index, places.shape).ravel()[order]
    return [into.plus(added.united(numbers, starts, into.shape))]


for _op in (
    SpecifyShape, CheckAndRaise, DisconnectedGrad, TypeCastingOp, TensorFromScalar,
    ScalarFromTensor,
):  # fmt: skip
    rule.register(_op, _same)
for _op in (DimShuffle, Reshape, Alloc, Split, Join, MakeVector, ExtractDiag, Repeat):
    rule.register(_op, _rearranged)
for _op in INDEXING_OPS:
    rule.register(_op, _rearranged)
for _op in WRITING_OPS:
    rule.register(_op, _written)
