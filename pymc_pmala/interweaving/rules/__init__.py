"""How effects are standardised, one file for each family of distributions."""

from pymc_pmala.interweaving.rules import multivariate, timeseries, univariate

__all__ = ["multivariate", "timeseries", "univariate"]
