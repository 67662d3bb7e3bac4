"""Every distribution of the installed PyMC enters the metric by a path that is known."""

import sys
from pathlib import Path

import pymc as pm
import pytest

sys.path.append(str(Path(__file__).parents[1] / "docs" / "_ext"))

from distributions import (
    FAMILIES,
    NO_GRADIENT,
    NO_HESSIAN,
    NOTHING,
    SOFTABS,
    distribution_rows,
    missing_distributions,
)

QUADRATURE = {
    "BetaBinomial",
    "DiscreteWeibull",
    "ExGaussian",
    "Kumaraswamy",
    "Rice",
    "SkewNormal",
    "SkewStudentT",
}
BOUNDS = {"Mixture", "NormalMixture"}
LIMITED = {"Censored": "closed form, quadrature", "Truncated": "quadrature or"}
OWN_KIND = {"Interpolated"}  # PyMC's splines cannot be differentiated twice
UNINFORMED = {"DiracDelta", "DiscreteUniform", "Flat", "HalfFlat", "HyperGeometric"}
# Whatever a user's log-density is, its score is all that is known of it.
ONLY_SOFTABS = {"CustomDist"}
# A simulation, and a series of which PyMC has values only.
WITHOUT_GRADIENT = {"PolyaGamma", "Simulator"}


def expected(name):
    if name in QUADRATURE:
        return "quadrature"
    if name in BOUNDS:
        return "complete-data"
    if name in LIMITED:
        return LIMITED[name]
    if name in OWN_KIND:
        return "variance and bounds"
    if name in UNINFORMED:
        return NOTHING
    if name in ONLY_SOFTABS:
        return SOFTABS
    if name in WITHOUT_GRADIENT:
        return NO_GRADIENT
    return "closed form"


def test_no_distribution_of_pymc_is_forgotten():
    assert missing_distributions() == []


@pytest.mark.parametrize("family", FAMILIES)
def test_distributions_take_the_path_that_is_expected_of_them(family):
    rows = distribution_rows(family)
    assert {row.name for row in rows if row.path == NO_HESSIAN} == set()
    wrong = {row.name: row.path for row in rows if not row.path.startswith(expected(row.name))}
    assert wrong == {}


def test_listed_distributions_exist():
    assert all(hasattr(pm, name) for family in FAMILIES.values() for name in family)
