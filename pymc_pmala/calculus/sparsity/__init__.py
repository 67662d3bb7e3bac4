"""Which parameters every element of a graph depends on, found without evaluating the graph.

Dependence is propagated from node to node by rules. A rule may find more dependence than there is,
where terms cancel, but never less. Constants, data, shapes and indices have values, so a matrix of
dummy variables or an index by group couples only what it couples.
"""

from pymc_pmala.calculus.sparsity import elements, products  # importing them registers their rules
from pymc_pmala.calculus.sparsity.dependence import Dependence, Sets
from pymc_pmala.calculus.sparsity.propagation import UnknownShape, find_dependence

__all__ = ["Dependence", "Sets", "UnknownShape", "elements", "find_dependence", "products"]
