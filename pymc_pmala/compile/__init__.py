"""Compilation of graphs: rewrites, linkers, and a writer of numba functions."""

from pymc_pmala.compile.functions import compile_graph

__all__ = ["compile_graph"]
