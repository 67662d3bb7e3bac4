"""The expected Fisher information of a model's factors, by distribution."""

from pymc_pmala.information import continuous, discrete, mixtures, multivariate, timeseries  # rules
from pymc_pmala.information.factors import RaveledModel, elements_used, ravel_model
from pymc_pmala.information.registry import (
    Factor,
    Information,
    NoInformation,
    QuadraticForm,
    factor_information,
    information_path,
    register_information,
)

__all__ = [
    "Factor",
    "Information",
    "NoInformation",
    "QuadraticForm",
    "RaveledModel",
    "continuous",
    "discrete",
    "elements_used",
    "factor_information",
    "information_path",
    "mixtures",
    "multivariate",
    "ravel_model",
    "register_information",
    "timeseries",
]
