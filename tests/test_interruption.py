"""Ctrl-C ends a run with the draws made so far: real processes, sent a real signal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_pmala import PMALA
from pymc_pmala.step.interruption import is_interrupt

# A transition of some 20 ms: nearly all of the time is spent within the compiled function.
RUN = """
import os, signal, subprocess, sys, threading, time
import numpy as np, pymc as pm
from pymc_pmala import PMALA, compare

kind, cores, wait, tune, rows = sys.argv[1], *map(float, sys.argv[2:])
rng = np.random.default_rng(0)
X = rng.normal(size=(int(rows), 40)) / 10
with pm.Model() as model:
    beta = pm.Normal("beta", shape=40)
    pm.Poisson("y", pm.math.exp(X @ beta), observed=rng.poisson(1.0, size=int(rows)))

sent, drawing, seen = [], threading.Event(), set()

def drawn(trace, draw):
    # However busy the machine is: from when all chains that run at the same time have a draw.
    seen.add(draw.chain)
    if len(seen) >= cores:
        drawing.set()

def interrupt():
    drawing.wait()
    time.sleep(wait)
    sent.append(time.perf_counter())
    # As a terminal does: to all processes of the group.
    os.killpg(0, signal.SIGINT)

def started(*args):
    step = PMALA(*args)
    threading.Thread(target=interrupt, daemon=True).start()
    return step

def interrupted(*args):
    step = PMALA(*args)
    make_draw = step.step
    def first(point):
        # By another process: a thread of this one may have to wait until the chains are done.
        sent.append(time.perf_counter())
        subprocess.Popen(["sh", "-c", f"sleep {wait}; kill -INT -{os.getpgid(0)}"])
        step.step = make_draw
        return make_draw(point)
    step.step = first
    return step

quiet = {"random_seed": 1, "progressbar": False}
if kind == "compare":
    steps = {"first": PMALA, "second": interrupted, "third": PMALA}
    found = compare(model, steps=steps, draws=100, tune=int(tune), chains=2, **quiet)
    print("measured", *[f.name for f in found.samplers])
else:
    with model:
        step = started()
        idata = pm.sample(
            10**6, tune=int(tune), chains=4, cores=int(cores), step=step,
            mp_ctx=os.environ["CONTEXT"], callback=drawn,
            compute_convergence_checks=False, discard_tuned_samples=False, **quiet,
        )
        name = "posterior" if hasattr(idata, "posterior") else "warmup_posterior"
        print("chains", idata[name].sizes["chain"], "draws", idata[name].sizes["draw"])
        # The same step works as if nothing had been.
        again = pm.sample(3, tune=2, chains=2, cores=1, step=step, **quiet)
        assert again.posterior.sizes["chain"] == 2 and again.posterior.sizes["draw"] == 3
print("after", time.perf_counter() - sent[0])
"""


def run(*arguments, context="fork"):
    """What an interrupted process printed, in words."""
    if sys.platform == "win32":
        pytest.skip("Windows has no signal to a group of processes")
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "CONTEXT": context,
    }
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RUN, *map(str, arguments)],
        env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        # Chains of a run that hangs must not outlive the test.
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, errors[-3000:]
    return printed.split()


@pytest.mark.parametrize("tune", [5, 10**5], ids=["drawing", "tuning"])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("wait", [1.0, 1.013])
def test_an_interrupt_keeps_the_draws_and_ends_all_chains(cores, tune, wait):
    _, chains, _, draws, _, seconds = run("sample", cores, wait, tune, 20_000)
    assert int(chains) == cores
    assert int(draws) > 0
    assert float(seconds) < 20


@pytest.mark.slow
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_an_interrupt_keeps_the_draws_of_processes_that_were_not_forked(context):
    _, chains, _, draws, _, seconds = run("sample", 2, 1.0, 5, 20_000, context=context)
    assert int(chains) == 2
    assert int(draws) > 0
    assert float(seconds) < 20


@pytest.mark.slow
@pytest.mark.parametrize("wait", np.linspace(1.0, 1.1, 5))
@pytest.mark.parametrize("rows", [50, 5000])
def test_an_interrupt_of_quick_transitions_keeps_the_draws(rows, wait):
    _, _, _, draws, _, _ = run("sample", 2, wait, 5, rows)
    assert int(draws) > 0


def test_an_interrupt_of_a_comparison_ends_with_the_table_so_far():
    _, *measured, _, _ = run("compare", 1, 0.05, 20, 20_000)
    assert measured == ["first"]


# ---- In this process -------------------------------------------------------------------------


def model():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return model


def sample(step, model, **kwargs):
    options = {"draws": 10, "tune": 5, "chains": 3, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    with model:
        return pm.sample(step=step, **(options | quiet | kwargs))


def interrupted_at(step, call, error):
    """The step, with an error in one call of its compiled function."""
    propose, calls = step.kernel.propose, []

    def interrupted(*inputs):
        calls.append(inputs)
        if len(calls) == call:
            error()
        return propose(*inputs)

    step.kernel.propose = interrupted
    return step


def as_numba_returns_it():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as interrupt:
        raise SystemError("returned a result with an exception set") from interrupt


def test_what_numba_makes_of_an_interrupt_ends_all_chains_of_this_run_and_of_no_other():
    normal = model()
    step = PMALA(model=normal, compile_kwargs={"mode": "interpreted"})
    expected = sample(step, normal).posterior["x"].values
    interrupted_at(step, 35, as_numba_returns_it)
    idata = sample(step, normal)
    assert idata.posterior.sizes["chain"] == 2 or idata.posterior.sizes["draw"] == 10
    kept = idata.posterior["x"].values
    np.testing.assert_array_equal(kept, expected[: len(kept), : kept.shape[1]])
    assert idata.posterior.sizes["chain"] < 3
    np.testing.assert_array_equal(sample(step, normal).posterior["x"].values, expected)


def test_a_chain_resumed_by_hand_after_an_interrupt_goes_on():
    normal = model()
    step = interrupted_at(
        PMALA(model=normal, compile_kwargs={"mode": "interpreted"}), 6, as_numba_returns_it
    )
    state, point = step.sampling_state, normal.initial_point()
    for _ in range(2):
        step.sampling_state = state
        try:
            for _ in range(8):
                step.step(point)
        except KeyboardInterrupt:
            continue
    step.step(point)


def test_errors_that_have_nothing_to_do_with_an_interrupt_are_none():
    assert is_interrupt(KeyboardInterrupt())
    assert not is_interrupt(None)
    other = ValueError()
    other.__cause__, other.__context__ = ZeroDivisionError(), other
    assert not is_interrupt(other)
    with pytest.raises(SystemError) as caught:
        as_numba_returns_it()
    assert is_interrupt(caught.value)
