"""Which source code stands for a node, other than the call of a function."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from pytensor.graph.basic import Apply, Variable

from pymc_pmala.compile.numba.source import Source

__all__ = ["Destroyed", "write_node"]

Destroyed = Callable[[Variable], bool]
"""Whether a variable's memory is overwritten somewhere in the graph."""


@singledispatch
def write_node(op: Any, node: Apply, source: Source, destroyed: Destroyed) -> bool:
    """Write a node; False if there is no rule for it, or none for its case."""
    return False
