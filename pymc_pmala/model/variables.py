"""Which variables are sampled, and at which point of the model."""

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
from pymc.util import get_value_vars_from_user_vars
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

__all__ = ["STEP_ADVICE", "TOOL_ADVICE", "complete_point", "continuous_value_vars"]

STEP_ADVICE = (
    "Pass only the continuous variables to the sampler, for example "
    "`step=[PMALA([a, b]), pm.Metropolis([k])]`, or marginalise the discrete ones."
)
TOOL_ADVICE = (
    "List the continuous variables, for example `vars=[a, b]`; the others are held at their "
    "values in `point`."
)


def continuous_value_vars(
    vars: Sequence[Variable] | None, model: pm.Model, advice: str = STEP_ADVICE
) -> list[TensorVariable]:
    """Return the value variables for the listed random or value variables; all by default.

    Raises
    ------
    ValueError
        If a variable is discrete, with the given advice, or is listed twice.
    """
    listed = model.value_vars if vars is None else vars
    value_vars = get_value_vars_from_user_vars(listed, model)
    discrete = [v.name for v in value_vars if v.dtype not in continuous_types]
    if discrete:
        raise ValueError(
            f"Langevin samplers need gradients and cannot sample the discrete variables "
            f"{discrete}. {advice}"
        )
    names = [v.name for v in value_vars]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"vars lists {twice} more than once. List each variable once.")
    return value_vars


def complete_point(
    point: Mapping[str, np.ndarray] | None, model: pm.Model
) -> dict[str, np.ndarray]:
    """Fill in a point with missing values from the initial point of the model."""
    variables = {variable.name: variable for variable in model.value_vars}
    given = {} if point is None else point
    unknown = sorted(set(given) - set(variables))
    if unknown:
        raise ValueError(
            f"Unknown names in the point: {unknown}. Expected value variables: "
            f"{sorted(variables)}; see `model.initial_point()`."
        )
    # PyMC passes a complete point; finding the initial point would need a compilation.
    fixed = all(None not in variable.type.shape for variable in variables.values())
    start = {} if fixed and set(given) == set(variables) else model.initial_point()
    for name, value in given.items():
        shape = np.shape(start[name]) if start else variables[name].type.shape
        if np.shape(value) != shape:
            raise ValueError(
                f"{name!r} has shape {np.shape(value)} in the point, but {shape} in the model."
            )
    values = start | dict(given)
    return {
        name: np.asarray(values[name], dtype=variable.dtype) for name, variable in variables.items()
    }
