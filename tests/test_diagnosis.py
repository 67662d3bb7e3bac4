"""What goes wrong in a chain is said once, with what to do, where PyMC says such things."""

import logging

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from modes import INTERPRETED
from pymc.distributions import transforms
from pymc.stats.convergence import WarningType
from transitions import one_by_one

from pymc_pmala import MALA, PMALA
from pymc_pmala.factorization import Arrow, Dense
from pymc_pmala.factorization.banded import BandedArrow
from pymc_pmala.step.diagnosis import Diagnosis

QUICK = {"mode": "FAST_COMPILE"}
DRAWS = 600


def warnings_of(acceptance, target=0.5, could_grow=True):
    """Kinds of the warnings of a chain with these probabilities of acceptance."""
    diagnosis = Diagnosis(target)
    uniform = np.random.default_rng(1).random(len(acceptance))
    found = [
        diagnosis.observe(a, int(u < a), int(u >= a), could_grow)
        for a, u in zip(acceptance, uniform, strict=True)
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


def floor_warnings_of(floored):
    """How often the floor is reported, in a chain whose metric is so at each check."""
    diagnosis, found = Diagnosis(0.5), []
    looks = iter(floored)
    for _ in range(50 * len(floored)):
        diagnosis.observe(0.5, 1, 0, True)
        if diagnosis.wants_metric:
            found.append(diagnosis.observe_floor(next(looks, False)))
    return sum(warning is not None for warning in found)


def test_a_floor_at_work_is_said_once_and_only_in_more_than_one_draw_of_a_hundred():
    rare = np.arange(600) % 150 == 149
    assert floor_warnings_of(np.zeros(600, dtype=bool)) == 0
    assert floor_warnings_of(rare) == 0
    assert floor_warnings_of(np.arange(600) % 20 == 0) == 1
    assert floor_warnings_of(np.ones(600, dtype=bool)) == 1


def unidentified_sum():
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("a") + pm.Flat("b"), 1.0, observed=np.linspace(-1.0, 1.0, 7))
    return model


def unidentified_groups():
    """An intercept beside offsets of groups, all without priors."""
    group = np.repeat(np.arange(12), 3)
    with pm.Model() as model:
        mean = pm.Flat("intercept") + pm.Flat("offset", shape=12)[group]
        pm.Normal("y", mean, 1.0, observed=np.linspace(-1.0, 1.0, 36))
    return model


def unidentified_walk():
    """The differences of a chain of latents: a banded metric."""
    with pm.Model() as model:
        walk = pm.Flat("walk", shape=30)
        pm.Normal("y", walk[1:] - walk[:-1], 1.0, observed=np.linspace(-1.0, 1.0, 29))
    return model


def uninformed():
    with pm.Model() as model:
        pm.Normal("x")
        pm.Normal("vague", sigma=1e8)
    return model


def correlated():
    """Identified, if barely: correlations to eight digits, and scales far apart."""
    x = np.linspace(0.0, 1.0, 20)
    design = np.column_stack([x, x + 1e-4 * x**2])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1e4, shape=2)
        pm.Normal("y", design @ beta, 1e-2, observed=x)
        pm.Normal("wide", sigma=1e5)
        pm.Normal("narrow", sigma=1e-5)
    return model


@pytest.mark.filterwarnings("ignore:.*Flat:UserWarning")
@pytest.mark.parametrize(
    ("build", "floored"),
    [
        (unidentified_sum, True),
        (unidentified_groups, True),
        (unidentified_walk, True),
        (uninformed, True),
        (correlated, False),
    ],
)
@pytest.mark.parametrize("method", [PMALA, MALA])
def test_an_unidentified_direction_is_told_and_a_correlated_one_is_not(
    method, build, floored, caplog
):
    model = build()
    step = method(model=model, compile_kwargs={"mode": "interpreted"})
    with caplog.at_level(logging.WARNING):
        idata = sample(model, step, draws=250, chains=1, cores=1)
    messages = [r.getMessage() for r in caplog.records if "metric's floor" in r.getMessage()]
    assert len(messages) == floored
    assert idata.sample_stats["metric_floored"].values[0, -1] == floored
    assert all("explain_metric" in message for message in messages)


NOTHING = np.array([], dtype=int)
BLOCKS = np.kron(np.eye(2), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("factorization", "pattern"),
    [
        (Dense(5), np.ones((5, 5))),
        (Arrow([np.arange(4).reshape(2, 2)], np.array([4])), np.pad(BLOCKS, (0, 1))),
        (Arrow([np.arange(4).reshape(2, 2)], NOTHING), BLOCKS),
        (BandedArrow(np.arange(5), 2, NOTHING), np.tri(5, k=2) * np.tri(5, k=2).T),
        (BandedArrow(np.arange(4), 1, np.array([4])), np.tri(5, k=1) * np.tri(5, k=1).T),
    ],
    ids=["dense", "arrow", "blocks", "band", "bordered band"],
)
def test_diagonals_are_those_of_the_factor_and_of_the_metric(factorization, pattern):
    d = factorization.dimension
    if len(getattr(factorization, "border", NOTHING)):
        pattern[4] = pattern[:, 4] = 1.0
    metric = (0.5 + np.random.default_rng(4).random((d, d))) * pattern
    metric = metric + metric.T + 3.0 * d * np.diag(np.arange(1.0, d + 1.0))
    pieces = factorization.pieces(pt.constant(factorization.seeds @ metric))
    factor = pytensor.function([], factorization.factor(pieces), mode=INTERPRETED)()
    pivots, diagonal = factorization.diagonals(factor)
    np.testing.assert_allclose(pivots, np.linalg.cholesky(metric).diagonal() ** 2)
    np.testing.assert_allclose(diagonal, metric.diagonal())


def sample(model, step, **kwargs):
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    kwargs = {"draws": 150} | kwargs
    with model:
        return pm.sample(tune=10, step=step, random_seed=2, **quiet, **kwargs)


def test_a_slow_chain_names_what_it_hardly_moves():
    diagnosis = Diagnosis(0.5)
    sizes = {"mu": 1, "theta": 2, "tau_log__": 1}
    assert diagnosis.judge_mixing(np.array([0.5, 0.3, 0.2, 0.4]), sizes, 2) is None
    correlations = np.array([0.5, 0.3, 0.91, 0.97])
    message = diagnosis.judge_mixing(correlations, sizes, 32).message
    assert "Draws hardly move theta, tau_log__:" in message
    assert "0.97" in message
    assert "32" in message
    assert diagnosis.judge_mixing(correlations, sizes, 32) is None


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


def broken_beyond_a_half():
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("broken", pt.switch(x[0] > 0.5, np.nan, 0.0))
    return model


@pytest.mark.parametrize("thin", [1, None, 5], ids=["every", "learned", "loop"])
def test_every_divergence_of_a_draw_counts_and_says_where(thin):
    """Against what the transitions were asked and answered, unless they are one compiled loop."""
    model = broken_beyond_a_half()
    options = {} if thin == 5 else {"compile_kwargs": {"mode": "interpreted"}}
    step = PMALA(metric="identity", model=model, thin=thin, **options)
    if thin is None:
        step.stop_tuning = lambda: (PMALA.stop_tuning(step), setattr(step.chain, "transitions", 4))
    seen = []
    propose = step.kernel.propose

    def observed(state, *inputs):
        proposed, ratio = propose(state, *inputs)
        seen.append((state.x.copy(), proposed.x.copy()))
        return proposed, ratio

    step.kernel.propose = observed
    idata = sample(model, step, chains=1, cores=1, keep_warning_stat=True)
    stats = idata.sample_stats
    diverging = stats["diverging"].values[0]
    assert 0 < diverging.sum() < 150
    divergences = stats["divergences"].values[0]
    assert (np.diff(divergences, prepend=0) > 0).tolist() == diverging.tolist()
    n = int(stats["n_transitions"].values.max())
    assert n == (thin or 4)
    if thin != 5:
        # Proposals from the last 150 draws; a call that does not move is an evaluation.
        asked = seen[-150 * n :]
        assert divergences[-1] == sum(there[0] > 0.5 for _, there in asked)
        sources = [here for here, there in asked if there[0] > 0.5]
    for i, warning in enumerate(stats["warning"].values.reshape(150, -1)[:, 0]):
        if diverging[i] and warning.divergence_point_source is not None:
            assert warning.kind is WarningType.DIVERGENCE
            source, there = warning.divergence_point_source["x"], warning.divergence_point_dest["x"]
            assert source[0] <= 0.5 < there[0]
            if thin != 5:
                assert any(np.array_equal(source, here) for here in sources)


@pytest.mark.parametrize("mode", [None, "interpreted"])
def test_a_loop_reports_what_its_transitions_did(mode):
    """The same noise, one transition after another and in one call."""
    model = broken_beyond_a_half()
    one, many = (
        PMALA(metric="identity", model=model, compile_kwargs={"mode": m})
        for m in ("interpreted", mode)
    )
    rng, x = np.random.default_rng(3), np.array([0.3, 0.1])
    noises, log_uniforms = rng.normal(size=(7, 2)), np.log(rng.uniform(size=7))
    scales = one.chain.scales(1.0)
    state, expected = one_by_one(one.kernel, one.kernel.init(x), noises, log_uniforms, scales)
    last, found = many.kernel.run(many.kernel.init(x), noises, log_uniforms, scales)
    np.testing.assert_allclose(last.x, state.x, rtol=1e-12)
    np.testing.assert_allclose(last.log_det, state.log_det, rtol=1e-12)
    assert expected.diverging > 0
    np.testing.assert_allclose(found.acceptance, expected.acceptance, rtol=1e-9)
    np.testing.assert_allclose(found.divergence, expected.divergence, rtol=1e-9)
    for name in ("transitions", "accepted", "rejections", "diverging"):
        assert getattr(found, name) == getattr(expected, name)


def test_stuck_counts_proposals_and_not_draws():
    diagnosis = Diagnosis(None)
    told = [diagnosis.observe(0.0, 0, 30, True) for _ in range(5)]
    assert [warning is not None for warning in told] == [False, False, False, True, False]
    assert "120 proposals in a row" in told[3].message
    # A chain that moves in each draw, though not in its last transitions, is not stuck.
    diagnosis = Diagnosis(None)
    assert not any(diagnosis.observe(2.0 / 30, 2, 25, True) for _ in range(300))


def test_without_tuning_the_advice_is_to_tune_and_not_to_tune_longer():
    for tuned, words in ((0, "has not been tuned"), (50, "Tune longer than 50 draws")):
        diagnosis = Diagnosis(0.5)
        diagnosis.tuned = tuned
        found = [diagnosis.observe(0.1, 1, 0, True) for _ in range(200)]
        assert words in found[-1].message


def test_steps_that_are_too_small_are_told_once_and_not_also_as_slow_draws():
    diagnosis = Diagnosis(0.5)
    diagnosis.tuned = 50
    [*_, warning] = [diagnosis.observe(0.99, 1, 0, True) for _ in range(200)]
    assert "smaller than they need to be" in warning.message
    assert diagnosis.judge_mixing(np.array([0.97]), {"x": 1}, 32) is None


# ---- A metric that does not fit ----------------------------------------------------------------


def half_normal():
    """G = e^{2u}, as of a whole Normal: it vanishes in the tail, where the slope is 1."""
    with pm.Model() as model:
        pm.Normal("s", transform=transforms.log, initval=1.0)
    return model, lambda model, x: pt.diag(pt.exp(2.0 * x))


def eight_schools():
    effects, errors = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        pm.Normal("y", pm.Normal("theta", mu, tau, shape=8), errors, observed=effects)
    return model, "fisher"


def funnel():
    with pm.Model() as model:
        pm.Normal("x", 0, pm.math.exp(pm.Normal("v", 0, 3) / 2), shape=9)
    return model, "fisher"


def separable():
    x = np.random.default_rng(1).normal(size=(60, 4))
    with pm.Model() as model:
        logit = x @ pm.Normal("beta", 0, 3, shape=4)
        pm.Bernoulli("y", logit_p=logit, observed=(x[:, 0] > 0).astype(int))
    return model, "fisher"


def half_cauchy():
    with pm.Model() as model:
        pm.HalfCauchy("scale", 1, shape=3)
    return model, "fisher"


def priors():
    with pm.Model() as model:
        pm.HalfNormal("half", shape=10)
        pm.Exponential("exponential", 1, shape=5)
        pm.Gamma("gamma", 0.5, 1, shape=4)
        pm.Beta("beta", 0.5, 0.5, shape=3)
        pm.StudentT("student", 3, shape=3)
    return model, "fisher"


SOUND = [eight_schools, funnel, separable, half_cauchy, priors]


@pytest.mark.parametrize(
    ("build", "told"),
    [(half_normal, True), *[pytest.param(b, False, marks=pytest.mark.slow) for b in SOUND]],
)
def test_a_metric_that_vanishes_is_told_and_one_that_varies_is_not(build, told, caplog):
    model, metric = build()
    step = PMALA(metric=metric, model=model)
    with caplog.at_level(logging.WARNING), model:
        pm.sample(
            2000, tune=500, chains=2, cores=1, step=step, random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    messages = [r.getMessage() for r in caplog.records if "metric of" in r.getMessage()]
    # A chain that never meets the place cannot tell of it: here two are run, and one does.
    assert bool(messages) is told
    assert all("s_log__" in m and "smaller than usual" in m for m in messages)
