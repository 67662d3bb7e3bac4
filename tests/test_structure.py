"""Structure found in a model: the right arrow or band, and the same geometry as without it."""

import tracemalloc

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from modes import INTERPRETED
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA, local_geometry
from pymc_pmala.factorization import Arrow, Dense, find_factorization
from pymc_pmala.factorization.banded import BandedArrow
from pymc_pmala.kernel.geometry import symbolic_geometry
from pymc_pmala.metric import build_metric
from pymc_pmala.model.target import make_target

rng = np.random.default_rng(11)
GROUPS = np.repeat(np.arange(20), 3)
Z = rng.normal(size=60)
Y = rng.normal(size=60)


def varying_intercepts():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        slope = pm.Normal("slope", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        a = pm.Normal("a", mu, tau, shape=20)
        pm.Normal("y", a[GROUPS] + slope * Z, sigma, observed=Y)
    return model


def independent_groups():
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2, shape=10)
        slope = pm.Normal("slope", 0, 2, shape=10)
        scale = pm.HalfNormal("scale", 1, shape=10)
        group = GROUPS[:30]
        pm.Normal("y", level[group] + slope[group] * Z[:30], scale[group], observed=Y[:30])
    return model


def independent_parameters():
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1, shape=20)
        pm.Poisson("y", rate[GROUPS], observed=np.arange(60) % 5)
    return model


def regression():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=18)
        pm.Bernoulli("y", logit_p=rng.normal(size=(40, 18)) @ beta, observed=np.arange(40) % 2)
    return model


def random_walk():
    """Counts around a walk: a band whose derivative is a band."""
    with pm.Model() as model:
        x = pm.GaussianRandomWalk("x", sigma=0.5, init_dist=pm.Normal.dist(0, 1), shape=60)
        pm.Poisson("y", pm.math.exp(x), observed=np.arange(60) % 5)
    return model


def autoregression():
    """Second order, with its parameters."""
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 0.5, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        x = pm.AR("x", rho, sigma, init_dist=pm.Normal.dist(0, 1, shape=2), shape=60)
        pm.Poisson("y", pm.math.exp(x), observed=np.arange(60) % 5)
    return model


def stochastic_volatility():
    with pm.Model() as model:
        beta = pm.Exponential("beta", 1)
        sigma = pm.HalfNormal("sigma", 1)
        phi = pm.Uniform("phi", -1, 1)
        start = pm.Normal.dist(0, sigma / pm.math.sqrt(1 - phi**2))
        x = pm.AR("x", [phi], sigma, init_dist=start, shape=60)
        pm.Normal("y", 0, beta * pm.math.exp(x / 2), observed=Y)
    return model


def interleaved_walks():
    """Two walks that are observed in sum: neighbours in time are far apart in x."""
    with pm.Model() as model:
        walk = [
            pm.GaussianRandomWalk(name, sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=60)
            for name in ("first", "second")
        ]
        pm.Normal("y", walk[0] + walk[1], 1.0, observed=Y)
    return model


def factorizations(model, names=None):
    target = make_target(model, names and [model[name] for name in names])
    metric = build_metric("fisher", target)
    x = target.start
    return target, metric, find_factorization(metric, target.shared.values()), x


@pytest.mark.parametrize(
    ("build", "shapes", "border"),
    [
        (varying_intercepts, [(20, 1)], 4),
        (independent_groups, [(10, 3)], 0),
        (independent_parameters, [(20, 1)], 0),
    ],
)
def test_groups_and_border_are_found_from_the_graph(build, shapes, border):
    *_, factorization, _ = factorizations(build())
    assert isinstance(factorization, Arrow)
    assert [group.shape for group in factorization.groups] == shapes
    assert len(factorization.border) == border


@pytest.mark.parametrize(
    ("build", "names", "bandwidth", "border"),
    [
        (random_walk, None, 1, 0),
        (autoregression, None, 2, 3),
        (autoregression, ["x"], 2, 0),
        (stochastic_volatility, None, 1, 3),
        (stochastic_volatility, ["x"], 1, 0),
        (interleaved_walks, None, 2, 0),
    ],
)
def test_chains_of_latents_are_found_from_the_graph(build, names, bandwidth, border):
    *_, factorization, _ = factorizations(build(), names)
    assert isinstance(factorization, BandedArrow)
    assert factorization.bandwidth == bandwidth
    assert len(factorization.border) == border


def test_a_dense_model_keeps_the_dense_factorization():
    *_, factorization, _ = factorizations(regression())
    assert isinstance(factorization, Dense)


@pytest.mark.parametrize("method", [PMALA, MALA])
@pytest.mark.parametrize(
    "build",
    [
        varying_intercepts,
        independent_groups,
        independent_parameters,
        random_walk,
    ],
)
def test_structured_models_are_sampled(build, method):
    model = build()
    step = method(model=model, compile_kwargs={"mode": "interpreted"}, rng=1)
    assert not isinstance(step.kernel.factorization, Dense)
    point, accepted = model.initial_point(), 0.0
    for _ in range(30):
        point, [stats] = step.step(point)
        accepted += stats["accepted"]
        assert not stats["diverging"]
    assert accepted > 5
    assert np.isclose(stats["model_logp"], model.compile_logp(mode=INTERPRETED)(point))


@pytest.mark.parametrize("method", [PMALA, MMALA, SimplifiedMMALA, MALA])
def test_a_metric_that_turns_out_constant_is_no_special_case(method):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2)
        pm.Normal("y", mu.sum(), 1.0, observed=[0.3, 1.1])
    step = method(model=model, compile_kwargs={"mode": "interpreted"}, rng=1)
    point = model.initial_point()
    for _ in range(10):
        point, [stats] = step.step(point)
    # The exponential integrator is exact here.
    assert np.isclose(stats["mean_tree_accept"], 1.0)


@pytest.mark.parametrize("drift", ["gamma", "omega"])
@pytest.mark.parametrize(
    "build",
    [
        varying_intercepts,
        independent_groups,
        random_walk,
        autoregression,
    ],
)
def test_force_and_determinant_do_not_depend_on_the_factorization(build, drift):
    raveled, metric, arrow, x = factorizations(build())
    outputs = []
    for factorization in (Dense(len(x)), arrow):
        geometry = symbolic_geometry(raveled, metric, factorization, drift)
        outputs += [geometry.force, factorization.half_log_det(geometry.factor)]
    function = pytensor.function([raveled.x], outputs, mode=INTERPRETED)
    force, half_log_det, same_force, same_half_log_det = function(x + 0.3 * rng.normal(size=len(x)))
    np.testing.assert_allclose(same_force, force, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(same_half_log_det, half_log_det, rtol=1e-10)


def test_the_band_of_the_latents_follows_the_other_block():
    """In a compound step G is constant in the latents but not in what other steps move."""
    model = stochastic_volatility()
    # It starts with φ = 0, where neighbours do not meet: the pattern is not read there.
    step = PMALA([model["x"]], model=model, compile_kwargs={"mode": "interpreted"}, rng=1)
    assert isinstance(step.kernel.factorization, BandedArrow)
    point = model.initial_point()
    for log_sigma in (-1.0, 0.5):
        point["sigma_log__"] = np.array(log_sigma)
        _, [stats] = step.step(point)
        matrix = local_geometry(point, vars=[model["x"]], model=model).metric
        assert np.isclose(stats["log_det_metric"], np.linalg.slogdet(matrix)[1], rtol=1e-10)


def test_a_coupling_that_begins_beyond_a_threshold_is_found():
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1)
        x = pm.Normal("x", 0, 1, shape=20)
        total = pm.math.switch(pm.math.abs(z) > 0.35, x.sum(), 0.0)
        pm.Normal("y", total, 1.0, observed=0.3)
    assert isinstance(factorizations(model)[2], Dense)


def test_a_coupling_by_a_discrete_variable_of_another_step_is_found():
    """The group of an observation is sampled: its initial value says nothing about the next."""
    with pm.Model() as model:
        group = pm.Categorical("group", np.full(10, 0.1), shape=40)
        level = pm.Normal("level", 0, 1, shape=10)
        other = pm.Normal("other", 0, 1, shape=40)
        pm.Normal("y", level[group] + other, 1.0, observed=Y[:40])
    factorization = factorizations(model, ["level", "other"])[2]
    assert [g.shape for g in factorization.groups] == [(40, 1)]
    assert len(factorization.border) == 10


def test_what_cannot_be_analysed_has_no_structure():
    """The shape of what a mask selects is known only when it is evaluated."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=20)
        pm.Normal("y", x[pt.nonzero(x[:5] > 0)[0]].sum(), 1.0, observed=0.3)
    assert isinstance(factorizations(model)[2], Dense)


def crossed_effects(rng, persons=300, items=40, answers=3000):
    """Some items have fewer answers than some persons: degrees do not tell them apart."""
    person, item = rng.integers(0, persons, answers), rng.zipf(1.3, answers) % items
    with pm.Model() as model:
        ability = pm.Normal("ability", 0, 1, shape=persons)
        level = pm.Normal("level", 0, 1, shape=items)
        pm.Bernoulli("y", logit_p=ability[person] - level[item], observed=answers * [1])
    return model


def test_crossed_effects_have_the_smaller_side_as_border():
    *_, factorization, _ = factorizations(crossed_effects(np.random.default_rng(0)))
    assert isinstance(factorization, Arrow)
    assert len(factorization.border) <= 40
    assert sum(g.size for g in factorization.groups if g.shape[1] == 1) >= 290


def many_groups(groups):
    group = np.repeat(np.arange(groups), 2)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        a = pm.Normal("a", mu, tau, shape=groups)
        b = pm.Normal("b", 0, 1)
        x = np.linspace(-1, 1, 2 * groups)
        pm.Poisson("y", pm.math.exp(a[group] + b * x), observed=group % 4)
    return model


def many_slopes(groups):
    group = np.repeat(np.arange(groups), 2)
    with pm.Model() as model:
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
        ab = pm.MvNormal("ab", np.zeros(2), chol=chol, shape=(groups, 2))
        x = np.linspace(-1, 1, 2 * groups)
        pm.Normal("y", ab[group, 0] + ab[group, 1] * x, 1.0, observed=x)
    return model


@pytest.mark.parametrize(
    ("build", "groups", "block", "border"),
    [(many_groups, 10_000, 1, 3), (many_slopes, 3000, 2, 3)],
)
def test_nothing_quadratic_in_the_number_of_groups_is_made(build, groups, block, border):
    target = make_target(build(groups))
    metric = build_metric("fisher", target)
    dimension = groups * block + border
    tracemalloc.start()
    factorization = find_factorization(metric)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    geometry = symbolic_geometry(target, metric, factorization, "gamma")
    assert [g.shape for g in factorization.groups] == [(groups, block)]
    assert len(factorization.border) == border
    # An array of d² elements would take at least that many bytes.
    assert peak < 0.3 * dimension**2
    made = {
        v
        for v in ancestors([geometry.force, *geometry.factor])
        if isinstance(v, Constant) and v not in ancestors([target.logp])
    }
    assert max(np.size(v.data) for v in made) <= 10 * dimension


def test_groups_by_dummy_variables_are_found_within_the_size_of_their_matrix():
    groups = 1000
    dummies = np.repeat(np.eye(groups), 2, axis=0)
    with pm.Model() as model:
        a = pm.Normal("a", pm.Normal("mu"), pm.HalfNormal("tau"), shape=groups)
        pm.Normal("y", pt.constant(dummies) @ a, 1.0, observed=np.zeros(2 * groups))
    metric = build_metric("fisher", make_target(model))
    tracemalloc.start()
    factorization = find_factorization(metric)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [g.shape for g in factorization.groups] == [(groups, 1)]
    assert peak < dummies.nbytes
