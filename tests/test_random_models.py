"""Random small models: each has a metric with its derivative, and is sampled without raising."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymc.blocking import DictToArrayBijection
from pymc.distributions.transforms import ordered

from pymc_pmala import PMALA
from pymc_pmala.compilation import INTERPRETED
from pymc_pmala.geometry import geometry_function

ROWS, GROUPS = 6, 3

LOCATIONS = {
    "normal": lambda name, **kw: pm.Normal(name, 0.2, 1.5, **kw),
    "student_t": lambda name, **kw: pm.StudentT(name, nu=4, mu=0.1, sigma=1, **kw),
    "laplace": lambda name, **kw: pm.Laplace(name, 0.3, 1.0, **kw),
    "logistic": lambda name, **kw: pm.Logistic(name, 0.0, 1.0, **kw),
    "cauchy": lambda name, **kw: pm.Cauchy(name, 0.0, 1.0, **kw),
    "gumbel": lambda name, **kw: pm.Gumbel(name, 0.0, 1.0, **kw),
    "uniform": lambda name, **kw: pm.Uniform(name, -2, 2, **kw),
    "truncated": lambda name, **kw: pm.TruncatedNormal(name, 0, 1, lower=-1, upper=2, **kw),
    "flat": lambda name, **kw: pm.Flat(name, **kw),
}
SCALES = {
    "half_normal": lambda name: pm.HalfNormal(name, 1.5),
    "exponential": lambda name: pm.Exponential(name, 1.0),
    "gamma": lambda name: pm.Gamma(name, 2.0, 1.0),
    "half_cauchy": lambda name: pm.HalfCauchy(name, 1.0),
    "half_student_t": lambda name: pm.HalfStudentT(name, nu=4, sigma=1),
    "log_normal": lambda name: pm.LogNormal(name, 0.0, 0.5),
    "inverse_gamma": lambda name: pm.InverseGamma(name, 3.0, 2.0),
    "weibull": lambda name: pm.Weibull(name, 2.0, 1.0),
}
POSITIVE = {"exp": pt.exp, "softplus": pt.softplus, "square": lambda eta: 0.1 + eta**2}
UNIT = {
    "sigmoid": pm.math.sigmoid,
    "probit": pm.math.invprobit,
    "cloglog": lambda eta: 1 - pt.exp(-pt.exp(eta)),
}
REAL = np.array([0.4, -1.2, 0.9, 1.7, -0.3, 0.2])
COUNTS = np.array([0, 2, 1, 4, 1, 3])
BINARY = np.array([0, 1, 1, 0, 1, 0])
UNIT_DATA = np.array([0.2, 0.7, 0.5, 0.9, 0.35, 0.6])
# Likelihoods by the links that fit them: (predictor after the link, scale, name, data).
LIKELIHOODS = {
    "normal": ({"identity": lambda eta: eta}, REAL, lambda m, s, **kw: pm.Normal("y", m, s, **kw)),
    "student_t": (
        {"identity": lambda eta: eta, "tanh": pt.tanh},
        REAL,
        lambda m, s, **kw: pm.StudentT("y", nu=3, mu=m, sigma=s, **kw),
    ),
    "laplace": ({"cube": lambda eta: eta**3}, REAL, lambda m, s, **kw: pm.Laplace("y", m, s, **kw)),
    "bernoulli": (UNIT, BINARY, lambda m, s, **kw: pm.Bernoulli("y", m, **kw)),
    "binomial": (UNIT, COUNTS, lambda m, s, **kw: pm.Binomial("y", 5, m, **kw)),
    "beta": (
        UNIT,
        UNIT_DATA,
        lambda m, s, **kw: pm.Beta("y", m * s + 0.1, (1 - m) * s + 0.1, **kw),
    ),
    "poisson": (POSITIVE, COUNTS, lambda m, s, **kw: pm.Poisson("y", m, **kw)),
    "negative_binomial": (
        POSITIVE,
        COUNTS,
        lambda m, s, **kw: pm.NegativeBinomial("y", mu=m, alpha=s, **kw),
    ),
    "gamma": (POSITIVE, UNIT_DATA, lambda m, s, **kw: pm.Gamma("y", alpha=s, beta=s / m, **kw)),
    "exponential": (POSITIVE, UNIT_DATA, lambda m, s, **kw: pm.Exponential("y", 1 / m, **kw)),
    "log_normal": (
        {"identity": lambda eta: eta},
        UNIT_DATA,
        lambda m, s, **kw: pm.LogNormal("y", m, s, **kw),
    ),
    "weibull": (POSITIVE, UNIT_DATA, lambda m, s, **kw: pm.Weibull("y", s, m, **kw)),
}
# Distributions of real data, whose missing values have a transform-free value variable.
CAN_MISS = {"normal", "student_t", "laplace"}


@st.composite
def recipes(draw):
    """What a model is made of; plain data, so that a failure can be written down."""
    likelihood = draw(st.sampled_from(sorted(LIKELIHOODS)))
    return {
        "intercept": draw(st.sampled_from(sorted(LOCATIONS))),
        "effects": draw(st.sampled_from(["none", "plain", "ordered", "centred", "non_centred"])),
        "effect": draw(st.sampled_from(sorted(set(LOCATIONS) - {"flat"}))),
        "spread": draw(st.sampled_from(sorted(SCALES))),
        "scale": draw(st.sampled_from(sorted(SCALES))),
        "likelihood": likelihood,
        "link": draw(st.sampled_from(sorted(LIKELIHOODS[likelihood][0]))),
        "dims": draw(st.booleans()),
        "missing": likelihood in CAN_MISS and draw(st.booleans()),
    }


def build(recipe):
    """A regression on groups, with everything that the recipe says."""
    links, data, likelihood = LIKELIHOODS[recipe["likelihood"]]
    if recipe["missing"]:
        data = np.ma.masked_array(data, mask=[0, 0, 1, 0, 0, 1])
    groups = np.arange(ROWS) % GROUPS
    with pm.Model(coords={"group": list("abc"), "row": range(ROWS)}) as model:
        shape = {"dims": "group"} if recipe["dims"] else {"shape": GROUPS}
        eta = LOCATIONS[recipe["intercept"]]("intercept") * np.ones(ROWS)
        if recipe["effects"] != "none":
            eta = eta + _effects(recipe, shape)[groups]
        mean = links[recipe["link"]](eta)
        rows = {"dims": "row"} if recipe["dims"] and not recipe["missing"] else {}
        likelihood(mean, SCALES[recipe["scale"]]("scale"), observed=data, **rows)
    return model


def _effects(recipe, shape):
    if recipe["effects"] == "plain":
        return LOCATIONS[recipe["effect"]]("effect", **shape)
    if recipe["effects"] == "ordered":
        return pm.Normal("effect", 0, 1, transform=ordered, initval=[-0.5, 0.1, 0.6], **shape)
    spread = SCALES[recipe["spread"]]("spread")
    if recipe["effects"] == "centred":
        return pm.Normal("effect", 0, spread, **shape)
    return pm.Deterministic("effect", spread * pm.Normal("standardised", **shape))


def check(recipe):
    model = build(recipe)
    point = model.initial_point()
    mode = {"mode": INTERPRETED}
    geometry = geometry_function(model, model.value_vars, point, "fisher", mode)
    x = DictToArrayBijection.map({v.name: point[v.name] for v in model.value_vars}).data
    x = x + np.random.default_rng(3).uniform(-0.3, 0.3, size=len(x))
    here = geometry(x)
    assert np.isfinite(here.logp)
    assert np.isfinite(here.gradient).all()
    np.testing.assert_allclose(here.metric, here.metric.T, rtol=1e-9, atol=1e-9)
    factor = np.linalg.cholesky(here.metric)

    # Γ from central differences, along the columns of A's factor: each of unit length in G.
    root, step = np.linalg.inv(factor).T, 1e-4
    slopes = [
        np.linalg.inv(geometry(x + step * u).metric) - np.linalg.inv(geometry(x - step * u).metric)
        for u in root.T
    ]
    jacobian = np.einsum("rij,rk->ijk", np.array(slopes) / (2 * step), np.linalg.inv(root))
    expected = 0.5 * np.einsum("ijj->i", jacobian)
    # The error in the norm of the metric, in which proposals have a length of the order of one.
    error = np.linalg.norm(factor.T @ (here.gamma - expected))
    assert error < 1e-4 * (1 + np.linalg.norm(factor.T @ expected))

    sampler = PMALA(model=model, compile_kwargs=mode)
    sampler.set_rng(1)
    for _ in range(15):
        point, _ = sampler.step(point)
    assert all(np.isfinite(value).all() for value in point.values())


OPTIONS = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    # Every model takes seconds: a failure is reported as found.
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize(
    "number",
    [pytest.param(50, marks=pytest.mark.long), pytest.param(1000, marks=pytest.mark.long)],
)
def test_random_models_are_sampled(number):
    settings(max_examples=number, **OPTIONS)(given(recipes())(check))()
