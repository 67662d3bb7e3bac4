"""Graphs compiled by numba as one function, rather than one for each node."""

from pymc_pmala.numba_backend.function import graph_function

__all__ = ["graph_function"]
