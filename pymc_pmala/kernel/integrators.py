"""How a step size becomes a proposal: the discretisations of the diffusion."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["INTEGRATORS", "Integrator", "Scales"]


class Scales(NamedTuple):
    """Drift scale a and noise scale s of a proposal, as numbers or as scalar arrays."""

    drift: float | np.ndarray
    noise: float | np.ndarray


class Integrator(NamedTuple):
    """How a step size becomes a proposal.

    Attributes
    ----------
    scales : callable
        Step size h to the scales (a, s).
    largest_step : float
        Step size beyond which nothing is gained.
    is_exact_for_gaussians : bool
        Whether a large step makes independent draws from a Gaussian.
    """

    scales: Callable[[float], Scales]
    largest_step: float
    is_exact_for_gaussians: bool


def euler(step_size: float) -> Scales:
    """Euler–Maruyama: mean x + (h/2) A f, covariance h A; the proposal of the paper."""
    return Scales(0.5 * step_size, math.sqrt(step_size))


def exponential(step_size: float) -> Scales:
    """Ornstein–Uhlenbeck: mean x + (1 − ρ) A f, covariance (1 − ρ²) A, ρ = exp(−h/2).

    Exact for a Gaussian target whose metric is its precision; Euler's proposal as h → 0.
    """
    rho = math.exp(-0.5 * step_size)
    return Scales(-math.expm1(-0.5 * step_size), math.sqrt((1.0 - rho) * (1.0 + rho)))


INTEGRATORS = {
    "euler": Integrator(euler, largest_step=100.0, is_exact_for_gaussians=False),
    # ρ = 0.1: nearly independent draws, if the target allows them. With less memory still,
    # chains stick where the proposal's tails are lighter than the target's.
    "exponential": Integrator(
        exponential, largest_step=-2.0 * math.log(0.1), is_exact_for_gaussians=True
    ),
}
