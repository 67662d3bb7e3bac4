"""Logarithms and logits through links: values, derivatives, and what is beyond floats."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import special as sp

from pymc_pmala.calculus.differentiation import pushforward
from pymc_pmala.information.links import log, log_odds, log_odds_weight
from pymc_pmala.model.target import make_target

MODE = Mode(linker="py", optimizer=None)
MODERATE = np.array([-3.0, -0.7, 0.2, 1.9, 4.0])

# name: (link, logit as a function of the link's input, largest |input|)
PROBABILITIES = {
    "sigmoid": (pt.sigmoid, lambda x: x, 800),
    "invlogit": (pm.math.invlogit, lambda x: x, 800),
    "complement": (lambda x: 1 - pt.sigmoid(x), lambda x: -x, 800),
    "logistic by hand": (lambda x: 1 / (1 + pt.exp(-x)), lambda x: x, 700),
    "odds": (lambda x: pt.exp(x) / (1 + pt.exp(x)), lambda x: x, 700),
    "shares": (lambda x: 2.0 / (2.0 * pt.exp(x) + 2.0), lambda x: -x, 40),
    "invprobit": (
        pm.math.invprobit,
        lambda x: sp.log_ndtr(x) - sp.log_ndtr(-x),
        800,
    ),
    "erf": (
        lambda x: 0.5 * (1 + pt.erf(x / np.sqrt(2))),
        lambda x: sp.log_ndtr(x) - sp.log_ndtr(-x),
        800,
    ),
    "half of erf": (
        lambda x: (1 + pt.erf(x / np.sqrt(2))) / 2,
        lambda x: sp.log_ndtr(x) - sp.log_ndtr(-x),
        800,
    ),
    "cloglog": (lambda x: 1 - pt.exp(-pt.exp(x)), lambda x: np.log(np.expm1(np.exp(x))), 800),
    "cloglog by expm1": (
        lambda x: -pt.expm1(-pt.exp(x)),
        lambda x: np.log(np.expm1(np.exp(x))),
        800,
    ),
    "loglog": (lambda x: pt.exp(-pt.exp(-x)), lambda x: -np.log(np.expm1(np.exp(-x))), 800),
    "fill": (lambda x: pt.second(x, pt.sigmoid(x)), lambda x: x, 800),
    "indexed": (lambda x: pt.sigmoid(pt.concatenate([x, x]))[x.shape[0] :], lambda x: x, 800),
    "joined": (
        lambda x: pt.concatenate([pt.sigmoid(x[:1]), pt.sigmoid(x[1:])]),
        lambda x: x,
        800,
    ),
    "reshaped": (lambda x: pt.sigmoid(x).reshape((1, -1))[0], lambda x: x, 800),
    "switch": (
        lambda x: pt.switch(x > 0, pt.sigmoid(x), pm.math.invprobit(x)),
        lambda x: np.where(x > 0, x, sp.log_ndtr(x) - sp.log_ndtr(-x)),
        800,
    ),
    "clip": (lambda x: pt.clip(pt.sigmoid(x), 1e-4, 1 - 1e-4), lambda x: x, 800),
}

# name: (link, logarithm as a function of the link's input, largest |input|)
POSITIVES = {
    "exp": (pt.exp, lambda x: x, 800),
    "scaled": (lambda x: 3.0 * pt.exp(x), lambda x: x + np.log(3), 800),
    "power": (lambda x: pt.exp(x) ** -0.5, lambda x: -0.5 * x, 800),
    "square": (lambda x: pt.sqr(pt.exp(x)), lambda x: 2 * x, 800),
    "root": (lambda x: pt.sqrt(pt.exp(x)), lambda x: 0.5 * x, 800),
    "reciprocal": (lambda x: pt.reciprocal(pt.exp(x)), lambda x: -x, 800),
    "ratio": (lambda x: pt.exp(x) / pt.exp(2 * x), lambda x: -x, 800),
    "sum": (lambda x: pt.exp(x) + pt.exp(-x), lambda x: np.logaddexp(x, -x), 800),
    "softplus": (pt.softplus, lambda x: np.log(np.logaddexp(0, x)), 800),
    "log1pexp": (pm.math.log1pexp, lambda x: np.log(np.logaddexp(0, x)), 800),
    "softplus by hand": (
        lambda x: pt.log1p(pt.exp(x)),
        lambda x: np.log(np.logaddexp(0, x)),
        800,
    ),
    "sigmoid": (pt.sigmoid, lambda x: -np.logaddexp(0, -x), 800),
    "complement": (lambda x: 1 - pt.sigmoid(x), lambda x: -np.logaddexp(0, x), 800),
    "odds": (lambda x: pt.sigmoid(x) / (1 - pt.sigmoid(x)), lambda x: x, 800),
    "softmax": (
        lambda x: pt.special.softmax(x, axis=-1),
        lambda x: x - sp.logsumexp(x),
        800,
    ),
    "normal cdf": (pm.math.invprobit, sp.log_ndtr, 800),
    "cloglog": (
        lambda x: -pt.expm1(-pt.exp(x)),
        lambda x: np.log(-np.expm1(-np.exp(x))),
        40,
    ),
    "stacked": (lambda x: pt.stack([pt.exp(x[i]) for i in range(5)]), lambda x: x, 800),
    "cast": (lambda x: pt.cast(pt.exp(x), "float64"), lambda x: x, 800),
}


def evaluate(function, link, points):
    """A coordinate with its derivative, and the derivative of the weight, at some points."""
    x = pt.vector("x", shape=(len(points),), dtype="float64")
    coordinate = function(link(x))
    weight = log_odds_weight(coordinate) if function is log_odds else pt.tanh(coordinate)
    tangents = pushforward([coordinate, weight], x, pt.ones_like(x))
    with np.errstate(all="ignore"):
        return pytensor.function([x], [coordinate, weight, *tangents], mode=MODE)(points)


def check(function, link, truth, largest):
    value, _, slope, _ = evaluate(function, link, MODERATE)
    np.testing.assert_allclose(value, truth(MODERATE), rtol=1e-6, atol=1e-8)  # √2 is single in PyMC
    if link is not POSITIVES["softmax"][0]:
        step = 1e-5
        finite = (truth(MODERATE + step) - truth(MODERATE - step)) / (2 * step)
        np.testing.assert_allclose(slope, finite, rtol=1e-6, atol=1e-8)
    for size in (40.0, float(largest)):
        far = np.array([-size, -0.5 * size, 0.0, 0.5 * size, size])
        for output in evaluate(function, link, far):
            assert np.isfinite(output).all(), (size, output)


@pytest.mark.parametrize("name", PROBABILITIES)
def test_log_odds_sees_through_a_link(name):
    check(log_odds, *PROBABILITIES[name])


@pytest.mark.parametrize("name", POSITIVES)
def test_log_sees_through_a_link(name):
    check(log, *POSITIVES[name])


@pytest.mark.parametrize("function", [log, log_odds])
def test_a_parameter_without_link_is_transformed_as_it_is(function):
    x = pt.vector("x", dtype="float64")
    values = np.array([0.1, 0.5, 0.9])
    expected = np.log(values) if function is log else sp.logit(values)
    got = pytensor.function([x], function(x), mode=MODE)(values)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def sampled(build):
    """A deterministic's graph in the raveled, unconstrained values of a model."""
    with pm.Model() as model:
        pm.Bernoulli("y", p=build(), observed=1)
    raveled = make_target(model)
    [factor] = [f for f in raveled.factors if f.name == "y"]
    return raveled.x, factor.parameters[0]


@pytest.mark.parametrize(
    "build",
    [lambda: pm.Uniform("p", 0, 1), lambda: pm.Beta("p", 2, 3)],
    ids=["Uniform", "Beta"],
)
def test_a_probability_with_a_prior_is_seen_on_its_unconstrained_scale(build):
    x, p = sampled(build)
    for u in (-800.0, -40.0, 0.3, 40.0, 800.0):
        with np.errstate(all="ignore"):
            got = pytensor.function([x], log_odds(p), mode=MODE)(np.array([u]))
        np.testing.assert_allclose(got, u, rtol=1e-12)


def test_a_uniform_scale_is_positive_where_it_underflows():
    with pm.Model() as model:
        sigma = pm.Uniform("sigma", 0, 100)
        pm.Normal("y", 0, sigma, observed=1.0)
    raveled = make_target(model)
    [factor] = [f for f in raveled.factors if f.name == "y"]
    evaluate = pytensor.function([raveled.x], log(factor.parameters[1]), mode=MODE)
    np.testing.assert_allclose(evaluate(np.array([-800.0])), np.log(100) - 800, rtol=1e-12)


def test_ordered_logistic_probabilities_are_seen_in_their_logits():
    eta = pt.vector("eta", shape=(3,), dtype="float64")
    cutpoints = np.array([-1.0, 0.5, 2.0])
    p = pm.OrderedLogistic.compute_p(eta, cutpoints)
    evaluate = pytensor.function([eta], [log(p), p], mode=MODE)
    got, plain = evaluate(np.array([-0.4, 0.3, 1.2]))
    np.testing.assert_allclose(got, np.log(plain), rtol=1e-10)
    far, _ = evaluate(np.array([-800.0, 40.0, 800.0]))
    assert np.isfinite(far).all()
