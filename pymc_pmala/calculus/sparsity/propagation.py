"""Propagation of dependence from node to node, and the rule for Ops without one of their own."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce, singledispatch
from typing import Any, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import discrete_dtypes

from pymc_pmala.calculus.sparsity.dependence import Dependence, known, on_each, on_nothing
from pymc_pmala.compat import inner_graph

__all__ = [
    "UnknownShape",
    "Value",
    "as_dependence",
    "evaluate",
    "find_dependence",
    "is_discrete",
    "output_shapes",
    "rule",
]

Value: TypeAlias = Any
"""What is known about a variable: its value, or the dependence of its elements."""


class UnknownShape(Exception):
    """The shape of a variable is known only when the graph is evaluated."""


def find_dependence(
    outputs: Sequence[Variable], wrt: Sequence[Variable], unknown: Iterable[SharedVariable] = ()
) -> list[Dependence]:
    """Find which elements of some vectors the elements of graphs depend on.

    Results of comparisons and other integers depend on nothing, because they have no derivative.

    Parameters
    ----------
    outputs : sequence of Variable
    wrt : sequence of Variable
        Vectors of the same static length. Elements at the same position are not distinguished.
    unknown : iterable of SharedVariable
        Variables whose values may change. Those of other shared variables are taken as they are.

    Raises
    ------
    UnknownShape
    """
    dimension = wrt[0].type.shape[0]
    values: dict[Variable, Value] = {v: on_each(dimension) for v in wrt}
    values |= {v: on_nothing(v.get_value(borrow=True).shape, dimension) for v in unknown}
    found = _propagate(outputs, values, dimension)
    return [as_dependence(value, dimension) for value in found]


def _propagate(
    outputs: Sequence[Variable], values: dict[Variable, Value], dimension: int
) -> list[Value]:
    """Return what is known about the outputs, from what is known about some other variables."""
    nodes = list(toposort(list(outputs), blockers=list(values)))
    uses = Counter([*outputs, *[v for node in nodes for v in node.inputs]])
    for node in nodes:
        inputs = [_value(variable, values) for variable in node.inputs]
        values.update(zip(node.outputs, _results(node, inputs, dimension), strict=True))
        for variable in node.inputs:
            uses[variable] -= 1
            if not uses[variable]:
                values.pop(variable, None)
    return [_value(output, values) for output in outputs]


def _value(variable: Variable, values: dict[Variable, Value]) -> Value:
    if variable in values:
        return values[variable]
    if isinstance(variable, Constant):
        return variable.data
    if isinstance(variable, SharedVariable):
        return variable.get_value(borrow=True)
    raise UnknownShape(f"{variable} is an input of the graph.")


def _results(node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    if isinstance(node.op, OpFromGraph):
        inner, outputs = inner_graph(node.op)
        return _propagate(outputs, dict(zip(inner, inputs, strict=True)), dimension)
    if not any(isinstance(value, Dependence) for value in inputs):
        return evaluate(node, inputs)
    results = rule(node.op, node, inputs, dimension)
    return [
        on_nothing(value.shape, dimension)
        if isinstance(value, Dependence) and is_discrete(variable)
        else value
        for variable, value in zip(node.outputs, results, strict=True)
    ]


def evaluate(node: Apply, inputs: Sequence[Value]) -> list[Value]:
    """Return the values of the outputs of a node, by pytensor's interpreter."""
    storage = {v: [value] for v, value in zip(node.inputs, inputs, strict=True)}
    storage |= {v: [None] for v in node.outputs}
    computed = {v: [v not in node.outputs] for v in storage}
    with np.errstate(all="ignore"):
        node.op.make_thunk(node, storage, computed, [], impl="py")()
    return [storage[v][0] for v in node.outputs]


def as_dependence(value: Value, dimension: int) -> Dependence:
    """Return the dependence of what may be a value."""
    return value if isinstance(value, Dependence) else known(value, dimension)


def is_discrete(variable: Variable) -> bool:
    """Whether a variable has integers or truth values as elements, and no derivative."""
    return getattr(variable.type, "dtype", None) in discrete_dtypes


@singledispatch
def rule(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    """Return the dependence of the outputs of a node: here, everything on everything."""
    parts = [value.over() for value in inputs if isinstance(value, Dependence)]
    whole = reduce(Dependence.plus, parts).nowhere_zero()
    return [whole.broadcast_to(shape) for shape in output_shapes(node, inputs)]


def output_shapes(node: Apply, inputs: Sequence[Value]) -> list[tuple[int, ...]]:
    """Shapes of the outputs of a node, from the types that its Op gives them for known inputs."""
    typed = [_typed(variable, value) for variable, value in zip(node.inputs, inputs, strict=True)]
    found = [getattr(v.type, "shape", ()) for v in node.op.make_node(*typed).outputs]
    if any(length is None for shape in found for length in shape):
        raise UnknownShape(f"The shape of {node} is not known.")
    return found


def _typed(variable: Variable, value: Value) -> Variable:
    """Variable of the same kind, with a static shape or a value."""
    if not isinstance(value, Dependence):
        return variable.type.make_constant(value)
    if hasattr(variable.type, "shape"):
        return pt.tensor(dtype=variable.type.dtype, shape=value.shape)
    return variable
