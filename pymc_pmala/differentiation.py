"""Forward and reverse derivatives of pytensor graphs; knows nothing of models.

Everything here takes and returns symbolic variables and never compiles.
"""

from collections.abc import Mapping, Sequence

import pytensor.tensor as pt
from pytensor.gradient import NullType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compat import node_pushforward, pullback

__all__ = ["batch", "gradient", "pushforward"]


def pushforward(
    outputs: Sequence[Variable], wrt: Variable, tangent: Variable
) -> list[Variable | None]:
    r"""Jacobian-vector products :math:`J\,t` in forward mode.

    Unlike pytensor's own, an output that does not depend on ``wrt`` gives ``None``,
    and no zero is carried along for a constant: the derivative of a function that is
    linear in ``wrt`` does not mention ``wrt``, so that second derivatives of the
    linear part of a model vanish from the graph instead of being multiplied out.

    Parameters
    ----------
    outputs : sequence of Variable
        The graphs to differentiate.
    wrt, tangent : Variable
        The variable and the direction, of one type.
    """
    tangents: dict[Variable, Variable | None] = {wrt: tangent}
    for node in toposort(list(outputs), blockers=[wrt]):
        inputs = [tangents.get(variable) for variable in node.inputs]
        if all(tangent is None for tangent in inputs):
            continue
        tangents.update(zip(node.outputs, _push_node(node, inputs), strict=True))
    return [tangents.get(output) for output in outputs]


def _push_node(node: Apply, tangents: Sequence[Variable | None]) -> list[Variable | None]:
    """Forward derivative of one node: the Op's own, else two applications of its reverse."""
    # Only these two families are known to treat a missing tangent as zero.
    if not isinstance(node.op, Elemwise | Dot):
        tangents = [
            variable.zeros_like() if tangent is None and _is_float(variable) else tangent
            for variable, tangent in zip(node.inputs, tangents, strict=True)
        ]
    try:
        return node_pushforward(node, tangents)
    # The assertion: pytensor 2.38 for `pt.diag` of a vector of known length.
    except (NotImplementedError, AttributeError, AssertionError):
        return _push_by_reverse(node, tangents)


def _push_by_reverse(node: Apply, tangents: Sequence[Variable | None]) -> list[Variable | None]:
    """J t = d/du (Jᵀu)ᵀ t, for Ops that only know their reverse derivative (Towns 2017)."""
    wrt = [v for v, t in zip(node.inputs, tangents, strict=True) if t is not None]
    directions = [t for t in tangents if t is not None]
    pushed: list[Variable | None] = []
    for output in node.outputs:
        if not _is_float(output):
            pushed.append(None)
            continue
        cotangent = output.zeros_like()
        reverse = pullback([output], wrt, [cotangent])
        linked = [
            (r, d)
            for r, d in zip(reverse, directions, strict=True)
            if r is not None and not isinstance(r.type, NullType)
        ]
        if not linked:
            pushed.append(None)
            continue
        graphs, seeds = zip(*linked, strict=True)
        pushed.extend(pullback(graphs, [cotangent], seeds))
    return pushed


def gradient(cost: Variable, wrt: Variable, consider_constant: Sequence[Variable] = ()):
    """Reverse-mode gradient of a scalar; zeros where ``wrt`` has no path to ``cost``."""
    return pt.grad(
        cost,
        wrt,
        consider_constant=list(consider_constant),
        disconnected_inputs="ignore",
    )


def batch(outputs: Sequence[Variable], replace: Mapping[Variable, Variable]) -> list[Variable]:
    """Evaluate graphs for many values of some variables at once, along a new leading axis.

    Outputs that depend on none of them come back unbatched.
    """
    return vectorize_graph(list(outputs), replace)


def _is_float(variable: Variable) -> bool:
    return isinstance(variable, TensorVariable) and variable.type.dtype.startswith("float")
