"""Scans as loops with the inner graph written out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scan.op import Scan

from pymc_pmala.compile.numba.source import At, Source, Value, is_scalar

__all__ = ["write_scan"]


class _Series(NamedTuple):
    """An array that a loop writes, with a row for every step or only one for the last.

    Attributes
    ----------
    output, update : Variable
        The output of the Scan, and the output of the inner graph that is written to it.
    name : str
        Name of the array.
    lengths : tuple of int
        Shape of the array.
    taps : tuple of int
        The rows that a step reads, relative to the one that it writes.
    """

    output: Variable
    update: Variable
    name: str
    lengths: tuple[int, ...]
    taps: tuple[int, ...]

    def is_traced(self, count: int) -> bool:
        """Return whether there is a row for every step."""
        return self.lengths[0] == count - min(self.taps, default=0)

    def row(self, index: str, lag: int, count: int) -> At:
        """Return how elements of the row at a lag are accessed; lag 0 is the row being written."""
        row = f"{index} + {lag - min(self.taps, default=0)}" if self.is_traced(count) else "0"
        return lambda i: f"{self.name}[{', '.join([row, *i])}]"


def write_scan(node: Apply, source: Source, write_graph: Callable[[Any, Source], None]) -> bool:
    """Write a Scan as a loop.

    Parameters
    ----------
    node : Apply
        Of a `Scan`.
    source : Source
    write_graph : callable
        Writes the inner graph.

    Returns
    -------
    bool
        Whether it was written: the Scan must run forward, with known lengths.
    """
    if not _is_plain(node):
        return False
    op: Scan = node.op
    inner, count, index = op.fgraph, int(node.inputs[0].data), source.fresh("k")
    series = _series(node, source)
    carried = [
        source.compute(source.scalar(state)) if is_scalar(state) else source.copy(state)
        for state in op.outer_untraced_sit_sot(node.inputs)
    ]
    with source.loop(f"for {index} in range({count}):"):
        inputs = iter(inner.inputs)
        for sequence in op.outer_seqs(node.inputs):
            at, lengths = source.value(sequence).at, source.lengths(sequence)
            source.bind_view(next(inputs), _element(at, index), lengths[1:].__getitem__)
        for one in series:
            for lag in one.taps:
                row = one.row(index, lag, count)
                source.bind_view(next(inputs), row, one.lengths[1:].__getitem__)
        for name in carried:
            _bind(source, next(inputs), name)
        for constant in op.outer_non_seqs(node.inputs):
            source.values[next(inputs)] = source.value(constant)
        traced = [one for one in series if one.is_traced(count)]
        places = [
            Value(one.row(index, 0, count), length=one.lengths[1:].__getitem__) for one in traced
        ]
        updates = [one.update for one in traced]
        _write_body(source, updates, places, lambda: write_graph(inner, source))
        last = [one for one in series if not one.is_traced(count)]
        _carry(
            source,
            [*[one.update for one in last], *inner.outputs[len(series) :]],
            [*[one.row(index, 0, count) for one in last], *map(_place, carried)],
        )
    for one in series:
        source.bind(one.output, one.name, one.lengths)
    for variable, name in zip(node.outputs[len(series) :], carried, strict=True):
        _bind(source, variable, name)
    return True


def _is_plain(node: Apply) -> bool:
    """Return whether a Scan has a known number of steps and keeps all states or only the last."""
    op: Scan = node.op
    info, n_steps = op.info, node.inputs[0]
    if info.n_mit_mot or info.as_while or not isinstance(n_steps, Constant):
        return False
    count = int(n_steps.data)
    states = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    results = op.inner_nitsot_outs(op.fgraph.outputs)
    carried = op.outer_untraced_sit_sot(node.inputs)
    if count < 1 or any(None in v.type.shape for v in [*states, *carried, *results]):
        return False
    lengths = op.outer_nitsot(node.inputs)
    if any(not isinstance(n, Constant) or int(n.data) != count for n in lengths):
        return False
    # Buffers of other lengths are circular.
    return all(
        state.type.shape[0] == count - min(taps)
        or (state.type.shape[0] == 1 and tuple(taps) == (-1,))
        for state, taps in zip(
            states, (*info.mit_sot_in_slices, *info.sit_sot_in_slices), strict=True
        )
    )


def _series(node: Apply, source: Source) -> list[_Series]:
    """Return the arrays that a Scan fills: those of its initial states, and new ones."""
    op: Scan = node.op
    states = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    taps = (*op.info.mit_sot_in_slices, *op.info.sit_sot_in_slices)
    names = [
        source.own_array(state) if position in op.destroy_map else source.copy(state)
        for position, state in enumerate(states)
    ]
    lengths = [tuple(state.type.shape) for state in states]
    count = int(node.inputs[0].data)
    for result in op.inner_nitsot_outs(op.fgraph.outputs):
        lengths.append((count, *result.type.shape))
        names.append(source.allocate(lengths[-1], result.type.dtype))
    updates, outputs = op.fgraph.outputs[: len(names)], node.outputs[: len(names)]
    all_taps = [*[tuple(t) for t in taps], *[()] * (len(names) - len(taps))]
    return [_Series(*one) for one in zip(outputs, updates, names, lengths, all_taps, strict=True)]


def _write_body(
    source: Source,
    updates: Sequence[Variable],
    places: Sequence[Value],
    write: Callable[[], None],
) -> None:
    """Write the body of a loop such that its results end up in the given places."""
    for update, place in zip(updates, places, strict=True):
        is_free = update not in source.values and not isinstance(update, Constant)
        if is_free and not is_scalar(update):
            source.values[update] = place
    write()
    for update, place in zip(updates, places, strict=True):
        # A function may have returned a new array, or two updates may be the same variable.
        found = source.value(update)
        if found is not place:
            with source.nest(source.lengths(update)) as indices:
                source.put(f"{place.at(indices)} = {found.at(indices)}")


def _carry(source: Source, updates: Sequence[Variable], places: Sequence[At]) -> None:
    """Overwrite the last states by the next ones after all of them have been computed."""
    fresh = [
        source.compute(source.scalar(update)) if is_scalar(update) else source.copy(update)
        for update in updates
    ]
    for update, new, old in zip(updates, map(_place, fresh), places, strict=True):
        with source.nest(source.lengths(update)) as indices:
            source.put(f"{old(indices)} = {new(indices)}")


def _place(name: str) -> At:
    """Return how elements of an array are accessed; a number has no indices."""
    return lambda i: f"{name}[{', '.join(i)}]" if i else name


def _element(at: At, index: str) -> At:
    return lambda i: at([index, *i])


def _bind(source: Source, variable: Variable, name: str) -> None:
    if is_scalar(variable):
        source.bind_scalar(variable, name)
    else:
        source.bind(variable, name)
