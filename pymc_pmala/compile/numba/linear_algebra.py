"""Rules for matrix products, small triangular systems and small Cholesky factors.

pytensor compiles general routines for these, anew for every node: they handle operands of any
stride and all the options of LAPACK. A single matrix product takes ten to thirty seconds, which
was nine tenths of the compile time of a transition. Here operands are contiguous, or are made so,
and a plain call of the BLAS or a few nested loops are enough.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba.extending import overload
from pytensor import config
from pytensor.graph.basic import Apply, Variable
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot

from pymc_pmala.compat import Cholesky, SolveTriangular
from pymc_pmala.compile.numba.dispatch import Destroyed, write_node
from pymc_pmala.compile.numba.options import NJIT_OPTIONS
from pymc_pmala.compile.numba.source import Source
from pymc_pmala.version import cache_version

__all__: list[str] = []

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
    left, right = node.inputs
    if not _have_one_float_type(left, right) or left.type.ndim != 2 or right.type.ndim != 2:
        return False
    # The BLAS has faster routines for products with a vector.
    if right.type.shape[1] == 1:
        routine = _matrix_column
    elif left.type.shape[0] == 1:
        routine = _row_matrix
    else:
        routine = _matrix_matrix
    _call(routine, node, source)
    return True


@write_node.register(SolveTriangular)
def _solve_triangular(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    matrix, right = node.inputs
    n = matrix.type.shape[0]
    if not _have_one_float_type(matrix, right) or matrix.type.ndim != 2:
        return False
    if n is None or n > _MAX_ROWS or op.unit_diagonal:
        return False
    routine = _substitute_vector if right.type.ndim == 1 else _substitute_columns
    # pytensor may let the solution overwrite the right-hand side, but it need not.
    _call(routine, node, source, str(op.lower))
    return True


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
