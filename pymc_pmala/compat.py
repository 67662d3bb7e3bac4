"""What differs between the supported versions of PyMC and pytensor, and nothing else.

Each function says at which version it can go.
"""

from collections.abc import Sequence

import pytensor.gradient
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor import subtensor

__all__ = ["INDEXING_OPS", "node_pushforward", "pullback"]

INDEXING_OPS = tuple(
    getattr(subtensor, name)
    for name in ("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
    if hasattr(subtensor, name)
)
"""Ops that read elements of a tensor. ``AdvancedSubtensor1`` goes with pytensor 2."""

_HAS_PUSHFORWARD = hasattr(pytensor.gradient, "pushforward")


def pullback(
    outputs: Sequence[Variable], wrt: Sequence[Variable], cotangents: Sequence[Variable]
) -> list[Variable | None]:
    """Vector-Jacobian products; ``None`` where ``wrt`` has no path to ``outputs``.

    ``Lop`` before pytensor 3.0, ``pullback`` since: goes with pytensor 2.
    """
    options = {"disconnected_inputs": "ignore", "return_disconnected": "none"}
    if _HAS_PUSHFORWARD:
        return pytensor.gradient.pullback(list(outputs), list(wrt), list(cotangents), **options)
    return pytensor.gradient.Lop(list(outputs), list(wrt), list(cotangents), **options)


def node_pushforward(
    node: Apply, tangents: Sequence[Variable | None]
) -> list[Variable | None]:
    """Call one node's own forward derivative; ``None`` stands for "no dependence".

    ``Op.R_op`` with ``None`` before pytensor 3.0, ``Op.pushforward`` with
    ``DisconnectedType`` since: goes with pytensor 2.
    """
    if not _HAS_PUSHFORWARD:
        return list(node.op.R_op(node.inputs, list(tangents)))
    marked = [disconnected_type() if t is None else t for t in tangents]
    outputs = node.op.pushforward(node.inputs, node.outputs, marked)
    disconnected = type(disconnected_type().type)
    return [None if isinstance(out.type, disconnected) else out for out in outputs]
