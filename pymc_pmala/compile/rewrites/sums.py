"""Move factors that are constant along a summed axis out of the sum.

In a logistic regression with predictors X, the derivative of the weight p(1 − p) along directions
l_r is ``sum_r(a * (X l_r)**2 + b * (X l_r)**2)``, where a and b do not depend on r. That is eight
products for each r and observation, whereas ``(a + b) * sum_r((X l_r)**2)`` needs one.
"""

from collections import Counter
from typing import Any

import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.scalar.basic import Add, Mul, Sub
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

__all__ = ["REWRITE"]

REWRITE = "pymc_pmala_sums"
"""Name of the rewrite in pytensor's database. No mode includes it by default."""


@node_rewriter([Sum])
def _common_factor(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Rewrite ``sum(a * c + b * c)`` as ``(a + b) * sum(c)`` if a and b do not vary along it."""
    [summand], axes = node.inputs, node.op.axis
    if axes is None or not _is(summand, Add, Sub) or len(fgraph.clients[summand]) > 1:
        return None
    common, outer = None, []
    for term in summand.owner.inputs:
        factors = term.owner.inputs if _is(term, Mul) else [term]
        constant = [f for f in factors if all(f.type.broadcastable[axis] for axis in axes)]
        varying = Counter(f for f in factors if f not in constant)
        # Different terms would need different sums, and nothing would be gained.
        if not constant or (common is not None and varying != common):
            return None
        common = varying
        outer.append(pt.mul(*constant) if len(constant) > 1 else constant[0])
    if not common:
        return None
    inner = [*common.elements()]
    product = pt.mul(*inner) if len(inner) > 1 else inner[0]
    if product.type.broadcastable != summand.type.broadcastable:
        return None
    return [summand.owner.op(*outer).squeeze(axes) * node.op(product)]


def _is(variable: Variable, *kinds: type) -> bool:
    owner = variable.owner
    return (
        owner is not None
        and isinstance(owner.op, Elemwise)
        and isinstance(owner.op.scalar_op, kinds)
    )


# After the rewrites that flatten products, before elementwise Ops are fused.
optdb.register(REWRITE, dfs_rewriter(_common_factor), position=2.6)
