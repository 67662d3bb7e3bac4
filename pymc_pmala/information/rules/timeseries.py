"""Expected information of time series, from that of their innovations."""

import pytensor.tensor as pt
from pymc.distributions.continuous import Normal
from pymc.distributions.timeseries import (
    GARCH11RV,
    AutoRegressiveRV,
    EulerMaruyamaRV,
    RandomWalkRV,
)
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.parts import nested_information
from pymc_pmala.information.registry import (
    Information,
    NoInformation,
    register_information,
)
from pymc_pmala.model.factors import Factor


@register_information(RandomWalkRV)
def random_walk(factor: Factor) -> list[Information]:
    """RandomWalk: the information of the initial value and of the steps v_t − v_{t−1}."""
    initial, innovation, _ = factor.parameters
    # In the nested distributions, time is the first axis; in the walk it follows the batch axes.
    value = pt.moveaxis(factor.value, -factor.op.ndim_supp, 0)
    return [
        *nested_information(factor, initial, value[:1]),
        *nested_information(factor, innovation, value[1:] - value[:-1]),
    ]


@register_information(AutoRegressiveRV)
def autoregressive(factor: Factor) -> list[Information]:
    """AR(ρ, σ): v_t is Normal(ρ₀ + Σ_i ρ_i v_{t−i}, σ) given its past.

    The expectation is over each innovation given the current past. The information on ρ is
    therefore the sum over t of v_{t−i} v_{t−j} / σ² for the current (or observed) series, as in a
    regression on its lags, and not an average over series.
    """
    rho, sigma, initial, _ = factor.parameters
    value, order = factor.value, factor.op.ar_order
    constant = int(factor.op.constant_term)
    terms = [
        rho[..., constant + lag - 1, None] * value[..., order - lag : -lag]
        for lag in range(1, order + 1)
    ]
    if constant:
        terms.append(rho[..., 0, None])
    innovation = Normal.dist(pt.add(*terms) if len(terms) > 1 else terms[0], sigma[..., None])
    return [
        *nested_information(factor, initial, value[..., :order]),
        *nested_information(factor, innovation, value[..., order:]),
    ]


@register_information(EulerMaruyamaRV)
def euler_maruyama(factor: Factor) -> list[Information]:
    """EulerMaruyama: given v_t, v_{t+1} is Normal(v_t + f dt, g √dt); conditional, as for AR."""
    initial, _, *parameters = factor.parameters
    value = factor.value
    drift, diffusion = factor.op.sde_fn(value[..., :-1], *[p[..., None] for p in parameters])
    dt = factor.op.dt
    step = Normal.dist(value[..., :-1] + dt * drift, pt.sqrt(dt) * diffusion)
    return [
        *nested_information(factor, initial, value[..., 0]),
        *nested_information(factor, step, value[..., 1:]),
    ]


@register_information(GARCH11RV)
def garch(factor: Factor) -> list[Information]:
    """GARCH11(ω, α, β, σ₀): ½ on each log h_t and 1/h_t on v_t, given the past as for AR.

    The variances are h_t = ω + αv²_{t−1} + βh_{t−1}, h₀ = σ₀².
    """
    omega, alpha, beta, initial, *_ = factor.parameters
    omega, alpha, beta, initial = (p[..., None] for p in (omega, alpha, beta, initial))
    value = factor.value
    past = omega + alpha * value[..., :-1] ** 2
    start = initial**2 * pt.ones_like(value[..., :1])
    length = value.type.shape[-1]
    if length is None:
        raise NoInformation(f"{factor.name!r}: the length of the series is not known.")
    variance = _accumulate(pt.concatenate([start, past], axis=-1), beta, length)
    informations = [Information(pt.log(variance), 0.5)]
    if not factor.observed:
        informations.append(Information(value, 1.0 / variance))
    return informations


def _accumulate(terms: TensorVariable, decay: TensorVariable, length: int) -> TensorVariable:
    """Solve h_t = u_t + βh_{t−1} in log₂(length) doubling steps, without a loop."""
    reach = 1
    while reach < length:
        before = pt.concatenate([pt.zeros_like(terms[..., :reach]), terms[..., :-reach]], axis=-1)
        terms = terms + decay * before
        decay, reach = decay**2, 2 * reach
    return terms
