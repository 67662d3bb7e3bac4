"""Compute once what a batched Op computes of copies.

pytensor has this rewrite. Where indexing is batched over copies of its index, as in a marginalised
model, it and another of pytensor's, for DimShuffle, undo each other forever. Here indexing is left
alone.
"""

from typing import Any

from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.rewriting.blockwise import local_blockwise_alloc_inputs
from pytensor.tensor.subtensor import AdvancedSubtensor

__all__ = ["REPLACED", "REWRITE"]

REWRITE = "pymc_pmala_copies"
"""Name of the rewrite in pytensor's database. No mode includes it by default."""

REPLACED = "local_blockwise_alloc_inputs"
"""Name of pytensor's rewrite."""


@node_rewriter([Blockwise])
def _copies_of_inputs(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Rewrite ``op(alloc(x, n))`` as ``alloc(op(x), n)``, unless it indexes."""
    if isinstance(node.op.core_op, AdvancedSubtensor):
        return None
    return local_blockwise_alloc_inputs.transform(fgraph, node)


optdb["specialize"].register(REWRITE, _copies_of_inputs)
