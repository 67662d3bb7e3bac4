"""E[s sᵀ] of the univariate distributions, against scores from PyMC and quadrature."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import special as sp
from scipy import stats

from pymc_pmala.information import factor_information
from pymc_pmala.information.special import (
    negative_binomial_dispersion,
    student_t_shape,
    trigamma,
    trigamma_excess,
    von_mises_concentration,
)
from pymc_pmala.metric import FisherMetric
from pymc_pmala.model.target import make_target

MODE = Mode(linker="py", optimizer=None)  # small graphs: faster to run than to rewrite
LINKS = {"real": lambda x: x, "log": pt.exp, "logit": pm.math.sigmoid}


@dataclass(frozen=True)
class Case:
    """A distribution, with parameters that are links of real coordinates.

    ``kink`` is where the log-density in the unconstrained value is not smooth (or, if it
    is, a point within its bulk), as a function of the parameters on their natural scale.
    """

    dist: Callable
    links: dict[str, str]
    kink: Callable = lambda **p: p.get("mu", 0.0)
    width: Callable = lambda **p: 1.0
    extremes: tuple[float, float] = (-40.0, 40.0)
    tolerance: float = 1e-6
    observed: bool = True
    free: bool = True
    fixed: tuple[tuple[str, float], ...] = ()
    centre: float = 0.0

    def model(self, shape, data=None, **kwargs):
        with pm.Model() as model:
            natural = {
                name: LINKS[link](pm.Flat(name, shape=shape)) for name, link in self.links.items()
            }
            natural.update(self.fixed)
            self.dist("v", **natural, observed=data, **kwargs)
        return model

    def numbers(self, theta):
        inverse = {"real": lambda x: x, "log": np.exp, "logit": sp.expit}
        natural = {n: inverse[k](t) for (n, k), t in zip(self.links.items(), theta, strict=True)}
        return {**natural, **dict(self.fixed)}


def location(dist, scale="sigma", centre="mu", **kwargs):
    return Case(
        dist,
        {centre: "real", scale: "log"},
        kink=lambda **p: p[centre],
        width=lambda **p: p[scale],
        **kwargs,
    )


def log_scale(dist, scale, **kwargs):
    return Case(dist, {scale: "log"}, kink=lambda **p: np.log(p[scale]), **kwargs)


def logit_normal(name, observed=None, **parameters):
    # PyMC leaves it on (0, 1).
    options = {} if observed is not None else {"transform": pm.distributions.transforms.logodds}
    return pm.LogitNormal(name, **parameters, observed=observed, **options)


def ex_gaussian(name, observed=None, *, mu, sigma, ratio):
    # Unless ν is about σ, PyMC's gradient is nan not only in the far tails.
    return pm.ExGaussian(name, mu, sigma, nu=ratio**0.3 * sigma, observed=observed)


SHAPE = (-13.8, 18.4)  # 1e-6 .. 1e8
CONTINUOUS = {
    "Normal": location(pm.Normal),
    "NormalTau": Case(pm.Normal, {"mu": "real", "tau": "log"}, width=lambda **p: p["tau"] ** -0.5),
    "LogNormal": location(pm.LogNormal),
    "Laplace": location(pm.Laplace, "b"),
    "Logistic": location(pm.Logistic, "s"),
    "Cauchy": location(pm.Cauchy, "beta", "alpha"),
    "Gumbel": location(pm.Gumbel, "beta"),
    "Moyal": location(pm.Moyal),
    "StudentT": Case(
        pm.StudentT,
        {"nu": "log", "mu": "real", "sigma": "log"},
        width=lambda **p: p["sigma"],
        extremes=(-13.8, 23.0),
    ),
    "AsymmetricLaplace": Case(
        pm.AsymmetricLaplace,
        {"b": "log", "kappa": "log", "mu": "real"},
        width=lambda **p: 1 / p["b"],
    ),
    "AsymmetricLaplaceQ": Case(
        pm.AsymmetricLaplace,
        {"b": "log", "q": "logit", "mu": "real"},
        width=lambda **p: 1 / p["b"],
        extremes=(-30.0, 30.0),
    ),
    "HalfNormal": log_scale(pm.HalfNormal, "sigma"),
    "HalfCauchy": log_scale(pm.HalfCauchy, "beta"),
    "Exponential": Case(pm.Exponential, {"lam": "log"}, kink=lambda **p: -np.log(p["lam"])),
    "HalfStudentT": Case(
        pm.HalfStudentT,
        {"nu": "log", "sigma": "log"},
        kink=lambda **p: np.log(p["sigma"]),
        extremes=(-13.8, 23.0),
    ),
    "Gamma": Case(
        pm.Gamma,
        {"alpha": "log", "beta": "log"},
        kink=lambda **p: np.log(p["alpha"] / p["beta"]),
        extremes=SHAPE,
    ),
    "GammaMean": Case(
        pm.Gamma,
        {"mu": "log", "sigma": "log"},
        kink=lambda **p: np.log(p["mu"]),
        extremes=(-4.5, 4.5),
    ),
    "ChiSquared": Case(
        pm.ChiSquared, {"nu": "log"}, kink=lambda **p: np.log(p["nu"]), extremes=SHAPE
    ),
    "InverseGamma": Case(
        pm.InverseGamma,
        {"alpha": "log", "beta": "log"},
        kink=lambda **p: np.log(p["beta"] / p["alpha"]),
        extremes=SHAPE,
    ),
    "Weibull": Case(
        pm.Weibull,
        {"alpha": "log", "beta": "log"},
        kink=lambda **p: np.log(p["beta"]),
        width=lambda **p: 1 / p["alpha"],
    ),
    "Wald": Case(pm.Wald, {"mu": "log", "lam": "log"}, kink=lambda **p: np.log(p["mu"])),
    "Pareto": Case(pm.Pareto, {"alpha": "log", "m": "log"}, kink=lambda **p: np.log(p["m"])),
    "Beta": Case(
        pm.Beta,
        {"alpha": "log", "beta": "log"},
        kink=lambda **p: np.log(p["alpha"] / p["beta"]),
        extremes=SHAPE,
    ),
    "BetaMean": Case(
        pm.Beta,
        {"mu": "logit", "nu": "log"},
        kink=lambda **p: sp.logit(p["mu"]),
        extremes=(-13.8, 13.8),
        centre=2.2,
    ),
    "Uniform": Case(pm.Uniform, {"lower": "real"}, fixed=(("upper", 3.0),), extremes=(-40, 2)),
    "Triangular": Case(
        pm.Triangular,
        {"c": "logit"},
        kink=lambda **p: np.log((p["c"] + 1) / (2 - p["c"])),
        fixed=(("lower", -1.0), ("upper", 2.0)),
    ),
    "TriangularBounds": Case(
        pm.Triangular,
        {"lower": "real"},
        kink=lambda **p: np.log((3.0 - p["lower"]) / 1.0),
        fixed=(("c", 3.0), ("upper", 4.0)),
        observed=False,
        extremes=(-40, 2.9),
    ),
    "LogitNormal": location(logit_normal),
    "SkewNormal": Case(
        pm.SkewNormal,
        {"mu": "real", "sigma": "log", "alpha": "real"},
        width=lambda **p: p["sigma"],
        centre=1.5,
        tolerance=1e-4,
    ),
    "ExGaussian": Case(
        ex_gaussian,
        {"mu": "real", "sigma": "log", "ratio": "log"},
        kink=lambda **p: p["mu"] + p["sigma"] / p["ratio"] ** 0.3,
        width=lambda **p: p["sigma"],
        tolerance=1e-5,
    ),
    "SkewStudentT": Case(
        pm.SkewStudentT,
        {"a": "log", "b": "log", "mu": "real", "sigma": "log"},
        width=lambda **p: p["sigma"],
        centre=0.7,
        extremes=(-4.6, 13.8),
    ),
    "Rice": Case(
        pm.Rice,
        {"nu": "log", "sigma": "log"},
        kink=lambda **p: np.log(p["nu"] + p["sigma"]),
        tolerance=1e-4,
    ),
    "Kumaraswamy": Case(
        # PyMC's log(1 − vᵃ) is no more precise.
        pm.Kumaraswamy,
        {"a": "log", "b": "log"},
        kink=lambda **p: 0.0,
        tolerance=2e-5,
    ),
}
# Free, these have the information of their scale mixture at the value.
HEAVY = ("Cauchy", "StudentT", "SkewStudentT")
FREE = [name for name, case in CONTINUOUS.items() if case.free and name not in HEAVY]
OBSERVED = [name for name, case in CONTINUOUS.items() if case.observed]


def counts(dist, links, upper, **kwargs):
    return Case(dist, links, width=lambda **p: upper, free=False, **kwargs)


DISCRETE = {
    "Bernoulli": counts(pm.Bernoulli, {"p": "logit"}, 2),
    "BernoulliLogit": counts(pm.Bernoulli, {"logit_p": "real"}, 2),
    "Binomial": counts(pm.Binomial, {"p": "logit"}, 8, fixed=(("n", 7),)),
    "Geometric": counts(pm.Geometric, {"p": "logit"}, 400),
    "Poisson": counts(pm.Poisson, {"mu": "log"}, 60),
    "NegativeBinomial": counts(
        pm.NegativeBinomial, {"mu": "log", "alpha": "log"}, 1500, tolerance=1e-3
    ),
    "NegativeBinomialP": counts(
        pm.NegativeBinomial, {"p": "logit", "n": "log"}, 1500, tolerance=1e-3
    ),
    "NegativeBinomialMean": counts(
        pm.NegativeBinomial, {"mu": "log"}, 1500, fixed=(("alpha", 1.7),)
    ),
    "BetaBinomial": counts(
        pm.BetaBinomial,
        {"alpha": "log", "beta": "log"},
        10,
        fixed=(("n", 9),),
        extremes=SHAPE,
    ),
    "DiscreteWeibull": counts(
        pm.DiscreteWeibull, {"q": "logit", "beta": "log"}, 400, tolerance=1e-5
    ),
    "DiscreteWeibullWide": counts(
        pm.DiscreteWeibull, {"q": "logit", "beta": "log"}, 4000, centre=1.0, tolerance=1e-2
    ),
}


def theta_of(name, case):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return case.centre + rng.uniform(-1.0, 1.0, size=len(case.links))


def compiled_logp(model):
    """Elementwise log-density and scores of a model with one element per quadrature node."""
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]
    logp = model.logp(vars=[model["v"]], sum=False)[0]
    scores = pt.grad(logp.sum(), values, disconnected_inputs="ignore")
    [value] = model.replace_rvs_by_values([model["v"]])
    return pytensor.function(values, [logp, value, *scores], mode=MODE, on_unused_input="ignore")


def half_lines(kink, width, n=600, reach=4.2):
    """Nodes and weights of the exp-sinh rule on both sides of a point."""
    t, h = np.linspace(-reach, reach, n, retstep=True)
    distance = width * np.exp(0.5 * np.pi * np.sinh(t))
    weight = h * distance * 0.5 * np.pi * np.cosh(t)
    return np.r_[kink - distance, kink + distance], np.r_[weight, weight]


def outer(scores, weight):
    finite = np.logical_and.reduce([np.isfinite(score) for score in scores])
    used = weight > np.where(finite, 1e-30, 1e-10)
    s = np.stack([score[used] for score in scores])
    return (s * weight[used]) @ s.T


def expected_information(case, theta, *, free):
    """E[s sᵀ] of one element, by quadrature over the unconstrained value."""
    natural = case.numbers(theta)
    u, du = half_lines(case.kink(**natural), case.width(**natural))
    with np.errstate(all="ignore"):
        parameters = [np.full(u.shape, t) for t in theta]
        logp, value, *scores = compiled_logp(case.model(u.shape))(*parameters, u)
        weight = np.nan_to_num(np.exp(logp) * du)
        if not free:
            _, _, *scores = compiled_logp(case.model(u.shape, data=value))(*parameters)
    assert weight.sum() == pytest.approx(1.0, rel=1e-7)
    return outer(scores, weight)


def expected_discrete_information(case, theta):
    """E[s sᵀ] of one element, by summation over the support."""
    support = np.arange(case.width())
    with np.errstate(all="ignore"):
        logp, _, *scores = compiled_logp(case.model(support.shape, data=support))(
            *[np.full(support.shape, t) for t in theta]
        )
    assert np.exp(logp).sum() == pytest.approx(1.0, rel=1e-7)
    return outer(scores, np.exp(logp))


def metric_function(model):
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]
    raveled = make_target(model, values)
    forms = [form for factor in raveled.factors for form in factor_information(factor)]
    metric = FisherMetric(raveled.x, forms)
    matrix = metric.matrix()
    divergence = metric.divergence(pt.eye(len(values)))
    outputs = [matrix, pt.zeros(len(values)) if divergence is None else divergence]
    return pytensor.function([raveled.x], outputs, mode=MODE, on_unused_input="ignore")


@pytest.mark.parametrize("name", FREE)
def test_information_of_a_free_variable_is_the_expected_outer_product(name):
    case = CONTINUOUS[name]
    theta = theta_of(name, case)
    expected = expected_information(case, theta, free=True)
    u = case.kink(**case.numbers(theta)) + 0.3
    model = case.model(())
    matrix, _ = metric_function(model)(np.r_[theta, u])
    np.testing.assert_allclose(matrix, expected, rtol=case.tolerance, atol=1e-9)


@pytest.mark.parametrize("nu", [1.0, 2.0, 4.0, 10.0])
def test_a_free_student_t_has_the_precision_of_its_scale_mixture(nu):
    """Given v, the mixing variable has a Gamma((ν + 1)/2, (ν + z²)/2) distribution."""
    with pm.Model() as model:
        pm.StudentT("v", nu=nu, mu=1.0, sigma=2.0)
    metric = metric_function(model)
    for v in (1.0, 2.5, -40.0, 1e6):
        mixing = stats.gamma(0.5 * (nu + 1), scale=2.0 / (nu + ((v - 1.0) / 2.0) ** 2))
        matrix, _ = metric(np.array([v]))
        np.testing.assert_allclose(matrix, mixing.mean() / 4.0)


def test_a_free_cauchy_is_a_student_t_with_one_degree_of_freedom():
    matrices = []
    for dist in (partial(pm.Cauchy.dist, 1.0, 2.0), partial(pm.StudentT.dist, 1, mu=1, sigma=2)):
        with pm.Model() as model:
            model.register_rv(dist(), "v")
        matrices.append(metric_function(model)(np.array([5.0]))[0])
    np.testing.assert_allclose(*matrices)


def test_a_free_skew_student_t_without_skew_is_a_student_t():
    matrices = []
    for dist in (
        partial(pm.SkewStudentT.dist, a=2.0, b=2.0, mu=1.0, sigma=2.0),
        partial(pm.StudentT.dist, nu=4, mu=1.0, sigma=2.0),
    ):
        with pm.Model() as model:
            model.register_rv(dist(), "v")
        matrices.append([metric_function(model)(np.array([v]))[0] for v in (1.0, 9.0)])
    np.testing.assert_allclose(*matrices, rtol=1e-4)


@pytest.mark.parametrize("name", OBSERVED)
def test_information_of_data_is_the_expected_outer_product(name):
    case = CONTINUOUS[name]
    theta = theta_of(name, case)
    expected = expected_information(case, theta, free=False)
    model = case.model((), data=np.array([0.9, 0.9, 0.9]))
    matrix, _ = metric_function(model)(theta)
    np.testing.assert_allclose(matrix, 3 * expected, rtol=case.tolerance, atol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_information_of_counts_is_the_expected_outer_product(name):
    case = DISCRETE[name]
    theta = theta_of(name, case)
    expected = expected_discrete_information(case, theta)
    model = case.model((), data=np.array([1, 1, 1]))
    matrix, _ = metric_function(model)(theta)
    np.testing.assert_allclose(matrix, 3 * expected, rtol=case.tolerance, atol=1e-9)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_information_is_finite_and_positive_at_extreme_parameters(name):
    case = {**CONTINUOUS, **DISCRETE}[name]
    free = name in FREE
    data = None if free else np.array([0.5 if name in CONTINUOUS else 1.0])
    evaluate = metric_function(case.model((), data=data))
    for corner in product(case.extremes, repeat=len(case.links)):
        x = np.r_[corner, 0.3] if free else np.array(corner)
        with np.errstate(all="ignore"):
            matrix, divergence = evaluate(x)
        assert np.isfinite(matrix).all(), corner
        assert np.isfinite(divergence).all(), corner
        scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        scaled = matrix / scale / scale[:, None]
        np.testing.assert_allclose(scaled, scaled.T, atol=1e-10)
        assert np.linalg.eigvalsh(scaled).min() > -1e-7, corner


@pytest.mark.parametrize("observed", [False, True])
def test_information_of_a_von_mises_is_the_expected_outer_product(observed):
    theta = np.array([0.4, 0.9])
    u = np.linspace(-np.pi, np.pi, 201)[:-1]  # the trapezoidal rule is exact on a circle
    case = Case(pm.VonMises, {"mu": "real", "kappa": "log"})
    parameters = [np.full(u.shape, t) for t in theta]
    if observed:
        logp, _, *scores = compiled_logp(case.model(u.shape, data=u))(*parameters)
        evaluate, at = metric_function(case.model((), data=0.3)), theta
    else:
        logp, _, *scores = compiled_logp(case.model(u.shape))(*parameters, u)
        evaluate, at = metric_function(case.model(())), np.r_[theta, 0.7]
    expected = outer(scores, np.exp(logp) * (u[1] - u[0]))
    np.testing.assert_allclose(evaluate(at)[0], expected, rtol=1e-6, atol=1e-12)
    for log_kappa in (-40.0, 40.0):
        at[1] = log_kappa
        assert all(np.isfinite(output).all() for output in evaluate(at))


CATEGORICAL = {
    "softmax": lambda x, **kwargs: pm.Categorical("v", logit_p=x, **kwargs),
    "ordered logistic": lambda x, **kwargs: pm.OrderedLogistic(
        "v", eta=x[..., 0], cutpoints=pt.concatenate([x[..., 1:2], 1 + x[..., 1:2]]), **kwargs
    ),
    "ordered probit": lambda x, **kwargs: pm.OrderedProbit(
        "v", eta=x[..., 0], cutpoints=pt.concatenate([x[..., 1:2], 1 + x[..., 1:2]]), **kwargs
    ),
}


def categorical_model(name, data):
    with pm.Model() as model:
        options = {"compute_p": False} if name.startswith("ordered") else {}
        CATEGORICAL[name](pm.Flat("x", shape=3), observed=data, **options)
    return model


@pytest.mark.parametrize("name", CATEGORICAL)
def test_information_of_categories_is_the_expected_outer_product(name):
    theta = np.array([0.3, -0.6, 0.8])
    expected = np.zeros((3, 3))
    for category in range(3):
        model = categorical_model(name, category)
        [value] = model.value_vars
        logp = model.logp()
        evaluate = pytensor.function([value], [logp, pt.grad(logp, value)], mode=MODE)
        log_probability, score = evaluate(theta)
        expected += np.exp(log_probability) * np.outer(score, score)
    model = categorical_model(name, np.array([0, 1, 2, 1]))
    raveled = make_target(model)
    forms = [form for factor in raveled.factors for form in factor_information(factor)]
    metric = FisherMetric(raveled.x, forms)
    evaluate = pytensor.function([raveled.x], metric.matrix(), mode=MODE)
    np.testing.assert_allclose(evaluate(theta), 4 * expected, rtol=1e-6, atol=1e-9)
    if name != "ordered probit":  # the gradient of PyMC's own graph is nan there
        for far in (-40.0, 40.0):
            with np.errstate(all="ignore"):
                assert np.isfinite(evaluate(np.array([far, 0.0, 1.0]))).all()


def test_distributions_without_continuous_parameters_carry_no_information():
    with pm.Model() as model:
        pm.Flat("x")
        pm.DiscreteUniform("a", 0, 5, observed=2)
        pm.HyperGeometric("b", N=10, k=4, n=3, observed=1)
    rvs = {rv.name: rv.owner.op for rv in model.basic_RVs}
    raveled = make_target(model)
    for op in rvs.values():
        assert factor_information(replace(raveled.factors[0], op=op)) == []


def test_special_functions_equal_their_definitions():
    x = pt.vector("x", dtype="float64")
    outputs = [trigamma(x), trigamma_excess(x), student_t_shape(x), von_mises_concentration(x)]
    evaluate = pytensor.function([x], outputs, mode=MODE)
    at = np.geomspace(1e-6, 30.0, 60)
    trig, excess, shape, concentration = evaluate(at)
    difference = 0.25 * (sp.polygamma(1, at / 2) - sp.polygamma(1, (at + 1) / 2))
    ratio = sp.ive(1, at) / sp.ive(0, at)
    np.testing.assert_allclose(trig, sp.polygamma(1, at), rtol=1e-11)
    np.testing.assert_allclose(excess, at**2 * sp.polygamma(1, at) - at, rtol=1e-11)
    np.testing.assert_allclose(
        shape, at**2 * difference - at * (at + 5) / (2 * (at + 1) * (at + 3)), rtol=1e-9
    )
    np.testing.assert_allclose(
        concentration, at**2 * (1 - ratio**2) - at * ratio, rtol=1e-7, atol=1e-14
    )


def test_special_functions_have_their_limits():
    x = pt.vector("x", dtype="float64")
    outputs = [trigamma_excess(x), x**2 * student_t_shape(x), von_mises_concentration(x)]
    excess, shape, concentration = pytensor.function([x], outputs, mode=MODE)(np.array([1e8]))
    np.testing.assert_allclose(excess, 0.5, rtol=1e-7)
    np.testing.assert_allclose(shape, 3.5, rtol=1e-6)
    np.testing.assert_allclose(concentration, 0.5, rtol=1e-7)


@pytest.mark.parametrize("n", [0.03, 0.3, 1.0, 5.0, 200.0])
@pytest.mark.parametrize("ratio", [1e-3, 0.1, 1.0, 30.0, 500.0])
def test_dispersion_of_a_negative_binomial_is_fishers_series(n, ratio):
    q = ratio / (1 + ratio)
    k = np.arange(2, 40000)
    expected = n**2 * np.sum(np.exp(sp.betaln(n, k) + k * np.log(q)) / k)
    got = negative_binomial_dispersion(pt.constant(n), pt.constant(np.log(ratio)))
    [got] = pytensor.function([], [got], mode=MODE)()
    np.testing.assert_allclose(got, expected, rtol=1e-3)


@pytest.mark.parametrize("name", ["SkewNormal", "ExGaussian", "Rice", "Kumaraswamy"])
def test_derivative_of_information_by_quadrature_is_that_of_the_matrix(name):
    case = CONTINUOUS[name]
    theta = theta_of(name, case)
    evaluate = metric_function(case.model((), data=0.9))
    step = 1e-5
    ahead, behind = (
        [evaluate(theta + sign * step * e)[0] for e in np.eye(len(theta))] for sign in (1, -1)
    )
    slopes = (np.array(ahead) - np.array(behind)) / (2 * step)
    # Σ_j ∂_j G_ij, for the rows of the identity.
    np.testing.assert_allclose(
        evaluate(theta)[1], np.einsum("jij->i", slopes), rtol=1e-5, atol=1e-7
    )
