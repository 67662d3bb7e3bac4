"""Small triangular systems, solved by substitution that compiles fast with numba.

pytensor 3 calls the BLAS, after copies and checks that it compiles anew for every layout of
the operands: a sixth of the compile time of a transition, and more than the solution of a
small system takes.
"""

from typing import Any

import numpy as np
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.type import tensor

from pymc_pmala.compat import SolveTriangular
from pymc_pmala.version import cache_version

__all__ = ["REWRITE", "Substitution"]

REWRITE = "pymc_pmala_solves"
"""Name by which a mode includes the rewrite of triangular systems; no mode has it by itself."""

# Beyond as many unknowns the BLAS is the faster one.
_MOST = 32


class Substitution(Op):
    """Solution of one triangular system for a vector, or for the columns of a matrix."""

    __props__ = ("lower",)

    def __init__(self, lower: bool):
        self.lower = lower

    def make_node(self, matrix: Variable, right: Variable) -> Apply:
        """Node for the x with ``matrix @ x = right``."""
        return Apply(self, [matrix, right], [tensor(dtype=right.dtype, shape=right.type.shape)])

    def perform(self, node: Apply, inputs: list[Any], outputs: list[list[Any]]) -> None:
        """Solve with NumPy."""
        matrix, right = inputs
        outputs[0][0] = np.linalg.solve(np.tril(matrix) if self.lower else np.triu(matrix), right)


@register_funcify_default_op_cache_key(Substitution)
def _numba_substitution(op: Substitution, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    lower = op.lower
    # As in `products`, each routine has a version of its own.
    if node.inputs[1].type.ndim == 1:
        variant = 1

        @numba_njit
        def substitute(matrix, right):
            n = len(right)
            x = np.empty(n, right.dtype)
            for k in range(n):
                i = k if lower else n - 1 - k
                start, stop = (0, i) if lower else (i + 1, n)
                total = right[i]
                for j in range(start, stop):
                    total -= matrix[i, j] * x[j]
                x[i] = total / matrix[i, i]
            return x

    else:
        variant = 2

        @numba_njit
        def substitute(matrix, right):
            n, columns = right.shape
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

    return substitute, cache_version(variant)


@node_rewriter([Blockwise])
def _by_substitution(fgraph: Any, node: Apply) -> list[Variable] | None:
    # pytensor unwraps what is no batch only after it has decided what to write in place.
    op = node.op.core_op
    if not isinstance(op, SolveTriangular) or node.op.batch_ndim(node):
        return None
    matrix, right = node.inputs
    unknowns = matrix.type.shape[0]
    if (
        unknowns is None
        or unknowns > _MOST
        or op.unit_diagonal
        or not (matrix.dtype == right.dtype and matrix.dtype in ("float32", "float64"))
    ):
        return None
    return [Substitution(op.lower)(matrix, right)]


# Where products are rewritten: after the rewrites that know triangular systems, before those
# that write in place.
optdb.register(REWRITE, dfs_rewriter(_by_substitution), position=48.5)
