"""Draws made ahead are those that would be made one by one: to the bit, and with their account."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.compound import CompoundStep

from pymc_pmala import MALA, PMALA

Y = np.array([1.4, -0.2, 2.9, 0.7])
DRAWS = 37
NAMES = {"mu", "tau_log__", "theta"}


@pytest.fixture(autouse=True)
def as_many_as_allowed(monkeypatch):
    """Blocks of 1, 2, 4, 3, 10, 10, … draws, however slow the machine is."""
    monkeypatch.setattr("pymc_pmala.step.ahead._BUDGET", 1e9)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        data = pm.Data("data", Y)
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", mu, tau, shape=4)
        pm.Normal("y", theta, 1.0, observed=data)
    return model


BUILDS = {
    "interwoven": lambda model: PMALA(model=model, interweave=True, metric="fisher"),
    "averaged": lambda model: PMALA(model=model, metric="adapt", thin=2),
    "constant": lambda model: MALA(model=model),
    "jittered": lambda model: PMALA(model=model, step_size_jitter=0.2, interweave=False),
}


@pytest.fixture(scope="module", params=BUILDS)
def step(request, model):
    return BUILDS[request.param](model)


@pytest.fixture(scope="module")
def interwoven(model):
    return BUILDS["interwoven"](model)


def tuned(step, model, seed=3, start=None):
    """The point after tuning."""
    step.set_rng(np.random.default_rng(seed))
    point = start or model.initial_point()
    for _ in range(60):
        point, _ = step.step(point)
    step.stop_tuning()
    return point


def path(step, point, draws=DRAWS, between=lambda i, point: point):
    """Points and statistics of the next draws; something may happen between two of them."""
    kept = []
    for i in range(draws):
        point = between(i, point)
        point, [stats] = step.step(point)
        stats = {name: value for name, value in stats.items() if name != "warning"}
        kept.append(({name: np.array(value) for name, value in point.items()}, stats))
    return kept


def paths(step, model, between=lambda i, point: point):
    """With and without draws made ahead."""
    found = []
    for ahead in (True, False):
        step._may_run_ahead = ahead
        found.append(path(step, tuned(step, model), between=between))
    step._may_run_ahead = True
    return found


def sizes_of_blocks(step):
    """A list to which every call of the compiled loop after tuning adds its number of draws."""
    sizes, draw = [], step.chain.draw

    def observed(*arguments):
        drawn = draw(*arguments)
        sizes.append(len(drawn.numbers))
        return drawn

    step.chain.draw = observed
    return sizes


# ---- The same draws --------------------------------------------------------------------------


def test_draws_and_statistics_are_the_same_with_and_without_run_ahead(step, model):
    ahead, alone = paths(step, model)
    np.testing.assert_equal(ahead, alone)
    assert len({stats["model_logp"] for _, stats in alone}) > DRAWS / 3


def test_blocks_grow_and_end_where_the_metric_is_checked(interwoven, model):
    step = copy.deepcopy(interwoven)
    point = tuned(step, model)
    sizes = sizes_of_blocks(step)
    path(step, point, 300)
    assert sizes == [1, 2, 4, 3, *[10] * 19, 50, 50]


def test_what_is_made_in_vain_is_little_if_every_draw_starts_anew(interwoven, model):
    step = copy.deepcopy(interwoven)
    point = tuned(step, model)
    path(step, point, 25)
    sizes = sizes_of_blocks(step)
    path(step, point, 20, lambda i, point: {name: value + 0.01 for name, value in point.items()})
    # One by one again, and after each that was wanted, two are tried.
    assert sizes == [1, 2] * 10


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_is_the_same_with_and_without_run_ahead_on_any_number_of_cores(
    cores, interwoven, model
):
    found = []
    for ahead, on in ((False, 1), (True, cores)):
        interwoven._may_run_ahead = ahead
        with model:
            idata = pm.sample(
                DRAWS, tune=60, chains=2, cores=on, step=interwoven, mp_ctx="fork", random_seed=5,
                progressbar=False, compute_convergence_checks=False,
            )  # fmt: skip
        groups = (idata.posterior, idata.sample_stats)
        found.append([{name: v.values for name, v in g.data_vars.items()} for g in groups])
    np.testing.assert_equal(*found)


def test_without_tuning_draws_are_the_same_with_and_without_run_ahead(model):
    found = []
    step = MALA(model=model)
    for ahead in (True, False):
        step._may_run_ahead = ahead
        step.set_rng(np.random.default_rng(2))
        step.stop_tuning()
        found.append(path(step, model.initial_point()))
    np.testing.assert_equal(*found)


# ---- Pausing and resuming ----------------------------------------------------------------------


def test_a_state_saved_after_any_number_of_draws_continues_to_the_same_draws(step, model):
    point = tuned(step, model)
    start = pickle.dumps(step.sampling_state)
    expected = path(step, point)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    for count in (0, 1, 2, 5, 7, 9, 10, 14, 20):
        step.sampling_state = pickle.loads(start)
        made = path(step, point, count)
        np.testing.assert_equal(made, expected[:count])
        here = made[-1][0] if made else point
        saved = pickle.dumps(step.sampling_state)
        twin = cloudpickle.loads(cloudpickle.dumps(step))
        # The one that has been paused, a copy of it, one that stands elsewhere, and itself again:
        # in the middle of what it has made ahead, at the very point.
        np.testing.assert_equal(path(step, here, 8), expected[count : count + 8])
        np.testing.assert_equal(path(twin, here, 8), expected[count : count + 8])
        other.sampling_state = pickle.loads(saved)
        np.testing.assert_equal(path(other, here, 8), expected[count : count + 8])
        step.sampling_state = pickle.loads(saved)
        np.testing.assert_equal(path(step, here, 3), expected[count : count + 3])


def test_a_state_restored_at_the_last_draw_forgets_what_was_made_ahead(interwoven, model):
    """The point is that of the last draw, but what follows is another chain's."""
    point = tuned(interwoven, model)
    paused = pickle.dumps(interwoven.sampling_state)
    last = path(interwoven, point, 15)[-1][0]
    interwoven.sampling_state = pickle.loads(paused)
    found = path(interwoven, last, 5)
    interwoven.sampling_state = pickle.loads(paused)
    interwoven._may_run_ahead = False
    expected = path(interwoven, last, 5)
    interwoven._may_run_ahead = True
    np.testing.assert_equal(found, expected)


def test_draws_do_not_depend_on_whether_the_state_is_looked_at(interwoven, model):
    expected = path(interwoven, tuned(interwoven, model))

    def look(i, point):
        if i % 3 == 0:
            pickle.dumps(interwoven.sampling_state)
        return point

    np.testing.assert_equal(path(interwoven, tuned(interwoven, model), between=look), expected)


# ---- Points and data that change -----------------------------------------------------------------


def test_a_point_changed_in_place_starts_anew_from_there(step, model):
    def change(i, point):
        if i in (5, 13, 14, 30):
            point["theta"][1] += 0.25
        return point

    ahead, alone = paths(step, model, change)
    np.testing.assert_equal(ahead, alone)
    # With the same noise, chains come together again soon.
    undisturbed = path(step, tuned(step, model))
    assert not np.array_equal(alone[5][0]["theta"], undisturbed[5][0]["theta"])


def test_another_point_starts_anew_from_there(step, model):
    seen = []

    def go_back(i, point):
        if i == 0:
            seen.clear()
        seen.append({name: np.array(value) for name, value in point.items()})
        # From where the block was begun, from a draw within it, and from elsewhere.
        back = {5: 3, 12: 10, 15: 11, 25: 2}.get(i, i)
        return {name: np.array(value) for name, value in seen[back].items()}

    np.testing.assert_equal(*paths(step, model, go_back))


def test_new_data_in_mid_buffer_are_used_from_the_next_draw_on(step, model):
    logp = model.compile_logp()

    shifts = {6: 1.0, 17: -0.5, 24: 2.0, 33: 0.0}
    expected = []

    def change(i, point):
        expected.append(float(logp(point)))
        if i in shifts:
            model.set_data("data", Y + shifts[i])
        return point

    ahead, alone = paths(step, model, change)
    np.testing.assert_equal(ahead, alone)
    # The log-density of a draw is that under the data of its time.
    found = [stats["model_logp"] for _, stats in ahead[:-1]]
    np.testing.assert_allclose(found, expected[1:DRAWS], rtol=1e-10)


def test_draws_written_over_change_no_other_draw(interwoven, model):
    expected = path(interwoven, tuned(interwoven, model))
    point, found = tuned(interwoven, model), []
    for _ in range(DRAWS):
        new, _ = interwoven.step(point)
        point = {name: np.array(value) for name, value in new.items()}
        found.append(point)
        for name in NAMES:
            new[name][...] = 7.0
    np.testing.assert_equal(found, [kept for kept, _ in expected])


# ---- Interrupts, callbacks, compound steps -----------------------------------------------------


def test_an_interrupt_in_mid_buffer_keeps_the_draws(interwoven, model):
    def sample(callback=None):
        with model:
            return pm.sample(
                DRAWS, tune=60, chains=1, cores=1, step=interwoven, random_seed=5,
                callback=callback, progressbar=False, compute_convergence_checks=False,
            ).posterior["theta"].values  # fmt: skip

    def interrupt(trace, draw):
        if draw.draw_idx == 60 + 14:
            raise KeyboardInterrupt

    expected = sample()
    np.testing.assert_array_equal(sample(interrupt), expected[:, :15])
    np.testing.assert_array_equal(sample(), expected)


def test_a_callback_sees_every_draw_at_its_time(interwoven, model):
    seen = []
    with model:
        idata = pm.sample(
            DRAWS, tune=60, chains=1, cores=1, step=interwoven, random_seed=5, progressbar=False,
            compute_convergence_checks=False,
            callback=lambda trace, draw: seen.append((draw.draw_idx, draw.point["mu"].copy())),
        )  # fmt: skip
    assert [i for i, _ in seen] == list(range(60 + DRAWS))
    np.testing.assert_array_equal([mu for _, mu in seen[60:]], idata.posterior["mu"].values[0])


def test_steps_for_some_of_the_variables_never_run_ahead(model):
    both = [PMALA([model["mu"], model["tau"]], model=model), PMALA([model["theta"]], model=model)]
    for step in (
        CompoundStep(both),
        CompoundStep([both[1], pm.Metropolis([model["mu"]], model=model)]),
    ):
        ours = [method for method in step.methods if isinstance(method, PMALA)]
        point = model.initial_point()
        sizes = [sizes_of_blocks(method) for method in ours]
        for method in ours:
            method.set_rng(np.random.default_rng(1))
            method.stop_tuning()
        for _ in range(20):
            point, _ = step.step(point)
        assert sizes == [[1] * 20] * len(ours)


# ---- Warnings ------------------------------------------------------------------------------------


def test_no_warning_is_lost_where_draws_are_made_ahead(interwoven, model, monkeypatch):
    """Two of one block are told one after the other."""

    def observe(self, *arguments):
        self.draws += 1
        if self.draws in (13, 14, 22):
            return SamplerWarning(WarningType.BAD_ENERGY, f"draw {self.draws}", "warn")
        return None

    monkeypatch.setattr("pymc_pmala.step.diagnosis.Diagnosis.observe", observe)
    found = []
    for ahead in (True, False):
        interwoven._may_run_ahead = ahead
        point, told = tuned(interwoven, model), []
        for _ in range(40):
            point, [stats] = interwoven.step(point)
            told += [stats["warning"].message] if stats["warning"] else []
        found.append(told)
    interwoven._may_run_ahead = True
    assert found[0] == found[1] == ["draw 13", "draw 14", "draw 22"]


# ---- Threads -------------------------------------------------------------------------------------


def test_copies_in_threads_give_the_draws_that_they_give_one_after_the_other(step, model):
    # PyMC compiles for it with settings that are global: not in two threads at once.
    start = model.initial_point()

    def run(one, seed):
        return path(one, tuned(one, model, seed, dict(start)), 60)

    copies = [cloudpickle.loads(cloudpickle.dumps(step)) for _ in range(2)]
    expected = [run(one, seed) for seed, one in enumerate(copies)]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(run, copies, range(2)))
    np.testing.assert_equal(found, expected)
    assert not np.array_equal(found[0][-1][0]["theta"], found[1][-1][0]["theta"])
