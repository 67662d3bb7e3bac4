"""One transition by two ways of running it: the production path against the interpreter."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from pytensor.compile.mode import get_default_mode
from pytensor.link.numba.linker import NumbaLinker

from pymc_pmala import PMALA
from pymc_pmala.compile.functions import INTERPRETED

__all__ = ["BY_C", "assert_a_chain_moves", "assert_transitions_agree", "memory_bound"]

# A C compiler needs minutes for what numba compiles in seconds: CI has less of it there.
BY_C = not isinstance(get_default_mode().linker, NumbaLinker)
COMPARED = ("mean_tree_accept", "model_logp", "log_det_metric", "step_size")


def make_step(model, mode=None):
    """PMALA for the continuous variables, with a seed of its own."""
    continuous = [v for v in model.free_RVs if v.dtype.startswith("float")]
    kwargs = {} if mode is None else {"compile_kwargs": {"mode": mode}}
    step = PMALA(continuous, model=model, rng=7, **kwargs)
    step.set_rng(np.random.default_rng(7))
    return step


def assert_transitions_agree(model, n=4, tolerance=1e-9, mode=None):
    """Transitions with the same noise from the same points; returns the compiled step."""
    compiled, interpreted = make_step(model, mode), make_step(model, INTERPRETED)
    for step in (compiled, interpreted):
        # No way home first: its hundred moves may amplify a difference in the last digit.
        step.step_size, step.adapt_step_size = 0.05, False
        step.reset_tuning()
    point = model.initial_point()
    for _ in range(n):
        ours, (stats,) = compiled.step(dict(point))
        point, (expected,) = interpreted.step(dict(point))
        for name, value in point.items():
            np.testing.assert_allclose(
                ours[name], value, rtol=tolerance, atol=tolerance, err_msg=name
            )
        for name in COMPARED:
            np.testing.assert_allclose(
                stats[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name
            )
    compiled.step_size, compiled.adapt_step_size = None, True
    compiled.reset_tuning()
    return compiled


def assert_a_chain_moves(step, model, n=20):
    """From the default start, by transitions without a number that is none."""
    start = point = model.initial_point()
    for _ in range(n):
        point, (stats,) = step.step(point)
        assert np.isfinite(stats["model_logp"])
        assert np.isfinite(stats["log_det_metric"])
        assert all(np.isfinite(value).all() for value in point.values())
    own = {v.name for v in step.vars}
    assert all((point[name] != start[name]).any() for name in own), "it has not moved"


@contextlib.contextmanager
def memory_bound(gigabytes):
    """Fail if the process has grown by more than this at any time within the block."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        yield
        return
    reset.write_text("5")  # the largest resident size so far becomes the present one

    def kilobytes(field):
        lines = status.read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(field)))

    before = kilobytes("VmRSS")
    yield
    grown = (kilobytes("VmHWM") - before) / 2**20
    if grown > gigabytes:
        pytest.fail(f"The process has grown by {grown:.1f} GB; at most {gigabytes} are allowed.")
