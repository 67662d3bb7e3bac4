"""On the path that users run: compiled transitions have the numbers of the interpreter.

By numba where that is pytensor's default, by C elsewhere.
"""

import numpy as np
import pymc as pm
import pytest
from compiled_models import MODELS
from gallery import GALLERY
from hypothesis import given, seed, settings
from pymc.testing import fast_unstable_sampling_mode
from test_random_models import OPTIONS, build, recipes
from transitions import BY_C, assert_a_chain_moves, assert_transitions_agree, make_step

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.compile.linkers import SWITCH

pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
# One of a kind, for CI; `pytest --long` runs the others, too.
SLOW = (
    {"normal", "discrete_switchpoint"}
    if BY_C
    else {
        "lkj_cholesky_cov",
        "ordered_logistic",
        "normal_mixture",
        "censored_normal",
        "mv_normal_tau",
        "gp_marginal_likelihood",
        "gaussian_random_walk",
        "zero_sum_normal",
        "discrete_switchpoint",
        "scanned_recursion",
        "missing_values",
        "dirichlet_prior",
    }
)
NAMES = [
    pytest.param(n, marks=pytest.mark.slow if n in SLOW else pytest.mark.long) for n in GALLERY
]


@pytest.mark.parametrize("name", NAMES)
def test_transitions_of_the_gallery_agree_with_the_interpreter(name):
    # Finite differences through a loop magnify the rounding of its steps.
    tolerance = 1e-6 if name == "scanned_recursion" else 1e-9
    assert_transitions_agree(GALLERY[name].build(), tolerance=tolerance, metric="fisher")


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_chains_of_the_gallery_move_in_the_unstable_mode(name):
    model = GALLERY[name].build()
    assert_a_chain_moves(make_step(model, fast_unstable_sampling_mode), model)


def transitions_agree(recipe):
    assert_transitions_agree(build(recipe), metric="fisher")


@pytest.mark.slow
@pytest.mark.skipif(BY_C, reason="minutes of compilation")
def test_transitions_of_random_models_agree_with_the_interpreter():
    settings(max_examples=4, **OPTIONS)(seed(1)(given(recipes())(transitions_agree)))()


@pytest.mark.long
def test_transitions_of_a_hundred_random_models_agree_with_the_interpreter():
    settings(max_examples=100, **OPTIONS)(seed(2)(given(recipes())(transitions_agree)))()


# ---- Models whose graphs have tripped a compiler -------------------------------------------

FAST = {
    "data of open length",
    "integers between",
    "lengths of zero",
    "marginal factor analysis",
    "masks",
    "specified shapes",
}
LONG = {"copula"}
OTHERS = pytest.mark.parametrize("method", [MALA, MMALA, SimplifiedMMALA])
MARKS = {n: [pytest.mark.long if n in LONG else pytest.mark.slow] for n in set(MODELS) - FAST}
HARD = pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, [])) for n in MODELS])


@HARD
def test_transitions_of_hard_models_agree_with_the_interpreter(name):
    assert_transitions_agree(MODELS[name](), metric="fisher")


@HARD
def test_transitions_of_hard_models_agree_in_the_unstable_mode(name):
    assert_transitions_agree(MODELS[name](), mode=fast_unstable_sampling_mode, metric="fisher")


@OTHERS
@pytest.mark.parametrize("name", ["masks", "specified shapes"])
def test_so_do_those_of_the_other_samplers(method, name):
    assert_transitions_agree(MODELS[name](), method=method)


@pytest.mark.slow
@OTHERS
@pytest.mark.parametrize("name", ["varying slopes centred", "correlated random walk"])
def test_so_do_those_of_the_other_samplers_on_correlated_effects(method, name):
    assert_transitions_agree(MODELS[name](), method=method)


@pytest.mark.slow
@pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")
def test_without_the_writer_transitions_agree(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    assert_transitions_agree(MODELS["marginal factor analysis"](), metric="fisher")


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


def test_data_may_change_their_length():
    model = MODELS["data of open length"]()
    with model:
        step, reference = [
            PMALA(step_size=0.3, adapt_step_size=False, rng=2, **options)
            for options in ({}, {"compile_kwargs": {"mode": "interpreted"}})
        ]
    for length in (30, 7, 0):
        x = np.linspace(-1.0, 1.0, 2 * length).reshape(length, 2)
        pm.set_data({"x": x, "y_seen": np.arange(length) % 2}, model=model)
        point = model.initial_point()
        found, expected = step.step(point)[0], reference.step(point)[0]
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-9, err_msg=key)
