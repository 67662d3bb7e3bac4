"""Expected information of discrete univariate distributions, in closed form."""

import pytensor.tensor as pt
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, PoissonRV

from pymc_pmala.information.links import log, log_odds, log_odds_weight
from pymc_pmala.information.registry import Factor, Information, register_information


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


@register_information(PoissonRV)
def poisson(factor: Factor) -> list[Information]:
    """Poisson(μ): μ on log μ."""
    (mu,) = factor.parameters
    log_mu = log(mu)
    return [Information(log_mu, pt.exp(log_mu))]
