"""Triangular factors of the metric: dense, an arrow of blocks, or a band with a border."""

from pymc_pmala.factorization.arrow import Arrow
from pymc_pmala.factorization.dense import Averaged, Dense
from pymc_pmala.factorization.factorization import Factorization
from pymc_pmala.factorization.structure import find_factorization

__all__ = ["Arrow", "Averaged", "Dense", "Factorization", "find_factorization"]
