"""Checks of the arguments of a step method, made before anything is compiled."""

import difflib
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.arguments import (
    check_compile_kwargs,
    check_flag,
    check_mapping,
    check_seed,
    check_variables,
    context_model,
    is_number,
    shown,
)
from pymc_pmala.kernel.checks import check_integrator

__all__ = [
    "check_arguments",
    "check_options",
    "check_state",
    "without_gradient",
]


def check_arguments(method: type, vars: Any, given: Mapping[str, Any]) -> None:
    """Check the variables of a step method, and its keyword arguments by name and type."""
    _check_keywords(method, given)
    model = context_model(given.get("model"))
    check_variables(vars, model)
    check_mapping("initial_point", given.get("initial_point"))
    check_compile_kwargs(given.get("compile_kwargs"))
    check_seed("rng", given.get("rng"))
    for name in ("adapt_step_size", "blocked"):
        check_flag(name, given.get(name, True))
    _check_interweave(given.get("interweave"))


def _check_interweave(choice: Any) -> None:
    """Check that ``interweave`` is a flag or a list of variables or names."""
    if choice is None or isinstance(choice, bool | np.bool_):
        return
    is_list = isinstance(choice, Sequence) and not isinstance(choice, str)
    if not is_list or not all(isinstance(v, str | Variable) for v in choice):
        raise TypeError(
            f"interweave must be True, False or a list of variables, but is {shown(choice)}. Omit "
            "it to let tuning decide."
        )


def _check_keywords(method: type, given: Iterable[str]) -> None:
    """Raise a TypeError for keyword arguments that a step method does not have."""
    known = list(inspect.signature(method).parameters)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It accepts {', '.join(known)}."
            raise TypeError(f"{method.__name__} has no argument {name!r}. {hint}")


def check_options(
    integrator: str,
    step_size: float | None,
    target_accept: float | None,
    step_size_jitter: float,
    thin: int | None,
) -> None:
    """Check the options that do not depend on the model."""
    check_integrator(integrator)
    if step_size is not None and not (is_number(step_size) and 0 < step_size < math.inf):
        raise ValueError(
            f"step_size must be a positive number, but is {shown(step_size)}. Omit it to start "
            "from a step size that is found automatically."
        )
    if target_accept is not None and not (is_number(target_accept) and 0 < target_accept < 1):
        raise ValueError(
            f"target_accept must lie between 0 and 1, but is {shown(target_accept)}. Omit it to "
            "use a rate that suits the integrator and the dimension."
        )
    if not (is_number(step_size_jitter) and 0 <= step_size_jitter < 1):
        raise ValueError(
            "step_size_jitter must be at least 0 and less than 1, but is "
            f"{shown(step_size_jitter)}. With 0.5, steps are between 0.5 and 1.5 times the tuned "
            "size."
        )
    if thin is not None and (
        not isinstance(thin, int | np.integer) or isinstance(thin, bool) or thin < 1
    ):
        raise ValueError(
            f"thin must be a positive integer, but is {shown(thin)}. Omit it to have it chosen "
            "during tuning."
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
        for name in (
            "name",
            "metric_kind",
            "integrator",
            "target_accept",
            "dimension",
            "hyper_dimension",
        )
        if getattr(state, name) != getattr(step, name)
    ]
    if different:
        raise ValueError(
            f"The sampling state is another sampler's: it has {'; '.join(different)}. Create the "
            "step method with the same arguments as when the state was saved."
        )
