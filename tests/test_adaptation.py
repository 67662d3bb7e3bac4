"""What a chain learns in tuning: how it mixes, and which noise does not strand it in a tail."""

import numpy as np
import pymc as pm
import pytest

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.factorization import Dense
from pymc_pmala.step.adaptation import Mixing

MODE = {"compile_kwargs": {"mode": "interpreted"}}
QUIET = {"progressbar": False, "compute_convergence_checks": False}


def autoregression(correlations, count, start=0.0, seed=0):
    """Pairs of neighbours in stationary chains of unit variance, one for each correlation."""
    rng = np.random.default_rng(seed)
    correlations = np.asarray(correlations)
    noise = np.sqrt(1 - correlations**2)
    x = np.full(len(correlations), start)
    for _ in range(count):
        before, x = x, correlations * x + noise * rng.normal(size=len(x))
        yield before, x


def transitions_of(mixing):
    """How many transitions make a draw where there are no other moves."""
    found = mixing.schedule(may_interweave=False, must_interweave=False)
    assert found.hyper_moves == 0
    return found.transitions


@pytest.mark.parametrize(
    ("correlations", "fewest", "most"),
    [([0.0, 0.1], 1, 1), ([0.5, 0.1], 2, 3), ([0.2, 0.7], 3, 5), ([0.9, 0.995], 32, 32)],
)
def test_draws_are_as_many_transitions_as_make_the_slowest_coordinate_nearly_independent(
    correlations, fewest, most
):
    mixing = Mixing(2)
    for before, after in autoregression(correlations, 1000):
        mixing.update(before, after)
    assert fewest <= transitions_of(mixing) <= most


def test_how_a_chain_came_from_afar_is_forgotten():
    mixing = Mixing(2)
    for before, after in autoregression([0.3, 0.3], 500, start=20.0):
        mixing.update(before, after)
    assert transitions_of(mixing) <= 2


def test_nothing_is_concluded_from_few_transitions_or_a_chain_that_stood_still():
    short, still = Mixing(1), Mixing(1)
    for before, after in autoregression([0.9], 20):
        short.update(before, after)
    for _ in range(200):
        still.update(np.zeros(1), np.zeros(1))
    assert transitions_of(short) == transitions_of(still) == 1


def slow_regression():
    """A scale with few data: no transition makes an independent draw of it."""
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 1)
        group = pm.Normal("group", 0, scale, shape=4)
        pm.Normal("y", group, 1, observed=rng.normal(size=(2, 4)))
    return model


@pytest.mark.parametrize("method", [PMALA, MMALA, SimplifiedMMALA, MALA])
def test_thinning_is_learned_in_tuning_and_told(method):
    with slow_regression():
        step = method(**MODE)
        idata = pm.sample(draws=30, tune=200, chains=1, step=step, random_seed=1,
                          discard_tuned_samples=False, **QUIET)  # fmt: skip
    assert 1 < step.chain.transitions <= 32
    assert (idata.sample_stats["n_transitions"] == step.chain.transitions).all()
    assert (idata.warmup_sample_stats["n_transitions"] == 1).all()


def test_a_draw_is_one_transition_for_euler_and_where_the_user_says_so():
    with slow_regression():
        for options in ({"integrator": "euler"}, {"thin": 1}):
            step = PMALA(**options, **MODE)
            pm.sample(draws=5, tune=200, chains=1, step=step, random_seed=1, **QUIET)
            assert step.chain.transitions == 1


def no_event():
    """A rate of which is known only that it is low: a long tail where the metric vanishes."""
    with pm.Model() as model:
        log_rate = pm.Normal("log_rate", 0, 3)
        pm.Poisson("events", pm.math.exp(log_rate), observed=0)
    return model


def acceptance_far_out(step):
    """Mean acceptance of a tuned chain's proposals from its lowest point in a thousand."""
    pm.sample(step=step, draws=5, tune=1000, chains=1, random_seed=3, **QUIET)
    state = step.chain.state_at(np.array([-10.0]))
    scales = step.chain.scales(step.chain.step_size(tuning=False))
    noises = np.random.default_rng(3).normal(size=(500, 1))
    ratios = [step.kernel.propose(state, noise, scales)[1] for noise in noises]
    return np.exp(np.minimum(ratios, 0.0)).mean()


def test_mala_does_not_strand_in_a_tail_where_the_metric_vanishes(monkeypatch):
    with no_event():
        separate = acceptance_far_out(MALA(thin=1, **MODE))
        # With one matrix for drift and noise the same test must fail.
        monkeypatch.setattr("pymc_pmala.step.preconditioning.Averaged", Dense)
        one = acceptance_far_out(MALA(thin=1, **MODE))
    assert one < 0.6 < separate


@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_steps_are_spread_about_the_tuned_size_by_the_jitter_asked_for(jitter):
    model = slow_regression()
    step = PMALA(model=model, step_size_jitter=jitter, thin=1, rng=3, **MODE)
    point = model.initial_point()
    for _ in range(20):
        point, _ = step.step(point)
    step.stop_tuning()
    sizes = []
    for _ in range(60):
        point, [stats] = step.step(point)
        sizes.append(stats["step_size"] / stats["step_size_bar"])
    low, high = min(sizes), max(sizes)
    assert 1 - jitter <= low <= 1 - 0.8 * jitter
    assert 1 + 0.8 * jitter <= high <= 1 + jitter


# ---- Transitions and interweaving moves ----------------------------------------------------------


def mixing_with(correlations, hyper_correlations):
    """What has been learned from a long chain with these correlations after each kind of move."""
    mixing = Mixing(len(correlations))
    mixing.count = 1000
    mixing.variance = np.ones(len(correlations))
    mixing.jump = 2.0 * (1.0 - np.array(correlations))
    mixing.hyper_jump = 2.0 * (1.0 - np.array(hyper_correlations))
    return mixing


@pytest.mark.parametrize(
    ("correlations", "hyper_correlations", "expected"),
    [
        # Nothing to gain: transitions alone make independent draws, or the moves help nowhere.
        ([0.1, 0.1], [0.5, 1.0], (1, 0)),
        ([0.7, 0.7], [1.0, 1.0], (5, 0)),
        # A scale that only these moves bring forward: one after every transition, twice at least.
        ([0.99, 0.1], [0.2, 1.0], (2, 1)),
        # Effects need 8.5 transitions, the scale a move now and then. Two cycles of 4 + 1 are the
        # cheapest (10.6 evaluations; 17.0 and 12.8 with 1 and 2 + 1, 18 without, and 18 with the
        # least number of cycles of 8 + 1).
        ([0.9, 0.8], [0.05, 1.0], (8, 4)),
        # Neither kind of move gets far: as many transitions as are allowed.
        ([1.0, 0.5], [1.0, 1.0], (32, 0)),
    ],
)
def test_the_cheapest_schedule_is_chosen(correlations, hyper_correlations, expected):
    mixing = mixing_with(correlations, hyper_correlations)
    assert mixing.schedule(may_interweave=True, must_interweave=False) == expected
    transitions, _ = mixing.schedule(may_interweave=False, must_interweave=False)
    assert transitions == min(32, max(1, round(np.log(0.15) / np.log(max(correlations) - 1e-12))))


def test_interweaving_that_the_user_wants_is_used_where_it_does_not_help():
    assert mixing_with([0.1], [1.0]).schedule(True, True) == (2, 1)
    transitions, every = mixing_with([0.9], [1.0]).schedule(True, True)
    assert every > 0 == transitions % every


def test_what_each_kind_of_move_does_is_learned_from_a_chain():
    """A coordinate that transitions move and one that the other moves do."""
    rng, mixing = np.random.default_rng(0), Mixing(2)
    slow, fast = np.array([0.1, 0.98]), np.array([1.0, 0.1])
    x = np.zeros(2)
    for _ in range(3000):
        before = x
        x = after = slow * x + np.sqrt(1 - slow**2) * rng.normal(size=2)
        x = fast * x + np.sqrt(1 - fast**2) * rng.normal(size=2)
        mixing.update(before, after, x)
    np.testing.assert_allclose(mixing.correlations, slow, atol=0.05)
    assert mixing.schedule(may_interweave=True, must_interweave=False) == (2, 1)
    assert mixing.schedule(may_interweave=False, must_interweave=False).transitions == 32
