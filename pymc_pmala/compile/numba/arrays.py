"""Rules for Ops that allocate arrays or write into them."""

from collections.abc import Sequence
from typing import Any

from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import Alloc, AllocEmpty, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise, BlockwiseWithCoreShape
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor

from pymc_pmala.compat import SolveTriangular
from pymc_pmala.compile.numba.dispatch import Destroyed, write_node
from pymc_pmala.compile.numba.elementwise import broadcast, place
from pymc_pmala.compile.numba.source import Source, is_scalar
from pymc_pmala.compile.numba.views import find_picked, find_slices, inside


@write_node.register(DeepCopyOp)
def _copy(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [original], [output] = node.inputs, node.outputs
    if is_scalar(original):
        source.bind_scalar(output, source.scalar(original))
    else:
        source.bind(output, source.copy(original))
    return True


@write_node.register(Shape_i)
def _length(op: Shape_i, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [original], [output] = node.inputs, node.outputs
    if is_scalar(original):
        return False
    length = source.lengths(original)[op.i]
    source.bind_scalar(output, f"({length})" if isinstance(length, int) else length)
    return True


@write_node.register(MakeVector)
def _vector(op: MakeVector, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [output] = node.outputs
    at = place(output, [len(node.inputs)], source)
    for i, element in enumerate(node.inputs):
        source.put(f"{at([str(i)])} = {source.scalar(element)}")
    return True


@write_node.register(CumOp)
def _running_totals(op: CumOp, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    """Write running sums and products along an axis."""
    [array], [output] = node.inputs, node.outputs
    dtype = output.type.dtype
    if dtype not in ("float64", "int64") or array.type.dtype != dtype:
        return False
    if op.axis is None and array.type.ndim > 1:
        return False
    axis = (op.axis or 0) % array.type.ndim
    lengths, element = source.lengths(array), source.value(array).at
    at = place(output, lengths, source)
    start, sign = {"add": ("0", "+"), "mul": ("1", "*")}[op.mode]
    with source.nest([*lengths[:axis], *lengths[axis + 1 :]]) as others:
        total = source.compute(f"{start}.0" if dtype == "float64" else start)
        with source.nest([lengths[axis]]) as [i]:
            indices = [*others[:axis], i, *others[axis:]]
            source.put(f"{total} = {total} {sign} {element(indices)}")
            source.put(f"{at(indices)} = {total}")
    return True


@write_node.register(AllocEmpty)
def _empty(op: AllocEmpty, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [output] = node.outputs
    if is_scalar(output):
        return False
    source.bind(output, source.allocate(_wanted_lengths(output, node.inputs, source), op.dtype))
    return True


@write_node.register(Alloc)
def _fill(op: Alloc, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    element, *shape = node.inputs
    [output] = node.outputs
    if is_scalar(output):
        return False
    if not is_scalar(element) and None in element.type.shape:
        return False
    at = broadcast(source, element)
    lengths = _wanted_lengths(output, shape, source)
    source.bind_view(output, at, lengths.__getitem__)
    if not is_scalar(element) and destroyed(element):
        source.array(output)
    return True


def _wanted_lengths(output: Variable, shape: Sequence[Variable], source: Source) -> list[int | str]:
    return [
        source.scalar(wanted) if n is None else n
        for n, wanted in zip(output.type.shape, shape, strict=True)
    ]


@write_node.register(Join)
def _join(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [output] = node.outputs
    return _write_join(node.inputs, op.axis % output.type.ndim, output, source)


@write_node.register(BlockwiseWithCoreShape)
def _batched_join(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [output] = node.outputs[:1]
    [inner] = [n for n in op.fgraph.apply_nodes if isinstance(n.op, Blockwise)] or [None]
    if inner is None or not isinstance(inner.op.core_op, Join):
        return False
    axis, batches = inner.op.core_op.axis, inner.op.batch_ndim(inner)
    parts = node.inputs[: len(inner.inputs)]
    return _write_join(parts, batches + axis % (output.type.ndim - batches), output, source)


def _write_join(parts: Sequence[Variable], axis: int, output: Variable, source: Source) -> bool:
    """Copy arrays side by side along an axis, broadcasting them along the others."""
    shapes = [shape for shape in map(source.known_lengths, parts) if shape is not None]
    if len(shapes) < len(parts):
        return False
    lengths = [next((n for n in ns if n != 1), 1) for ns in zip(*shapes, strict=True)]
    lengths[axis] = sum(shape[axis] for shape in shapes)
    at = place(output, lengths, source)
    start = 0
    for part, shape in zip(parts, shapes, strict=True):
        read = source.value(part).at
        own = [*lengths]
        own[axis] = shape[axis]
        with source.nest(own) as indices:
            shifted = [*indices]
            shifted[axis] = f"{indices[axis]} + {start}" if start else indices[axis]
            from_part = ["0" if n == 1 else i for n, i in zip(shape, indices, strict=True)]
            source.put(f"{at(shifted)} = {read(from_part)}")
        start += shape[axis]
    return True


@write_node.register(IncSubtensor)
def _write_slices(op: IncSubtensor, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, change, *positions = node.inputs
    [output] = node.outputs
    slices = find_slices(op, [original, *positions], source)
    if slices is None:
        return False
    lengths = [s.length for s in slices if not isinstance(s, int)]
    target = _target(op, node, source)
    element = broadcast(source, change)
    sign = "=" if op.set_instead_of_inc else "+="
    with source.nest(lengths) as loops:
        source.put(f"{target}[{', '.join(inside(slices, loops))}] {sign} {element(loops)}")
    source.bind(output, target)
    return True


def _target(op: Any, node: Apply, source: Source) -> str:
    """Return the name of the array that a node writes into: its input, or a copy of it."""
    original = node.inputs[0]
    in_place = op.destroy_map and not _is_read_only(original)
    return source.own_array(original) if in_place else source.copy(original)


def _is_read_only(variable: Variable) -> bool:
    """Return whether numba types an array as read-only: a view of a solution for a constant."""
    while (node := variable.owner) is not None:
        viewed = node.op.view_map.get(node.outputs.index(variable))
        if not viewed:
            op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
            return isinstance(op, SolveTriangular) and isinstance(node.inputs[1], Constant)
        variable = node.inputs[viewed[0]]
    return False


@write_node.register(AdvancedIncSubtensor)
def _scatter(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    original, change, *indices = node.inputs
    [output] = node.outputs
    picked = find_picked(op, indices, original)
    if picked is None or getattr(op, "ignore_duplicates", False):
        return False
    names = picked.names(source)
    target = _target(op, node, source)
    element = broadcast(source, change)
    sign = "=" if op.set_instead_of_inc else "+="
    with source.nest(picked.lengths(source, original)) as loops:
        source.put(f"{target}[{', '.join(picked.whole(names, loops))}] {sign} {element(loops)}")
    source.bind(output, target)
    return True
