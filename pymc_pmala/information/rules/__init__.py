"""Information rules, one file for each family of distributions."""

from pymc_pmala.information.rules import (
    continuous,
    covariance,
    discrete,
    gaussian,
    mixtures,
    simplex,
    timeseries,
    truncation,
)

__all__ = [
    "continuous",
    "covariance",
    "discrete",
    "gaussian",
    "mixtures",
    "simplex",
    "timeseries",
    "truncation",
]
