"""Random small models: each has a metric with its derivative, and is sampled without raising."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pymc.blocking import DictToArrayBijection
from pymc.distributions.transforms import ordered

from pymc_pmala import PMALA
from pymc_pmala.kernel.integrators import Scales

ROWS, GROUPS = 6, 3
ONLY_DRIFT = Scales(np.array(1.0), np.array(0.0))
ONLY_NOISE = Scales(np.array(0.0), np.array(1.0))

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


def inverse_metric(kernel, state):
    """A = Σ l lᵀ, from proposals without drift: x + l for each unit vector of noise."""
    noise = np.eye(len(state.x))
    moves = np.array([kernel.propose(state, unit, ONLY_NOISE)[0].x - state.x for unit in noise])
    return moves.T @ moves


def check(recipe):
    """A positive definite metric, and a drift Ag + 2Γ with Γ as central differences have it."""
    model = build(recipe)
    start = model.initial_point()
    mode = {"compile_kwargs": {"mode": "interpreted"}}
    step = PMALA(model=model, metric="fisher", **mode)
    x = DictToArrayBijection.map({v.name: start[v.name] for v in model.value_vars}).data
    x = x + np.random.default_rng(3).uniform(-0.3, 0.3, size=len(x))
    kernel = step.kernel
    state = kernel.init(x)
    assert np.isfinite(state.logp)
    assert np.isfinite(state.force).all()
    inverse = inverse_metric(kernel, state)
    found = -np.linalg.slogdet(inverse)[1]
    np.testing.assert_allclose(found, state.log_det, rtol=1e-6, atol=1e-6)

    # Along the columns of A's factor, each of unit length in G.
    root, size = np.linalg.cholesky(inverse), 1e-5
    ahead, behind = ([kernel.init(x + h * u) for u in root.T] for h in (size, -size))
    slopes = [(f.logp - b.logp) / (2 * size) for f, b in zip(ahead, behind, strict=True)]
    turns = [
        (inverse_metric(kernel, f) - inverse_metric(kernel, b)) / (2 * size)
        for f, b in zip(ahead, behind, strict=True)
    ]
    jacobian = np.einsum("rij,rk->ijk", np.array(turns), np.linalg.inv(root))
    gamma = 0.5 * np.einsum("ijj->i", jacobian)
    expected = root @ slopes + 2 * gamma
    drift = kernel.propose(state, np.zeros_like(x), ONLY_DRIFT)[0].x - x
    # The error in the norm of the metric, in which proposals have a length of the order of one.
    error = np.linalg.norm(np.linalg.solve(root, drift - expected))
    assert error < 1e-4 * (1 + np.linalg.norm(np.linalg.solve(root, expected)))

    point, step = start, PMALA(model=model, rng=1, **mode)
    for _ in range(15):
        point, _ = step.step(point)
    assert all(np.isfinite(value).all() for value in point.values())


OPTIONS = {
    "deadline": None,
    "database": None,
    # Every model takes seconds: a failure is reported as found.
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_random_models_are_sampled(part):
    settings(max_examples=10, **OPTIONS)(seed(part)(given(recipes())(check)))()


@pytest.mark.long
def test_a_thousand_random_models_are_sampled():
    settings(max_examples=1000, **OPTIONS)(seed(5)(given(recipes())(check)))()
