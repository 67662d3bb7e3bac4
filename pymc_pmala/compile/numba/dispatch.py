"""Dispatch of nodes to the rules that write their source code."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from pytensor.graph.basic import Apply, Variable

from pymc_pmala.compile.numba.source import Source

__all__ = ["Destroyed", "write_node"]

Destroyed = Callable[[Variable], bool]
"""Tells whether the memory of a variable is overwritten anywhere in the graph."""


@singledispatch
def write_node(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    """Write the source code of a node.

    Rules are registered for types of Ops. If there is none, or if the rule does not cover the
    node, pytensor's function for the node is called.

    Parameters
    ----------
    op : Op
        That of the node, or its core Op.
    node : Apply
    source : Source
        The function to which lines are added.
    destroyed : callable
        See `Destroyed`.

    Returns
    -------
    bool
        Whether the node was written, and its outputs were bound.
    """
    return False
