r"""The discretised diffusion: proposal and acceptance of one Metropolis–Hastings transition.

Every method of the family proposes

.. math:: x' \sim N(x + a\, A f,\; s^2 A), \qquad A = G(x)^{-1}

and they differ in the force f (see `geometry`) and in the two scalars that an integrator
makes of the step size.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.geometry import SymbolicGeometry

__all__ = ["INTEGRATORS", "Integrator", "Scales", "State", "transition_graph"]


class Scales(NamedTuple):
    """Drift scale a and noise scale s of a proposal."""

    drift: float
    noise: float


class Integrator(NamedTuple):
    """How a step size becomes a proposal.

    Attributes
    ----------
    scales : callable
        Step size h to the scales (a, s).
    largest_step : float
        Step size beyond which nothing is gained.
    """

    scales: Callable[[float], Scales]
    largest_step: float


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
    "euler": Integrator(euler, largest_step=100.0),
    # ρ = 0.02: independent draws, if the target allows them.
    "exponential": Integrator(exponential, largest_step=-2.0 * math.log(0.02)),
}


class State(NamedTuple):
    """A point of the chain with the geometry that its next proposal needs.

    Attributes
    ----------
    x : ndarray
        The raveled point.
    logp : ndarray
        Log-density, a scalar.
    force : ndarray
        f, whose drift is A f.
    cholesky : ndarray
        Lower Cholesky factor L of the metric G = LLᵀ.
    """

    x: np.ndarray
    logp: np.ndarray
    force: np.ndarray
    cholesky: np.ndarray


def transition_graph(geometry: SymbolicGeometry) -> tuple[list[Variable], list[Variable]]:
    r"""Inputs and outputs of one transition: propose, evaluate there, score both ways.

    With :math:`w = L^{-1} f`, the proposal is
    :math:`x' = x + L^{-T}(a w + s z)`, and
    :math:`\log q(x|x') = \sum_i \log L'_{ii} - \frac{1}{2s^2} \|L'^T(x - x') - a w'\|^2`
    up to a constant that cancels.

    Returns
    -------
    inputs : list of Variable
        x, logp, force, cholesky of the current point; z, a and s.
    outputs : list of Variable
        x', logp', force', cholesky' and log |G'| of the proposal, log acceptance ratio.
        With a = s = 0 the proposal is the current point: that is how a chain starts.
    """
    x = geometry.x.type("current")
    logp = geometry.logp.type("current_logp")
    force = x.type("current_force")
    cholesky = pt.tensor("current_cholesky", dtype=x.dtype, shape=(x.type.shape[0],) * 2)
    noise = x.type("z")
    drift_scale, noise_scale = (pt.scalar(name, dtype=x.dtype) for name in "as")

    whitened = drift_scale * _solve(cholesky, force) + noise_scale * noise
    proposal = x + _solve(cholesky, whitened, transposed=True)
    evaluated = [geometry.logp, geometry.force, *([] if geometry.cholesky is None else [geometry.cholesky])]
    new_logp, new_force, *rest = graph_replace(evaluated, {geometry.x: proposal}, strict=False)
    new_cholesky = rest[0] if rest else cholesky

    backward = new_cholesky.T @ (x - proposal) - drift_scale * _solve(new_cholesky, new_force)
    new_half_log_det = _half_log_det(new_cholesky)
    log_acceptance = (
        new_logp
        - logp
        + new_half_log_det
        - _half_log_det(cholesky)
        + 0.5 * (noise @ noise)
        - 0.5 * (backward @ backward) / noise_scale**2
    )
    inputs = [x, logp, force, cholesky, noise, drift_scale, noise_scale]
    outputs = [
        proposal,
        new_logp,
        new_force,
        *([new_cholesky] if rest else []),
        2.0 * new_half_log_det,
        log_acceptance,
    ]
    return inputs, outputs


def _solve(
    cholesky: TensorVariable, b: TensorVariable, transposed: bool = False
) -> TensorVariable:
    return pt.linalg.solve_triangular(
        cholesky, b, lower=True, trans="T" if transposed else 0, b_ndim=1, check_finite=False
    )


def _half_log_det(cholesky: TensorVariable) -> TensorVariable:
    return pt.log(pt.diagonal(cholesky)).sum()
