"""Graphs compiled by numba as one function, rather than one for each node."""

from pymc_pmala.compile.numba.function import graph_function

__all__ = ["graph_function"]
