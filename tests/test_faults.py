"""Whatever goes wrong, the user sees what, and no wrong draw: the table in docs/faults.md."""

import errno
import logging
import multiprocessing
import os
import signal
import sys

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.backends.ndarray import NDArray
from pymc.exceptions import SamplingError
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_pmala import PMALA

X = np.linspace(-1.0, 1.0, 20)


def sample(model, method=PMALA, draws=60, tune=100, metric="fisher", **kwargs):
    options = {"chains": 1, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    with model:
        step = method(metric=metric, compile_kwargs={"mode": "interpreted"})
        return pm.sample(draws=draws, tune=tune, step=step, **(options | quiet | kwargs))


def assert_sound(idata):
    """Finite draws of a chain that moves, none of them from a broken proposal."""
    assert all(np.isfinite(values).all() for values in idata.posterior.data_vars.values())
    assert np.isfinite(idata.sample_stats["lp"]).all()
    assert idata.sample_stats["accepted"].values.mean() > 0.2
    assert not idata.sample_stats["diverging"].values.any()


# ---- Starts --------------------------------------------------------------------------------


def location_and_scale(mu, sigma):
    with pm.Model() as model:
        location = pm.Normal("mu", 0.0, 10.0, initval=mu)
        scale = pm.HalfNormal("sigma", initval=sigma)
        pm.Normal("y", location, scale, observed=[0.3, 1.1, -0.4])
    return model


def test_a_chain_arrives_from_a_start_far_away():
    idata = sample(location_and_scale(100.0, 1.0), draws=200, tune=300)
    assert_sound(idata)
    assert abs(np.median(idata.posterior["mu"])) < 3.0


def test_a_chain_arrives_within_few_transitions_from_a_start_out_of_all_proportion():
    idata = sample(location_and_scale(1e4, 1e-3), draws=400, tune=100)
    assert_sound(idata)
    assert abs(np.median(idata.posterior["mu"])) < 3.0
    assert 0.1 < np.median(idata.posterior["sigma"]) < 5.0


def proportion(start):
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Uniform("p", initval=start), observed=10)
    return model


def test_a_start_beside_a_boundary_is_left():
    idata = sample(proportion(1.0 - 1e-12))
    assert_sound(idata)
    assert idata.posterior["p"].values.mean() < 0.99


@pytest.mark.parametrize(
    "build",
    [lambda: proportion(1.0), lambda: location_and_scale(0.0, 0.0)],
    ids=["proportion", "scale"],
)
def test_a_start_on_a_boundary_is_refused_with_advice(build):
    with pytest.raises(SamplingError, match=r"log-density is -inf.*initvals"):
        sample(build())


# ---- Data ----------------------------------------------------------------------------------


def with_data(value):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 1.0, observed=np.array([0.3, value]))
    return model


def test_a_missing_value_in_the_data_is_imputed_by_pymc_with_its_warning():
    with pytest.warns(pm.exceptions.ImputationWarning):
        model = with_data(np.nan)
    idata = sample(model)
    assert_sound(idata)
    assert idata.posterior["y_unobserved"].shape == (1, 60, 1)


def test_an_infinite_value_in_the_data_is_refused_with_advice():
    with pytest.raises(SamplingError, match=r"log-density is -inf.*data"):
        sample(with_data(np.inf))


def test_perfectly_separable_data_are_sampled_under_a_proper_prior():
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 100.0)
        pm.Bernoulli("y", logit_p=slope * X, observed=(X > 0).astype(int))
    idata = sample(model, draws=200, tune=200)
    assert_sound(idata)
    assert np.median(idata.posterior["slope"]) > 20.0


def test_constant_data_are_sampled_with_a_prior_that_keeps_the_scale_from_zero():
    with pm.Model() as model:
        location, scale = pm.Normal("mu", 0.0, 10.0), pm.InverseGamma("sigma", 3.0, 1.0)
        pm.Normal("y", location, scale, observed=np.full(20, 3.0))
    idata = sample(model, draws=200, tune=200)
    assert_sound(idata)
    assert abs(np.median(idata.posterior["mu"]) - 3.0) < 0.1
    # σ⁻²⁴ exp(−1/σ), but for μ's uncertainty, has its mode at 1/24.
    assert idata.posterior["sigma"].values.min() > 0.01


def test_a_chain_that_runs_towards_a_pole_of_the_density_says_that_it_hardly_moves(caplog):
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.HalfFlat("sigma"), observed=np.zeros(5))
    with caplog.at_level(logging.WARNING, logger="pymc"):
        sample(model, draws=210, tune=200)
    messages = [record.getMessage() for record in caplog.records]
    assert any("hardly move sigma_log__" in m and "proper priors" in m for m in messages)


# ---- Log-densities ---------------------------------------------------------------------------


def exploding(start):
    with pm.Model() as model:
        rate = pm.Normal("log_rate", 0.0, 1000.0, initval=start)
        pm.Poisson("y", pm.math.exp(rate), observed=[3, 5])
    return model


def test_an_overflow_on_the_way_is_a_rejection_and_at_the_start_an_error():
    assert_sound(sample(exploding(1.0)))
    with pytest.raises(SamplingError, match="log-density is -inf"):
        sample(exploding(800.0))


class Raises(Op):
    """Zero, but an exception beyond a half."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        if inputs[0] > 0.5:
            raise ZeroDivisionError("in the user's own code")
        outputs[0][0] = np.zeros_like(inputs[0])

    def L_op(self, inputs, outputs, gradients):
        return [pt.zeros_like(inputs[0])]

    pullback = L_op


def test_an_exception_in_the_users_code_reaches_the_user():
    with pm.Model() as model:
        pm.Potential("broken", Raises()(pm.Normal("x")))
    with pytest.raises(ZeroDivisionError, match="user's own code"):
        sample(model, metric="identity")


# ---- Machines --------------------------------------------------------------------------------


class Dies(PMALA):
    """Kills the process of its chain, unless that is the user's."""

    transitions = 0

    def astep(self, q0):
        self.transitions += 1
        if self.transitions > 30 and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().astep(q0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_killed_process_is_an_error_and_not_a_silence():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises((OSError, EOFError, RuntimeError)):
        sample(model, method=Dies, chains=2, cores=2)


class Full(NDArray):
    """A trace on a disk with room for ten draws."""

    def record(self, *args, **kwargs):
        if self.draw_idx == 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().record(*args, **kwargs)


def test_a_trace_that_cannot_be_written_is_an_error_and_not_a_silence():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(OSError, match="No space left"):
        sample(model, trace=Full(model=model))
