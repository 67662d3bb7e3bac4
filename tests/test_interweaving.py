"""Interweaving: the moves of hyperparameters with standardised effects held."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from gallery import GALLERY
from people import PEOPLE
from pytensor.scan.op import Scan

from benchmarks import models
from pymc_pmala.calculus.differentiation import pushforward
from pymc_pmala.interweaving import (
    find_interweaving,
    location_scale,
    register_standardisation,
)
from pymc_pmala.interweaving.rules import timeseries
from pymc_pmala.model.target import make_target

rng = np.random.default_rng(1)
GROUP = np.arange(12) % 4


class Move:
    """The compiled functions of an interweaving, and two points that it connects."""

    def __init__(self, model, choice=True):
        self.target = make_target(model)
        self.found = find_interweaving(self.target, choice)
        x, phi = self.target.x, pt.vector("phi", dtype="float64")
        terms = [e.map.log_jacobian(*e.map.parameters) for e in self.found.standardised]
        # An expression in another vector than the target's.
        other = pt.vector("other", shape=x.type.shape, dtype="float64")
        self.carry = compile_([other, phi], self.found.carry(other, phi))
        self.log_jacobian = compile_([other], self.found.log_jacobian(other))
        self.log_jacobians = compile_([x], pt.stack(terms))
        self.logps = compile_([x], pt.stack([f.logp.sum() for f in self.found.factors]))
        self.start = self.target.start + 0.3 * rng.normal(size=self.target.dimension)
        self.here = self.start[self.found.positions]
        self.there = self.here + 0.4 * rng.normal(size=len(self.here))
        self.end = self.carry(self.start, self.there)


def compile_(inputs, outputs):
    return pytensor.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")


def check(model, effects, hyperparameters, choice=True):
    """The inverse, the Jacobian and the densities of a move, by PyMC and by differences."""
    move = Move(model, choice)
    found, target = move.found, move.target
    assert set(found.effects) == set(effects)
    assert set(found.hyperparameters) == set(hyperparameters)
    np.testing.assert_allclose(move.carry(move.start, move.here), move.start, atol=1e-9)
    np.testing.assert_allclose(move.end[found.positions], move.there)
    np.testing.assert_allclose(move.carry(move.end, move.here), move.start, atol=1e-7)
    assert np.max(np.abs(move.end - move.start)) > 1e-3

    rest = np.setdiff1d(np.arange(target.dimension), found.positions)
    step = 1e-5 * np.eye(target.dimension)[rest]
    jacobian = [
        move.carry(move.start + h, move.there) - move.carry(move.start - h, move.there)
        for h in step
    ]
    _, log_det = np.linalg.slogdet(np.array(jacobian)[:, rest] / 2e-5)
    difference = move.log_jacobian(move.end) - move.log_jacobian(move.start)
    np.testing.assert_allclose(log_det, difference, atol=1e-5)

    changes = dict.fromkeys((f.name for f in found.factors), 0.0)
    log_jacobians = move.log_jacobians(move.end) - move.log_jacobians(move.start)
    for e, change in zip(found.standardised, log_jacobians, strict=True):
        if e.place.name in changes:
            changes[e.place.name] -= change
    np.testing.assert_allclose(
        move.logps(move.end) - move.logps(move.start), list(changes.values()), atol=1e-7
    )
    return move


def mean_and_scale():
    return pm.Normal("mu"), pm.HalfNormal("tau")


UNIVARIATE = {
    "Normal": lambda m, t: pm.Normal("u", m, t, shape=4),
    "Laplace": lambda m, t: pm.Laplace("u", m, t, shape=4),
    "Cauchy": lambda m, t: pm.Cauchy("u", m, t, shape=4),
    "Logistic": lambda m, t: pm.Logistic("u", m, t, shape=4),
    "Gumbel": lambda m, t: pm.Gumbel("u", m, t, shape=4),
    "Moyal": lambda m, t: pm.Moyal("u", m, t, shape=4),
    "StudentT": lambda m, t: pm.StudentT("u", nu=3, mu=m, sigma=t, shape=4),
    "SkewNormal": lambda m, t: pm.SkewNormal("u", mu=m, sigma=t, alpha=2, shape=4),
    "AsymmetricLaplace": lambda m, t: pm.AsymmetricLaplace("u", kappa=2, mu=m, b=t, shape=4),
    "LogNormal": lambda m, t: pm.LogNormal("u", m, t, shape=4),
    "HalfNormal": lambda m, t: pm.HalfNormal("u", pt.exp(m) * t, shape=4),
    "HalfCauchy": lambda m, t: pm.HalfCauchy("u", pt.exp(m) * t, shape=4),
    "HalfStudentT": lambda m, t: pm.HalfStudentT("u", 3, pt.exp(m) * t, shape=4),
    "Exponential": lambda m, t: pm.Exponential("u", pt.exp(m) * t, shape=4),
    "Gamma": lambda m, t: pm.Gamma("u", 2, pt.exp(m) * t, shape=4),
    "InverseGamma": lambda m, t: pm.InverseGamma("u", 2, pt.exp(m) * t, shape=4),
    "Weibull": lambda m, t: pm.Weibull("u", t, pt.exp(m), shape=4),
    "precision": lambda m, t: pm.Normal("u", m, tau=t, shape=4),
    "matrix": lambda m, t: pm.Normal("u", m, t, shape=(2, 3)),
    "scalar": lambda m, t: pm.Normal("u", m, t),
}


@pytest.mark.parametrize("name", UNIVARIATE)
def test_univariate_effects(name):
    with pm.Model() as model:
        u = UNIVARIATE[name](*mean_and_scale())
        pm.Normal("y", u.sum(), 1.0, observed=0.3)
    move = check(model, ["u"], ["mu", "tau"])
    assert [f.name for f in move.found.factors] == ["u"]


def test_a_vector_of_scales_and_a_column_of_means():
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", shape=(3, 1)), pm.HalfNormal("tau", shape=2)
        pm.Normal("u", mu, tau, shape=(3, 2))
    assert len(check(model, ["u"], ["mu", "tau"]).here) == 5


def test_several_levels_and_crossed_effects():
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        sd = pm.HalfNormal("sd", shape=2)
        region = pm.Normal("region", mu, sd[0], shape=2)
        county = pm.StudentT("county", nu=4, mu=region[GROUP[:4] // 2], sigma=tau, shape=4)
        item = pm.Normal("item", 0, sd[1], shape=3)
        # The mean enters the likelihood directly too.
        eta = county[GROUP] + item[np.arange(12) % 3] + mu
        pm.Poisson("y", pt.exp(eta), observed=np.arange(12))
    move = check(model, ["region", "county", "item"], ["mu", "tau", "sd"])
    assert {f.name for f in move.found.factors} == {"region", "county", "item"}


def test_effects_whose_degrees_of_freedom_move_keep_their_factor():
    with pm.Model() as model:
        nu = pm.Exponential("nu", 1)
        pm.StudentT("u", nu=2 + nu, sigma=nu, shape=3)
        pm.StudentT("w", nu=3, sigma=nu, shape=3)
    assert [f.name for f in check(model, ["u", "w"], ["nu"]).found.factors] == ["w"]


def test_a_scale_with_hyperparameters_of_its_own_remains_a_hyperparameter():
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", pm.HalfCauchy("s", 1), shape=2)
        pm.Normal("u", 0, tau, shape=(3, 2))
    check(model, ["u"], ["tau"])


def cholesky(n=2):
    return pm.LKJCholeskyCov("chol", n=n, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=n))[0]


def covariance(t):
    return t * (np.eye(2) + 0.3)


MULTIVARIATE = {
    "chol": lambda m, t: pm.MvNormal("u", m, chol=t * np.array([[1, 0], [0.3, 2]]), shape=(4, 2)),
    "cov": lambda m, t: pm.MvNormal("u", [m, 1.0], cov=covariance(t), shape=(4, 2)),
    "tau": lambda m, t: pm.MvNormal("u", [m, 1.0], tau=covariance(t), shape=(4, 2)),
    "single": lambda m, t: pm.MvNormal("u", [m, 1.0], cov=covariance(t)),
    "t": lambda m, t: pm.MvStudentT("u", nu=4, mu=[m, 1.0], scale=covariance(t), shape=(4, 2)),
    "batched": lambda m, t: pm.MvNormal(
        "u", m, cov=t * np.stack([np.eye(2), np.eye(2) + 0.3]), shape=(3, 2, 2)
    ),
    "CAR": lambda m, t: pm.CAR("u", np.zeros(3) + m, np.ones((3, 3)) - np.eye(3), 0.5, t),
}


@pytest.mark.parametrize("name", MULTIVARIATE)
def test_multivariate_effects(name):
    with pm.Model() as model:
        MULTIVARIATE[name](*mean_and_scale())
    check(model, ["u"], ["mu", "tau"])


def test_effects_with_an_lkj_prior():
    with pm.Model() as model:
        chol, mean = cholesky(), pm.Normal("mean", shape=2)
        effect = pm.MvNormal("effect", mean, chol=chol, shape=(5, 2))
        pm.Normal("y", effect.sum(axis=1), 1.0, observed=np.zeros(5))
    check(model, ["effect"], ["chol", "mean"])


@pytest.mark.parametrize("axes", [1, 2])
def test_zero_sum_effects(axes):
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", shape=(2, 1)) if axes == 1 else pm.HalfNormal("tau")
        pm.ZeroSumNormal("u", tau, n_zerosum_axes=axes, shape=(2, 4))
    check(model, ["u"], ["tau"])


WALKS = {
    "drift": lambda m, t: pm.GaussianRandomWalk("u", m, t, init_dist=pm.Normal.dist(), shape=6),
    "start": lambda m, t: pm.GaussianRandomWalk("u", sigma=t, init_dist=pm.Normal.dist(m), shape=6),
    "batch": lambda m, t: pm.GaussianRandomWalk(
        "u", pt.stack([m, 1.0])[:, None], t, init_dist=pm.Normal.dist(), shape=(2, 3, 4)
    ),
    "t": lambda m, t: pm.RandomWalk(
        "u", innovation_dist=pm.StudentT.dist(nu=4, mu=m, sigma=t),
        init_dist=pm.Cauchy.dist(0, t), steps=5,
    ),
    "multivariate": lambda m, t: pm.MvGaussianRandomWalk(
        "u", [m, 0.0], cov=covariance(t), init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)),
        shape=(5, 2),
    ),
    "init without a rule": lambda m, t: pm.RandomWalk(
        "u", innovation_dist=pm.Normal.dist(m, t), init_dist=pm.Flat.dist(), steps=5
    ),
    "AR": lambda m, t: pm.AR("u", [m, 0.5], sigma=t, init_dist=pm.Normal.dist(), shape=9),
    "AR with constant": lambda m, t: pm.AR(
        "u", pt.stack([1.0, pt.tanh(m), -0.3, 0.1]), sigma=t, constant=True,
        init_dist=pm.Normal.dist(m, t), shape=10,
    ),
    "AR, batched": lambda m, t: pm.AR(
        "u", pt.tanh(m)[None], sigma=t * np.ones(3), init_dist=pm.Normal.dist(), shape=(3, 7)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WALKS)
def test_time_series(name):
    with pm.Model() as model:
        u = WALKS[name](*mean_and_scale())
        pm.Normal("y", u.sum(), 1.0, observed=0.3)
    move = check(model, ["u"], ["mu", "tau"])
    assert [f.name for f in move.found.factors] == ["u"]


NON_CENTRED = {
    "μ + σz": lambda m, t, z: m + t * z,
    "zσ": lambda m, t, z: z * t + pt.exp(m),
    "(z − μ)/σ": lambda m, t, z: (z - m) / t,
    "μ − zσ": lambda m, t, z: m - z * t,
    "a product": lambda m, t, z: m + 2.0 * t * np.arange(1, 5.0) * z,
    "a column": lambda m, t, z: (m + t * z)[:, None] * np.ones((1, 3)),
    "named": lambda m, t, z: m + pm.Deterministic("scaled", t * z),
    "a walk": lambda m, t, z: m + pt.cumsum(t * z),
    "permuted": lambda m, t, z: m + (t * z.reshape((2, 2)).T),
    "a signed scale": lambda m, t, z: t + m * z,
    "indexed": lambda m, t, z: m + t * z[GROUP],
}


def test_both_solutions_of_a_recursion():
    """Both ways, of which each version of pytensor uses one, agree with NumPy's loop."""
    w, coefficients = rng.normal(size=(2, 11)), [0.5, -0.4, 0.2]
    expected = np.zeros((2, 14))
    for t in range(11):
        past = [c * expected[:, t + 2 - i] for i, c in enumerate(coefficients)]
        expected[:, t + 3] = w[:, t] + sum(past)
    for solve in (timeseries._solve_recursion, timeseries._solve_by_doubling):
        columns = [pt.constant([[c]]) for c in coefficients]
        solved = solve(pt.constant(w), columns, 11).eval(mode="FAST_COMPILE")
        np.testing.assert_allclose(solved, expected[:, 3:])


@pytest.mark.parametrize("name", NON_CENTRED)
def test_non_centred_effects(name):
    with pm.Model() as model:
        m, t = mean_and_scale()
        e = NON_CENTRED[name](m, t, pm.Normal("z", shape=4))
        pm.Normal("y", e, 0.5, observed=np.zeros(e.type.shape))
        pm.Potential("p", -(e**2).sum())
    move = check(model, ["z"], ["mu", "tau"])
    assert {f.name for f in move.found.factors} == {"y", "p"}


@pytest.mark.parametrize("rows", [True, False])
def test_non_centred_effects_with_an_lkj_prior(rows):
    with pm.Model() as model:
        chol, mean = cholesky(3), pm.Normal("mean", shape=3)
        z = pm.Normal("z", shape=(4, 3) if rows else (3, 4))
        e = mean + z @ chol.T if rows else mean[:, None] + chol @ z
        pm.Normal("y", e, 0.5, observed=np.zeros((4, 3) if rows else (3, 4)))
    check(model, ["z"], ["chol", "mean"])


def test_non_centred_levels_and_sums():
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        sd = pm.HalfNormal("sd", shape=3)
        region = mu + tau * pm.Normal("z1", shape=2)
        county = region[GROUP[:4] // 2] + sd[0] * pm.StudentT("z2", nu=4, shape=4)
        # In a sum of two effects of the same shape, each is held by itself.
        both = sd[1] * pm.Normal("z3", shape=4) + sd[2] * pm.Laplace("z4", 0, 1, shape=4)
        pm.Normal("y", county + both, 1.0, observed=np.zeros(4))
    check(model, ["z1", "z2", "z3", "z4"], ["mu", "tau", "sd"])


def test_levels_by_index():
    """The second level reads the first at indices, after and before it is scaled."""
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        sd = pm.HalfNormal("sd")
        region = mu + tau * pm.Normal("z1", shape=2)[GROUP[:4] // 2]
        county = region + sd * pm.Normal("z2", shape=4)
        pm.Normal("y", county[GROUP], 1.0, observed=np.zeros(12))
    move = check(model, ["z1", "z2"], ["mu", "tau", "sd"])
    assert [f.name for f in move.found.factors] == ["y"]
    [second] = [e for e in move.found.standardised if e.place.name == "z2"]
    assert second.uses == ("sd",)


def test_both_directions_in_one_model():
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        region = pm.Normal("region", mu, tau, shape=2)
        county = region[GROUP[:4] // 2] + tau * pm.Normal("z", shape=4)
        pm.Normal("y", county, 1.0, observed=np.zeros(4))
    move = check(model, ["region", "z"], ["mu", "tau"])
    assert {f.name for f in move.found.factors} == {"region", "y"}


@pytest.mark.parametrize(
    "build",
    [
        lambda m, t: pm.Normal("z", shape=4) + m,
        lambda m, t: t * pm.Normal("z", shape=4) ** 2,
        lambda m, t: t * np.array([0.0, 1.0, 1.0, 0.0]) * pm.Normal("z", shape=4),
        lambda m, t: t * pm.math.dot(np.eye(4) + 0.1, pm.Normal("z", shape=4)),
        lambda m, t: (z := pm.Normal("z", shape=4)) * (1 + pt.exp(z)),
        lambda m, t: t * pm.Uniform("z", shape=4),
    ],
)
def test_nothing_is_held_where_the_model_is_not_affine(build):
    with pm.Model() as model:
        pm.Normal("y", build(*mean_and_scale()), 1.0, observed=np.zeros(4))
    assert find_interweaving(make_target(model)) is None


def hierarchy():
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        theta = pm.Normal("theta", mu, tau, shape=4)
        slope = pm.Normal("slope", 0, pm.HalfNormal("sd"), shape=4)
        pm.Normal("y", theta + slope, pm.HalfNormal("sigma"), observed=np.zeros(4))
    return model


@pytest.mark.parametrize(
    ("choice", "effects", "hyperparameters"),
    [
        (["mu"], ["theta"], ["mu"]),
        (["mu", "sd"], ["theta", "slope"], ["mu", "sd"]),
        (["theta"], ["theta"], ["mu", "tau"]),
        (["theta", "tau"], ["theta"], ["tau"]),
    ],
)
def test_a_choice_of_variables(choice, effects, hyperparameters):
    model = hierarchy()
    check(model, effects, hyperparameters, [model[name] for name in choice])
    check(model, effects, hyperparameters, choice)


def test_a_level_that_is_not_chosen_is_a_hyperparameter():
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        region = pm.Normal("region", mu, tau, shape=2)
        pm.Normal("county", region[[0, 0, 1]], tau, shape=3)
    check(model, ["county"], ["region", "tau"], ["county"])


def test_no_choice_and_a_wrong_one():
    target = make_target(hierarchy())
    assert find_interweaving(target, False) is None
    assert find_interweaving(target, []) is None
    with pytest.raises(ValueError, match=r"\['sigma'\].*'mu', 'sd', 'tau'.*'slope', 'theta'"):
        find_interweaving(target, ["sigma", "mu"])
    with pm.Model() as model:
        pm.Normal("a")
    with pytest.raises(ValueError, match="nothing in this model"):
        find_interweaving(make_target(model), ["a"])


def test_words_for_each_factor():
    found = find_interweaving(make_target(hierarchy()))
    assert found.explanation == (
        "theta: location–scale in mu, tau",
        "slope: location–scale in sd",
    )


def test_only_sampled_variables_move():
    model = hierarchy()
    sampled = [model["theta"], model["tau"], model["slope"]]
    found = find_interweaving(make_target(model, sampled))
    assert (found.effects, found.hyperparameters) == (("theta",), ("tau",))


def test_what_is_no_effect():
    """A variable under a transform of the user's, and missing data."""
    missing = np.ma.masked_invalid([0.3, np.nan, 1.0])
    with pm.Model() as model:
        mu, tau = mean_and_scale()
        pm.Normal("above", mu, tau, shape=3, transform=pm.distributions.transforms.log)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Normal("y", mu, tau, observed=missing)
    assert find_interweaving(make_target(model)) is None


def test_a_rule_of_the_users():
    def logp(value, mu, tau):
        z = (value - mu) / tau
        return -pt.log(tau) - pt.log(pt.cosh(z)) - np.log(np.pi)

    with pm.Model() as model:
        u = pm.CustomDist("u", *mean_and_scale(), logp=logp, shape=3)

    assert find_interweaving(make_target(model)) is None

    @register_standardisation(type(u.owner.op))
    def secant(factor):
        mu, tau = factor.parameters
        return location_scale(factor.unconstrained, mu, pt.log(tau))

    check(model, ["u"], ["mu", "tau"])


def test_the_registry_rejects_what_is_no_distribution():
    with pytest.raises(TypeError, match="not the type"):
        register_standardisation(int)
    with pytest.raises(TypeError, match="Specify which"):
        register_standardisation()


@pytest.mark.parametrize("name", ["AR with constant", "drift", "multivariate", "μ + σz"])
def test_the_derivative_by_hyperparameters(name):
    with pm.Model() as model:
        m, t = mean_and_scale()
        if name in WALKS:
            WALKS[name](m, t)
        else:
            e = NON_CENTRED[name](m, t, pm.Normal("z", shape=4))
            pm.Normal("y", e, 0.5, observed=np.zeros(4))
    move = Move(model)
    x, phi = move.target.x, pt.vector("phi", dtype="float64")
    direction = pt.vector("direction", dtype="float64")
    [slope] = pushforward([move.found.carry(x, phi)], phi, direction)
    function = compile_([x, phi, direction], slope)
    loops = [node for node in function.maker.fgraph.apply_nodes if isinstance(node.op, Scan)]
    assert not loops or name.startswith("AR")
    along = rng.normal(size=len(move.here))
    ends = [move.carry(move.start, move.there + h * along) for h in (1e-6, -1e-6)]
    expected = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(function(move.start, move.there, along), expected, atol=1e-5)


FOUND = {
    "stick_breaking": {"mu"},
    "varying_slopes_centred": {"effect"},
    "varying_slopes_non_centred": {"raw"},
    "correlated_random_walk": {"z"},
    "item_response": {"difficulty"},
    "conditional_autoregression": {"phi", "theta"},
    "autoregression_latent": {"ar"},
    "horseshoe": {"z"},
    "horseshoe_by_half_cauchy": {"beta"},
    "radon": {"effect"},
    "eight_schools": {"raw"},
    "stochastic_volatility": {"volatility"},
    "hsgp": set(),
    "factor_model": set(),
    "ordered_logit": set(),
}


@pytest.mark.parametrize("name", FOUND)
def test_models_as_people_write_them(name):
    model = PEOPLE[name].build()
    found = find_interweaving(make_target(model))
    if found is None:
        assert not FOUND[name]
    else:
        check(model, FOUND[name], found.hyperparameters)


@pytest.mark.parametrize(
    ("build", "effects", "hyperparameters"),
    [
        (models.eight_schools, ["theta"], ["mu", "tau"]),
        (lambda: models.eight_schools(centred=False), ["theta_raw"], ["mu", "tau"]),
        (models.funnel, ["x"], ["v"]),
        (lambda: models.poisson_glmm(groups=5), ["intercept"], ["mu", "tau"]),
        (lambda: models.stochastic_volatility(np.zeros(20)), ["x"], ["variance", "persistence"]),
    ],
)
def test_models_of_the_benchmark(build, effects, hyperparameters):
    check(build(), effects, hyperparameters)


@pytest.mark.parametrize("name", GALLERY)
def test_every_model_of_the_gallery_can_be_searched(name):
    model = GALLERY[name].build()
    continuous = [v for v in model.value_vars if v.dtype.startswith("float")]
    find_interweaving(make_target(model, continuous))
