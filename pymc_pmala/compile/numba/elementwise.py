"""Elementwise operations and reductions as nested loops."""

from collections.abc import Callable, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.scalar.basic import AND, OR, Add, Composite, ScalarInnerGraphOp, get_scalar_type
from pytensor.tensor.elemwise import CAReduce

from pymc_pmala.compile.numba.scalars import expression
from pymc_pmala.compile.numba.source import Source, is_scalar

__all__ = [
    "broadcast",
    "is_reduction",
    "place",
    "write_elementwise",
    "write_reduction",
    "write_scalars",
]

Term = tuple[str, int]
"""A name or a literal, and the number of loops that enclose it."""


class Nest:
    """Nested loops in which each expression is computed as far outside as possible.

    Parameters
    ----------
    source : Source
    lengths : sequence of int or str
        Numbers of iterations, from the outermost loop to the innermost.
    """

    def __init__(self, source: Source, lengths: Sequence[int | str]):
        self.source = source
        self.lengths = lengths
        self.indices = ["0" if n == 1 else source.fresh("i") for n in lengths]
        levels = range(len(lengths) + 1)
        self.before: list[list[str]] = [[] for _ in levels]
        self.after: list[list[str]] = [[] for _ in levels]
        self.innermost: list[str] = []

    def read(self, variable: Variable) -> Term:
        """Read the element of a variable that is broadcast to the loops."""
        pattern = () if is_scalar(variable) else variable.type.broadcastable
        level = max((i + 1 for i, alike in enumerate(pattern) if not alike), default=0)
        element = broadcast(self.source, variable)(self.indices)
        if element.isidentifier() or element.startswith("("):
            return element, level
        return self.compute(element, level)

    def compute(self, expression: str, level: int) -> Term:
        """Assign an expression to a new name in the loop of the given level."""
        name = self.source.fresh("t")
        self.before[level].append(f"{name} = {expression}")
        return name, level

    def write(self) -> None:
        """Write the loops."""
        source, depth = self.source, self.source.depth
        depths = []
        for level in range(len(self.lengths) + 1):
            depths.append(source.depth)
            for line in self.before[level]:
                source.put(line)
            if level < len(self.lengths) and self.lengths[level] != 1:
                source.put(f"for {self.indices[level]} in range({self.lengths[level]}):")
                source.depth += 1
        for line in self.innermost:
            source.put(line)
        for level in reversed(range(len(self.lengths) + 1)):
            source.depth = depths[level]
            for line in self.after[level]:
                source.put(line)
        source.depth = depth


def apply_scalar_op(
    op: Any,
    node: Apply,
    terms: Sequence[Term],
    source: Source,
    compute: Callable[[str, int], Term],
) -> list[Term]:
    """Write a scalar operation, and return its results.

    Parameters
    ----------
    op : ScalarOp
    node : Apply
    terms : sequence of Term
        The arguments.
    source : Source
    compute : callable
        Assigns an expression to a name in the loop of the given level.
    """
    if isinstance(op, Composite):
        known = dict(zip(op.fgraph.inputs, terms, strict=True))

        def term(variable: Variable) -> Term:
            return known[variable] if variable in known else (source.scalar(variable), 0)

        for inner in op.fgraph.toposort():
            results = apply_scalar_op(
                inner.op, inner, [term(v) for v in inner.inputs], source, compute
            )
            known.update(zip(inner.outputs, results, strict=True))
        return [term(output) for output in op.fgraph.outputs]
    level = max((level for _, level in terms), default=0)
    arguments = [name for name, _ in terms]
    plain = None if isinstance(op, ScalarInnerGraphOp) else expression(op, node, arguments)
    if plain is None:
        plain = f"{source.function(op, node)}({', '.join(arguments)})"
        if len(node.outputs) > 1:
            name, _ = compute(plain, level)
            return [compute(f"{name}[{i}]", level) for i in range(len(node.outputs))]
    elif plain in arguments:
        return [(plain, level)]
    return [compute(plain, level)]


def write_scalars(op: Any, node: Apply, source: Source, scalar_node: Apply) -> None:
    """Write an operation on numbers."""
    terms = [(source.scalar(v), 0) for v in node.inputs]
    results = apply_scalar_op(
        op, scalar_node, terms, source, lambda expression, _: (source.compute(expression), 0)
    )
    for output, (name, _) in zip(node.outputs, results, strict=True):
        source.bind_scalar(output, name)


def write_elementwise(
    node: Apply, source: Source, sums: dict[Variable, list[Apply]], stored: Callable[..., bool]
) -> None:
    """Write the loops of an elementwise node and of the sums over its outputs.

    Parameters
    ----------
    node : Apply
        Of an `Elemwise`.
    source : Source
    sums : dict
        Nodes that sum each of the outputs.
    stored : callable
        Tells whether an output is needed as an array.
    """
    op = node.op
    scalar_node = op.scalar_op.make_node(*[get_scalar_type(v.dtype)() for v in node.inputs])
    if is_scalar(node.outputs[0]):
        write_scalars(op.scalar_op, node, source, scalar_node)
        return
    lengths = common_lengths(node, source)
    nest = Nest(source, lengths)
    terms = [nest.read(variable) for variable in node.inputs]
    results = apply_scalar_op(op.scalar_op, scalar_node, terms, source, nest.compute)
    for position, (output, (result, _)) in enumerate(zip(node.outputs, results, strict=True)):
        for reduced in sums.get(output, []):
            add_reduction(reduced, result, nest)
        if stored(output):
            overwritten = op.inplace_pattern.get(position)
            if overwritten is not None and output not in source.values:
                name = source.value(node.inputs[overwritten]).name
                if name is not None and name not in source.environment:
                    source.bind(output, name)
            at = place(output, lengths, source)
            nest.innermost.append(f"{at(nest.indices)} = {result}")
    nest.write()


def write_reduction(node: Apply, source: Source) -> None:
    """Write the loops of a reduction, such as a sum."""
    [summand] = node.inputs
    nest = Nest(source, source.lengths(summand))
    name, _ = nest.read(summand)
    add_reduction(node, name, nest)
    nest.write()


def add_reduction(node: Apply, name: str, nest: Nest) -> None:
    """Add the reduction over a name in the innermost loop to nested loops."""
    source, op, [output] = nest.source, node.op, node.outputs
    ndim = len(nest.lengths)
    axes = range(ndim) if op.axis is None else op.axis
    kept = [axis for axis in range(ndim) if axis not in axes]
    first, combine = _reduction(node)
    if not kept:
        total = source.fresh("s")
        nest.before[0].append(f"{total} = {first}")
        nest.innermost.append(combine(total, name))
        source.bind_scalar(output, total)
        return
    lengths = [nest.lengths[axis] for axis in kept]
    element = place(output, lengths, source)([nest.indices[axis] for axis in kept])
    if kept == list(range(len(kept))):
        total = source.fresh("s")
        nest.before[len(kept)].append(f"{total} = {first}")
        nest.innermost.append(combine(total, name))
        nest.after[len(kept)].append(f"{element} = {total}")
        return
    at = source.value(output).at
    with source.nest(lengths) as indices:
        source.put(f"{at(indices)} = {first}")
    nest.innermost.append(combine(element, name))


def broadcast(source: Source, variable: Variable) -> Callable[[Sequence[str]], str]:
    """Return how elements of a variable are read by the indices of what it is broadcast to."""
    pattern = () if is_scalar(variable) else variable.type.broadcastable
    at = source.value(variable).at

    def element(indices: Sequence[str]) -> str:
        own = indices[len(indices) - len(pattern) :]
        return at(["0" if alike else i for alike, i in zip(pattern, own, strict=True)])

    return element


def place(output: Variable, lengths: Sequence[int | str], source: Source) -> Callable[..., str]:
    """Return where elements of an output are written, allocating an array if it has none."""
    if output not in source.values:
        source.bind(output, source.allocate(lengths, output.type.dtype), lengths)
    return source.value(output).at


def common_lengths(node: Apply, source: Source) -> list[int | str]:
    """Return the lengths of the loops over all inputs; write checks of those not known to agree."""
    arrays = [v for v in node.inputs if not is_scalar(v)]
    lengths: list[int | str] = []
    for axis, known in enumerate(node.outputs[0].type.shape):
        unknown = [source.length(v, axis) for v in arrays if v.type.shape[axis] is None]
        # Rewrites may have replaced an input by one with a more specific shape than the output's.
        found = [n for v in arrays if (n := v.type.shape[axis]) not in (None, 1)]
        length = known if known is not None else [*found, *unknown, 1][0]
        for other in unknown:
            if other != length:
                source.put(f"if {other} != {length}:")
                source.put(
                    "    raise ValueError('Shapes do not match. Have the data of the model been '"
                    "'replaced by data of a different length?')"
                )
        lengths.append(length)
    return lengths


Combine = Callable[[str, str], str]
"""Takes the source code of a result and of one more element, and returns that of a statement."""

_REDUCTIONS: dict[type, tuple[str, tuple[str, ...], Combine]] = {
    Add: ("0", ("float64", "float32", "int64"), lambda total, x: f"{total} += {x}"),
    AND: ("True", ("bool",), lambda total, x: f"{total} = {total} & {x}"),
    OR: ("False", ("bool",), lambda total, x: f"{total} = {total} | {x}"),
}


def _reduction(node: Apply) -> tuple[str, Combine]:
    """Return the source code of what a reduction starts from, and how it goes on."""
    first, _, combine = _REDUCTIONS[type(node.op.scalar_op)]
    is_real = node.outputs[0].type.dtype.startswith("float")
    return ("0.0" if is_real else first), combine


def is_reduction(node: Apply) -> bool:
    """Return whether a node is a reduction that `write_reduction` can write."""
    if not isinstance(node.op, CAReduce) or type(node.op.scalar_op) not in _REDUCTIONS:
        return False
    _, dtypes, _ = _REDUCTIONS[type(node.op.scalar_op)]
    is_logical = dtypes == ("bool",)
    return (
        node.outputs[0].type.dtype in dtypes
        and not (is_logical and node.inputs[0].type.dtype != "bool")
        and not (node.op.axis is not None and len(node.op.axis) == 0)
    )
