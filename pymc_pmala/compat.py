"""Compatibility with the supported versions of PyMC and pytensor.

Each docstring says when the code can be removed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytensor.gradient
import xarray as xr
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor import subtensor
from pytensor.tensor.special import LogSoftmax

try:
    from pytensor.tensor.linalg import Cholesky, SolveTriangular
    from pytensor.tensor.linalg.solvers.core import SolveBase
except ImportError:
    # Remove with pytensor 2.
    from pytensor.tensor.slinalg import Cholesky, SolveBase, SolveTriangular

__all__ = [
    "INDEXING_OPS",
    "IS_PYTENSOR_3",
    "WRITING_OPS",
    "Cholesky",
    "SolveBase",
    "SolveTriangular",
    "concatenate_chains",
    "inner_graph",
    "node_pushforward",
    "pullback",
    "reading_op",
]


def _subtensor_ops(*names: str) -> tuple[type[Op], ...]:
    return tuple(getattr(subtensor, name) for name in names if hasattr(subtensor, name))


INDEXING_OPS = _subtensor_ops("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
"""Ops that read elements of a tensor. Remove ``AdvancedSubtensor1`` with pytensor 2."""

WRITING_OPS = _subtensor_ops("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1")
"""Ops that write elements of a tensor. Remove ``AdvancedIncSubtensor1`` with pytensor 2."""


def reading_op(op: Op) -> Op:
    """Return the Op that reads the elements to which a writing Op adds.

    Remove the Ops without ``idx_list`` with pytensor 2.
    """
    name = type(op).__name__.replace("Inc", "")
    reader = getattr(subtensor, name)
    return reader(op.idx_list) if hasattr(op, "idx_list") else reader()


IS_PYTENSOR_3 = hasattr(pytensor.gradient, "pushforward")
"""Whether pytensor 3 or later is installed. Remove with pytensor 2."""


def inner_graph(op: Op) -> tuple[list[Variable], list[Variable]]:
    """Return the inputs and outputs of an Op's inner graph, ready to be cloned.

    pytensor 3 freezes inner graphs. Remove the plain lists with pytensor 2.
    """
    if hasattr(op.fgraph, "unfreeze"):
        graph = op.fgraph.unfreeze()
        return list(graph.inputs), list(graph.outputs)
    return list(op.inner_inputs), list(op.inner_outputs)


def pullback(
    outputs: Sequence[Variable], wrt: Sequence[Variable], cotangents: Sequence[Variable]
) -> list[Variable | None]:
    """Return vector-Jacobian products; ``None`` where ``outputs`` do not depend on ``wrt``.

    The function is ``Lop`` before pytensor 3.0 and ``pullback`` since then. Remove with pytensor 2.
    """
    options = {"disconnected_inputs": "ignore", "return_disconnected": "none"}
    if IS_PYTENSOR_3:
        return pytensor.gradient.pullback(list(outputs), list(wrt), list(cotangents), **options)
    return pytensor.gradient.Lop(list(outputs), list(wrt), list(cotangents), **options)


def node_pushforward(node: Apply, tangents: Sequence[Variable | None]) -> list[Variable | None]:
    """Call the forward derivative of one node; ``None`` means "no dependence".

    The method is ``Op.R_op`` with ``None`` before pytensor 3.0, and ``Op.pushforward`` with
    ``DisconnectedType`` since then. Remove with pytensor 2.
    """
    if not IS_PYTENSOR_3:
        if isinstance(node.op, LogSoftmax):
            raise NotImplementedError(
                "R_op of LogSoftmax is wrong in pytensor 2: it returns the transposed product."
            )
        return list(node.op.R_op(node.inputs, list(tangents)))
    marked = [disconnected_type() if t is None else t for t in tangents]
    outputs = node.op.pushforward(node.inputs, node.outputs, marked)
    disconnected = type(disconnected_type().type)
    return [None if isinstance(out.type, disconnected) else out for out in outputs]


def concatenate_chains(parts: Mapping[int, Any]) -> Any:
    """Combine the results of single chains, given by number, into one result of ``pm.sample``.

    This is ``InferenceData`` with ArviZ before 1.0 and ``DataTree`` since then. Remove with PyMC 5.
    """
    first = next(iter(parts.values()))
    is_tree = isinstance(first, xr.DataTree)
    groups = {}
    for name in first.children if is_tree else first.groups():
        datasets = [part[name].to_dataset() if is_tree else part[name] for part in parts.values()]
        groups[name] = datasets[0]
        if "chain" in datasets[0].dims:
            numbered = [
                dataset.assign_coords(chain=[chain])
                for chain, dataset in zip(parts, datasets, strict=True)
            ]
            groups[name] = xr.concat(
                numbered, "chain", data_vars="minimal", coords="minimal", compat="override",
                join="exact", combine_attrs="override",
            )  # fmt: skip
    return xr.DataTree.from_dict(groups) if is_tree else type(first)(**groups)
