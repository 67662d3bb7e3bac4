"""The expected Fisher information of a model's factors, by distribution."""

from pymc_pmala.information import quadrature, rules  # importing them registers their rules
from pymc_pmala.information.registry import (
    Information,
    NoInformation,
    QuadraticForm,
    factor_information,
    fallback_information,
    information_path,
    register_information,
)

__all__ = [
    "Information",
    "NoInformation",
    "QuadraticForm",
    "factor_information",
    "fallback_information",
    "information_path",
    "quadrature",
    "register_information",
    "rules",
]
