"""On the path that users run: compiled transitions have the numbers of the interpreter.

By numba where that is pytensor's default, by C elsewhere.
"""

import pytest
from gallery import GALLERY
from hypothesis import given, seed, settings
from pymc.testing import fast_unstable_sampling_mode
from test_random_models import OPTIONS, build, recipes
from transitions import BY_C, assert_a_chain_moves, assert_transitions_agree, make_step

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
    assert_transitions_agree(GALLERY[name].build(), tolerance=tolerance)


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_chains_of_the_gallery_move_in_the_unstable_mode(name):
    model = GALLERY[name].build()
    assert_a_chain_moves(make_step(model, fast_unstable_sampling_mode), model)


def transitions_agree(recipe):
    assert_transitions_agree(build(recipe))


@pytest.mark.slow
@pytest.mark.skipif(BY_C, reason="minutes of compilation")
def test_transitions_of_random_models_agree_with_the_interpreter():
    settings(max_examples=4, **OPTIONS)(seed(1)(given(recipes())(transitions_agree)))()


@pytest.mark.long
def test_transitions_of_a_hundred_random_models_agree_with_the_interpreter():
    settings(max_examples=100, **OPTIONS)(seed(2)(given(recipes())(transitions_agree)))()
