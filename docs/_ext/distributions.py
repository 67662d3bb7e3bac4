"""How each PyMC distribution enters the metric.

Every distribution of ``pm.distributions.__all__`` is put into a small model, and the registry
is asked what it makes of it. ``python docs/_ext/distributions.py`` prints the tables.
"""

import inspect
import re
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import NullTypeGradError
from pytensor.graph.utils import MethodNotDefined

from pymc_pmala.calculus.differentiation import gradient
from pymc_pmala.information import (
    NoInformation,
    factor_information,
    information_path,
)
from pymc_pmala.information.registry import information_rule
from pymc_pmala.information.rules.mixtures import _zero_inflated
from pymc_pmala.metric import SoftAbsMetric
from pymc_pmala.model.factors import Factor
from pymc_pmala.model.target import make_target

SOFTABS = "SoftAbs of the Hessian"
NOTHING = "nothing to inform"
NO_GRADIENT = "no gradient: cannot be sampled"
NO_HESSIAN = "no second derivative: needs a rule or another metric"


class Row(NamedTuple):
    """How one distribution enters the metric, and by which formula."""

    name: str
    path: str
    formula: str


def distribution_rows(family: str) -> list[Row]:
    """The rows of one family's table, in alphabetical order."""
    with warnings.catch_warnings():
        # PyMC's and pytensor's, about things that no reader of the table has to do with.
        warnings.simplefilter("ignore")
        return [_row(name, build) for name, build in sorted(FAMILIES[family].items())]


def missing_distributions() -> list[str]:
    """Distributions of the installed PyMC that no table lists."""
    listed = set(NOT_DISTRIBUTIONS).union(*FAMILIES.values())
    return sorted(set(pm.distributions.__all__) - listed)


def _row(name: str, build: Callable[[], object]) -> Row:
    with pm.Model() as model:
        build()
    factor, x = _factor(model)
    if factor is None:
        return Row(name, NOTHING, "no parameter that varies continuously")
    try:
        forms = factor_information(factor)
    except NoInformation:
        return Row(name, _fallback(factor, x), "")
    if not forms:
        return Row(name, NOTHING, _formula(information_rule(factor.op)))
    # A path may read "bound (zero-inflated: closed form)".
    special = re.search(r" \(zero-inflated: (.*)\)", path := information_path(factor))
    if special and name.startswith("ZeroInflated"):
        return Row(name, special[1], _formula(_zero_inflated))
    return Row(
        name,
        path.replace(special[0], "") if special else path,
        _formula(information_rule(factor.op)),
    )


def _fallback(factor: Factor, x: pt.TensorVariable) -> str:
    """What a distribution without a rule comes to."""
    no_derivative = (NotImplementedError, NullTypeGradError, MethodNotDefined)
    logp = factor.logp.sum()
    try:
        gradient(logp, x)
    except no_derivative:
        return NO_GRADIENT
    try:
        SoftAbsMetric(x, logp, floor=1.0)
    except no_derivative:
        return NO_HESSIAN
    return SOFTABS


def _factor(model: pm.Model) -> tuple[Factor | None, pt.TensorVariable]:
    """The factor of the variable ``v``; none if it does not depend on what is sampled."""
    target = make_target(model, model.continuous_value_vars)
    return next((f for f in target.factors if f.name == "v"), None), target.x


def _formula(rule: Callable) -> str:
    """What the rule's docstring says, in one paragraph, after the distribution's name."""
    text = " ".join(inspect.getdoc(rule).split())
    name = re.match(r"[\w, ]+(\([^)]*\))?[.,:] ", text)
    text = text[name.end() :] if name else text
    # References to the code mean nothing here.
    text = re.sub(r"[;:][^;:.]*\bsee (below|`[^`]*`)| as in `[^`]*`", "", text)
    return text.replace("`", "").rstrip(".")


# ---- One small model for each distribution ------------------------------------------------


def _normal() -> pt.TensorVariable:
    return pm.Normal("location")


def _positive() -> pt.TensorVariable:
    return pm.HalfNormal("scale")


def _probability() -> pt.TensorVariable:
    return pm.Beta("probability", 2.0, 2.0)


def _simplex() -> pt.TensorVariable:
    return pm.Dirichlet("weights", np.ones(3))


_COVARIANCE = np.array([[1.0, 0.3], [0.3, 2.0]])
_NEIGHBOURS = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
_COUNTS = np.array([0, 1, 2])
_SERIES = np.array([0.1, 0.4, -0.2, 0.3])

CONTINUOUS = {
    "AsymmetricLaplace": lambda: pm.AsymmetricLaplace("v", 1.2, _normal(), _positive()),
    "Beta": lambda: pm.Beta("v", _positive(), 2.0),
    "Cauchy": lambda: pm.Cauchy("v", _normal(), _positive()),
    "ChiSquared": lambda: pm.ChiSquared("v", _positive()),
    "ExGaussian": lambda: pm.ExGaussian("v", _normal(), _positive(), nu=1.0),
    "Exponential": lambda: pm.Exponential("v", _positive()),
    "Flat": lambda: pm.Flat("v"),
    "Gamma": lambda: pm.Gamma("v", _positive(), 2.0),
    "Gumbel": lambda: pm.Gumbel("v", _normal(), _positive()),
    "HalfCauchy": lambda: pm.HalfCauchy("v", _positive()),
    "HalfFlat": lambda: pm.HalfFlat("v"),
    "HalfNormal": lambda: pm.HalfNormal("v", _positive()),
    "HalfStudentT": lambda: pm.HalfStudentT("v", 4.0, _positive()),
    "Interpolated": lambda: pm.Interpolated("v", np.linspace(-1, 1, 9), np.ones(9)),
    "InverseGamma": lambda: pm.InverseGamma("v", 3.0, _positive()),
    "Kumaraswamy": lambda: pm.Kumaraswamy("v", _positive(), 2.0),
    "Laplace": lambda: pm.Laplace("v", _normal(), _positive()),
    "LogNormal": lambda: pm.LogNormal("v", _normal(), _positive()),
    "Logistic": lambda: pm.Logistic("v", _normal(), _positive()),
    "LogitNormal": lambda: pm.LogitNormal("v", _normal(), _positive()),
    "Moyal": lambda: pm.Moyal("v", _normal(), _positive()),
    "Normal": lambda: pm.Normal("v", _normal(), _positive()),
    "Pareto": lambda: pm.Pareto("v", _positive(), 1.0),
    "PolyaGamma": lambda: pm.PolyaGamma("v", 1.0, _normal()),
    "Rice": lambda: pm.Rice("v", _positive(), 1.0),
    "SkewNormal": lambda: pm.SkewNormal("v", 1.0, _normal(), _positive()),
    "SkewStudentT": lambda: pm.SkewStudentT("v", 2.0, 3.0, mu=_normal(), sigma=_positive()),
    "StudentT": lambda: pm.StudentT("v", 4.0, _normal(), sigma=_positive()),
    "Triangular": lambda: pm.Triangular("v", 0.0, 1.0, 0.4),
    "TruncatedNormal": lambda: pm.TruncatedNormal("v", _normal(), _positive(), lower=0.0),
    "Uniform": lambda: pm.Uniform("v", 0.0, 2.0),
    "VonMises": lambda: pm.VonMises("v", _normal(), _positive()),
    "Wald": lambda: pm.Wald("v", _positive(), 2.0),
    "Weibull": lambda: pm.Weibull("v", _positive(), 2.0),
}

DISCRETE = {
    "Bernoulli": lambda: pm.Bernoulli("v", _probability(), observed=[0, 1]),
    "BetaBinomial": lambda: pm.BetaBinomial("v", _positive(), 2.0, 5, observed=_COUNTS),
    "Binomial": lambda: pm.Binomial("v", 5, _probability(), observed=_COUNTS),
    "Categorical": lambda: pm.Categorical("v", _simplex(), observed=_COUNTS),
    "DiracDelta": lambda: [_normal(), pm.DiracDelta("v", 1.0, observed=1.0)],
    "DiscreteUniform": lambda: [_normal(), pm.DiscreteUniform("v", 0, 5, observed=_COUNTS)],
    "DiscreteWeibull": lambda: pm.DiscreteWeibull("v", _probability(), 1.5, observed=_COUNTS),
    "Geometric": lambda: pm.Geometric("v", _probability(), observed=_COUNTS + 1),
    "HyperGeometric": lambda: [_normal(), pm.HyperGeometric("v", 9, 5, 4, observed=_COUNTS)],
    "NegativeBinomial": lambda: pm.NegativeBinomial("v", _positive(), 2.0, observed=_COUNTS),
    "OrderedLogistic": lambda: pm.OrderedLogistic("v", _normal(), [-1.0, 1.0], observed=_COUNTS),
    "OrderedProbit": lambda: pm.OrderedProbit("v", _normal(), [-1.0, 1.0], observed=_COUNTS),
    "Poisson": lambda: pm.Poisson("v", _positive(), observed=_COUNTS),
}

MULTIVARIATE = {
    "CAR": lambda: pm.CAR("v", np.zeros(3), _NEIGHBOURS, _probability(), _positive()),
    "Dirichlet": lambda: pm.Dirichlet("v", np.ones(3) * _positive()),
    "DirichletMultinomial": lambda: pm.DirichletMultinomial(
        "v", 3, np.ones(3) * _positive(), observed=_COUNTS
    ),
    "ICAR": lambda: pm.ICAR("v", _NEIGHBOURS, _positive()),
    "KroneckerNormal": lambda: pm.KroneckerNormal(
        "v", np.zeros(4) + _normal(), covs=[_COVARIANCE, _COVARIANCE]
    ),
    "LKJCholeskyCov": lambda: pm.LKJCholeskyCov(
        "v", 2.0, 2, sd_dist=pm.Exponential.dist(1.0), compute_corr=False
    ),
    "LKJCorr": lambda: pm.LKJCorr("v", n=2, eta=2.0),
    "MatrixNormal": lambda: pm.MatrixNormal(
        "v", np.zeros((2, 2)) + _normal(), rowcov=_COVARIANCE, colcov=_COVARIANCE
    ),
    "Multinomial": lambda: pm.Multinomial("v", 3, _simplex(), observed=_COUNTS),
    "MvNormal": lambda: pm.MvNormal("v", np.zeros(2), _COVARIANCE * _positive()),
    "MvStudentT": lambda: pm.MvStudentT("v", 4.0, mu=np.zeros(2), scale=_COVARIANCE * _positive()),
    "OrderedMultinomial": lambda: pm.OrderedMultinomial(
        "v", _normal(), [-1.0, 1.0], 3, observed=_COUNTS
    ),
    "StickBreakingWeights": lambda: pm.StickBreakingWeights("v", _positive(), 3),
    "Wishart": lambda: pm.Wishart("v", 4, _COVARIANCE * _positive(), observed=_COVARIANCE),
    "ZeroSumNormal": lambda: pm.ZeroSumNormal("v", _positive(), shape=3),
}

TIME_SERIES = {
    "AR": lambda: pm.AR("v", _normal()[None], _positive(), init_dist=pm.Normal.dist(), steps=3),
    "EulerMaruyama": lambda: pm.EulerMaruyama(
        "v", 0.1, lambda x, a: (-a * x, 1.0), (_normal(),), init_dist=pm.Normal.dist(), steps=3
    ),
    "GARCH11": lambda: pm.GARCH11("v", 1.0, 0.3, _probability(), 1.0, observed=_SERIES),
    "GaussianRandomWalk": lambda: pm.GaussianRandomWalk(
        "v", _normal(), _positive(), init_dist=pm.Normal.dist(), steps=3
    ),
    "MvGaussianRandomWalk": lambda: pm.MvGaussianRandomWalk(
        "v", mu=np.zeros(2) + _normal(), cov=_COVARIANCE,
        init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)), steps=3,
    ),
    "MvStudentTRandomWalk": lambda: pm.MvStudentTRandomWalk(
        "v", nu=4.0, mu=np.zeros(2) + _normal(), scale=_COVARIANCE,
        init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)), steps=3,
    ),
    "RandomWalk": lambda: pm.RandomWalk(
        "v",
        init_dist=pm.Normal.dist(),
        innovation_dist=pm.Laplace.dist(_normal(), _positive()),
        steps=3,
    ),
}  # fmt: skip

COMPOSED = {
    "Censored": lambda: pm.Censored(
        "v", pm.Normal.dist(_normal()), lower=0.0, upper=None, observed=[0.0, 1.0]
    ),
    "CustomDist": lambda: pm.CustomDist(
        "v", _normal(), logp=lambda value, mu: -((value - mu) ** 2), observed=_SERIES
    ),
    "HurdleGamma": lambda: pm.HurdleGamma("v", _probability(), 2.0, _positive(), observed=[0, 1]),
    "HurdleLogNormal": lambda: pm.HurdleLogNormal(
        "v", _probability(), _normal(), 1.0, observed=[0, 1]
    ),
    "HurdleNegativeBinomial": lambda: pm.HurdleNegativeBinomial(
        "v", _probability(), _positive(), 2.0, observed=_COUNTS
    ),
    "HurdlePoisson": lambda: pm.HurdlePoisson("v", _probability(), _positive(), observed=_COUNTS),
    "Mixture": lambda: pm.Mixture(
        "v", _simplex()[:2], [pm.Normal.dist(_normal()), pm.StudentT.dist(4.0)]
    ),
    "NormalMixture": lambda: pm.NormalMixture("v", _simplex(), [-1.0, 0.0, 1.0], _positive()),
    "Simulator": lambda: pm.Simulator(
        "v", lambda rng, mu, size: rng.normal(mu, size=size), _normal(), observed=_SERIES
    ),
    "Truncated": lambda: pm.Truncated("v", pm.Gamma.dist(2.0, _positive()), upper=3.0),
    "ZeroInflatedBinomial": lambda: pm.ZeroInflatedBinomial(
        "v", _probability(), 5, 0.4, observed=_COUNTS
    ),
    "ZeroInflatedNegativeBinomial": lambda: pm.ZeroInflatedNegativeBinomial(
        "v", _probability(), _positive(), 2.0, observed=_COUNTS
    ),
    "ZeroInflatedPoisson": lambda: pm.ZeroInflatedPoisson(
        "v", _probability(), _positive(), observed=_COUNTS
    ),
}

FAMILIES: dict[str, dict[str, Callable[[], object]]] = {
    "continuous": CONTINUOUS,
    "discrete": DISCRETE,
    "multivariate": MULTIVARIATE,
    "time-series": TIME_SERIES,
    "composed": COMPOSED,
}

NOT_DISTRIBUTIONS = [
    # Base classes.
    "Continuous",
    "Discrete",
    "Distribution",
    "SymbolicRandomVariable",
    # Other names of LogNormal and CustomDist; of several variables, each with its own rule.
    "DensityDist",
    "Lognormal",
    "WishartBartlett",
]


if __name__ == "__main__":
    for family in FAMILIES:
        print(f"\n# {family}")
        for row in distribution_rows(family):
            print(f"{row.name:30s} {row.path:55s} {row.formula}")
    print("\nmissing:", missing_distributions())
