"""Free variables under every transform that PyMC accepts have their known law, tails included."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from modes import INTERPRETED
from pymc.distributions import transforms as tr
from pymc.logprob.transforms import Transform
from scipy import optimize, special, stats
from transitions import BY_C

from pymc_pmala import PMALA, local_geometry

LEVELS = np.array([0.01, 0.05, 0.5, 0.95, 0.99])
# Effective draws of each indicator, without which the comparison has no power.
ENOUGH = 100
# Of what is simulated where the quantiles are in no table.
N_SIMULATED = 400_000


# ---- Transforms of a user's own ----------------------------------------------------------


class Softplus(Transform):
    """x = log(1 + eᵘ), positive."""

    name = "own_softplus"
    ndim_supp = 0

    def backward(self, value, *inputs):
        return pt.softplus(value)

    def forward(self, value, *inputs):
        return value + pt.log(-pt.expm1(-value))

    def log_jac_det(self, value, *inputs):
        return -pt.softplus(-value)


class Sinh(Transform):
    """x = sinh u, all reals, with tails drawn in."""

    name = "own_sinh"
    ndim_supp = 0

    def backward(self, value, *inputs):
        return pt.sinh(value)

    def forward(self, value, *inputs):
        return pt.arcsinh(value)

    def log_jac_det(self, value, *inputs):
        return pt.log(pt.cosh(value))


class Cubic(Transform):
    """x = u + u³, all reals."""

    name = "own_cubic"
    ndim_supp = 0

    def backward(self, value, *inputs):
        return value + value**3

    def forward(self, value, *inputs):
        return 2.0 / 3.0**0.5 * pt.sinh(pt.arcsinh(1.5 * 3.0**0.5 * value) / 3.0)

    def log_jac_det(self, value, *inputs):
        return pt.log1p(3.0 * value**2)


# ---- Laws --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """A variable and its law.

    Attributes
    ----------
    make : callable
        Adds the variable of a name to the model in whose context it is called.
    law : object
        A distribution of SciPy for a scalar; for a vector a function of a generator and a number
        of draws, whose rows are looked at column by column.
    bounds : tuple of float
        To where the transform restricts a scalar.
    look : callable
        What is looked at in draws of shape (..., *shape): shape (..., m).
    watched : str
        The name of what is looked at, with ``{}`` for the variable's.
    """

    make: Callable
    law: object
    bounds: tuple[float, float] = (-np.inf, np.inf)
    look: Callable = field(default=lambda draws: draws)
    watched: str = "{}"

    @cached_property
    def quantiles(self):
        """The quantiles at the levels, shape (5, m), and the number of draws they are from."""
        if callable(self.law):
            simulated = self.law(np.random.default_rng(1), N_SIMULATED)
            simulated = self.look(simulated).reshape(len(simulated), -1)
            return np.quantile(simulated, LEVELS, axis=0), len(simulated)
        return self.at(LEVELS)[:, None], np.inf

    def at(self, levels):
        """Quantiles of a scalar."""
        low, high = self.law.cdf(self.bounds[0]), self.law.cdf(self.bounds[1])
        return self.law.ppf(low + levels * (high - low))

    def errors(self, posterior, name):
        """Share of draws below each quantile less its level, in standard errors; the ESS."""
        draws = self.look(np.asarray(posterior[self.watched.format(name)]))
        draws = draws.reshape(*draws.shape[:2], -1)
        quantiles, n_simulated = self.quantiles
        assert draws.shape[-1] == quantiles.shape[-1]
        below = (draws[..., None, :] <= quantiles).astype(float)
        effective = np.array(
            [[float(az.ess(b, method="mean")) for b in np.moveaxis(row, -1, 0)]
             for row in np.moveaxis(below, 2, 0)]
        )  # fmt: skip
        # The true variance, not that of the draws: a tail never visited must not look certain.
        variance = (LEVELS * (1.0 - LEVELS))[:, None] * (1.0 / effective + 1.0 / n_simulated)
        return (below.mean(axis=(0, 1)) - LEVELS[:, None]) / np.sqrt(variance), effective


class Mapped:
    """The law of g(z) for a z of known law and an increasing g."""

    def __init__(self, law, forward, backward):
        self.law, self.forward, self.backward = law, forward, backward

    def cdf(self, x):
        return self.law.cdf(self.backward(np.asarray(x)))

    def ppf(self, q):
        return self.forward(self.law.ppf(q))


class NormalMixture:
    """With weights w of Normal(mu, sigma)."""

    def __init__(self, w, mu, sigma):
        self.w, self.parts = np.array(w), stats.norm(mu, sigma)

    def cdf(self, x):
        return float(self.w @ self.parts.cdf(x))

    def ppf(self, q):
        return np.array([optimize.brentq(lambda x, p=p: self.cdf(x) - p, -20, 20) for p in q])


def truncated(name, dist, lower=None, upper=None, **kwargs):
    """Within a model, a distribution made outside of it."""
    return pm.Truncated(name, dist, lower=lower, upper=upper, **kwargs)


LOCATIONS = {
    "normal": (pm.Normal, {"mu": 0.5, "sigma": 1.3}, stats.norm(0.5, 1.3)),
    "student_1": (pm.StudentT, {"nu": 1, "mu": 0.5, "sigma": 0.7}, stats.t(1, 0.5, 0.7)),
    "student_2": (pm.StudentT, {"nu": 2, "mu": 0.5, "sigma": 0.7}, stats.t(2, 0.5, 0.7)),
    "student_4": (pm.StudentT, {"nu": 4, "mu": 0.5, "sigma": 1.0}, stats.t(4, 0.5, 1.0)),
    "student_10": (pm.StudentT, {"nu": 10, "mu": 0.5, "sigma": 1.0}, stats.t(10, 0.5, 1.0)),
    "cauchy": (pm.Cauchy, {"alpha": 0.5, "beta": 0.6}, stats.cauchy(0.5, 0.6)),
    "laplace": (pm.Laplace, {"mu": 0.5, "b": 1.2}, stats.laplace(0.5, 1.2)),
    "logistic": (pm.Logistic, {"mu": 0.5, "s": 0.8}, stats.logistic(0.5, 0.8)),
    "gumbel": (pm.Gumbel, {"mu": 0.5, "beta": 0.9}, stats.gumbel_r(0.5, 0.9)),
    "moyal": (pm.Moyal, {"mu": 0.2, "sigma": 0.7}, stats.moyal(0.2, 0.7)),
    "skew_normal": (
        pm.SkewNormal,
        {"mu": 0.1, "sigma": 1.5, "alpha": 3.0},
        stats.skewnorm(3.0, 0.1, 1.5),
    ),
    "asymmetric_laplace": (
        pm.AsymmetricLaplace,
        {"b": 1.2, "kappa": 1.6, "mu": 1.2},
        stats.laplace_asymmetric(1.6, 1.2, 1 / 1.2),
    ),
    "ex_gaussian": (
        pm.ExGaussian,
        {"mu": 0.1, "sigma": 0.7, "nu": 0.9},
        stats.exponnorm(0.9 / 0.7, 0.1, 0.7),
    ),
    "normal_mixture": (
        pm.NormalMixture,
        {"w": [0.4, 0.6], "mu": [-0.3, 1.2], "sigma": [0.8, 0.5]},
        NormalMixture([0.4, 0.6], [-0.3, 1.2], [0.8, 0.5]),
    ),
}
POSITIVES = {
    "half_normal": (pm.HalfNormal, {"sigma": 1.3}, stats.halfnorm(0, 1.3)),
    "half_cauchy": (pm.HalfCauchy, {"beta": 0.8}, stats.halfcauchy(0, 0.8)),
    "half_student_2": (pm.HalfStudentT, {"nu": 2, "sigma": 0.8}, stats.t(2, 0, 0.8)),
    "half_student_4": (pm.HalfStudentT, {"nu": 4, "sigma": 0.8}, stats.t(4, 0, 0.8)),
    "gamma_half": (pm.Gamma, {"alpha": 0.5, "beta": 0.6}, stats.gamma(0.5, scale=1 / 0.6)),
    "gamma_3": (pm.Gamma, {"alpha": 3.0, "beta": 1.7}, stats.gamma(3.0, scale=1 / 1.7)),
    "exponential": (pm.Exponential, {"lam": 0.8}, stats.expon(scale=1 / 0.8)),
    "inverse_gamma": (
        pm.InverseGamma,
        {"alpha": 2.5, "beta": 2.0},
        stats.invgamma(2.5, scale=2.0),
    ),
    "log_normal": (pm.LogNormal, {"mu": 0.1, "sigma": 0.8}, stats.lognorm(0.8, scale=np.exp(0.1))),
    "weibull": (pm.Weibull, {"alpha": 1.6, "beta": 1.1}, stats.weibull_min(1.6, scale=1.1)),
    "weibull_half": (pm.Weibull, {"alpha": 0.6, "beta": 1.1}, stats.weibull_min(0.6, scale=1.1)),
    "wald": (pm.Wald, {"mu": 1.2, "lam": 2.0}, stats.invgauss(0.6, scale=2.0)),
    "chi_squared": (pm.ChiSquared, {"nu": 3}, stats.chi2(3)),
    "rice": (pm.Rice, {"nu": 1.0, "sigma": 0.8}, stats.rice(1.25, scale=0.8)),
    "pareto": (pm.Pareto, {"alpha": 2.5, "m": 0.6}, stats.pareto(2.5, scale=0.6)),
}
UNIT = {
    "beta_23": (pm.Beta, {"alpha": 2.0, "beta": 3.0}, stats.beta(2.0, 3.0)),
    "beta_half": (pm.Beta, {"alpha": 0.5, "beta": 0.7}, stats.beta(0.5, 0.7)),
    "kumaraswamy": (
        pm.Kumaraswamy,
        {"a": 1.5, "b": 2.5},
        Mapped(stats.beta(1.0, 2.5), lambda z: z ** (1 / 1.5), lambda x: x**1.5),
    ),
    "logit_normal": (
        pm.LogitNormal,
        {"mu": 0.3, "sigma": 0.9},
        Mapped(stats.norm(0.3, 0.9), special.expit, special.logit),
    ),
    "uniform": (pm.Uniform, {"lower": 0.0, "upper": 1.0}, stats.uniform(0, 1)),
    "triangular": (
        pm.Triangular,
        {"lower": 0.0, "c": 0.6, "upper": 1.0},
        stats.triang(0.6),
    ),
    "truncated_normal": (
        pm.TruncatedNormal,
        {"mu": 0.2, "sigma": 0.6, "lower": 0.0, "upper": 1.0},
        stats.truncnorm(-0.2 / 0.6, 0.8 / 0.6, 0.2, 0.6),
    ),
    "truncated": (
        truncated,
        {"dist": pm.Logistic.dist(0.2, 0.4), "lower": 0.0, "upper": 1.0},
        stats.logistic(0.2, 0.4),
    ),
}

# What PyMC is told, and to where that restricts the variable. A transform of the user's comes
# after the default one, unless that is switched off.
LOCATION_TRANSFORMS = {
    "default": ({}, (-np.inf, np.inf)),
    "log": ({"transform": tr.log}, (0.0, np.inf)),
    "log_exp_m1": ({"transform": tr.log_exp_m1}, (0.0, np.inf)),
    "interval": ({"transform": tr.Interval(-1.0, 3.0)}, (-1.0, 3.0)),
    "lower": ({"transform": tr.Interval(-1.0, None)}, (-1.0, np.inf)),
    "upper": ({"transform": tr.Interval(None, 2.0)}, (-np.inf, 2.0)),
    "chain": ({"transform": tr.Chain([tr.log, tr.Interval(-2.0, 1.5)])}, tuple(np.exp([-2, 1.5]))),
    "own_softplus": ({"transform": Softplus()}, (0.0, np.inf)),
    "own_sinh": ({"transform": Sinh()}, (-np.inf, np.inf)),
    "own_cubic": ({"transform": Cubic()}, (-np.inf, np.inf)),
}
ALONE = {"default_transform": None}
POSITIVE_TRANSFORMS = {
    "default": ({}, (0.0, np.inf)),
    "none": (ALONE, (0.0, np.inf)),
    "log": (ALONE | {"transform": tr.log}, (0.0, np.inf)),
    "interval": (ALONE | {"transform": tr.Interval(0.7, 4.0)}, (0.7, 4.0)),
    "lower": (ALONE | {"transform": tr.Interval(0.3, None)}, (0.3, np.inf)),
    "chain": ({"transform": tr.Interval(-0.5, 1.2)}, tuple(np.exp([-0.5, 1.2]))),
    "own_softplus": (ALONE | {"transform": Softplus()}, (0.0, np.inf)),
}
UNIT_TRANSFORMS = {
    "default": ({}, (0.0, 1.0)),
    "none": (ALONE, (0.0, 1.0)),
    "logodds": (ALONE | {"transform": tr.logodds}, (0.0, 1.0)),
    "interval": (ALONE | {"transform": tr.Interval(0.1, 0.8)}, (0.1, 0.8)),
}
# An infinite density at the end of a support without a transform, a support with an end beyond
# which the transform goes, a start outside of what is transformed.
NOT = {
    *((name, "none") for name in ("gamma_half", "weibull_half", "beta_half", "logit_normal")),
    *(("pareto", transform) for transform in ("none", "log", "lower", "chain", "own_softplus")),
}


def scalar(dist, parameters, law, options, bounds):
    """One free scalar of a table."""
    return Law(lambda name, **kw: dist(name, **parameters, **options, **kw), law, bounds)


FAMILIES = {
    "location": (LOCATIONS, LOCATION_TRANSFORMS),
    "positive": (POSITIVES, POSITIVE_TRANSFORMS),
    "unit": (UNIT, UNIT_TRANSFORMS),
}
GROUPS = {}
for family, (laws, transforms) in FAMILIES.items():
    for transform, options in transforms.items():
        GROUPS[f"{family}-{transform}"] = {
            name: scalar(*parts, *options)
            for name, parts in laws.items()
            if (name, transform) not in NOT
        }


# ---- Vectors, with laws by simulation ----------------------------------------------------


def elements(law, size=3):
    """Independent elements of one law."""
    return lambda rng, n: law.rvs((n, size), random_state=rng)


def rising(x):
    return (np.diff(x, axis=-1) > 0).all(axis=-1)


def positive(x):
    return (x > 0).all(axis=-1)


def given(simulate, *conditions):
    """Only the draws that fulfil all conditions."""

    def accepted(rng, n):
        x = simulate(rng, n)
        return x[np.all([condition(x) for condition in conditions], axis=0)]

    return accepted


def with_gaps(draws):
    """Elements and the differences from one to the next."""
    return np.concatenate([draws, np.diff(draws, axis=-1)], axis=-1)


START = np.array([0.3, 0.8, 1.5])


def ordered(dist, parameters, law, start=START, transform=tr.ordered, conditions=(rising,), **kw):
    """Three independent elements in order."""
    options = {"transform": transform, "shape": 3, "initval": start, **kw}
    return Law(
        lambda name: dist(name, **parameters, **options),
        given(elements(law), *conditions),
        look=with_gaps,
    )


GROUPS["ordered-location"] = {
    name: ordered(*LOCATIONS[name])
    for name in ("normal", "student_2", "student_4", "cauchy", "laplace", "logistic", "gumbel")
}
GROUPS["ordered-positive"] = {
    name: ordered(*POSITIVES[name])
    for name in ("half_normal", "half_cauchy", "gamma_half", "gamma_3", "exponential", "log_normal")
}
GROUPS["ordered-unit"] = {
    name: ordered(*UNIT[name], start=np.array([0.2, 0.5, 0.7]))
    for name in ("beta_23", "uniform", "triangular", "truncated_normal")
}
GROUPS["ordered-kinds"] = {
    "descending": ordered(
        *LOCATIONS["normal"],
        start=START[::-1],
        transform=tr.Ordered(ascending=False),
        conditions=(lambda x: rising(-x),),
    ),
    "positive": ordered(
        *LOCATIONS["normal"],
        transform=tr.Ordered(positive=True),
        conditions=(rising, positive),
    ),
    "after_log": ordered(
        *LOCATIONS["normal"],
        transform=tr.Chain([tr.log, tr.ordered]),
        conditions=(rising, positive),
    ),
    "alone": ordered(*POSITIVES["gamma_3"], default_transform=None),
}

MEAN = np.array([0.3, 0.9, 1.2])
COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 1.5, -0.4], [0.2, -0.4, 0.8]])
COEFFICIENTS = np.array([0.2, 0.5, -0.3])  # a constant, then lags one and two


def mv_normal(rng, n):
    return rng.multivariate_normal(MEAN, COVARIANCE, size=n)


def mv_student_t(rng, n):
    return stats.multivariate_t(MEAN, COVARIANCE, df=5).rvs(n, random_state=rng)


def random_walk(rng, n):
    steps = np.column_stack([rng.normal(0.5, 1.0, n), rng.normal(0.4, 0.7, (n, 4))])
    return steps.cumsum(axis=1)


def autoregression(rng, n):
    x = list(rng.normal(0.0, 1.0, (2, n)))
    for _ in range(4):
        x.append(COEFFICIENTS @ [np.ones(n), x[-1], x[-2]] + 0.8 * rng.normal(size=n))
    return np.array(x).T


def normal_on_simplex(rng, n):
    """Normal(0.2, 0.5) elements, given that they are a simplex."""
    x = rng.dirichlet(np.ones(3), size=n)
    return x[rng.random(n) < np.exp(-0.5 * ((x - 0.2) ** 2).sum(axis=-1) / 0.25)]


def walk(name, **options):
    start = pm.Normal.dist(0.5, 1.0)
    return pm.GaussianRandomWalk(name, mu=0.4, sigma=0.7, init_dist=start, steps=4, **options)


def lkj_cholesky(name):
    sd = pm.Exponential.dist(0.8, shape=3)
    pm.LKJCholeskyCov(name, n=3, eta=1.5, sd_dist=sd, compute_corr=True)


def lkj_correlation(name):
    if pm.__version__.startswith("5."):
        return pm.LKJCorr(name, n=3, eta=2.0, return_matrix=False)
    factor = pm.LKJCorr(name, n=3, eta=2.0)  # Cholesky's
    return pm.Deterministic(f"{name}_pairs", (factor @ factor.T)[np.triu_indices(3, 1)])


def correlations(eta, size=3):
    """Any one element r of a correlation matrix: (r + 1)/2 is Beta(a, a), a = η + (n − 2)/2."""
    shape = eta + size / 2 - 1
    return elements(stats.beta(shape, shape, loc=-1, scale=2))


def correlations_of_a_factor(eta):
    """Those of PyMC 6's LKJCorr with three rows, which is what any sampler must find.

    Its density is the matrix's, Π L_ii^(2η − 2), taken as the factor's, without the Jacobian
    Π L_ii^(n − i): that of the second row is missing, and the first correlation too wide (its
    variance 0.2, not 1/6 for η = 2, also by importance sampling of `model.logp()`).
    """
    shape = np.array([eta, eta + 0.5, eta + 0.5])
    return lambda rng, n: 2.0 * rng.beta(shape, shape, (n, 3)) - 1.0


VECTOR_START = {"initval": START}
GROUPS["vectors"] = {
    "mv_normal": Law(lambda name: pm.MvNormal(name, MEAN, COVARIANCE), mv_normal),
    "mv_student_t": Law(
        lambda name: pm.MvStudentT(name, nu=5, mu=MEAN, scale=COVARIANCE), mv_student_t
    ),
    "zero_sum_normal": Law(
        lambda name: pm.ZeroSumNormal(name, sigma=1.3, shape=4),
        lambda rng, n: (lambda z: z - z.mean(axis=1, keepdims=True))(rng.normal(0, 1.3, (n, 4))),
    ),
    "random_walk": Law(walk, random_walk),
    "autoregression": Law(
        lambda name: pm.AR(
            name, COEFFICIENTS, sigma=0.8, constant=True, init_dist=pm.Normal.dist(0, 1), steps=4
        ),
        autoregression,
    ),
}
GROUPS["vectors-transformed"] = {
    "mv_normal_ordered": Law(
        lambda name: pm.MvNormal(name, MEAN, COVARIANCE, transform=tr.ordered, initval=START),
        given(mv_normal, rising),
        look=with_gaps,
    ),
    "mv_student_t_ordered": Law(
        lambda name: pm.MvStudentT(
            name, nu=5, mu=MEAN, scale=COVARIANCE, transform=tr.ordered, initval=START
        ),
        given(mv_student_t, rising),
        look=with_gaps,
    ),
    "random_walk_ordered": Law(
        lambda name: walk(name, transform=tr.ordered, initval=np.arange(5.0)),
        given(random_walk, rising),
        look=with_gaps,
    ),
    "normal_zero_sum": Law(
        lambda name: pm.Normal(
            name, 0.0, 1.3, shape=4, transform=tr.ZeroSumTransform([-1]), initval=np.zeros(4)
        ),
        GROUPS["vectors"]["zero_sum_normal"].law,
    ),
}
GROUPS["simplexes"] = {
    "dirichlet": Law(
        lambda name: pm.Dirichlet(name, [0.7, 2.0, 3.0]),
        lambda rng, n: rng.dirichlet([0.7, 2.0, 3.0], size=n),
    ),
    "dirichlet_ordered": Law(
        lambda name: pm.Dirichlet(name, [2.0, 3.0, 4.0], transform=tr.ordered, initval=START / 2.6),
        # The transform orders what the simplex has coordinates for: all elements but the last.
        given(
            lambda rng, n: rng.dirichlet([2.0, 3.0, 4.0], size=n),
            lambda x: x[:, 1] > x[:, 0],
        ),
    ),
    "dirichlet_sum_to_1": Law(
        lambda name: pm.Dirichlet(
            name, [2.0, 3.0, 4.0], default_transform=None, transform=tr.SumTo1()
        ),
        lambda rng, n: rng.dirichlet([2.0, 3.0, 4.0], size=n),
    ),
    "normal_simplex": Law(
        lambda name: pm.Normal(
            name, 0.2, 0.5, shape=3, transform=tr.simplex, initval=START / START.sum()
        ),
        normal_on_simplex,
    ),
}
GROUPS["correlations"] = {
    "lkj_correlation": Law(
        lkj_correlation,
        correlations(2.0) if pm.__version__.startswith("5.") else correlations_of_a_factor(2.0),
        watched="{}" if pm.__version__.startswith("5.") else "{}_pairs",
    ),
    "lkj_cholesky_correlation": Law(
        lkj_cholesky,
        correlations(1.5),
        look=lambda x: x if x.shape[-2:] != (3, 3) else x[..., *np.triu_indices(3, 1)],
        watched="{}_corr",
    ),
    "lkj_cholesky_sd": Law(lkj_cholesky, elements(stats.expon(scale=1 / 0.8)), watched="{}_stds"),
}
GROUPS["others"] = {
    "von_mises": Law(
        lambda name: pm.VonMises(name, 0.5, 1.5),
        lambda rng, n: rng.vonmises(0.5, 1.5, size=(n, 1)),
    ),
    "von_mises_across": Law(
        lambda name: pm.VonMises(name, 2.8, 1.5),
        lambda rng, n: rng.vonmises(2.8, 1.5, size=(n, 1)),
    ),
    "truncated_gamma": Law(
        lambda name: pm.Truncated(name, pm.Gamma.dist(2.0, 1.0), lower=1.0),
        stats.gamma(2.0),
        (1.0, np.inf),
    ),
    "truncated_student": Law(
        lambda name: pm.Truncated(name, pm.StudentT.dist(nu=4, mu=0, sigma=1), lower=-1.0),
        stats.t(4),
        (-1.0, np.inf),
    ),
    "truncated_normal_above": Law(
        lambda name: pm.Truncated(name, pm.Normal.dist(0.0, 1.0), upper=1.0),
        stats.norm(),
        (-np.inf, 1.0),
    ),
    "truncated_student_interval": Law(
        lambda name: pm.Truncated(
            name,
            pm.StudentT.dist(nu=4, mu=0, sigma=1),
            lower=-1.0,
            default_transform=None,
            transform=tr.Interval(-0.5, 2.0),
        ),
        stats.t(4),
        (-0.5, 2.0),
    ),
    "uniform_shifted": Law(lambda name: pm.Uniform(name, -3.0, 2.0), stats.uniform(-3, 5)),
    "truncated_normal_far": Law(
        lambda name: pm.TruncatedNormal(name, 0.0, 1.0, lower=2.5), stats.norm(), (2.5, np.inf)
    ),
    "custom": Law(
        lambda name: pm.CustomDist(
            name, 0.5, logp=lambda x, mu: -pt.log(pt.cosh(x - mu)) - np.log(np.pi), initval=0.5
        ),
        stats.hypsecant(0.5),
    ),
}
# What a newcomer tried first, in every run of the tests.
GROUPS["everyday"] = {
    "under_log": GROUPS["location-log"]["normal"],
    "in_an_interval": GROUPS["location-interval"]["normal"],
    "in_order": GROUPS["ordered-location"]["normal"],
    "with_heavy_tails": GROUPS["location-default"]["student_4"],
}


# ---- The tests ---------------------------------------------------------------------------


def sample(laws, draws=4000, seed=20140604):
    """Draws of a model that has nothing but these variables."""
    with pm.Model():
        for name, law in laws.items():
            law.make(name)
        options = {"chains": 2, "cores": 1, "progressbar": False, "random_seed": seed}
        trace = pm.sample(
            draws, tune=1000, step=PMALA(), compute_convergence_checks=False, **options
        )
    return trace.posterior


def check(laws, **kwargs):
    posterior = sample(laws, **kwargs)
    wrong = []
    for name, law in laws.items():
        errors, effective = law.errors(posterior, name)
        if (abs(errors) > 5).any() or (effective < ENOUGH).any():
            wrong.append(
                f"{name}: errors {np.round(errors.T, 1).tolist()} standard errors at levels "
                f"{LEVELS.tolist()}, ESS {np.round(effective.T).tolist()}"
            )
    assert not wrong, "\n".join(wrong)


FAST = {"everyday"}
SLOW = set() if BY_C else {
    "location-default", "location-log", "location-interval"
}  # fmt: skip


def marks(group):
    return [] if group in FAST else [pytest.mark.slow if group in SLOW else pytest.mark.long]


@pytest.mark.parametrize("group", [pytest.param(g, marks=marks(g)) for g in GROUPS])
def test_variables_of_one_model_have_their_laws(group):
    check(GROUPS[group])


@pytest.mark.long
@pytest.mark.parametrize(("group", "name"), [(g, n) for g, laws in GROUPS.items() for n in laws])
def test_a_variable_alone_has_its_law(group, name):
    check({name: GROUPS[group][name]})


def geometry_at(laws, levels):
    """Slopes of the log-density and information at quantiles, by name, each shape (levels,)."""
    with pm.Model() as model:
        rvs = {name: law.make(name, shape=len(levels)) for name, law in laws.items()}
    point = {}
    for name, rv in rvs.items():
        transform, value = model.rvs_to_transforms[rv], pt.constant(laws[name].at(levels))
        if transform is not None:
            value = transform.forward(value, *rv.owner.inputs)
        point[model.rvs_to_values[rv].name] = value.eval(mode=INTERPRETED)
    geometry = local_geometry(point, model=model)
    parts = np.split(np.stack([geometry.gradient, np.diag(geometry.metric)]), len(laws), axis=1)
    return dict(zip(laws, parts, strict=True))


@pytest.mark.parametrize(
    "group",
    [pytest.param(g, marks=marks(g)) for g in GROUPS if g.split("-")[0] in FAMILIES],
)
def test_information_does_not_vanish_where_the_density_still_slopes(group):
    """In tails G is not far below the squared slope, or else it is what it is in the bulk."""
    tail = 10.0 ** -np.arange(1, 8)
    levels = np.concatenate([tail, [0.5], 1 - tail])
    wrong = {}
    for name, (slope, information) in geometry_at(GROUPS[group], levels).items():
        assert np.isfinite(information).all(), name
        least = 0.05 * np.minimum(slope**2, information[levels == 0.5])
        # Where PyMC's own gradient is not a number, no chain will be.
        low = np.isfinite(slope) & (information < least)
        if low.any():
            wrong[name] = {"levels": levels[low], "G": information[low], "slope": slope[low]}
    assert not wrong


@pytest.mark.slow
def test_the_variance_of_student_t_is_found():
    """ν = 4: the variance is 2; its estimate has a variance only in the limit of long chains."""
    with pm.Model():
        pm.StudentT("x", nu=4, mu=0, sigma=1)
        options = {"chains": 4, "cores": 1, "progressbar": False, "random_seed": 3}
        posterior = pm.sample(3000, tune=1000, step=PMALA(), **options).posterior
    squares = np.asarray(posterior["x"]) ** 2
    effective = float(az.ess(squares, method="mean"))
    assert effective > 1000
    assert abs(squares.mean() - 2.0) < 5 * squares.std() / np.sqrt(effective)
