"""Rules for matrix products, small triangular systems and small Cholesky factors.

pytensor compiles general routines for these, anew for every node: they handle operands of any
stride and all the options of LAPACK. A single matrix product takes ten to thirty seconds, which
was nine tenths of the compile time of a transition. Here operands are contiguous, or are made so,
and a plain call of the BLAS or a few nested loops are enough.
"""

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

import numpy as np
from numba.extending import overload
from pytensor import config
from pytensor.graph.basic import Apply, Variable
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot

from pymc_pmala.compat import Cholesky, SolveTriangular
from pymc_pmala.compile.numba.dispatch import Destroyed, write_node
from pymc_pmala.compile.numba.options import NJIT_OPTIONS
from pymc_pmala.compile.numba.source import Source
from pymc_pmala.version import cache_version

__all__ = ["with_routines"]

# Above this number of rows LAPACK is faster than plain loops.
_MAX_ROWS = 32


@write_node.register(Blockwise)
def _unbatched(op: Blockwise, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    """Apply the rule of the core Op if there are no batch dimensions."""
    if op.batch_ndim(node):
        return False
    return write_node(op.core_op, node, source, destroyed)


@write_node.register(Dot)
def _product(op: Dot, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    routine = _product_routine(node)
    if routine is None:
        return False
    _call(routine, node, source)
    return True


def _product_routine(node: Apply) -> Callable | None:
    left, right = node.inputs
    if not _have_one_float_type(left, right) or left.type.ndim != 2 or right.type.ndim != 2:
        return None
    # The BLAS has faster routines for products with a vector.
    if right.type.shape[1] == 1:
        return _matrix_column
    return _row_matrix if left.type.shape[0] == 1 else _matrix_matrix


@write_node.register(SolveTriangular)
def _solve_triangular(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    routine = _substitution_routine(op, node)
    if routine is None:
        return False
    # pytensor may let the solution overwrite the right-hand side, but it need not.
    _call(routine, node, source, str(op.lower))
    return True


def _substitution_routine(op: Any, node: Apply) -> Callable | None:
    matrix, right = node.inputs
    n = matrix.type.shape[0]
    if not _have_one_float_type(matrix, right) or matrix.type.ndim != 2:
        return None
    if n is None or n > _MAX_ROWS or op.unit_diagonal:
        return None
    return _substitute_vector if right.type.ndim == 1 else _substitute_columns


@write_node.register(Cholesky)
def _cholesky(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    [matrix] = node.inputs
    n = matrix.type.shape[0]
    if matrix.type.ndim != 2 or matrix.type.dtype != "float64":
        return False
    if n is None or n > _MAX_ROWS or not op.lower:
        return False
    _call(_factorise, node, source)
    return True


def _have_one_float_type(left: Variable, right: Variable) -> bool:
    return left.type.dtype == right.type.dtype and left.type.dtype in ("float32", "float64")


def _call(routine: Callable, node: Apply, source: Source, *options: str) -> None:
    """Write a call of a routine with the inputs of a node as arrays."""
    if config.numba__cache:
        routine = _cached(routine, cache_version())
    # The key of the whole function is salted with the source of this file.
    called = source.constant(routine, f"{__name__}.{routine.__name__}")
    arguments = [*[source.array(variable) for variable in node.inputs], *options]
    result = source.fresh("r")
    source.put(f"{result} = {called}({', '.join(arguments)})")
    source.bind(node.outputs[0], result)


@cache
def _cached(routine: Callable, version: int) -> Callable:
    """Keep the machine code of a routine in pytensor's cache, for use in other graphs."""
    name = routine.__name__
    function = compile_numba_function_src(
        f"def {name}(*arguments): return routine(*arguments)",
        name,
        {"__name__": __name__, "routine": routine},
        cache_key=f"{__name__}.{name} {version}",
    )
    return numba_njit(function, cache=True, **NJIT_OPTIONS)


def _contiguous(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix)


@overload(_contiguous)
def _contiguous_impl(matrix):
    if matrix.layout == "A":
        return lambda matrix: np.ascontiguousarray(matrix)
    return lambda matrix: matrix


_routine = numba_njit(**NJIT_OPTIONS)


@_routine
def _matrix_matrix(left, right):
    return np.dot(_contiguous(left), _contiguous(right))


@_routine
def _matrix_column(left, right):
    vector = np.ascontiguousarray(right).reshape(right.size)
    return np.dot(_contiguous(left), vector).reshape((left.shape[0], 1))


@_routine
def _row_matrix(left, right):
    vector = np.ascontiguousarray(left).reshape(left.size)
    return np.dot(vector, _contiguous(right)).reshape((1, right.shape[1]))


@_routine
def _substitute_vector(matrix, right, lower):
    """Solve a triangular system for one right-hand side."""
    n = len(right)
    if matrix.shape != (n, n):
        raise ValueError("The shapes of a triangular matrix and of a right-hand side do not match")
    x = np.empty(n, right.dtype)
    for k in range(n):
        i = k if lower else n - 1 - k
        start, stop = (0, i) if lower else (i + 1, n)
        total = right[i]
        for j in range(start, stop):
            total -= matrix[i, j] * x[j]
        x[i] = total / matrix[i, i]
    return x


@_routine
def _substitute_columns(matrix, right, lower):
    """Solve a triangular system for the columns of a matrix."""
    n, columns = right.shape
    if matrix.shape != (n, n):
        raise ValueError("The shapes of a triangular matrix and of a right-hand side do not match")
    x = right.copy()
    for k in range(n):
        i = k if lower else n - 1 - k
        start, stop = (0, i) if lower else (i + 1, n)
        for j in range(start, stop):
            factor = matrix[i, j]
            for c in range(columns):
                x[i, c] -= factor * x[j, c]
        pivot = matrix[i, i]
        for c in range(columns):
            x[i, c] /= pivot
    return x


@_routine
def _factorise(matrix):
    """Lower Cholesky factor; all NaN if the matrix is not positive definite."""
    n = len(matrix)
    factor = np.zeros((n, n))
    for j in range(n):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= factor[j, k] * factor[j, k]
        # Written such that NaN is caught, too.
        if not pivot > 0.0:
            return np.full((n, n), np.nan)
        pivot = np.sqrt(pivot)
        factor[j, j] = pivot
        for i in range(j + 1, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = rest / pivot
    return factor


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
        elif type(node.op) is Dot and _product_routine(node):
            marked = _RoutineDot()
        elif type(node.op) is SolveTriangular and _substitution_routine(node.op, node):
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
    routine = _product_routine(node)
    # pytensor's key does not know of static shapes.
    return routine, cache_version([_matrix_matrix, _matrix_column, _row_matrix].index(routine))


@register_funcify_default_op_cache_key(_RoutineSolveTriangular)
def _convert_solve(op: Any, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    lower = op.lower
    routine: Any = _substitution_routine(op, node)

    @_routine
    def solve(matrix, right):
        return routine(matrix, right, lower)

    return solve, cache_version()
