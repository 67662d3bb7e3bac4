"""Checks of the arguments of a step method, made before anything is compiled."""

import difflib
import inspect
import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pymc as pm
from pytensor.gradient import NullTypeGradError, grad
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.kernel.integrators import INTEGRATORS

__all__ = [
    "check_keywords",
    "check_metric",
    "check_options",
    "check_state",
    "without_gradient",
]


def check_keywords(method: type, given: Iterable[str]) -> None:
    """Raise a TypeError for keyword arguments that a step method does not have."""
    known = list(inspect.signature(method).parameters)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It accepts {', '.join(known)}."
            raise TypeError(f"{method.__name__} has no argument {name!r}. {hint}")


def check_metric(metric: Any, names: Sequence[str]) -> None:
    """Check that a metric is a known name, an array or a function."""
    if isinstance(metric, str) and metric not in names:
        raise ValueError(
            f"Unknown metric {metric!r}. Choose {', '.join(map(repr, names))}, a positive-definite "
            "array, or a function `metric(model, x)`."
        )
    if isinstance(metric, str) or callable(metric):
        return
    try:
        values = np.asarray(metric, dtype=float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.ndim == 0:
        raise ValueError(
            "metric must be a name such as 'fisher', a positive-definite array, its diagonal, or a "
            f"function metric(model, x), but is {metric!r}."
        )


def check_options(
    integrator: str,
    step_size: float | None,
    target_accept: float | None,
    step_size_jitter: float,
    thin: int | None,
) -> None:
    """Check the options that do not depend on the model."""
    if integrator not in INTEGRATORS:
        raise ValueError(f"Unknown integrator {integrator!r}. Choose one of {sorted(INTEGRATORS)}.")
    if step_size is not None and not (_is_number(step_size) and 0 < step_size < math.inf):
        raise ValueError(
            f"step_size must be a positive number, but is {step_size!r}. Omit it to start "
            "from a step size that is found automatically."
        )
    if target_accept is not None and not (_is_number(target_accept) and 0 < target_accept < 1):
        raise ValueError(
            f"target_accept must lie between 0 and 1, but is {target_accept!r}. Omit it to use a "
            "rate that suits the integrator and the dimension."
        )
    if not (_is_number(step_size_jitter) and 0 <= step_size_jitter < 1):
        raise ValueError(
            f"step_size_jitter must be at least 0 and less than 1, but is {step_size_jitter!r}. "
            "With 0.5, steps are between 0.5 and 1.5 times the tuned size."
        )
    if thin is not None and (not isinstance(thin, int | np.integer) or thin < 1):
        raise ValueError(
            f"thin must be a positive integer, but is {thin!r}. Omit it to have it chosen during "
            "tuning."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.number) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )


def without_gradient(model: pm.Model, value_vars: Sequence[TensorVariable]) -> list[str]:
    """List the variables with respect to which the log-density cannot be differentiated."""
    logp = model.logp()
    names = []
    for variable in value_vars:
        try:
            grad(logp, variable, disconnected_inputs="ignore")
        except (NotImplementedError, NullTypeGradError):
            names.append(variable.name)
    return names


def check_state(step: Any, state: Any) -> None:
    """Check that a sampling state comes from the same kind of sampler."""
    if not isinstance(state, step._state_class):
        raise TypeError(
            f"{type(step).__name__} can only restore the sampling state of a Langevin step method, "
            f"not {type(state).__name__}."
        )
    different = [
        f"{name} {getattr(state, name)}, not {getattr(step, name)}"
        for name in ("name", "metric_kind", "integrator", "target_accept", "dimension")
        if getattr(state, name) != getattr(step, name)
    ]
    if different:
        raise ValueError(
            f"The sampling state is another sampler's: it has {'; '.join(different)}. Create the "
            "step method with the same arguments as when the state was saved."
        )
