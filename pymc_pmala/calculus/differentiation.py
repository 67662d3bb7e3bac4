"""Forward and reverse derivatives of pytensor graphs, independent of any model.

All functions take and return symbolic variables; none of them compiles.
"""

from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import DisconnectedGrad, NullType, NullTypeGradError
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.graph.utils import MethodNotDefined
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import (
    Add,
    Cast,
    Mul,
    Neg,
    Pow,
    Second,
    Sub,
    TrueDiv,
    discrete_dtypes,
)
from pytensor.scan.op import Scan
from pytensor.tensor.basic import (
    Alloc,
    ExtractDiag,
    Join,
    MakeVector,
    get_underlying_scalar_constant_value,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.math import Dot, Prod, ProdWithoutZeros, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import Subtensor, get_constant_idx
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.scans import push_scan
from pymc_pmala.compat import (
    INDEXING_OPS,
    WRITING_OPS,
    inner_graph,
    node_pushforward,
    pullback,
)

__all__ = [
    "along_elements",
    "gradient",
    "gradients",
    "has_loop",
    "has_opaque_op",
    "in_loops",
    "pushforward",
    "sum_present",
    "value_and_gradient",
]

# For more elements than this, reverse mode through a loop is cheaper than forward mode.
_MOST_FORWARD = 32

_LINEAR_IN_FIRST = (DimShuffle, Reshape, SpecifyShape, Alloc, Sum, ExtractDiag, *INDEXING_OPS)


Loops = dict[Variable, Variable]


def pushforward(
    outputs: Sequence[Variable], wrt: Variable, tangent: Variable, loops: Loops | None = None
) -> list[Variable | None]:
    r"""Jacobian-vector products :math:`J\,t` in forward mode.

    Unlike in pytensor's implementation, the result for an output that does not depend on
    ``wrt`` is ``None``, and no zeros are propagated for constants. The derivative of a
    function that is linear in ``wrt`` does not contain ``wrt``, so second derivatives of
    the linear part of a model disappear from the graph instead of being computed.

    Parameters
    ----------
    outputs : sequence of Variable
        The graphs to differentiate.
    wrt, tangent : Variable
        The variable and the direction, which have the same type.
    loops : dict, optional
        Filled with a mapping from the outputs of loops in the graphs to the same outputs of
        the loops that also carry their tangents; see `in_loops`.
    """
    derivatives = _push(outputs, {wrt: tangent}, {} if loops is None else loops)
    # A derivative that does not contain the direction is zero, whatever its form.
    depending = _depending([d for d in derivatives if d is not None], tangent)
    return [d if d in depending else None for d in derivatives]


def _depending(graphs: Sequence[Variable], variable: Variable) -> set[Variable | None]:
    """Return the variable and all variables in the graphs that depend on it."""
    found: set[Variable | None] = {variable}
    for node in toposort(list(graphs), blockers=[variable]):
        if not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def in_loops(graphs: Sequence[Variable], loops: Loops) -> list[Variable]:
    """Replace the loops in graphs by those that also carry tangents."""
    return graph_replace(list(graphs), loops, strict=False) if loops else list(graphs)


def _push(
    outputs: Sequence[Variable], known: Mapping[Variable, Variable | None], loops: Loops
) -> list[Variable | None]:
    tangents = dict(known)
    nodes = list(toposort(list(outputs), blockers=list(known)))
    # What is held constant need not have a derivative.
    held = [node.outputs[0] for node in nodes if isinstance(node.op, DisconnectedGrad)]
    if held:
        nodes = list(toposort(list(outputs), blockers=[*known, *held]))
    used = {*outputs, *[variable for node in nodes for variable in node.inputs]}
    for node in nodes:
        inputs = [tangents.get(variable) for variable in node.inputs]
        # Integers and results of comparisons have no derivative.
        if all(tangent is None for tangent in inputs) or all(map(_is_discrete, node.outputs)):
            continue
        tangents.update(zip(node.outputs, _push_node(node, inputs, used, loops), strict=True))
    return [tangents.get(output) for output in outputs]


def _push_node(
    node: Apply, tangents: Sequence[Variable | None], used: Set[Variable], loops: Loops
) -> list[Variable | None]:
    """Forward derivative of a node: our rule, the Op's own, or from its reverse derivative."""
    op = node.op
    if isinstance(op, OpFromGraph):
        inputs, outputs = inner_graph(op)
        replace = dict(zip(inputs, node.inputs, strict=True))
        inner = graph_replace(outputs, replace, strict=False)
        return _push(inner, dict(zip(node.inputs, tangents, strict=True)), loops)
    if isinstance(op, Scan):
        try:
            values, derivatives = push_scan(node, tangents, partial(_push, loops={}))
        except NotImplementedError:
            return _push_by_reverse(node, tangents, used)
        loops |= zip(node.outputs, values, strict=True)
        return derivatives
    if (linear := _linear_inputs(node)) is not None:
        return _push_linear(node, tangents, linear)
    if _is_product(op):
        return [_push_product(node, tangents)]
    if isinstance(op, Prod | ProdWithoutZeros):
        return [_push_product_of_elements(node, tangents)]
    if isinstance(op, Elemwise):
        if type(op.scalar_op) is Second and tangents[1] is None:
            return [None]
        pushed = _push_arithmetic(node, tangents)
        return node_pushforward(node, tangents) if pushed is None else [pushed]
    filled = [
        variable.zeros_like() if tangent is None and _is_float(variable) else tangent
        for variable, tangent in zip(node.inputs, tangents, strict=True)
    ]
    try:
        return node_pushforward(node, filled)
    except (NotImplementedError, MethodNotDefined):
        return _push_by_reverse(node, tangents, used)


def _linear_inputs(node: Apply) -> Sequence[int] | None:
    """Positions of the inputs in which an Op is jointly linear, or None."""
    if isinstance(node.op, _LINEAR_IN_FIRST):
        return range(1)
    if isinstance(node.op, WRITING_OPS):
        return range(2)
    if isinstance(node.op, Join | MakeVector):
        return [i for i, variable in enumerate(node.inputs) if _is_float(variable)]
    return None


def _push_linear(
    node: Apply, tangents: Sequence[Variable | None], linear: Sequence[int]
) -> list[Variable | None]:
    if all(tangents[i] is None for i in linear):
        return [None] * len(node.outputs)
    inputs = list(node.inputs)
    for i in linear:
        tangent = tangents[i]
        inputs[i] = pt.zeros_like(inputs[i]) if tangent is None else tangent
    return node.op(*inputs, return_list=True)


def _is_product(op: Op) -> bool:
    return isinstance(op, Dot) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot))


def _push_product(node: Apply, tangents: Sequence[Variable | None]) -> Variable:
    (a, b), (da, db) = node.inputs, tangents
    terms = []
    if da is not None:
        terms.append(node.op(da, b))
    if db is not None:
        terms.append(node.op(a, db))
    return sum(terms[1:], terms[0])


def _push_product_of_elements(node: Apply, tangents: Sequence[Any]) -> Variable:
    """Derivative Σ_i t_i Π_{j ≠ i} x_j of ``Prod`` or ``ProdWithoutZeros``.

    It is written out because the reverse derivative of ``Prod`` contains ``ProdWithoutZeros``,
    which has no reverse derivative of its own.
    """
    [x], [t], axis = node.inputs, tangents, node.op.axis
    zero = pt.eq(x, 0.0)
    others = pt.switch(zero, 1.0, x)
    product = pt.prod(others, axis=axis)
    slope = product * pt.sum(pt.switch(zero, 0.0, t / others), axis=axis)
    if isinstance(node.op, ProdWithoutZeros):
        return slope
    # With one zero, only that factor can change the product; with two or more, none can.
    at_zero = product * pt.sum(pt.switch(zero, t, 0.0), axis=axis)
    zeros = pt.sum(zero, axis=axis)
    return pt.switch(pt.eq(zeros, 0), slope, pt.switch(pt.eq(zeros, 1), at_zero, 0.0))


def _push_arithmetic(node: Apply, tangents: Sequence[Any]) -> Variable | None:
    """Derivative of plain arithmetic; None for all other nodes.

    It is written out because the Ops' own derivatives multiply by ones that appear to be
    functions of x.
    """
    output, inputs = node.outputs[0], node.inputs
    # A user's Op may have the same name as one of pytensor's, or be derived from it.
    kind = type(node.op.scalar_op)
    if kind in (Add, Sub):
        signs = [-1.0 if kind is Sub and i == 1 else 1.0 for i in range(len(inputs))]
        terms = [
            t if sign > 0 else -t for t, sign in zip(tangents, signs, strict=True) if t is not None
        ]
    elif kind is Mul:
        terms = [
            pt.mul(t, *[v for j, v in enumerate(inputs) if j != i])
            for i, t in enumerate(tangents)
            if t is not None
        ]
    elif kind is TrueDiv:
        (a, b), (da, db) = inputs, tangents
        terms = [] if da is None else [da / b]
        if db is not None:
            terms.append(-(a / b) * (db / b))
    elif kind is Neg:
        terms = [-tangents[0]]
    elif kind is Second:
        terms = [tangents[1]]
    elif kind is Pow and tangents[1] is None and (exponent := _number(inputs[1])) is not None:
        terms = [_power_slope(inputs[0], exponent) * tangents[0]]
    elif kind is Cast and _is_float(output):
        terms = [tangents[0].astype(output.dtype)]
    else:
        return None
    total = sum(terms[1:], terms[0])
    same = total.type.broadcastable == output.type.broadcastable
    return total if same else pt.second(output, total)


def _power_slope(base: Variable, exponent: float) -> Variable | float:
    """Derivative n xⁿ⁻¹, avoiding 0 · x⁻¹, which is NaN at x = 0."""
    if exponent in (0.0, 1.0):
        return exponent
    return exponent * (base if exponent == 2.0 else base ** (exponent - 1.0))


def _number(variable: Variable) -> float | None:
    """Evaluate a graph of constants; None if the graph has other inputs."""
    try:
        return float(get_underlying_scalar_constant_value(variable, only_process_constants=False))
    except NotScalarConstantError:
        return None


def _push_by_reverse(
    node: Apply, tangents: Sequence[Variable | None], used: Set[Variable]
) -> list[Variable | None]:
    """Forward derivative of an Op that implements only its reverse derivative.

    It is computed only for outputs that are used; the others may not be differentiable.
    """
    wrt = [v for v, t in zip(node.inputs, tangents, strict=True) if t is not None]
    directions = [t for t in tangents if t is not None]
    outputs = [output if output in used and _is_float(output) else None for output in node.outputs]
    try:
        return [o if o is None else _push_by_two_reverses(o, wrt, directions) for o in outputs]
    except (NotImplementedError, MethodNotDefined, NullTypeGradError):
        # The reverse derivative cannot be differentiated.
        return [o if o is None else _push_by_rows(o, wrt, directions) for o in outputs]


def _push_by_two_reverses(
    output: Variable, wrt: Sequence[Variable], directions: Sequence[Variable]
) -> Variable | None:
    """Forward derivative by two reverse passes, J t = d/du (Jᵀu)ᵀ t (Towns 2017)."""
    cotangent = output.zeros_like()
    reverse = pullback([output], wrt, [cotangent])
    # One output at a time: pytensor takes the given cotangent of an output as its total, even
    # if another output is computed from it.
    return sum_present(
        [
            pullback([r], [cotangent], [d])[0]
            for r, d in zip(reverse, directions, strict=True)
            if r is not None and not isinstance(r.type, NullType)
        ]
    )


def _push_by_rows(
    output: Variable, wrt: Sequence[Variable], directions: Sequence[Variable]
) -> Variable | None:
    """Product J t from the rows of J, by one reverse pass for each element of the output."""
    cotangent = output.type()
    rows = pullback([output], wrt, [cotangent])
    slope = sum_present(
        [
            None if row is None else (row * direction).sum()
            for row, direction in zip(rows, directions, strict=True)
        ]
    )
    if slope is None:
        return None
    basis = pt.eye(output.size, dtype=output.dtype).reshape((output.size, *output.shape))
    [slopes] = batch([slope], {cotangent: pt.specify_shape(basis, (None, *output.type.shape))})
    return slopes.reshape(output.shape, ndim=output.ndim)


def sum_present(terms: Sequence[Variable | None]) -> Variable | None:
    """Sum of the terms that are not None; None if there are none."""
    present = [term for term in terms if term is not None]
    return sum(present[1:], present[0]) if present else None


def gradient(
    cost: TensorVariable, wrt: TensorVariable, consider_constant: Sequence[Variable] = ()
) -> TensorVariable:
    """Reverse-mode gradient of a scalar; zero if ``cost`` does not depend on ``wrt``.

    A vector that is read only in slices is differentiated slice by slice. Joining the parts is
    cheaper than adding each of them to a vector of zeros, and it can be batched more easily.
    """
    parts = _disjoint_slices(cost, wrt)
    if parts is None:
        return pt.grad(
            cost,
            wrt,
            consider_constant=list(consider_constant),
            disconnected_inputs="ignore",
        )
    readers = [reader for _, _, same in parts for reader in same]
    slopes = iter(
        pt.grad(
            cost,
            readers,
            consider_constant=list(consider_constant),
            disconnected_inputs="ignore",
        )
    )
    joined, end = [], 0
    for start, stop, same in parts:
        if start > end:
            joined.append(pt.zeros(start - end, dtype=wrt.dtype))
        joined.append(pt.add(*[next(slopes) for _ in same]))
        end = stop
    if end < wrt.type.shape[0]:
        joined.append(pt.zeros(wrt.type.shape[0] - end, dtype=wrt.dtype))
    return joined[0] if len(joined) == 1 else pt.concatenate(joined)


def value_and_gradient(
    cost: TensorVariable, wrt: TensorVariable
) -> tuple[TensorVariable, TensorVariable]:
    """Return a scalar and its gradient, by reverse mode or, through a loop, by forward mode.

    In forward mode the derivatives of all elements are computed in the same loop as the value,
    and no intermediate states have to be stored.
    """
    if not _is_forward(cost, wrt):
        return cost, gradient(cost, wrt)
    value, slopes = _forward(cost, wrt, wrt[None])
    return value[0], slopes


def gradients(cost: TensorVariable, wrt: TensorVariable, points: TensorVariable) -> TensorVariable:
    """Gradients of a scalar at many points, as rows; a loop in the graph remains one loop."""
    if not _is_forward(cost, wrt):
        return batch([gradient(cost, wrt)], {wrt: points})[0]
    return _forward(cost, wrt, points)[1].reshape(points.shape)


def _is_forward(cost: TensorVariable, wrt: TensorVariable) -> bool:
    return has_loop([cost]) and wrt.type.shape[0] <= _MOST_FORWARD


def _forward(cost: TensorVariable, wrt: TensorVariable, points: TensorVariable) -> list[Variable]:
    """Return a scalar and its derivatives at points, with each point repeated per element."""
    direction = wrt.type()
    loops: Loops = {}
    [slope] = pushforward([cost], wrt, direction, loops)
    if slope is None:
        slope = 0.0 * direction.sum()
    return along_elements(in_loops([cost, slope], loops), wrt, direction, points)


def along_elements(
    graphs: Sequence[Variable],
    wrt: TensorVariable,
    direction: TensorVariable,
    points: TensorVariable,
) -> list[Variable]:
    """Batch graphs over points (slow index) and over unit directions of ``wrt`` (fast index).

    In a loop, points are repeated for each direction instead of being broadcast, so that values
    and tangents have the same shape and can be fused in its body. Ops from outside pytensor are
    called once per point.
    """
    count, d = points.type.shape
    identity = np.eye(d, dtype=wrt.dtype)
    if not has_opaque_op(graphs):
        known = {
            wrt: pt.repeat(points, d, axis=0),
            direction: pt.constant(np.tile(identity, (count, 1))),
        }
        return batch(graphs, known)
    along = batch(graphs, {direction: pt.constant(identity)})
    return [
        pt.broadcast_to(there, (count, *here.shape)).reshape(
            (count * d, *here.shape[1:]), ndim=here.ndim
        )
        for here, there in zip(along, batch(along, {wrt: points}), strict=True)
    ]


def has_loop(graphs: Sequence[Variable]) -> bool:
    """Whether one of the graphs contains a Scan."""
    return any(v.owner is not None and isinstance(v.owner.op, Scan) for v in ancestors(graphs))


def has_opaque_op(graphs: Sequence[Variable]) -> bool:
    """Whether a graph contains an Op from outside pytensor, which may lack derivatives."""
    return any(
        v.owner is not None
        and not isinstance(v.owner.op, CheckAndRaise | OpFromGraph)
        and type(v.owner.op).__module__.split(".")[0] != "pytensor"
        for v in ancestors(graphs)
    )


def _disjoint_slices(
    graph: Variable, vector: TensorVariable
) -> list[tuple[int, int, list[Variable]]] | None:
    """Start, stop and readers of the slices in which a graph reads a vector.

    None if the vector is read in any other way.
    """
    found: dict[tuple[int, int], list[Variable]] = {}
    for node in toposort([graph], blockers=[vector]):
        if vector not in node.inputs:
            continue
        if not isinstance(node.op, Subtensor) or vector.type.shape[0] is None:
            return None
        [index] = get_constant_idx(node.op.idx_list, node.inputs, allow_partial=True)
        if not isinstance(index, slice) or index.step not in (None, 1):
            return None
        if any(isinstance(bound, Variable) for bound in (index.start, index.stop)):
            return None
        start, stop, _ = index.indices(vector.type.shape[0])
        found.setdefault((start, stop), []).append(node.outputs[0])
    ordered = sorted(found.items())
    ends = [stop for (_, stop), _ in ordered]
    if not ordered or any(s < e for ((s, _), _), e in zip(ordered[1:], ends, strict=False)):
        return None
    return [(start, stop, readers) for (start, stop), readers in ordered]


def _is_float(variable: Variable) -> bool:
    return isinstance(variable, TensorVariable) and variable.type.dtype.startswith("float")


def _is_discrete(variable: Variable) -> bool:
    return isinstance(variable, TensorVariable) and variable.type.dtype in discrete_dtypes
