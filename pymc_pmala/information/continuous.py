"""Expected information of continuous univariate distributions, in closed form."""

import pytensor.tensor as pt
from pymc.distributions.continuous import FlatRV, HalfCauchyRV, HalfFlatRV
from pytensor.tensor.random.basic import ExponentialRV, HalfNormalRV, NormalRV, UniformRV

from pymc_pmala.information.links import log
from pymc_pmala.information.registry import Factor, Information, register_information


@register_information(NormalRV)
def normal(factor: Factor) -> list[Information]:
    """Normal(μ, σ): 1/σ² on v − μ, 2 on log σ."""
    mu, sigma = factor.parameters
    log_sigma = log(sigma)
    return [
        Information(factor.value - mu, pt.exp(-2.0 * log_sigma)),
        Information(log_sigma, 2.0),
    ]


@register_information(HalfNormalRV)
def half_normal(factor: Factor) -> list[Information]:
    """HalfNormal(σ): log v − log σ is a location; Var(v²/σ²) = 2."""
    _, sigma = factor.parameters
    return [Information(log(factor.value) - log(sigma), 2.0)]


@register_information(HalfCauchyRV)
def half_cauchy(factor: Factor) -> list[Information]:
    """HalfCauchy(β): log v − log β is a location; the score is cos 2θ, θ uniform."""
    (beta,) = factor.parameters
    return [Information(log(factor.value) - log(beta), 0.5)]


@register_information(ExponentialRV)
def exponential(factor: Factor) -> list[Information]:
    """Exponential(scale): log v − log scale is a location; Var(v/scale) = 1."""
    (scale,) = factor.parameters
    return [Information(log(factor.value) - log(scale), 1.0)]


@register_information(FlatRV, HalfFlatRV)
def flat(factor: Factor) -> list[Information]:
    """Flat and HalfFlat: no information."""
    return []


@register_information(UniformRV)
def uniform(factor: Factor) -> list[Information]:
    """Uniform(a, b).

    Free, under its interval transform: a standard logistic density of the unconstrained
    value, whatever the bounds, with E[s²] = 1/3. Observed: log(b − a) has score −1.
    """
    lower, upper = factor.parameters
    if factor.observed:
        return [Information(pt.log(upper - lower), 1.0)]
    return [Information(factor.unconstrained, 1.0 / 3.0)]
