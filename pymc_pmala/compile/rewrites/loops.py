"""Merge loops that compute the same values."""

from pytensor.compile.mode import optdb
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter, MergeOptimizer
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor.rewriting.basic import constant_folding

__all__ = ["REWRITE"]

REWRITE = "pymc_pmala_loops"
"""Name of the rewrite in pytensor's database. No mode includes it by default."""


class MergeLoops(GraphRewriter):
    """Merge equal `Scan` nodes before pytensor optimises each of them separately.

    A gradient and a metric run the same loop. pytensor recognises this only after constant
    folding, and by then it has rewritten each of the two loops differently.
    """

    def apply(self, fgraph: FunctionGraph) -> None:
        """Fold the constants that loops read, then merge equal nodes."""
        loops = [node for node in fgraph.apply_nodes if isinstance(node.op, Scan)]
        for node in toposort([variable for loop in loops for variable in loop.inputs]):
            if node not in fgraph.apply_nodes:
                continue
            folded = constant_folding.transform(fgraph, node)
            if folded:
                fgraph.replace_all(zip(node.outputs, folded, strict=True), reason=REWRITE)
        if len(loops) > 1:
            MergeOptimizer().rewrite(fgraph)


# Before pytensor's rewrites of `Scan`.
optdb.register(REWRITE, MergeLoops(), position=0.02)
