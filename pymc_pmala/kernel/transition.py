r"""One Metropolis–Hastings transition of the discretised diffusion.

Every method of the family proposes

.. math:: x' \sim N(x + a\, A f,\; s^2 A), \qquad A = G(x)^{-1}

and differs in the force f (see `geometry`). The integrator computes the two scalars a and s from
the step size (see `integrators`).
"""

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_pmala.kernel.geometry import SymbolicGeometry

__all__ = ["transition_graph"]


def transition_graph(geometry: SymbolicGeometry) -> tuple[list[Variable], list[Variable]]:
    r"""Build the graph of one transition: proposal, its geometry, and the acceptance ratio.

    With :math:`w = L^{-1} f`, the proposal is
    :math:`x' = x + L^{-T}(a w + s z)`, and
    :math:`\log q(x|x') = \sum_i \log L'_{ii} - \frac{1}{2s^2} \|L'^T(x - x') - a w'\|^2`
    up to a constant that cancels.

    Returns
    -------
    inputs : list of Variable
        z, a, s; then x, logp, force and the parts of the factor at the current point.
    outputs : list of Variable
        The log acceptance ratio and log |G'|, which is not finite where G has been replaced; then
        x', logp', force' and, unless the metric is constant, the parts of the factor at the
        proposal. With a = s = 0 the proposal is the current point, which is used to start a chain.
    """
    factorization = geometry.factorization
    x = geometry.x.type("current")
    logp = geometry.logp.type("current_logp")
    force = x.type("current_force")
    factor = [
        pt.tensor(f"current_factor_{i}", dtype=x.dtype, shape=part.shape)
        for i, part in enumerate(factorization.identity())
    ]
    noise = x.type("z")
    drift_scale, noise_scale = (pt.scalar(name, dtype=x.dtype) for name in "as")

    whitened = drift_scale * factorization.solve(factor, force) + noise_scale * noise
    proposal = x + factorization.solve_transposed(factor, whitened)
    evaluated = [geometry.logp, geometry.force]
    if geometry.factor is not None:
        evaluated += [geometry.log_det, *geometry.factor]
    new_logp, new_force, *new_metric = graph_replace(
        evaluated, {geometry.x: proposal}, strict=False
    )
    new_factor = new_metric[1:]
    there = new_factor or factor
    backward = factorization.multiply_transposed(
        there, x - proposal
    ) - drift_scale * factorization.solve(there, new_force)
    half_log_det = factorization.half_log_det(there)
    log_acceptance = (
        new_logp
        - logp
        + half_log_det
        - factorization.half_log_det(factor)
        + 0.5 * (noise**2).sum()
        - 0.5 * (backward**2).sum() / noise_scale**2
    )
    inputs = [noise, drift_scale, noise_scale, x, logp, force, *factor]
    log_det = new_metric[0] if new_metric else 2.0 * half_log_det
    outputs = [log_acceptance, log_det, proposal, new_logp, new_force, *new_factor]
    return inputs, outputs
