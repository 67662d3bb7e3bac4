"""Derivatives and batches of a Scan inside a single loop.

pytensor turns a batched Scan into a Python-level loop over Scans, and the derivative of a Scan
into a separate loop. Here tangents and batches become additional states of the same loop, which
is then compiled like any other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.scan.op import Scan, ScanInfo
from pytensor.tensor.subtensor import IncSubtensor, get_constant_idx
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compat import inner_graph

__all__ = ["batch_scan", "push_scan"]

Push = Callable[[Sequence[Variable], Mapping[Variable, Variable | None]], list[Variable | None]]
Vectorize = Callable[[Sequence[Variable]], list[Variable]]
Batch = Callable[[Sequence[Variable], Mapping[Variable, Variable]], list[Variable]]


@dataclass(frozen=True, eq=False)
class _Series:
    """An input that a loop reads element by element, or as a whole if it is constant."""

    outer: TensorVariable
    inner: TensorVariable


@dataclass(frozen=True, eq=False)
class _State:
    """A state of a loop: its initial values, its past values by tap, and its next value."""

    start: TensorVariable
    taps: tuple[int, ...]
    inner: tuple[TensorVariable, ...]
    update: TensorVariable


@dataclass(frozen=True, eq=False)
class _Result:
    """An output that a loop collects: its length, and its value in one step."""

    length: Variable
    update: TensorVariable


@dataclass(frozen=True, eq=False)
class _Loop:
    op: Scan
    n_steps: Variable
    sequences: list[_Series]
    states: list[_State]
    results: list[_Result]
    constants: list[_Series]


def push_scan(
    node: Apply, tangents: Sequence[Variable | None], push: Push
) -> tuple[list[Variable], list[Variable | None]]:
    """Values and forward derivatives of a Scan's outputs, from one Scan that computes both."""
    loop = _take_apart(node)
    known = dict(zip(node.inputs, tangents, strict=True))
    moving: dict[Variable, Variable] = {}
    for series in [*loop.sequences, *loop.constants]:
        if known[series.outer] is not None:
            moving[series.inner] = series.inner.type()
    first = 1 + len(loop.sequences)
    buffers = tangents[first : first + len(loop.states)]
    active = [buffer is not None for buffer in buffers]
    updates = [state.update for state in loop.states] + [r.update for r in loop.results]
    while True:
        for state, is_active in zip(loop.states, active, strict=True):
            if is_active:
                moving |= {tap: tap.type() for tap in state.inner if tap not in moving}
        pushed = push(updates, moving)
        reached = [a or p is not None for a, p in zip(active, pushed, strict=False)]
        if reached == active:
            break
        active = reached
    n = len(loop.states)

    def tangent_of(series: _Series) -> _Series:
        return _Series(known[series.outer], moving[series.inner])

    tangent_states = [
        _State(
            pt.zeros_like(state.start) if buffer is None else _start(buffer, state.taps),
            state.taps,
            tuple(moving[tap] for tap in state.inner),
            pt.zeros_like(state.update) if tangent is None else tangent,
        )
        for state, buffer, tangent, is_active in zip(
            loop.states, buffers, pushed[:n], active, strict=True
        )
        if is_active
    ]
    tangent_results = [
        _Result(result.length, tangent)
        for result, tangent in zip(loop.results, pushed[n:], strict=True)
        if tangent is not None
    ]
    extended = replace(
        loop,
        sequences=loop.sequences + [tangent_of(s) for s in loop.sequences if s.inner in moving],
        states=loop.states + tangent_states,
        results=loop.results + tangent_results,
        constants=loop.constants + [tangent_of(s) for s in loop.constants if s.inner in moving],
    )
    states, results = _assemble(extended)
    k = len(loop.results)
    new_states, new_results = iter(states[n:]), iter(results[k:])
    return [*states[:n], *results[:k]], [
        *[next(new_states) if is_active else None for is_active in active],
        *[None if tangent is None else next(new_results) for tangent in pushed[n:]],
    ]


def batch_scan(node: Apply, vectorize: Vectorize, batch: Batch) -> list[Variable]:
    """Evaluate a Scan for many values of some inputs, along a leading axis, in one loop.

    `vectorize` batches graphs outside the loop, `batch` those inside it.
    """
    loop = _take_apart(node)
    read = [series.outer for series in [*loop.sequences, *loop.constants]]
    read += [state.start for state in loop.states]
    known = dict(zip(read, vectorize(read), strict=True))
    sizes = [_length(b, 0) for v, b in known.items() if b.ndim > v.ndim]
    if not sizes:
        return list(node.outputs)
    inner: dict[Variable, Variable] = {}

    def series(old: _Series, constant: bool) -> _Series:
        outer = known[old.outer]
        if outer.ndim == old.outer.ndim:
            return old
        outer = outer if constant else outer.swapaxes(0, 1)
        inner[old.inner] = _element(outer, constant)
        return _Series(outer, inner[old.inner])

    sequences = [series(s, constant=False) for s in loop.sequences]
    constants = [series(s, constant=True) for s in loop.constants]
    wide = [known[state.start].ndim > state.start.ndim for state in loop.states]
    updates = [state.update for state in loop.states] + [r.update for r in loop.results]
    while True:
        starts = []
        for state, is_wide in zip(loop.states, wide, strict=True):
            start = known[state.start]
            if is_wide and start.ndim == state.start.ndim:
                start = pt.repeat(start[:, None], sizes[0], axis=1)
            elif is_wide:
                start = start.swapaxes(0, 1)
            starts.append(start)
            if is_wide:
                inner |= {tap: _element(start) for tap in state.inner if tap not in inner}
        vectorized = batch(updates, inner) if inner else updates
        reached = [
            w or v.ndim > s.update.ndim
            for w, v, s in zip(wide, vectorized, loop.states, strict=False)
        ]
        if reached == wide:
            break
        wide = reached
    n = len(loop.states)
    states = [
        _State(start, state.taps, tuple(inner.get(tap, tap) for tap in state.inner), update)
        for state, start, update in zip(loop.states, starts, vectorized[:n], strict=True)
    ]
    results = [
        _Result(result.length, update)
        for result, update in zip(loop.results, vectorized[n:], strict=True)
    ]
    outputs = _assemble(
        replace(loop, sequences=sequences, constants=constants, states=states, results=results)
    )
    return [
        new.swapaxes(0, 1) if new.ndim > old.ndim else new
        for new, old in zip([*outputs[0], *outputs[1]], node.outputs, strict=True)
    ]


def _element(outer: TensorVariable, constant: bool = False) -> TensorVariable:
    """Variable for one element of a series in the body of a loop, with unspecified shape."""
    kind = outer if constant else outer[0]
    return pt.tensor(dtype=kind.dtype, shape=kind.type.shape)


def _length(variable: TensorVariable, axis: int) -> Variable | int:
    """Length of an axis, as a number if known, so that equal loops can be recognised."""
    known = variable.type.shape[axis]
    return variable.shape[axis] if known is None else known


def _take_apart(node: Apply) -> _Loop:
    op, info = node.op, node.op.info
    if info.n_mit_mot or info.n_untraced_sit_sot or info.as_while:
        raise NotImplementedError("Only plain loops can be differentiated and batched in place.")
    inputs, outputs = inner_graph(op)
    outer, inner, updates = iter(node.inputs), iter(inputs), iter(outputs)
    n_steps = next(outer)
    sequences = [_Series(next(outer), next(inner)) for _ in range(info.n_seqs)]
    states = [
        _State(
            _start(next(outer), taps), tuple(taps), tuple(next(inner) for _ in taps), next(updates)
        )
        for taps in (*info.mit_sot_in_slices, *info.sit_sot_in_slices)
    ]
    results = [_Result(next(outer), next(updates)) for _ in range(info.n_nit_sot)]
    constants = [_Series(next(outer), next(inner)) for _ in range(info.n_non_seqs)]
    return _Loop(op, n_steps, sequences, states, results, constants)


def _start(buffer: TensorVariable, taps: Sequence[int]) -> TensorVariable:
    """Return the values in the buffer of a state before the first step of the loop.

    pytensor writes them into an empty buffer. Two equal loops can be merged only if their
    initial values are equal, and two empty buffers never compare equal.
    """
    count = -min(taps)
    node = buffer.owner
    if (
        node is not None
        and isinstance(node.op, IncSubtensor)
        and node.op.set_instead_of_inc
        and node.inputs[1].ndim == buffer.ndim
    ):
        into, written, *positions = node.inputs
        indices = get_constant_idx(node.op.idx_list, [into, *positions], allow_partial=True)
        if list(indices) == [slice(None, count, None)]:
            return written
    return buffer[:count]


def _buffer(state: _State, n_steps: Variable) -> TensorVariable:
    count = -min(state.taps)
    shape = (n_steps + count, *[_length(state.start, i) for i in range(1, state.start.ndim)])
    return pt.set_subtensor(pt.empty(shape, dtype=state.start.dtype)[:count], state.start)


def _assemble(loop: _Loop) -> tuple[list[TensorVariable], list[TensorVariable]]:
    """Outputs of the Scan that a loop describes: the buffers of its states and its results."""
    # A Scan requires the states with several taps first.
    order = sorted(range(len(loop.states)), key=lambda i: loop.states[i].taps == (-1,))
    ordered = [loop.states[i] for i in order]
    several = [state.taps for state in ordered if state.taps != (-1,)]
    info = ScanInfo(
        n_seqs=len(loop.sequences),
        mit_mot_in_slices=(),
        mit_mot_out_slices=(),
        mit_sot_in_slices=tuple(several),
        sit_sot_in_slices=((-1,),) * (len(ordered) - len(several)),
        n_nit_sot=len(loop.results),
        n_untraced_sit_sot=0,
        n_non_seqs=len(loop.constants),
        as_while=False,
    )
    inner_inputs = [
        *[s.inner for s in loop.sequences],
        *[tap for state in ordered for tap in state.inner],
        *[s.inner for s in loop.constants],
    ]
    inner_outputs = [state.update for state in ordered] + [r.update for r in loop.results]
    op = Scan(inner_inputs, inner_outputs, info, mode=loop.op.mode)
    outputs = op(
        loop.n_steps,
        *[s.outer for s in loop.sequences],
        *[_buffer(state, loop.n_steps) for state in ordered],
        *[result.length for result in loop.results],
        *[s.outer for s in loop.constants],
        return_list=True,
    )
    states: list[TensorVariable] = [outputs[order.index(i)] for i in range(len(order))]
    return states, outputs[len(order) :]
