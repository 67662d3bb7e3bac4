"""The cost of a compiled transition, in gradients of the same model and by dimension."""

import time
from collections.abc import Callable

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection
from pymc.vartypes import continuous_types

from benchmarks.data import load_logistic
from benchmarks.models import (
    dense_regression,
    hierarchical_regression,
    independent_groups,
    logistic_regression,
)
from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.calculus.differentiation import gradient
from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Arrow
from pymc_pmala.kernel.kernel import Noise, Record, State
from pymc_pmala.model.target import make_target

__all__ = ["dimension_table", "transition_table"]

REPEATS = 5


def transition_table(names: list[str], folder: str | None) -> list[dict]:
    """Measure the cost of a transition of each method on the paper's data, in gradients.

    The gradient and the transitions are timed in turn in one process. The result is the median of
    the repeats.
    """
    rows = []
    for name in names:
        model = logistic_regression(*load_logistic(name, folder))
        steps = {
            cls.__name__: cls(model=model, thin=1) for cls in (PMALA, MMALA, SimplifiedMMALA, MALA)
        }
        calls = {"gradient": gradient_call(model)}
        calls |= {label: transition_call(step, model) for label, step in steps.items()}
        seconds = interleaved(calls)
        draw = seconds_per_draw(steps["PMALA"], model)
        rows.append(
            {
                "model": name,
                "gradient_us": 1e6 * seconds["gradient"],
                **{f"{label}_gradients": seconds[label] / seconds["gradient"] for label in steps},
                "PMALA_draw_over_transition": draw / seconds["PMALA"],
                "PMALA_python_us": 1e6 * python_seconds(steps["PMALA"], model),
            }
        )
    return rows


def dimension_table(dimensions: list[int]) -> list[dict]:
    """Measure the cost of a PMALA transition by dimension, for dense and structured models."""
    cases = [("dense", d, dense_regression(d)) for d in dimensions if d <= 200]
    cases += [("hierarchical", d, hierarchical_regression(d)) for d in dimensions]
    cases.append(("50 groups of 4", 200, independent_groups()))
    rows = []
    for kind, dimension, model in cases:
        step = PMALA(model=model)
        calls = {"gradient": gradient_call(model), "transition": transition_call(step, model)}
        seconds = interleaved(calls)
        is_arrow = isinstance(step.kernel.factorization, Arrow)
        rows.append(
            {
                "model": kind,
                "dimension": dimension,
                "factorization": "arrow" if is_arrow else "dense",
                "gradient_us": 1e6 * seconds["gradient"],
                "transition_us": 1e6 * seconds["transition"],
                "gradients": seconds["transition"] / seconds["gradient"],
            }
        )
    return rows


def gradient_call(model: pm.Model) -> Callable[[], object]:
    """Return a compiled call of the log-density and its gradient at the initial point.

    Discrete variables are held.
    """
    target = make_target(model, [v for v in model.value_vars if v.dtype in continuous_types])
    outputs = [target.logp, gradient(target.logp, target.x)]
    function = compile_graph([target.x], outputs, model)
    x = target.start
    return lambda: function(x)


def transition_call(step, model: pm.Model) -> Callable[[], object]:
    """Return a call that makes one transition of a step method."""
    x = DictToArrayBijection.map(model.initial_point()).data
    kernel, state, scales = step.kernel, step.chain.state_at(x), step.chain.scales(0.5)
    noises = np.random.default_rng(1).standard_normal((1, len(x)))
    log_uniforms = np.log([0.5])
    return lambda: kernel.run(state, noises, log_uniforms, scales)


def python_seconds(step, model: pm.Model) -> float:
    """Measure the time of a draw outside compiled code, with transitions that do nothing.

    Draws are made ahead, as many at a time as in `pm.sample`.
    """
    point = model.initial_point()
    step.set_rng(np.random.default_rng(1))
    point, _ = step.step(point)
    step.stop_tuning()
    kernel = step.kernel
    made = kernel.draws

    def none(state: State, per_draw: int, noise: Noise, *rest: object) -> tuple[State, Record]:
        count = len(noise.normals) // per_draw
        xs = np.repeat(state.x[None], count, axis=0)
        numbers = np.tile([float(state.logp), state.log_det, 1.0, 1.0, 0.0, 0.0, 0.0], (count, 1))
        return state, Record(xs, numbers, xs, xs)

    def draw() -> None:
        nonlocal point
        point, _ = step.step(point)

    kernel.draws = none
    seconds = interleaved({"draw": draw})["draw"]
    kernel.draws = made
    return seconds


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each call; they take turns, so that load affects all alike."""
    times: dict[str, list[float]] = {label: [] for label in calls}
    for call in calls.values():
        call()
    for _ in range(REPEATS):
        for label, call in calls.items():
            times[label].append(_seconds(call))
    return {label: float(np.median(values)) for label, values in times.items()}


def _seconds(call: Callable[[], object], at_least: float = 0.1) -> float:
    count, elapsed = 0, 0.0
    start = time.process_time()
    while elapsed < at_least:
        for _ in range(10):
            call()
        count += 10
        elapsed = time.process_time() - start
    return elapsed / count


def seconds_per_draw(step, model: pm.Model, draws: int = 2000) -> float:
    """Return the seconds per draw of a plain ``pm.sample``, as the median of the repeats."""
    times = []
    options = {"chains": 1, "cores": 1, "tune": 0, "random_seed": 1, "progressbar": False}
    with model:
        for _ in range(3):
            start = time.perf_counter()
            pm.sample(draws=draws, step=step, compute_convergence_checks=False, **options)
            times.append((time.perf_counter() - start) / draws)
    return float(np.median(times))
