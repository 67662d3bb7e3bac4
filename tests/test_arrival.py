"""From far starts chains go to the posterior before anything is learned."""

import logging

import arviz as az
import numpy as np
import pymc as pm
import pytest

from pymc_pmala import MALA, PMALA

INTERPRETED = {"mode": "interpreted"}
SLOPES = [0.5, -0.3, 0.2]


def regressors(rows):
    return np.random.default_rng(0).normal(size=(rows, 3))


def negative_binomial():
    x = regressors(4000)
    mean = np.exp(1.5 + x @ SLOPES)
    y = np.random.default_rng(1).negative_binomial(2, 2 / (2 + mean))
    a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 2, shape=3)
    pm.NegativeBinomial("y", pm.math.exp(a + x @ b), pm.Exponential("alpha", 1), observed=y)


def gamma():
    x = regressors(3000)
    y = np.random.default_rng(1).gamma(3.0, np.exp(4.0 + x @ SLOPES) / 3.0)
    a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 2, shape=3)
    alpha = pm.Exponential("alpha", 1)
    pm.Gamma("y", alpha=alpha, beta=alpha / pm.math.exp(a + x @ b), observed=y)


def student_t():
    x = regressors(2000)
    y = 250.0 + x @ SLOPES + 3.0 * np.random.default_rng(1).standard_t(4, size=2000)
    a, b = pm.Normal("a", 0, 100), pm.Normal("b", 0, 10, shape=3)
    sigma, nu = pm.HalfNormal("sigma", 10), pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu=nu, mu=a + x @ b, sigma=sigma, observed=y)


@pytest.mark.slow
@pytest.mark.parametrize("build", [negative_binomial, gamma, student_t])
@pytest.mark.parametrize("sampler", [PMALA, MALA])
def test_a_regression_needs_few_transitions_a_draw_from_the_default_start(build, sampler):
    with pm.Model():
        build()
        idata = pm.sample(
            500, tune=300, chains=2, cores=1, step=sampler(), random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    summary = az.summary(idata, round_to="none")
    assert idata.sample_stats["n_transitions"].max() <= 4
    assert summary["ess_bulk"].astype(float).min() > 250
    assert summary["r_hat"].astype(float).max() < 1.02


def hierarchy():
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    effects = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
    errors = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]
    pm.Normal("y", theta, errors, observed=effects)


@pytest.mark.parametrize("seed", range(3))
def test_a_hierarchy_does_not_run_into_its_neck(seed):
    with pm.Model() as model:
        hierarchy()
        step = PMALA(rng=seed, compile_kwargs={"mode": "interpreted"})
    point = model.initial_point()
    point["theta"] = 500.0 * np.ones(8)
    point, _ = step.step(point)
    assert np.abs(point["theta"]).max() < 100.0
    assert -3.0 < point["tau_log__"] < 6.0


@pytest.mark.parametrize("sampler", [PMALA, MALA])
def test_the_first_tuning_step_brings_a_regression_home(sampler):
    x = regressors(500)
    y = np.random.default_rng(1).poisson(np.exp(3.0 + x @ SLOPES))
    with pm.Model() as model:
        b = pm.Normal("b", 0, 10, shape=4)
        pm.Poisson("y", pm.math.exp(b[0] + x @ b[1:]), observed=y)
        step = sampler(rng=1, compile_kwargs=INTERPRETED)
    logp = model.compile_logp()
    at_home = logp({"b": np.r_[3.0, SLOPES]}) - 20.0
    # The default start; rates that are e^100 times too high, where a full step of Fisher scoring
    # divides them by e; rates that are as much too low, where it is e^100 long; and both at once.
    starts = {(0, 0): 20, (100, 0): 60, (-100, 0): 60, (10, 10): 50, (-30, 20): 60}
    for (intercept, slope), most in starts.items():
        step.reset_tuning()
        start = {"b": np.array([intercept, slope, slope, -slope], dtype=float)}
        point, [stats] = step.step(start)
        assert logp(point) > at_home
        assert stats["n_steps"] <= most


@pytest.mark.parametrize("scale", [1.0, "free"])
def test_a_chain_arrives_from_where_the_information_is_not_finite(scale):
    """With information that is averaged as a whole, and with that of the data alone."""
    y = np.random.default_rng(1).poisson(20.0, size=(40, 2))
    with pm.Model() as model:
        sd = pm.HalfNormal("sd") if scale == "free" else scale
        a = pm.Normal("a", 0, sd, shape=2, initval=[-8.0, 12.0])
        pm.Poisson("y", pm.math.exp(a), observed=y)
        step = PMALA(rng=1, compile_kwargs=INTERPRETED)
    known = step.chain.preconditioning._pieces

    def unknown_far_away(x):
        far = np.abs(x[-2:] - 3.0).max() > 5.0
        return [np.full_like(piece, np.inf) if far else piece for piece in known(x)]

    step.chain.preconditioning._pieces = unknown_far_away
    point, _ = step.step(model.initial_point())
    np.testing.assert_allclose(point["a"], np.log(20.0), atol=0.3)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_chain_that_is_still_far_when_tuning_ends_says_so(arrives, monkeypatch, caplog):
    """With so many steps towards the posterior that it arrives, and with none."""
    if not arrives:
        monkeypatch.setattr("pymc_pmala.step.chain.MOST_MOVES", 0)
    with pm.Model():
        # A constant metric that fits nowhere: the steps of the transitions are short.
        pm.Normal("x", sigma=0.01, shape=2, initval=[50.0, -80.0])
        step = MALA(metric=np.full(2, 1e4), step_size=1e-4, compile_kwargs=INTERPRETED)
        with caplog.at_level(logging.WARNING):
            pm.sample(
                15, tune=5, chains=2, cores=1, step=step, random_seed=1, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
    messages = [r.getMessage() for r in caplog.records if "far from the bulk" in r.getMessage()]
    assert len(messages) == (0 if arrives else 2)
    assert all("after 5 draws" in m and "Tune longer" in m for m in messages)
