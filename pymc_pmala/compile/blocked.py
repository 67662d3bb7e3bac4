"""Products of large matrices by blocks of rows or columns that fit the cache."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from pymc_pmala.compile.numba.options import NJIT_OPTIONS
from pymc_pmala.version import cache_version

__all__ = ["BLOCK", "BlockedProduct"]

BLOCK = 16_384
"""Number of elements of a block."""

_routine: Any = numba.njit(cache=True, **NJIT_OPTIONS)


@_routine
def _scaled_product(left, weights, right):
    """Return (left * weights) @ right."""
    m, n = left.shape
    width = max(1, min(n, BLOCK // m))
    total = np.zeros((m, right.shape[1]), left.dtype)
    scaled = np.empty((m, width), left.dtype)
    for start in range(0, n, width):
        stop = min(start + width, n)
        if stop - start < width:
            scaled = np.empty((m, stop - start), left.dtype)
        of_block = weights[start:stop]
        for i in range(m):
            scaled[i] = left[i, start:stop] * of_block
        total += np.dot(scaled, np.ascontiguousarray(right[start:stop]))
    return total


@_routine
def _squared_lengths(left, right):
    """Return the sum over rows of (left @ right)**2."""
    m, n = right.shape
    k = left.shape[0]
    width = max(1, min(n, BLOCK // m))
    factor = np.ascontiguousarray(left)
    total = np.zeros(n, right.dtype)
    columns, product = np.empty((m, width), right.dtype), np.empty((k, width), right.dtype)
    for start in range(0, n, width):
        stop = min(start + width, n)
        if stop - start < width:
            columns = np.empty((m, stop - start), right.dtype)
            product = np.empty((k, stop - start), right.dtype)
        for i in range(m):
            columns[i] = right[i, start:stop]
        np.dot(factor, columns, product)
        of_block = total[start:stop]
        for i in range(k):
            row = product[i]
            for j in range(len(row)):
                of_block[j] += row[j] * row[j]
    return total


ROUTINES: dict[str, Callable] = {
    "scaled_product": _scaled_product,
    "squared_lengths": _squared_lengths,
}


class BlockedProduct(Op):
    """One of the routines above as an Op for all linkers."""

    __props__ = ("name",)
    calls_back_in_jax = True

    def __init__(self, name: str):
        self.name = name

    def make_node(self, *inputs: Variable) -> Apply:
        """Apply the routine; the types of the outputs follow from those of the inputs."""
        left, *_, right = inputs
        shape = (
            (left.type.shape[0], right.type.shape[1])
            if self.name == "scaled_product"
            else (right.type.shape[1],)
        )
        return Apply(self, list(inputs), [pt.tensor(dtype=left.type.dtype, shape=shape)])

    def perform(self, node, inputs, outputs):
        """Run the routine."""
        outputs[0][0] = ROUTINES[self.name](*inputs)


@register_funcify_default_op_cache_key(BlockedProduct)
def numba_blocked_product(op: BlockedProduct, node: Apply, **kwargs) -> tuple[Callable, int]:
    """Return the routine itself, which numba has already compiled."""
    return ROUTINES[op.name], cache_version()
