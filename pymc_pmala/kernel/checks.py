"""Checks of what is passed to a kernel, whose compiled code would read past short arrays."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from pymc_pmala.arguments import is_number, shown
from pymc_pmala.kernel.integrators import INTEGRATORS, Scales
from pymc_pmala.kernel.state import Noise, State

__all__ = [
    "check_constants",
    "check_integrator",
    "check_rows",
    "check_scales",
    "check_state",
    "check_step_size",
    "checked_noise",
    "checked_vector",
]


def check_integrator(integrator: Any) -> None:
    """Check that there is an integrator of this name."""
    if not isinstance(integrator, str) or integrator not in INTEGRATORS:
        raise ValueError(
            f"Unknown integrator {shown(integrator)}. Choose one of {sorted(INTEGRATORS)}."
        )


def check_step_size(step_size: Any) -> None:
    """Check a step size."""
    if not (is_number(step_size) and step_size > 0):
        raise ValueError(f"step_size must be a positive number, but is {shown(step_size)}.")


def check_state(state: Any) -> None:
    """Check that a state was made by a kernel."""
    if not isinstance(state, State):
        raise TypeError(
            f"state must be a State, such as `kernel.init(kernel.start)`, but is {shown(state)}."
        )


def check_scales(name: str, scales: Any) -> None:
    """Check that scales were made from a step size."""
    if not isinstance(scales, Scales):
        raise TypeError(f"{name} must be `kernel.scales(step_size)`, but is {shown(scales)}.")


def check_constants(constants: Any, expected: Sequence[np.ndarray]) -> None:
    """Check the shapes of a constant factor or of averaged information."""
    shapes = [part.shape for part in expected]
    if not isinstance(constants, tuple) or [np.shape(part) for part in constants] != shapes:
        raise ValueError(
            f"constants must be a tuple of arrays of the shapes {shapes}, but is "
            f"{shown(constants)}."
        )


def checked_vector(name: str, value: Any, dimension: int, dtype: str) -> np.ndarray:
    """Return a copy of a vector as an array."""
    try:
        vector = np.array(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        vector = np.array(np.nan)
    if vector.shape != (dimension,):
        raise ValueError(f"{name} must be a vector of {dimension} numbers, but is {shown(value)}.")
    return vector


def checked_noise(name: str, noise: Any, dimension: int, dtype: str) -> Noise:
    """Return random numbers as arrays."""
    try:
        normals, log_uniforms = noise
        normals = np.ascontiguousarray(normals, dtype=dtype)
        log_uniforms = np.ascontiguousarray(log_uniforms, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"{name} must be two arrays of numbers, `Noise(normals, log_uniforms)`, but is "
            f"{shown(noise)}."
        ) from None
    count = len(normals)
    if normals.shape != (count, dimension) or log_uniforms.shape != (count,):
        raise ValueError(
            f"{name} must have n rows of {dimension} normal numbers and n log_uniforms, but the "
            f"shapes are {normals.shape} and {log_uniforms.shape}."
        )
    return Noise(normals, log_uniforms)


def check_rows(per_draw: Any, every: Any, rows: int, hyper_rows: int) -> None:
    """Check that there is noise for whole draws."""
    if not _is_count(per_draw) or rows % per_draw:
        raise ValueError(
            f"per_draw must be an integer that divides the {rows} rows of noise, but is "
            f"{shown(per_draw)}."
        )
    if not hyper_rows and _is_count(every, least=0):
        return
    if not _is_count(every) or per_draw % every:
        raise ValueError(
            f"every must be an integer that divides per_draw, {per_draw}, but is {shown(every)}."
        )
    if (rows or hyper_rows * every) != hyper_rows * every or hyper_rows * every % per_draw:
        raise ValueError(
            f"hyper_noise must have one row for every {every} rows of noise, {rows // every}, but "
            f"has {hyper_rows}."
        )


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
