"""One transition as users run it, compiled, against the same interpreted, on models that hurt."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from compiled_models import MODELS
from pymc.testing import fast_unstable_sampling_mode

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.compile.functions import INTERPRETED

FAST = {
    "data of open length",
    "integers between",
    "lengths of zero",
    "marginal factor analysis",
    "masks",
    "specified shapes",
}
LONG = {"copula"}


def marked(names):
    for name in names:
        marks = [] if name in FAST else [pytest.mark.long if name in LONG else pytest.mark.slow]
        yield pytest.param(name, marks=marks)


def transition(sampler, name, **options):
    """What a sampler proposes to do from a point near the start, and where it goes."""
    model = MODELS[name]()
    rng = np.random.default_rng(1)
    point = {
        key: value + 0.1 * rng.normal(size=value.shape)
        for key, value in model.initial_point().items()
    }
    with model:
        step = sampler(step_size=0.3, adapt_step_size=False, rng=2, initial_point=point, **options)
    step.tune = False
    moved, [stats] = step.step(point)
    wanted = ("mean_tree_accept", "model_logp", "log_det_metric")
    return {**moved, **{key: stats[key] for key in wanted}}


@cache
def interpreted(sampler, name):
    return transition(sampler, name, compile_kwargs={"mode": INTERPRETED})


def agree(sampler, name, **options):
    found, expected = transition(sampler, name, **options), interpreted(sampler, name)
    assert np.isfinite(expected["model_logp"])
    assert expected["mean_tree_accept"] > 0
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", marked(MODELS))
def test_a_compiled_transition_is_the_interpreted_one(name):
    agree(PMALA, name)


@pytest.mark.parametrize("sampler", [MALA, MMALA, SimplifiedMMALA])
@pytest.mark.parametrize("name", ["masks", "specified shapes"])
def test_so_it_is_for_the_other_samplers(sampler, name):
    agree(sampler, name)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [MALA, MMALA, SimplifiedMMALA])
@pytest.mark.parametrize("name", ["varying slopes centred", "correlated random walk"])
def test_so_it_is_for_the_other_samplers_on_correlated_effects(sampler, name):
    agree(sampler, name)


@pytest.mark.parametrize("name", marked(MODELS))
def test_a_transition_in_pymcs_unstable_mode_is_the_same(name):
    agree(PMALA, name, compile_kwargs={"mode": fast_unstable_sampling_mode})


def only_a_potential():
    x = pm.Flat("x")
    pm.Potential("p", -0.5 * x**2)


def truncated_prior():
    pm.Truncated("x", pm.Normal.dist(0.0, 1.0), lower=0.0)


def quartic_potential():
    x = pm.Normal("x", 0.0, 1.0)
    pm.Potential("p", -(x**4))


@pytest.mark.parametrize("build", [only_a_potential, truncated_prior, quartic_potential])
def test_in_the_unstable_mode_chains_move_from_where_derivatives_vanish(build):
    with pm.Model() as model:
        build()
        step = PMALA(compile_kwargs={"mode": fast_unstable_sampling_mode}, rng=3)
    step.tune = False
    point, moves = model.initial_point(), 0
    for _ in range(20):
        moved, [stats] = step.step(point)
        assert np.isfinite(stats["mean_tree_accept"])
        moves += any(not np.array_equal(moved[key], point[key]) for key in point)
        point = moved
    assert moves > 5


@pytest.mark.slow
@pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")
def test_without_the_writer_a_transition_is_the_same(monkeypatch):
    monkeypatch.setenv("PMALA_NUMBA_WRITER", "0")
    agree(PMALA, "marginal factor analysis")


def test_data_may_change_their_length():
    model = MODELS["data of open length"]()
    with model:
        step, reference = [
            PMALA(step_size=0.3, adapt_step_size=False, rng=2, **options)
            for options in ({}, {"compile_kwargs": {"mode": INTERPRETED}})
        ]
    for length in (30, 7, 0):
        x = np.linspace(-1.0, 1.0, 2 * length).reshape(length, 2)
        pm.set_data({"x": x, "y_seen": np.arange(length) % 2}, model=model)
        point = model.initial_point()
        found, expected = step.step(point)[0], reference.step(point)[0]
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-9, err_msg=key)
