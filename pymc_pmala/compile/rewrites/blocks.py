r"""Multiply large matrices block by block, in pieces that fit the cache.

The metric of a regression with predictors X and weights w is
:math:`X^T \mathrm{diag}(w) X`, and its derivative needs :math:`\sum_r (X l_r)_i^2` for every row i.
Written as products of whole matrices, both make arrays of the size of X. For a million rows, these
take more time to write and to read again than to compute.
"""

from typing import Any

import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.scalar.basic import Mul, Sqr
from pytensor.tensor.blas import Dot22
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot, Sum

__all__ = ["REWRITE"]

REWRITE = "pymc_pmala_blocks"
"""Name of the rewrite in pytensor's database. No mode includes it by default."""

# With fewer elements, products of whole matrices are as fast.
_LARGE = 2_000_000


@node_rewriter([Dot, Dot22])
def _weighted_product(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Rewrite ``(a * w) @ b`` for large matrices and a row w."""
    product, right = node.inputs
    if not (_is(product, Mul) and _is_large(product) and len(fgraph.clients[product]) == 1):
        return None
    factors = product.owner.inputs
    rows = [f for f in factors if f.type.broadcastable[0]]
    matrices = [f for f in factors if f not in rows]
    if len(matrices) != 1 or not any(not row.type.broadcastable[1] for row in rows):
        return None
    weights = (pt.mul(*rows) if len(rows) > 1 else rows[0])[0]
    return _blocked("scaled_product", node, matrices[0], weights, right)


@node_rewriter([Sum])
def _sum_of_squares(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Rewrite ``((a @ b)**2).sum(axis=0)`` for large matrices."""
    [squares] = node.inputs
    if node.op.axis not in ((0,), 0) or not _is(squares, Mul, Sqr):
        return None
    [product, *others] = set(squares.owner.inputs)
    is_square = len(squares.owner.inputs) == 2 or _is(squares, Sqr)
    if others or not is_square or not _is_large(product) or len(fgraph.clients[squares]) > 1:
        return None
    if product.owner is None or not isinstance(product.owner.op, Dot | Dot22):
        return None
    if any(client is not squares.owner for client, _ in fgraph.clients[product]):
        return None
    return _blocked("squared_lengths", node, *product.owner.inputs)


def _blocked(name: str, node: Apply, *inputs: Variable) -> list[Variable] | None:
    [output] = node.outputs
    if {v.type.dtype for v in inputs} != {output.type.dtype} or output.type.dtype not in (
        "float32",
        "float64",
    ):
        return None
    # Imported here because numba takes a second to load, and most models have no large matrices.
    from pymc_pmala.compile.blocked import BlockedProduct

    found = BlockedProduct(name)(*inputs)
    return [found if found.type == output.type else output.type.filter_variable(found)]


def _is(variable: Variable, *kinds: type) -> bool:
    owner = variable.owner
    return (
        owner is not None
        and isinstance(owner.op, Elemwise)
        and isinstance(owner.op.scalar_op, kinds)
    )


def _is_large(variable: Variable) -> bool:
    shape = variable.type.shape
    return len(shape) == 2 and None not in shape and shape[0] * shape[1] >= _LARGE


# After sums have been simplified, before elementwise Ops are fused.
optdb.register(REWRITE, dfs_rewriter(_weighted_product, _sum_of_squares), position=2.7)
