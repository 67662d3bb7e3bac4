"""Rules for matrix products, small triangular systems and small Cholesky factors.

pytensor compiles general routines for these, anew for every node: they handle operands of any
stride and all the options of LAPACK. A single matrix product takes ten to thirty seconds, which
was nine tenths of the compile time of a transition. Here operands are contiguous, or are made so,
and a plain call of the BLAS or a few nested loops are enough.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any

import numpy as np
from pytensor import config
from pytensor.graph.basic import Apply, Variable
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.scan.op import Scan
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot

from pymc_pmala.compat import Cholesky, SolveTriangular
from pymc_pmala.compile.numba.assembly import without_gaps
from pymc_pmala.compile.numba.dispatch import Destroyed, write_node
from pymc_pmala.compile.numba.elementwise import place
from pymc_pmala.compile.numba.options import NJIT_OPTIONS
from pymc_pmala.compile.numba.source import Source
from pymc_pmala.version import cache_version

__all__ = ["with_routines"]

# Above this number of rows LAPACK is faster than plain loops.
_MAX_ROWS = 32
# From this number of multiplications on the BLAS is faster than plain loops.
_FEW = 2048


@write_node.register(Blockwise)
def _unbatched(op: Blockwise, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    """Apply the rule of the core Op if there are no batch dimensions."""
    if op.batch_ndim(node):
        return False
    return write_node(op.core_op, node, source, destroyed)


@write_node.register(Dot)
def _product(op: Dot, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    left, right = node.inputs
    if not _is_product(node):
        return False
    [rows, inner], [other, columns] = source.lengths(left), source.lengths(right)
    if inner != other:
        # Never where both are known.
        source.put(f"if {inner} != {other}:")
        source.put("    raise ValueError('The shapes of two matrices do not match')")
    lengths = [rows, columns]
    known = [n for n in (*lengths, inner) if isinstance(n, int)]
    if len(known) == 3 and math.prod(known) < _FEW:
        _write_product(node, source, inner, lengths)
    else:
        source.products.add(_fill(_multiply, node, source, lengths))
    return True


@write_node.register(BatchedDot)
def _products(op: BatchedDot, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    """Write the products of a batch one after the other."""
    left, right = node.inputs
    [output] = node.outputs
    if not _have_one_float_type(left, right):
        return False
    first, second = source.known_lengths(left), source.known_lengths(right)
    if first is None or second is None:
        return False
    [batch, rows, inner], [others, other, columns] = first, second
    if batch != others or inner != other:
        return False
    if rows * inner * columns < _FEW:
        at_left, at_right = source.value(left).at, source.value(right).at
        at = place(output, [batch, rows, columns], source)
        with source.nest([batch, rows]) as [b, i]:
            _write_row(
                columns,
                inner,
                lambda k: at_left([b, i, k]),
                lambda k, j: at_right([b, k, j]),
                lambda j: at([b, i, j]),
                source,
            )
        return True
    arguments = [source.array(variable) for variable in node.inputs]
    result = source.allocate([batch, rows, columns], output.type.dtype)
    called = _routine(_multiply, source)
    source.products.add(called)
    with source.nest([batch]) as [b]:
        parts = ", ".join(f"{name}[{b}, :, :]" for name in [*arguments, result])
        source.put(f"{called}({parts})")
    source.bind(output, result)
    return True


def _write_product(
    node: Apply, source: Source, inner: int | str, lengths: Sequence[int | str]
) -> None:
    """Write the loops of a product."""
    [left, right], [output] = node.inputs, node.outputs
    rows, columns = lengths
    at_left, at_right = source.value(left).at, source.value(right).at
    at = place(output, lengths, source)
    with source.nest([rows]) as [i]:
        _write_row(
            columns,
            inner,
            lambda k: at_left([i, k]),
            lambda k, j: at_right([k, j]),
            lambda j: at([i, j]),
            source,
        )


def _write_row(
    columns: int | str,
    inner: int | str,
    left: Callable[[str], str],
    right: Callable[[str, str], str],
    result: Callable[[str], str],
    source: Source,
) -> None:
    """Write the loops of one row of a product, whose elements the callables give."""
    with source.nest([columns]) as [j]:
        source.put(f"{result(j)} = 0.0")
    with source.nest([inner]) as [k]:
        factor = source.compute(left(k))
        with source.nest([columns]) as [j]:
            source.put(f"{result(j)} += {factor} * {right(k, j)}")


def _is_product(node: Apply) -> bool:
    left, right = node.inputs
    return _have_one_float_type(left, right) and left.type.ndim == right.type.ndim == 2


@write_node.register(SolveTriangular)
def _solve_triangular(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    if not _is_small_system(op, node):
        return False
    # pytensor may let the solution overwrite the right-hand side, but it need not.
    routine = _SUBSTITUTIONS[node.inputs[1].type.ndim]
    _fill(routine, node, source, source.lengths(node.inputs[1]), str(op.lower))
    return True


def _is_small_system(op: Any, node: Apply) -> bool:
    matrix, right = node.inputs
    n = matrix.type.shape[0]
    return (
        _have_one_float_type(matrix, right)
        and matrix.type.ndim == 2
        and n is not None
        and n <= _MAX_ROWS
        and matrix.type.shape[1] == right.type.shape[0] == n
        and right.type.ndim in _SUBSTITUTIONS
        and not op.unit_diagonal
    )


@write_node.register(Cholesky)
def _cholesky(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [matrix] = node.inputs
    n = matrix.type.shape[0]
    if matrix.type.ndim != 2 or matrix.type.dtype != "float64" or matrix.type.shape[1] != n:
        return False
    if n is None or n > _MAX_ROWS or not op.lower:
        return False
    _fill(_factorise, node, source, [n, n])
    return True


def _have_one_float_type(left: Variable, right: Variable) -> bool:
    return left.type.dtype == right.type.dtype and left.type.dtype in ("float32", "float64")


def _fill(
    routine: Callable, node: Apply, source: Source, lengths: Sequence[int | str], *options: str
) -> str:
    """Write a call of a routine that fills an array, and return its name.

    The arguments are the inputs of a node as arrays.
    """
    [output] = node.outputs
    arguments = [source.array(variable) for variable in node.inputs]
    result = source.allocate(lengths, output.type.dtype)
    called = _routine(routine, source)
    source.put(f"{called}({', '.join([*arguments, *options, result])})")
    source.bind(output, result, lengths)
    return called


def _routine(routine: Callable, source: Source) -> str:
    """Return a name for a routine."""
    # The key of the whole function is salted with the source of this file.
    key = f"{__name__}.{routine.__name__}"
    called = source.constant(_cached(routine, cache_version()), key)
    source.routines[called] = routine
    return called


@cache
def _cached(routine: Callable, version: int) -> Callable:
    """Compile a routine by numba, and keep the machine code in pytensor's cache."""
    inner = _compiled(routine)
    if not config.numba__cache:
        return inner
    name = routine.__name__
    function = compile_numba_function_src(
        f"def {name}(*arguments): return routine(*arguments)",
        name,
        {"__name__": __name__, "routine": inner},
        cache_key=f"{__name__}.{name} {version}",
    )
    return numba_njit(function, cache=True, **NJIT_OPTIONS)


_compiled = numba_njit(**NJIT_OPTIONS)

# ---- Routines --------------------------------------------------------------------------
#
# They are written in the language that `assembly` translates.


def _multiply(left, right, product):
    np.dot(without_gaps(left), without_gaps(right), product)


def _substitute_vector(matrix, right, lower, x):
    n = right.shape[0]
    for k in range(n):
        i = k if lower else n - 1 - k
        start = 0 if lower else i + 1
        stop = i if lower else n
        total = right[i]
        for j in range(start, stop):
            total -= matrix[i, j] * x[j]
        x[i] = total / matrix[i, i]


def _substitute_columns(matrix, right, lower, x):
    n = right.shape[0]
    columns = right.shape[1]
    for k in range(n):
        i = k if lower else n - 1 - k
        start = 0 if lower else i + 1
        stop = i if lower else n
        for c in range(columns):
            x[i, c] = right[i, c]
        for j in range(start, stop):
            factor = matrix[i, j]
            for c in range(columns):
                x[i, c] -= factor * x[j, c]
        pivot = matrix[i, i]
        for c in range(columns):
            x[i, c] /= pivot


_SUBSTITUTIONS: dict[int, Callable] = {1: _substitute_vector, 2: _substitute_columns}


def _factorise(matrix, factor):
    """Lower Cholesky factor; all NaN if the matrix is not positive definite."""
    n = matrix.shape[0]
    for i in range(n):
        for j in range(n):
            factor[i, j] = 0.0
    for j in range(n):
        square = matrix[j, j]
        for k in range(j):
            square -= factor[j, k] * factor[j, k]
        # Written such that NaN is caught, too. It spreads to the last element.
        pivot = math.sqrt(square) if square > 0.0 else math.nan
        factor[j, j] = pivot
        for i in range(j + 1, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = rest / pivot
    last = factor[n - 1, n - 1]
    for i in range(n):
        for j in range(n):
            factor[i, j] = factor[i, j] if last == last else math.nan


# ---- Loops that are left to pytensor ---------------------------------------------------


class _RoutineDot(Dot):
    """Marks products in the inner graph of a Scan for the routines above."""


class _RoutineSolveTriangular(SolveTriangular):
    """Marks triangular systems in the inner graph of a Scan for the routines above."""


def with_routines(op: Scan) -> Scan:
    """Return a Scan for which pytensor uses the routines of this file in the inner graph.

    It is for a Scan that cannot be written out, and is only converted, never part of a graph.
    """
    inner = op.fgraph.unfreeze()
    for node in inner.toposort():
        marked: Any = None
        if isinstance(node.op, Scan):
            marked = with_routines(node.op)
        elif type(node.op) is Dot and _is_product(node):
            marked = _RoutineDot()
        elif type(node.op) is SolveTriangular and _is_small_system(node.op, node):
            marked = _RoutineSolveTriangular(**node.op._props_dict())
        if marked is not None:
            outputs = [output.clone() for output in node.outputs]
            Apply(marked, node.inputs, outputs)
            inner.replace_all(zip(node.outputs, outputs, strict=True), import_missing=True)
    changed = copy(op)
    changed.fgraph = inner.freeze()
    return changed


@register_funcify_default_op_cache_key(_RoutineDot)
def _convert_product(op: _RoutineDot, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    fill = _compiled(_multiply)

    @_compiled
    def multiply(left, right):
        product = np.empty((left.shape[0], right.shape[1]), left.dtype)
        fill(left, right, product)
        return product

    return multiply, cache_version()


@register_funcify_default_op_cache_key(_RoutineSolveTriangular)
def _convert_solve(op: Any, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    lower = op.lower
    ndim = node.inputs[1].type.ndim
    fill = _compiled(_SUBSTITUTIONS[ndim])

    @_compiled
    def solve(matrix, right):
        x = np.empty(right.shape, right.dtype)
        fill(matrix, right, lower, x)
        return x

    # pytensor's key does not know of the number of dimensions.
    return solve, cache_version(ndim)
