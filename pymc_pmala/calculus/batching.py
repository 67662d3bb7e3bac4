"""Graphs evaluated for many values of a variable at once."""

from collections.abc import Mapping, Sequence
from functools import partial

from pytensor.gradient import DisconnectedGrad
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import _vectorize_node, vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor.shape import Shape, Shape_i

from pymc_pmala.calculus.scans import batch_scan

__all__ = ["batch"]


@_vectorize_node.register(DisconnectedGrad)
def _held(op: DisconnectedGrad, node: Apply, held: Variable) -> Apply:
    """Batch a variable that is held constant. By default pytensor forgets its static shape."""
    return op.make_node(held)


def batch(outputs: Sequence[Variable], replace: Mapping[Variable, Variable]) -> list[Variable]:
    """Evaluate graphs for many values of some variables at once, along a new leading axis.

    Outputs that do not depend on these variables are returned unbatched. A Scan remains a
    single loop. Shapes are the same for all values and are not batched: pytensor would copy them,
    and numba cannot index an array by copies of a bound.
    """
    known = dict(replace)
    many = set(known)
    for node in toposort(list(outputs), blockers=list(known)):
        if many.isdisjoint(node.inputs):
            continue
        if isinstance(node.op, Shape | Shape_i):
            [x], [shape] = node.inputs, node.outputs
            if x not in known:
                [known[x]] = vectorize_graph([x], known)
            new = known[x].type.ndim - x.type.ndim
            whole = known[x].shape[new:]
            known[shape] = whole if isinstance(node.op, Shape) else whole[node.op.i]
            continue
        many.update(node.outputs)
        if isinstance(node.op, Scan):
            try:
                batched = batch_scan(node, partial(vectorize_graph, replace=known), batch)
            except NotImplementedError:
                continue
            known |= zip(node.outputs, batched, strict=True)
    return vectorize_graph(list(outputs), known)
