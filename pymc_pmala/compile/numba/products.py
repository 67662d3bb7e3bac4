"""Matrix products that compile fast with numba.

pytensor 3 compiles, for every product of a graph anew, a general routine that copes with
any stride of any operand: ten to thirty seconds each, nine tenths of the compile time of a
transition. The operands here are contiguous, or made so, and a plain call of the BLAS does.
"""

from typing import Any

import numpy as np
from numba.extending import overload
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.math import Dot
from pytensor.tensor.type import tensor

from pymc_pmala.version import cache_version

__all__ = ["REWRITE", "Product"]

REWRITE = "pymc_pmala_products"
"""Name by which a mode includes the rewrite of products; no mode has it by itself."""


class Product(Op):
    """Product of two matrices of one floating-point type."""

    __props__ = ()

    def make_node(self, left: Variable, right: Variable) -> Apply:
        """Node for ``left @ right``."""
        shape = (left.type.shape[0], right.type.shape[1])
        return Apply(self, [left, right], [tensor(dtype=left.dtype, shape=shape)])

    def perform(self, node: Apply, inputs: list[Any], outputs: list[list[Any]]) -> None:
        """Multiply with NumPy."""
        outputs[0][0] = np.dot(*inputs)


def _contiguous(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix)


@overload(_contiguous)
def _contiguous_impl(matrix):
    if matrix.layout == "A":
        return lambda matrix: np.ascontiguousarray(matrix)
    return lambda matrix: matrix


@register_funcify_default_op_cache_key(Product)
def _numba_product(op: Product, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    left, right = node.inputs
    # The BLAS has faster routines where an operand is a vector. pytensor's cache does not
    # know of static shapes: each of the routines needs a version of its own.
    if right.type.shape[1] == 1:
        variant = 2

        @numba_njit
        def product(left, right):
            vector = np.ascontiguousarray(right).reshape(right.size)
            return np.dot(_contiguous(left), vector).reshape((left.shape[0], 1))

    elif left.type.shape[0] == 1:
        variant = 3

        @numba_njit
        def product(left, right):
            vector = np.ascontiguousarray(left).reshape(left.size)
            return np.dot(vector, _contiguous(right)).reshape((1, right.shape[1]))

    else:
        variant = 4

        @numba_njit
        def product(left, right):
            return np.dot(_contiguous(left), _contiguous(right))

    return product, cache_version(variant)


@node_rewriter([Dot])
def _plain_product(fgraph: Any, node: Apply) -> list[Variable] | None:
    left, right = node.inputs
    if not (left.dtype == right.dtype and left.dtype in ("float32", "float64")):
        return None
    return [Product()(left, right)]


# After the rewrites that know Dot, before those that write in place.
optdb.register(REWRITE, dfs_rewriter(_plain_product), position=48.5)
