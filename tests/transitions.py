"""One transition by two ways of running it: the production path against the interpreter."""

import contextlib
import math
from pathlib import Path

import numpy as np
import pytest
from pymc.blocking import DictToArrayBijection
from pytensor.compile.mode import get_default_mode
from pytensor.link.numba.linker import NumbaLinker

from pymc_pmala import PMALA
from pymc_pmala.kernel.integrators import INTEGRATORS
from pymc_pmala.kernel.kernel import Info

__all__ = [
    "BY_C",
    "assert_a_chain_moves",
    "assert_transitions_agree",
    "make_step",
    "memory_bound",
    "one_by_one",
]

# A C compiler needs minutes for what numba compiles in seconds: CI has less of it there.
BY_C = not isinstance(get_default_mode().linker, NumbaLinker)
# Steps so large that a proposal is elsewhere, and so small that it is as good as the point.
STEP_SIZES = (0.05, 0.5)
# Where none of these proposals has a finite density.
TINY = 1e-6
# Where a proposal is as unlikely as this, the next one is made from the point before it.
UNLIKELY = math.log(1e-3)


def make_step(model, mode=None, method=PMALA, metric=None):
    """A step for the continuous variables, with a seed of its own."""
    continuous = [v for v in model.free_RVs if v.dtype.startswith("float")]
    kwargs = {} if mode is None else {"compile_kwargs": {"mode": mode}}
    kwargs |= {} if metric is None else {"metric": metric}
    step = method(continuous, model=model, rng=7, **kwargs)
    step.set_rng(np.random.default_rng(7))
    return step


def assert_transitions_agree(
    model, n=4, tolerance=1e-9, mode=None, method=PMALA, metric=None, far=False
):
    """Transitions with the same noise from the same points; returns the compiled step.

    At the model's start, and from a point beside it, where derivatives do not vanish.
    From a start that is far from the typical set, no proposal need be likely.
    What a metric averages over draws is here the information at the start.
    """
    step, reference = (make_step(model, m, method, metric) for m in (mode, "interpreted"))
    compiled, interpreted = step.kernel, reference.kernel
    point = model.initial_point()
    start = DictToArrayBijection.map({v.name: point[v.name] for v in step.vars}).data
    rng = np.random.default_rng(1)
    start = start.astype(compiled.dtype)
    learned = reference.chain.preconditioning
    learned.learn(interpreted.init(start, learned.constants), interpreted)
    for x in (start, start + 0.1 * rng.normal(size=len(start))):
        state = interpreted.init(x, learned.constants)
        assert_states_agree(compiled.init(x, learned.constants), state, tolerance)
    assert state.fault is None
    moves, finite = 0, 0
    for step_size in (*STEP_SIZES, TINY):
        if finite and step_size == TINY:
            break
        scales = compiled.as_arrays(INTEGRATORS["exponential"].scales(step_size))
        for _ in range(n):
            noise = rng.normal(size=len(start))
            found, found_ratio = compiled.propose(in_order(state), noise, scales)
            expected, ratio = interpreted.propose(state, noise, scales)
            assert_states_agree(found, expected, tolerance)
            # The ratio is what is left of these.
            size = max(1.0, *(abs(s.logp) for s in (state, expected) if np.isfinite(s.logp)))
            np.testing.assert_allclose(
                found_ratio, ratio, rtol=tolerance, atol=tolerance * size, err_msg="ratio"
            )
            finite += math.isfinite(ratio)
            if math.isfinite(ratio) and ratio > UNLIKELY:
                state, moves = expected, moves + 1
    assert finite if far else moves
    noises, log_uniforms = rng.normal(size=(3, len(start))), np.log(rng.uniform(size=3))
    found, happened = compiled.run(in_order(state), noises, log_uniforms, scales)
    expected, should_have = interpreted.run(state, noises, log_uniforms, scales)
    assert_states_agree(found, expected, 10 * tolerance)
    assert happened.accepted == should_have.accepted
    return step


def assert_states_agree(found, expected, tolerance):
    """Every part of two states; what may cancel, relative to its largest element."""
    parts = {"x": "x", "logp": "logp", "log_det": "log |G|"}
    for name, label in parts.items():
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=tolerance, atol=tolerance,
            err_msg=label,
        )  # fmt: skip
    pairs = zip((found.force, *found.factor), (expected.force, *expected.factor), strict=True)
    for i, (ours, value) in enumerate(pairs):
        assert ours.dtype == value.dtype
        size = np.max(np.abs(value), initial=0.0, where=np.isfinite(value))
        label = f"part {i - 1} of the factor" if i else "force"
        np.testing.assert_allclose(
            ours, value, rtol=tolerance, atol=tolerance * size, err_msg=label
        )


def in_order(state):
    """The same state in arrays as numba makes them: it compiles anew for others."""

    def ordered(part):
        if isinstance(part, tuple):
            return tuple(map(ordered, part))
        return np.array(part, order="C") if isinstance(part, np.ndarray) else part

    return type(state)(*map(ordered, state))


def one_by_one(kernel, state, noises, log_uniforms, scales):
    """What `Kernel.run` promises, by calls of `Kernel.propose`."""
    acceptance, accepted, rejections, divergences = 0.0, 0, 0, []
    for noise, log_uniform in zip(noises, log_uniforms, strict=True):
        proposed, ratio = kernel.propose(state, noise, scales)
        # Outside the support, and nowhere else, a proposal without a ratio is just rejected.
        if not math.isfinite(ratio) and not ratio == proposed.logp == -math.inf:
            divergences.append((state.x, proposed.x))
        acceptance += math.exp(min(0.0, ratio)) if math.isfinite(ratio) else 0.0
        if math.isfinite(ratio) and log_uniform < ratio:
            state, accepted, rejections = proposed, accepted + 1, 0
        else:
            rejections += 1
    first = divergences[0] if divergences else None
    return state, Info(len(noises), acceptance, accepted, rejections, len(divergences), first)


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
