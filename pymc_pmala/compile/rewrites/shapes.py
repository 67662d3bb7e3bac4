"""Let variables know the shapes that follow from those of their inputs.

A rewrite may replace the input of a node by a variable of known shape, as constant folding does
with ``pt.eye(pt.as_tensor(2))``. pytensor keeps the node with its output of unknown shape, and so
do all nodes that follow. Arrays of unknown shape are slower to compile: functions for them must
check lengths, and cannot be chosen by size.
"""

from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.rewriting.basic import GraphRewriter

__all__ = ["REWRITE"]

REWRITE = "pymc_pmala_shapes"
"""Tag of the rewrites in pytensor's database. No mode includes it by default."""


class NarrowShapes(GraphRewriter):
    """Make each node again whose outputs should know more of their shapes."""

    def apply(self, fgraph: FunctionGraph) -> None:
        """Go through the graph once, from inputs to outputs."""
        for node in fgraph.toposort():
            if isinstance(node.op, HasInnerGraph) or not any(map(_is_open, node.outputs)):
                continue
            again = node.op.make_node(*node.inputs)
            if again.op == node.op and _is_narrower(again, node):
                pairs = zip(node.outputs, again.outputs, strict=True)
                fgraph.replace_all(pairs, reason=REWRITE)


def _is_open(variable: Variable) -> bool:
    return None in getattr(variable.type, "shape", ())


def _is_narrower(new: Apply, old: Apply) -> bool:
    """Whether all outputs can take the place of the old ones, and at least one knows more."""
    pairs = [(a.type, b.type) for a, b in zip(new.outputs, old.outputs, strict=True)]
    return all(b.is_super(a) for a, b in pairs) and any(a != b for a, b in pairs)


# After constant folding, and again before elementwise Ops are fused.
optdb.register("pymc_pmala_shapes_early", NarrowShapes(), REWRITE, position=1.1)
optdb.register("pymc_pmala_shapes_late", NarrowShapes(), REWRITE, position=2.65)
