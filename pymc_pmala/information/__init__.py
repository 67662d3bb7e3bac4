"""The expected Fisher information of a model's factors, by distribution."""

from pymc_pmala.information import (  # rules
    continuous,
    covariance,
    discrete,
    gaussian,
    mixtures,
    quadrature,
    simplex,
    timeseries,
)
from pymc_pmala.information.factors import RaveledModel, elements_used, ravel_model
from pymc_pmala.information.registry import (
    Factor,
    Information,
    NoInformation,
    QuadraticForm,
    factor_information,
    fallback_information,
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
    "covariance",
    "discrete",
    "elements_used",
    "factor_information",
    "fallback_information",
    "gaussian",
    "information_path",
    "mixtures",
    "quadrature",
    "ravel_model",
    "register_information",
    "simplex",
    "timeseries",
]
