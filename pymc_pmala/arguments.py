"""Checks of arguments, each with one sentence that says what was found and what was expected."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "as_tensor",
    "check_compile_kwargs",
    "check_count",
    "check_draws",
    "check_flag",
    "check_function",
    "check_mapping",
    "check_metric",
    "check_seed",
    "check_variables",
    "context_model",
    "is_number",
    "shown",
]

METRICS = ("fisher", "softabs", "identity")
"""Names of position-dependent metrics."""


def shown(value: Any) -> str:
    """Return what a user has passed on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:80]}…"


def context_model(model: Any) -> pm.Model:
    """Return a model, by default that of the ``with`` context."""
    if model is None:
        try:
            return pm.modelcontext(None)
        except TypeError:
            raise TypeError(
                "There is no model: pass `model=`, or call this inside `with model:`."
            ) from None
    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be a pm.Model, but is {shown(model)}.")
    return model


def check_variables(vars: Any, model: pm.Model) -> None:
    """Check that variables of the model are listed."""
    if vars is None:
        return
    if isinstance(vars, Sequence) and len(vars) == 0:
        raise ValueError(
            "There is nothing to sample: vars is empty. List the random variables to "
            "sample, or omit vars to sample all of them."
        )
    listed = vars if isinstance(vars, Sequence) else [vars]
    if isinstance(vars, str | bytes) or not all(isinstance(v, Variable) for v in listed):
        raise TypeError(
            f"vars must be a list of variables of the model, for example "
            f"[model[{model.value_vars[0].name.split('_')[0]!r}]], but is {shown(vars)}."
        )
    known = {*model.free_RVs, *model.value_vars}
    if unknown := [str(v.name) for v in listed if v not in known]:
        raise ValueError(
            f"vars lists {unknown}, but the model samples {[v.name for v in model.free_RVs]}."
        )


def check_mapping(name: str, value: Any) -> None:
    """Check a point, or another mapping from names, which may be missing."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dictionary, but is {shown(value)}.")


def check_compile_kwargs(value: Any) -> None:
    """Check options of `pytensor.function`."""
    check_mapping("compile_kwargs", value)
    known = list(inspect.signature(pytensor.function).parameters)
    if unknown := sorted(str(name) for name in value or () if name not in known):
        raise TypeError(
            f"compile_kwargs has {unknown}, which `pytensor.function` does not accept. It accepts "
            f"{', '.join(known)}."
        )


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Check a number of things."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer from {least} on, but is {shown(value)}.")


def check_flag(name: str, value: Any) -> None:
    """Check a choice between yes and no."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, but is {shown(value)}.")


def check_function(name: str, value: Any) -> None:
    """Check something that is called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, but is {shown(value)}.")


def as_tensor(name: str, value: Any) -> TensorVariable:
    """Return a number or an expression as a tensor."""
    try:
        return pt.as_tensor_variable(value)
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        raise TypeError(
            f"{name} must be a number or an expression of pytensor, but is {shown(value)}."
        ) from None


def check_seed(name: str, value: Any) -> None:
    """Check what NumPy makes a random generator from."""
    if isinstance(value, np.random.RandomState):
        return
    try:
        np.random.default_rng(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an integer from 0 on or a numpy.random.Generator, but is "
            f"{shown(value)}."
        ) from None


def check_draws(idata: Any, group: str) -> None:
    """Check that the result of `pm.sample` has a group."""
    if not hasattr(idata, group):
        raise TypeError(f"idata must be the result of `pm.sample`, but is {shown(idata)}.")


def check_metric(metric: Any, names: Sequence[str] = METRICS) -> None:
    """Check that a metric is a known name, an array or a function."""
    if isinstance(metric, str) and metric not in names:
        raise ValueError(
            f"Unknown metric {metric!r}. Choose {', '.join(map(repr, names))}, a positive-definite "
            "array, or a function `metric(model, x)`."
        )
    if isinstance(metric, str) or (callable(metric) and _takes_two(metric)):
        return
    try:
        values = np.asarray(metric)
    except (TypeError, ValueError):
        values = np.array(None)
    if values.ndim == 0 or values.dtype.kind not in "biuf":
        raise ValueError(
            "metric must be a name such as 'fisher', a positive-definite array, its diagonal, or a "
            f"function metric(model, x), but is {shown(metric)}."
        )


def _takes_two(function: Callable) -> bool:
    """Whether a function can be called with two arguments; a class is not a function."""
    if isinstance(function, type):
        return False
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # A function of C without a signature.
        return True
    return True


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | np.floating):
        return False
    return math.isfinite(value)
