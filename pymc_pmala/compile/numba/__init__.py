"""Whole graphs written as one function for numba, rather than one function for each node."""

from pymc_pmala.compile.numba.function import graph_function
from pymc_pmala.compile.numba.options import NJIT_OPTIONS

__all__ = ["NJIT_OPTIONS", "graph_function"]
