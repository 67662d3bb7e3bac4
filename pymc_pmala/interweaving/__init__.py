"""Hyperparameters and standardised effects: the other coordinates of a hierarchy."""

from pymc_pmala.interweaving import rules  # importing them registers them
from pymc_pmala.interweaving.interweaving import Interweaving
from pymc_pmala.interweaving.registry import (
    Standardisation,
    location_scale,
    register_standardisation,
)
from pymc_pmala.interweaving.search import find_interweaving

__all__ = [
    "Interweaving",
    "Standardisation",
    "find_interweaving",
    "location_scale",
    "register_standardisation",
    "rules",
]
