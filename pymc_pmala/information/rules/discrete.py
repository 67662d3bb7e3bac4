"""Expected information of discrete univariate distributions, in closed form."""

import pytensor.tensor as pt
from pymc.distributions.discrete import DiscreteUniformRV
from pymc.distributions.distribution import DiracDeltaRV
from pytensor.tensor.random.basic import (
    BernoulliRV,
    BinomialRV,
    CategoricalRV,
    GeometricRV,
    HyperGeometricRV,
    NegBinomialRV,
    PoissonRV,
)

from pymc_pmala.information.links import log, log_odds, log_odds_weight
from pymc_pmala.information.registry import Information, register_information
from pymc_pmala.information.special import negative_binomial_dispersion
from pymc_pmala.model.factors import Factor


@register_information(DiscreteUniformRV, HyperGeometricRV, DiracDeltaRV)
def without_information(factor: Factor) -> list[Information]:
    """DiscreteUniform, HyperGeometric, DiracDelta: no parameter that varies continuously."""
    return []


@register_information(BernoulliRV)
def bernoulli(factor: Factor) -> list[Information]:
    """Bernoulli(p): p(1 − p) on logit p."""
    (p,) = factor.parameters
    logit = log_odds(p)
    return [Information(logit, log_odds_weight(logit))]


@register_information(BinomialRV)
def binomial(factor: Factor) -> list[Information]:
    """Binomial(n, p): n p(1 − p) on logit p."""
    n, p = factor.parameters
    logit = log_odds(p)
    return [Information(logit, n * log_odds_weight(logit))]


@register_information(GeometricRV)
def geometric(factor: Factor) -> list[Information]:
    """Geometric(p): 1 − p on logit p."""
    (p,) = factor.parameters
    logit = log_odds(p)
    return [Information(logit, pt.sigmoid(-logit))]


@register_information(PoissonRV)
def poisson(factor: Factor) -> list[Information]:
    """Poisson(μ): μ on log μ."""
    (mu,) = factor.parameters
    log_mu = log(mu)
    return [Information(log_mu, pt.exp(log_mu))]


@register_information(NegBinomialRV)
def negative_binomial(factor: Factor) -> list[Information]:
    """NegativeBinomial(n, p): n(1 − p) on log μ = log n − logit p, J(n, p) on log n.

    J, the information about the dispersion at fixed mean, is an infinite series: see
    `special.negative_binomial_dispersion`.
    """
    n, p = factor.parameters
    log_n = log(n)
    log_ratio = -log_odds(p)
    n = pt.exp(log_n)
    return [
        Information(log_n + log_ratio, n * pt.sigmoid(log_ratio)),
        Information(log_n, negative_binomial_dispersion(n, log_ratio)),
    ]


@register_information(CategoricalRV)
def categorical(factor: Factor) -> list[Information]:
    """Categorical(p): diag(p) on log p.

    This is equivalent to diag(p) − ppᵀ, because p sums to one.
    """
    (p,) = factor.parameters
    shape = factor.value.shape
    log_p = log(p)
    log_p = pt.shape_padleft(log_p, factor.value.ndim + 1 - log_p.ndim)
    weight = pt.exp(log_p)
    for axis in range(factor.value.ndim):
        if log_p.type.shape[axis] == 1:
            weight = weight * shape[axis]
    return [Information([log_p], lambda tangents: [weight * tangents[0]])]
