"""Integrators: discretisations of the diffusion, which turn a step size into a proposal."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["INTEGRATORS", "Integrator", "Scales"]


class Scales(NamedTuple):
    """The drift scale a and the noise scale s of a proposal, as numbers or scalar arrays."""

    drift: float | np.ndarray
    noise: float | np.ndarray


class Integrator(NamedTuple):
    """A discretisation of the diffusion.

    Attributes
    ----------
    scales : callable
        Maps the step size h to the scales (a, s).
    largest_step : float
        Largest useful step size.
    is_exact_for_gaussians : bool
        Whether a large step gives independent draws from a Gaussian target.
    """

    scales: Callable[[float], Scales]
    largest_step: float
    is_exact_for_gaussians: bool


def euler(step_size: float) -> Scales:
    """Euler–Maruyama, as in the paper: mean x + (h/2) A f, covariance h A."""
    return Scales(0.5 * step_size, math.sqrt(step_size))


def exponential(step_size: float) -> Scales:
    """Ornstein–Uhlenbeck: mean x + (1 − ρ) A f, covariance (1 − ρ²) A, ρ = exp(−h/2).

    Exact if the target is Gaussian and the metric is its precision. Tends to Euler's proposal as
    h → 0.
    """
    rho = math.exp(-0.5 * step_size)
    return Scales(-math.expm1(-0.5 * step_size), math.sqrt((1.0 - rho) * (1.0 + rho)))


INTEGRATORS = {
    "euler": Integrator(euler, largest_step=100.0, is_exact_for_gaussians=False),
    # ρ = 0.1 gives nearly independent draws if the target allows them. With a smaller ρ, chains
    # get stuck where the tails of the proposal are lighter than those of the target.
    "exponential": Integrator(
        exponential, largest_step=-2.0 * math.log(0.1), is_exact_for_gaussians=True
    ),
}
