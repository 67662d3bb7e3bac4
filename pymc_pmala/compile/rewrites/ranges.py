"""Ranges that are the same for all elements of a batch.

The derivative of a batch of triangular systems contains ``arange(n)``, made by pytensor for each of
them. Numba runs such a batch of ranges in the interpreter.
"""

from typing import Any

import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.tensor.basic import Alloc, ARange
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.variable import TensorConstant

__all__ = ["REWRITE"]

REWRITE = "pymc_pmala_ranges"
"""Name of the rewrite in pytensor's database. No mode includes it by default."""


@node_rewriter([Blockwise])
def _one_range(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Rewrite a batch of equal ranges as copies of one."""
    if not isinstance(node.op.core_op, ARange):
        return None
    bounds = [_same_for_all(variable) for variable in node.inputs]
    [output] = node.outputs
    batch = output.type.shape[:-1]
    if any(bound is None for bound in bounds) or None in batch:
        return None
    single = node.op.core_op(*bounds)
    found = pt.alloc(single, *batch, single.shape[0])
    return [found] if output.type.is_super(found.type) else None


def _same_for_all(variable: Variable) -> Variable | None:
    """Return the scalar that all elements of a variable are equal to, or None."""
    if isinstance(variable, TensorConstant) and variable.unique_value is not None:
        return pt.constant(variable.unique_value)
    if variable.owner is not None and isinstance(variable.owner.op, Alloc):
        value = variable.owner.inputs[0]
        return value if value.type.ndim == 0 else None
    return None


# After constant folding.
optdb.register(REWRITE, dfs_rewriter(_one_range), position=1.05)
