"""Equal loops are one."""

from pytensor.compile.mode import optdb
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter, MergeOptimizer
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor.rewriting.basic import constant_folding

__all__ = ["REWRITE"]

REWRITE = "pymc_pmala_loops"
"""Name by which a mode includes the merging of equal loops; no mode has it by itself."""


class MergeLoops(GraphRewriter):
    """Let loops over the same values be one.

    A gradient and a metric run the same loop. pytensor sees that once what is constant has been
    computed, but by then it has changed each of the two in its own way.
    """

    def apply(self, fgraph: FunctionGraph) -> None:
        """Compute what is constant and read by loops, and merge what has become equal."""
        loops = [node for node in fgraph.apply_nodes if isinstance(node.op, Scan)]
        for node in toposort([variable for loop in loops for variable in loop.inputs]):
            if node not in fgraph.apply_nodes:
                continue
            folded = constant_folding.transform(fgraph, node)
            if folded:
                fgraph.replace_all(zip(node.outputs, folded, strict=True), reason=REWRITE)
        if len(loops) > 1:
            MergeOptimizer().rewrite(fgraph)


# Before pytensor's rewrites of loops.
optdb.register(REWRITE, MergeLoops(), position=0.02)
