"""Scans, with their bodies written out."""

from collections.abc import Callable
from typing import Any

from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scan.op import Scan

from pymc_pmala.numba_backend.source import Source, Value, is_scalar

__all__ = ["write_scan"]


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
    collected = [*op.inner_nitsot_outs(inner.outputs)]
    if count < 1 or any(None in v.type.shape for v in [*buffers, *untraced, *collected]):
        return False
    # Shorter ones are written in circles.
    if any(b.type.shape[0] != count - min(tap) for b, tap in zip(buffers, taps, strict=True)):
        return False
    lengths = op.outer_nitsot(node.inputs)
    if any(not isinstance(n, Constant) or int(n.data) != count for n in lengths):
        return False

    # What the loop writes into.
    names = [
        source.array(buffer) if position in op.destroy_map else source.copy(buffer)
        for position, buffer in enumerate(buffers)
    ]
    carried = []
    for state in untraced:
        if is_scalar(state):
            carried.append(source.fresh("s"))
            source.put(f"{carried[-1]} = {source.scalar(state)}")
        else:
            carried.append(source.copy(state))
    results = [source.allocate([count, *out.type.shape], out.type.dtype) for out in collected]

    index = source.fresh("k")
    inputs = iter(inner.inputs)
    with source.loop(f"for {index} in range({count}):"):
        for sequence in op.outer_seqs(node.inputs):
            _bind_row(source, next(inputs), source.value(sequence), index, sequence)
        for buffer, name, tap in zip(buffers, names, taps, strict=True):
            for lag in tap:
                row = f"{index} + {lag - min(tap)}"
                _bind_row(source, next(inputs), _whole(name), row, buffer)
        for name in carried:
            variable = next(inputs)
            if is_scalar(variable):
                source.bind_scalar(variable, name)
            else:
                source.bind(variable, name)
        for constant in op.outer_non_seqs(node.inputs):
            source.values[next(inputs)] = source.value(constant)
        # Outputs: where they go, if nothing else has been said about them.
        places = [
            *[(name, f"{index} + {-min(tap)}") for name, tap in zip(names, taps, strict=True)],
            *[(name, index) for name in results],
        ]
        n_states = len(buffers)
        updates = inner.outputs[: n_states + len(collected)]
        direct: dict[Variable, Value] = {}
        for outer, variable, (name, row) in zip(node.outputs, updates, places, strict=False):
            free = variable not in source.values and not isinstance(variable, Constant)
            if free and not is_scalar(variable):
                _bind_row(source, variable, _whole(name), row, outer)
                direct[variable] = source.values[variable]
        write_graph(inner, source)
        for variable, (name, row) in zip(updates, places, strict=True):
            # Where it was told to be, or in an array that a function has returned.
            if source.values.get(variable) is not direct.pop(variable, None):
                _store(source, variable, _whole(name), row)
        _carry(source, inner.outputs[n_states + len(collected) :], carried)
    shapes = [b.type.shape for b in buffers] + [(count, *out.type.shape) for out in collected]
    outputs = [*names, *results]
    for variable, name, shape in zip(node.outputs, outputs, shapes, strict=False):
        source.bind(variable, name, shape)
    for variable, name in zip(node.outputs[len(outputs) :], carried, strict=True):
        if is_scalar(variable):
            source.bind_scalar(variable, name)
        else:
            source.bind(variable, name)
    return True


def _whole(name: str) -> Value:
    return Value(lambda i: f"{name}[{', '.join(i)}]", name)


def _bind_row(source: Source, variable: Variable, series: Value, row: str, whole: Variable) -> None:
    """Let a variable be the element of a series at a position of its first axis."""

    def length(axis: int) -> int | str:
        return source.length(whole, axis + 1)

    if is_scalar(variable):
        source.bind_scalar(variable, source.fresh("s"))
        source.put(f"{source.scalar(variable)} = {series.at([row])}")
    else:
        source.values[variable] = Value(lambda i: series.at([row, *i]), length=length)


def _store(source: Source, variable: Variable, series: Value, row: str) -> None:
    at = source.value(variable).at
    shape = [] if is_scalar(variable) else source.lengths(variable)
    with source.nest(shape) as indices:
        source.put(f"{series.at([row, *indices])} = {at(indices)}")


def _carry(source: Source, updates: list[Variable], carried: list[str]) -> None:
    """Write the next states over the last ones, once all are there."""
    fresh = []
    for variable in updates:
        if is_scalar(variable):
            fresh.append(source.fresh("s"))
            source.put(f"{fresh[-1]} = {source.scalar(variable)}")
        else:
            fresh.append(source.copy(variable))
    for variable, new, old in zip(updates, fresh, carried, strict=True):
        if is_scalar(variable):
            source.put(f"{old} = {new}")
            continue
        with source.nest(source.lengths(variable)) as indices:
            place = f"[{', '.join(indices)}]"
            source.put(f"{old}{place} = {new}{place}")
