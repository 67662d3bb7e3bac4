r"""One Metropolis–Hastings transition of the discretised diffusion.

Every method of the family proposes

.. math:: x' \sim N(x + a\, A f,\; s^2 A), \qquad A = G(x)^{-1}

and differs in the force f (see `geometry`). The integrator computes the two scalars a and s from
the step size (see `integrators`). An interweaving move makes the same proposal for the
hyperparameters alone, with the standardised effects held (see `hyper_geometry`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.factorization import Factorization
from pymc_pmala.kernel.geometry import SymbolicGeometry
from pymc_pmala.kernel.hyper_geometry import HyperGeometry

__all__ = ["transition_graph"]


class _End(NamedTuple):
    """What a proposal density needs at one end."""

    logp: TensorVariable
    force: TensorVariable
    factor: Sequence[TensorVariable]
    half_log_det: TensorVariable | float


def transition_graph(geometry: SymbolicGeometry) -> tuple[list[Variable], list[Variable]]:
    r"""Build the graph of one transition: proposal, its geometry, and the acceptance ratio.

    With :math:`w = L^{-1} f`, the proposal is
    :math:`x' = x + L^{-T}(a w + s z)`, and
    :math:`\log q(x|x') = \sum_i \log L'_{ii} - \frac{1}{2s^2} \|L'^T(x - x') - a w'\|^2`
    up to a constant that cancels.

    Returns
    -------
    inputs : list of Variable
        z, a, s; x, logp, force and the parts of the factor at the current point; unless the metric
        is constant, log |L| and the averaged information. With interweaving, also: whether the
        move is an interweaving one, its noise, and the force, factor and log-Jacobian of the
        hyperparameters at the current point.
    outputs : list of Variable
        The log acceptance ratio, x', logp', force'; unless the metric is constant, the parts of
        the factor, log |L'| and log |G'|, which is not finite where G has been replaced; with
        interweaving, the geometry of the hyperparameters. With a = s = 0 the proposal is the
        current point, which is used to start a chain.
    """
    factorization, hyper = geometry.factorization, geometry.hyper
    varies = geometry.factor is not None
    x = geometry.x.type("current")
    factor = [
        pt.tensor(f"current_factor_{i}", dtype=x.dtype, shape=part.shape)
        for i, part in enumerate(factorization.identity())
    ]
    half_log_det = pt.scalar("current_half_log_det", dtype=x.dtype)
    here = _End(
        geometry.logp.type("current_logp"),
        x.type("current_force"),
        factor,
        half_log_det if varies else 0.0,
    )
    noise = x.type("z")
    scales = [pt.scalar(name, dtype=x.dtype) for name in "as"]
    inputs = [noise, *scales, x, here.logp, here.force, *factor]
    if varies:
        inputs += [half_log_det, *geometry.averaged]
    proposal = x + _step(factorization, here, scales, noise)
    if hyper is not None:
        is_hyper = pt.scalar("is_hyper", dtype="bool")
        of_hyper = [part.type(f"current_{part.name}") for part in hyper.state]
        hyper_here = _hyper_end(hyper, here.logp, of_hyper)
        hyper_noise = hyper_here.force.type("hyper_z")
        moved = x[hyper.positions] + _step(hyper.factorization, hyper_here, scales, hyper_noise)
        proposal = pt.switch(is_hyper, hyper.carry(x, moved), proposal)
        inputs += [is_hyper, hyper_noise, *of_hyper]
    evaluated = [geometry.logp, geometry.force]
    if geometry.factor is not None:
        evaluated += [*geometry.factor, geometry.half_log_det, geometry.log_det]
    if hyper is not None:
        evaluated += hyper.state
    results = graph_replace(evaluated, {geometry.x: proposal}, strict=False)
    new_logp, new_force, *rest = results
    there = _End(new_logp, new_force, factor, 0.0)
    if varies:
        there = _End(new_logp, new_force, rest[: len(factor)], rest[len(factor)])
    log_ratio = _log_ratio(factorization, here, there, x - proposal, scales, noise)
    if hyper is not None:
        hyper_there = _hyper_end(hyper, new_logp, results[-3:])
        back = (x - proposal)[hyper.positions]
        of_move = _log_ratio(
            hyper.factorization, hyper_here, hyper_there, back, scales, hyper_noise
        )
        log_ratio = pt.switch(is_hyper, of_move, log_ratio)
    return inputs, [log_ratio, proposal, *results]


def _hyper_end(hyper: HyperGeometry, logp: TensorVariable, state: Sequence[TensorVariable]) -> _End:
    """Return one end of an interweaving move."""
    force, lower, log_jacobian = state
    return _End(logp + log_jacobian, force, [lower], hyper.factorization.half_log_det([lower]))


def _step(
    factorization: Factorization,
    here: _End,
    scales: Sequence[TensorVariable],
    noise: TensorVariable,
) -> TensorVariable:
    """Return L⁻ᵀ(a w + s z)."""
    drift_scale, noise_scale = scales
    whitened = drift_scale * factorization.solve(here.factor, here.force) + noise_scale * noise
    return factorization.solve_transposed(here.factor, whitened)


def _log_ratio(
    factorization: Factorization,
    here: _End,
    there: _End,
    back: TensorVariable,
    scales: Sequence[TensorVariable],
    noise: TensorVariable,
) -> TensorVariable:
    """Return log π(x') q(x|x') − log π(x) q(x'|x), with ``back`` = x − x'."""
    drift_scale, noise_scale = scales
    backward = factorization.multiply_transposed(
        there.factor, back
    ) - drift_scale * factorization.solve(there.factor, there.force)
    return (
        there.logp
        - here.logp
        + there.half_log_det
        - here.half_log_det
        + 0.5 * (noise**2).sum()
        - 0.5 * (backward**2).sum() / noise_scale**2
    )
