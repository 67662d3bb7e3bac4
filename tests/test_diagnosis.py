"""What goes wrong in a chain is said once, with what to do, where PyMC says such things."""

import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.stats.convergence import WarningType

from pymc_pmala import PMALA
from pymc_pmala.diagnosis import Diagnosis

QUICK = {"mode": "FAST_COMPILE"}
DRAWS = 600


def warnings_of(acceptance, target=0.5, could_grow=True):
    """Kinds of the warnings of a chain with these probabilities of acceptance."""
    diagnosis = Diagnosis(target)
    uniform = np.random.default_rng(1).random(len(acceptance))
    found = [
        diagnosis.observe(a, u < a, could_grow) for a, u in zip(acceptance, uniform, strict=True)
    ]
    return [warning.kind for warning in found if warning is not None]


def test_nothing_is_said_of_a_good_chain():
    assert warnings_of(np.full(DRAWS, 0.5)) == []


def test_an_acceptance_far_from_its_target_is_said_once():
    assert warnings_of(np.full(DRAWS, 0.15)) == [WarningType.BAD_ACCEPTANCE]
    assert warnings_of(np.full(DRAWS, 0.95)) == [WarningType.BAD_ACCEPTANCE]


def test_a_high_acceptance_at_the_largest_step_is_no_fault():
    assert warnings_of(np.full(DRAWS, 0.95), could_grow=False) == []


def test_the_acceptance_of_a_step_that_the_user_has_fixed_is_not_judged():
    assert warnings_of(np.full(DRAWS, 0.15), target=None) == []


def test_a_stuck_chain_is_said_once():
    sticky = np.tile(np.repeat([0.5, 0.0], [50, 250]), 3)
    assert warnings_of(sticky).count(WarningType.CONVERGENCE) == 1


def sample(model, step, **kwargs):
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    with model:
        return pm.sample(draws=150, tune=10, step=step, random_seed=2, **quiet, **kwargs)


@pytest.fixture(scope="module")
def stuck():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    step = PMALA(
        metric=np.full(2, 1e-12), step_size=1.0, adapt_step_size=False, model=model,
        compile_kwargs=QUICK,
    )  # fmt: skip
    return model, step


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("cores", [1, 2])
def test_the_user_sees_the_warning_of_each_chain(cores, stuck, caplog):
    model, step = stuck
    with caplog.at_level(logging.WARNING):
        idata = sample(model, step, chains=2, cores=cores)
    messages = [r.getMessage() for r in caplog.records if r.getMessage().startswith("A chain is")]
    assert len(messages) == 2
    assert all("target_accept" in message for message in messages)
    # The evidence stays; the objects, which cannot be stored, do not.
    assert not idata.sample_stats["accepted"].values.any()
    assert "warning" not in idata.sample_stats


def test_a_divergence_says_where():
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("broken", pt.switch(x[0] > 0.5, np.nan, 0.0))
    step = PMALA(metric="identity", model=model, compile_kwargs=QUICK)
    idata = sample(model, step, chains=1, cores=1, keep_warning_stat=True)
    stats = idata.sample_stats
    diverging = stats["diverging"].values[0]
    assert 0 < diverging.sum() < 150
    draws = idata.posterior["x"].values[0]
    for i, warning in enumerate(stats["warning"].values.reshape(150, -1)[:, 0]):
        if diverging[i]:
            assert warning.kind is WarningType.DIVERGENCE
            # The chain stays where it was: the draw is where the proposal came from.
            np.testing.assert_array_equal(warning.divergence_point_source["x"], draws[i])
            assert warning.divergence_point_dest["x"][0] > 0.5
