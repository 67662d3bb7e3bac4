"""Rules for Ops whose outputs are other ways of reading their inputs, without a copy."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.link.numba.dispatch.basic import cache_key_for_constant
from pytensor.tensor.basic import ExtractDiag, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedSubtensor,
    Subtensor,
    get_constant_idx,
    indices_from_subtensor,
)

from pymc_pmala.compile.numba.dispatch import Destroyed, write_node
from pymc_pmala.compile.numba.source import Source, is_scalar

__all__ = ["find_picked", "find_slices", "inside"]


@write_node.register(ScalarFromTensor)
@write_node.register(TensorFromScalar)
def _same_number(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    source.bind_scalar(node.outputs[0], source.scalar(node.inputs[0]))
    return True


@write_node.register(DimShuffle)
def _shuffle(op: DimShuffle, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [original], [output] = node.inputs, node.outputs
    value, ndim = source.value(original), original.type.ndim
    order = op.new_order

    def at(indices: Sequence[str]) -> str:
        known = {axis: i for axis, i in zip(order, indices, strict=True) if axis != "x"}
        return value.at([known.get(axis, "0") for axis in range(ndim)])

    is_transpose = ndim == 2 and tuple(order) == (1, 0) and value.name is not None
    source.bind_view(
        output,
        at,
        length=lambda axis: source.length(original, order[axis]),
        view=f"{value.name}.T" if is_transpose else None,
    )
    return True


@write_node.register(Subtensor)
def _slices(op: Subtensor, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, [output] = node.inputs[0], node.outputs
    slices = find_slices(op, node.inputs, source)
    if slices is None:
        return False
    value = source.value(original)
    view = None
    if value.name is not None and all(isinstance(s, int) or s.step == 1 for s in slices):
        parts = [str(s) if isinstance(s, int) else f"{s.start}:{s.stop}" for s in slices]
        view = f"{value.name}[{', '.join(parts)}]"
    lengths = [s.length for s in slices if not isinstance(s, int)]
    source.bind_view(output, lambda i: value.at(inside(slices, i)), lengths.__getitem__, view)
    return True


class Slice(NamedTuple):
    """What a slice takes from an axis.

    Attributes
    ----------
    start, step : int
    length : int or str
        Number of elements, as source code if it is not known.
    stop : str
        Source code of the end.
    """

    start: int
    step: int
    length: int | str
    stop: str


def find_slices(op: Any, inputs: Sequence[Variable], source: Source) -> list[int | Slice] | None:
    """Return what constant indices take from each axis, or None if that is not known."""
    try:
        indices = get_constant_idx(op.idx_list, inputs)
    except NotScalarConstantError:
        return None
    slices: list[int | Slice] = []
    for axis, length in enumerate(source.lengths(inputs[0])):
        found = _find_slice(indices[axis] if axis < len(indices) else slice(None), length)
        if found is None:
            return None
        slices.append(found)
    return slices


def _find_slice(index: Any, length: int | str) -> int | Slice | None:
    """Return what an index takes from an axis, or None if no rule covers it."""
    if isinstance(length, int):
        if not isinstance(index, slice):
            return int(index) % length if -length <= index < length else None
        taken = range(*index.indices(length))
        return Slice(taken.start, taken.step, len(taken), str(taken.stop))
    if not isinstance(index, slice) or index.step not in (None, 1):
        return None
    start, stop = index.start or 0, index.stop
    if start < 0:
        return None
    if stop is None:
        end = length
    else:
        end = f"max({length} - {-stop}, 0)" if stop < 0 else f"min({stop}, {length})"
    return Slice(int(start), 1, f"max({end} - {start}, 0)", end)


def inside(slices: Sequence[int | Slice], indices: Sequence[str]) -> list[str]:
    """Translate indices into a sliced array to indices into the original."""
    remaining = iter(indices)
    whole = []
    for taken in slices:
        if isinstance(taken, int):
            whole.append(str(taken))
            continue
        index = next(remaining)
        if taken.step != 1:
            index = f"{taken.step} * ({index})"
        whole.append(index if taken.start == 0 else f"{index} + {taken.start}")
    return whole


@write_node.register(SpecifyShape)
def _checked(op: SpecifyShape, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, [output] = node.inputs[0], node.outputs
    lengths = list(output.type.shape)
    if is_scalar(output) or None in lengths:
        return False
    for found, wanted in zip(source.lengths(original), lengths, strict=True):
        if found != wanted:
            source.put(f"if {found} != {wanted}:")
            source.put(f"    raise AssertionError('Length {wanted} was specified, but not found')")
    value = source.value(original)
    source.values[output] = replace(value, length=lengths.__getitem__)
    return True


@write_node.register(ViewOp)
def _same(op: ViewOp, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [original], [output] = node.inputs, node.outputs
    source.values[output] = source.value(original)
    return True


@write_node.register(Split)
def _parts(op: Split, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, sizes = node.inputs
    shape, along = source.known_lengths(original), op.axis % original.type.ndim
    if not isinstance(sizes, Constant):
        return False
    if shape is None or shape[along] != sum(sizes.data):
        return False
    value = source.value(original)
    ends = np.cumsum(sizes.data).tolist()
    for output, start, end in zip(node.outputs, [0, *ends[:-1]], ends, strict=True):

        def at(indices: Sequence[str], start: int = start) -> str:
            before, index, after = indices[:along], indices[along], indices[along + 1 :]
            return value.at([*before, f"{index} + {start}" if start else index, *after])

        lengths = [*shape[:along], end - start, *shape[along + 1 :]]
        source.bind_view(output, at, lengths.__getitem__)
        if destroyed(original):
            source.array(output)
    return True


@write_node.register(ExtractDiag)
def _diagonal(op: ExtractDiag, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [original], [output] = node.inputs, node.outputs
    ndim = original.type.ndim
    first, second = op.axis1 % ndim, op.axis2 % ndim
    shape = source.known_lengths(original)
    if op.offset or shape is None:
        return False
    value = source.value(original)
    others = [axis for axis in range(ndim) if axis not in (first, second)]
    lengths = [*[shape[axis] for axis in others], min(shape[first], shape[second])]

    def at(indices: Sequence[str]) -> str:
        *rest, along = indices
        known = dict(zip(others, rest, strict=True)) | {first: along, second: along}
        return value.at([known[axis] for axis in range(ndim)])

    source.bind_view(output, at, lengths.__getitem__)
    if destroyed(original):
        source.array(output)
    return True


@write_node.register(AdvancedSubtensor)
def _gather(op: AdvancedSubtensor, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, [output] = node.inputs[0], node.outputs
    picked = find_picked(op, node.inputs[1:], original)
    if picked is None:
        return False
    value = source.value(original)
    names = picked.names(source)
    source.bind_view(
        output,
        lambda i: value.at(picked.whole(names, i)),
        lambda axis: picked.lengths(source, original)[axis],
    )
    if destroyed(original):
        # The original may be overwritten before the output is read.
        source.array(output)
    return True


class Picked(NamedTuple):
    """Elements that constant integer arrays select along adjacent axes.

    Attributes
    ----------
    first : int
        The first of these axes.
    positions : list of ndarray
        One for each of the axes, all of the same shape.
    """

    first: int
    positions: list[np.ndarray]

    def names(self, source: Source) -> list[str]:
        """Return the names of the positions in the written function."""
        return [source.constant(p, cache_key_for_constant(p)) for p in self.positions]

    def whole(self, names: Sequence[str], indices: Sequence[str]) -> list[str]:
        """Translate indices into the selection to indices into the original."""
        end = self.first + self.positions[0].ndim
        inner = ", ".join(indices[self.first : end])
        return [*indices[: self.first], *[f"{n}[{inner}]" for n in names], *indices[end:]]

    def lengths(self, source: Source, original: Variable) -> list[int | str]:
        """Return the shape of the selection."""
        lengths = source.lengths(original)
        end = self.first + len(self.positions)
        return [*lengths[: self.first], *self.positions[0].shape, *lengths[end:]]


def find_picked(op: Any, indices: Sequence[Variable], original: Variable) -> Picked | None:
    """Return what indices select, or None if no rule covers them.

    They must be constant, within bounds and on adjacent axes, next to full slices.
    """
    parts = indices_from_subtensor(indices, op.idx_list)
    axes = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
    if any(isinstance(part, slice) and part != slice(None) for part in parts):
        return None
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return None
    for axis in axes:
        length = original.type.shape[axis]
        if not isinstance(parts[axis], Constant) or length is None:
            return None
        positions = parts[axis].data
        if positions.dtype.kind not in "iu":
            return None
        if positions.size and (positions.min() < -length or positions.max() >= length):
            return None
    found = np.broadcast_arrays(
        *[parts[axis].data.astype(np.int64) % original.type.shape[axis] for axis in axes]
    )
    if found[0].ndim == 0:
        return None
    return Picked(axes[0], [np.ascontiguousarray(positions) for positions in found])


@write_node.register(Reshape)
def _reshape(op: Reshape, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, [output] = node.inputs[0], node.outputs
    old, new = source.known_lengths(original), output.type.shape
    if old is None or None in new:
        return False
    value = source.value(original)
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        long = [axis for axis, n in enumerate(new) if n != 1]

        def at(indices: Sequence[str]) -> str:
            own = iter([indices[axis] for axis in long])
            return value.at(["0" if n == 1 else next(own) for n in old])

        source.bind_view(output, at, new.__getitem__)
        return True
    flat = source.allocate([math.prod(old)], output.type.dtype)
    with source.nest(old) as indices:
        position = "0"
        for n, index in zip(old, indices, strict=True):
            position = f"({position}) * {n} + {index}" if position != "0" else index
        source.put(f"{flat}[{position}] = {value.at(indices)}")
    name = source.fresh("v")
    source.put(f"{name} = {flat}.reshape(({''.join(f'{n}, ' for n in new)}))")
    source.bind(output, name)
    return True
