"""Scans, with their bodies written out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scan.op import Scan

from pymc_pmala.numba_backend.source import Source, Value, is_scalar

__all__ = ["write_scan"]


class _Series(NamedTuple):
    """An array that a loop fills row by row, and the row that a step writes."""

    variable: Variable
    name: str
    row: str


def write_scan(node: Apply, source: Source, write_graph: Callable[[Any, Source], None]) -> bool:
    """Write a loop with the body of a Scan; False if it is not a plain one of known lengths."""
    op: Scan = node.op
    info = op.info
    n_steps = node.inputs[0]
    if info.n_mit_mot or info.as_while or not isinstance(n_steps, Constant):
        return False
    count = int(n_steps.data)
    inner = op.fgraph
    buffers = [*op.outer_mitsot(node.inputs), *op.outer_sitsot(node.inputs)]
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    untraced = list(op.outer_untraced_sit_sot(node.inputs))
    collected = list(op.inner_nitsot_outs(inner.outputs))
    if count < 1 or any(None in v.type.shape for v in [*buffers, *untraced, *collected]):
        return False
    lengths = op.outer_nitsot(node.inputs)
    if any(not isinstance(n, Constant) or int(n.data) != count for n in lengths):
        return False
    # A buffer has room for all states, or for the last one; others are written in circles.
    traced = [b.type.shape[0] == count - min(tap) for b, tap in zip(buffers, taps, strict=True)]
    if any(
        not whole and (b.type.shape[0] != 1 or tuple(tap) != (-1,))
        for whole, b, tap in zip(traced, buffers, taps, strict=True)
    ):
        return False

    names = [
        source.array(buffer) if position in op.destroy_map else source.copy(buffer)
        for position, buffer in enumerate(buffers)
    ]
    results = [source.allocate([count, *out.type.shape], out.type.dtype) for out in collected]
    carried = [
        source.compute(source.scalar(state)) if is_scalar(state) else source.copy(state)
        for state in untraced
    ]
    index = source.fresh("k")
    inputs = iter(inner.inputs)
    with source.loop(f"for {index} in range({count}):"):
        for sequence in op.outer_seqs(node.inputs):
            _bind_row(source, next(inputs), source.value(sequence), index, sequence)
        for buffer, name, tap, whole in zip(buffers, names, taps, traced, strict=True):
            for lag in tap:
                row = f"{index} + {lag - min(tap)}" if whole else "0"
                _bind_row(source, next(inputs), _array(name), row, buffer)
        for name in carried:
            _bind(source, next(inputs), name)
        for constant in op.outer_non_seqs(node.inputs):
            source.values[next(inputs)] = source.value(constant)

        rows = [
            f"{index} + {-min(tap)}" if whole else "0"
            for tap, whole in zip(taps, traced, strict=True)
        ]
        filled = [
            _Series(*series)
            for series in zip(
                node.outputs, [*names, *results], [*rows, *[index] * len(results)], strict=False
            )
        ]
        updates = list(inner.outputs[: len(filled)])
        kept = [*traced, *[True] * len(results)]
        _write_body(
            source,
            [(u, s) for u, s, whole in zip(updates, filled, kept, strict=True) if whole],
            lambda: write_graph(inner, source),
        )
        last = [(u, s) for u, s, whole in zip(updates, filled, kept, strict=True) if not whole]
        after = [u for u, _ in last] + list(inner.outputs[len(filled) :])
        _carry(
            source, after, [*[_row(_array(s.name), s.row) for _, s in last], *map(_place, carried)]
        )
    shapes = [b.type.shape for b in buffers] + [(count, *out.type.shape) for out in collected]
    for series, shape in zip(filled, shapes, strict=True):
        source.bind(series.variable, series.name, shape)
    for variable, name in zip(node.outputs[len(filled) :], carried, strict=True):
        _bind(source, variable, name)
    return True


def _write_body(
    source: Source, updates: Sequence[tuple[Variable, _Series]], write: Callable[[], None]
) -> None:
    """Write the body, its results into the rows where they belong."""
    told: dict[Variable, Value] = {}
    for variable, series in updates:
        free = variable not in source.values and not isinstance(variable, Constant)
        if free and not is_scalar(variable):
            _bind_row(source, variable, _array(series.name), series.row, series.variable)
            told[variable] = source.values[variable]
    write()
    for variable, series in updates:
        # It may be where a function has returned it, or have been told to be elsewhere.
        if source.values.get(variable) is not told.pop(variable, None):
            at = source.value(variable).at
            with source.nest(source.lengths(variable)) as indices:
                source.put(f"{_row(_array(series.name), series.row)(indices)} = {at(indices)}")


def _carry(
    source: Source, updates: Sequence[Variable], places: Sequence[Callable[[Sequence[str]], str]]
) -> None:
    """Write the next states over the last ones, once all are there."""
    fresh = []
    for variable in updates:
        if is_scalar(variable):
            fresh.append(_place(source.compute(source.scalar(variable))))
        else:
            fresh.append(_array(source.copy(variable)).at)
    for variable, new, old in zip(updates, fresh, places, strict=True):
        with source.nest(source.lengths(variable)) as indices:
            source.put(f"{old(indices)} = {new(indices)}")


def _array(name: str) -> Value:
    return Value(lambda i: f"{name}[{', '.join(i)}]", name)


def _place(name: str) -> Callable[[Sequence[str]], str]:
    """The elements of an array, or a number, by name."""
    return lambda i: f"{name}[{', '.join(i)}]" if i else name


def _row(series: Value, row: str) -> Callable[[Sequence[str]], str]:
    return lambda i: series.at([row, *i])


def _bind(source: Source, variable: Variable, name: str) -> None:
    if is_scalar(variable):
        source.bind_scalar(variable, name)
    else:
        source.bind(variable, name)


def _bind_row(source: Source, variable: Variable, series: Value, row: str, whole: Variable) -> None:
    """Let a variable be the element of a series at a position of its first axis."""
    source.bind_view(variable, _row(series, row), lambda axis: source.length(whole, axis + 1))
