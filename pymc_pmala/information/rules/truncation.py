"""Expected information of censored and truncated distributions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.truncated import TruncatedRV
from pytensor import config
from pytensor.graph.basic import equal_computations
from pytensor.graph.op import Op
from pytensor.tensor.basic import get_underlying_scalar_constant_value
from pytensor.tensor.random.basic import BinomialRV, NegBinomialRV, NormalRV, PoissonRV
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.limits import censored_information, truncated_information
from pymc_pmala.information.links import at_least, at_most, log, log_odds
from pymc_pmala.information.registry import (
    Information,
    NoInformation,
    information_rule,
    register_information,
)
from pymc_pmala.information.special import _polynomial, negative_binomial_dispersion
from pymc_pmala.model.factors import Factor, distribution_parameters

__all__ = [
    "NON_ZERO",
    "NonZero",
    "constant_number",
    "part_information",
]


@register_information(CensoredRV, path="closed form, quadrature or complete-data bound")
def censored(factor: Factor) -> Sequence[Information]:
    """Censored: closed form or quadrature if known, else the uncensored information, a bound."""
    base, lower, upper = factor.parameters
    parameters = tuple(distribution_parameters(base))
    exact = censored_information(base.owner.op, parameters, lower, upper)
    if exact is not None:
        return exact
    return part_information(replace(factor, op=base.owner.op, parameters=parameters))


@register_information(
    TruncatedRV, path="quadrature or complete-data approximation (without zero: closed form)"
)
def truncated(factor: Factor) -> Sequence[Information]:
    """Truncated: closed form for counts without zero, quadrature for data with known quantiles.

    Otherwise the information of the whole distribution f is used, which is an approximation. If
    free, with u the unconstrained value and f truncated on one side,
    E[s_u²] = 1 − E[(log f)'' (dv/du)²], so 1 on u is added to the information of f. If f is
    truncated on both sides and p is the position in the interval,
    E[s_u²] = E[(1 − 2p)²] − E[(log f)'' (dv/du)²], and 1/3 is added, as for a Uniform.
    """
    whole: Any = factor.op
    op = whole.base_rv_op
    *parameters, lower, upper = factor.parameters
    base = replace(factor, op=op, parameters=tuple(parameters[-len(op.ndims_params) :]))
    bounds = _bounds(lower, upper)
    if type(op) in NON_ZERO and bounds == (True, False) and constant_number(lower) == 1:
        return NON_ZERO[type(op)](base).informations
    if factor.observed:
        exact = truncated_information(op, base.parameters, lower, upper)
        if exact is not None:
            return exact
    return [*part_information(base), *_boundary_information(factor, bounds)]


@register_information(
    TruncatedNormalRV, path="closed form (two bounds: quadrature, or complete-data approximation)"
)
def truncated_normal(factor: Factor) -> Sequence[Information]:
    """TruncatedNormal(μ, σ, lower, upper), with λ = φ(a)/(1 − Φ(a)), a = (lower − μ)/σ.

    If truncated below, on (u − log σ, a) with u = log(v − lower):
    [[2 + a(a − λ), λ − a], [·, 1 − λ(λ − a)]]. If truncated above, the same for −v.
    If truncated on both sides, as for Truncated.
    """
    mu, sigma, lower, upper = factor.parameters
    bounds = _bounds(lower, upper)
    if all(bounds) and factor.observed:
        exact = truncated_information(NormalRV(), (mu, sigma), lower, upper)
        if exact is not None:
            return exact
    if all(bounds) or not any(bounds) or _is_untransformed(factor):
        base = replace(factor, op=NormalRV(), parameters=(mu, sigma))
        return [*part_information(base), *_boundary_information(factor, bounds)]
    log_sigma = log(sigma)
    a = (lower - mu if bounds[0] else mu - upper) * pt.exp(-log_sigma)
    distance = -log_sigma if factor.observed else factor.unconstrained - log_sigma
    excess, variance = _mills_excess(a)
    return [Information((distance, a), ((2.0 - a * excess, excess), (excess, variance)))]


def part_information(factor: Factor) -> Sequence[Information]:
    """Information of a distribution that is a component of another."""
    rule = information_rule(factor.op)
    if rule is None:
        raise NoInformation(
            f"{factor.name!r}: there is no rule for its component {type(factor.op).__name__}."
        )
    return rule(factor)


def constant_number(variable: TensorVariable) -> float | None:
    """Return the common value of all elements of a variable, if known, else None."""
    number = get_underlying_scalar_constant_value(variable, raise_not_constant=False)
    return None if number is variable else float(number)


def _bounds(lower: TensorVariable, upper: TensorVariable) -> tuple[bool, bool]:
    """Whether a distribution is truncated below and above."""
    return constant_number(lower) != -np.inf, constant_number(upper) != np.inf


def _boundary_information(factor: Factor, bounds: tuple[bool, bool]) -> list[Information]:
    """Contribution of the transform of a free, truncated variable to the information."""
    if _is_untransformed(factor) or not any(bounds):
        return []
    return [Information(factor.unconstrained, 1.0 / 3.0 if all(bounds) else 1.0)]


def _is_untransformed(factor: Factor) -> bool:
    if factor.observed:
        return False
    return equal_computations([factor.value], [factor.unconstrained])


def _mills_excess(a: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
    """Return λ − a and 1 − λ(λ − a) with λ(a) = φ(a)/(1 − Φ(a)).

    Above a = 25 asymptotic series are used.
    """
    middle = at_least(at_most(a, 25.0), -25.0)
    mills = np.sqrt(2 / np.pi) / pt.erfcx(middle / np.sqrt(2))
    low = at_most(a, 25.0)
    y = 1.0 / at_least(a, 25.0)
    excess = y * _polynomial((1, -2, 10, -74, 706, -8162, 110410), y**2)
    variance = y**2 * _polynomial((1, -6, 50, -518, 6354, -89782, 1435330), y**2)
    return (
        pt.switch(a < 25.0, mills - low, excess),
        pt.switch(a < 25.0, 1.0 - mills * (mills - low), variance),
    )


# Counts without zero


class NonZero(NamedTuple):
    """A distribution of counts, given that they are not zero.

    Attributes
    ----------
    log_rate : TensorVariable
        log L, where p₀ = P(0) = exp(−L).
    informations : list of Information
        [K − s₀s₀ᵀ p₀/(1 − p₀)] / (1 − p₀), where s₀ is the score at zero.
    """

    log_rate: TensorVariable
    informations: list[Information]


def _poisson(factor: Factor) -> NonZero:
    """Poisson(μ) without zero: f(μ)(1 + μ − f(μ)) on log μ."""
    (mu,) = factor.parameters
    log_mu = log(mu)
    mu = pt.exp(log_mu)
    f = _f(mu)
    return NonZero(log_mu, [Information(log_mu, f * (1.0 + mu - f))])


def _binomial(factor: Factor) -> NonZero:
    """Binomial(n, p) without zero: (p/l)² [f(L) − f(l)](1 + L − f(L)) on logit p.

    With l = −log(1 − p) and L = n l.
    """
    n, p = factor.parameters
    n = pt.cast(n, config.floatX)
    logit = log_odds(p)
    one = pt.softplus(logit)
    rate = n * one
    f = _f(rate)
    difference = pt.switch(one < _SERIES_BELOW, f - _f(one), _h(one) - _h(rate))
    weight = (1.0 - _g(one)) ** 2 * difference * (1.0 + rate - f)
    return NonZero(log(n) + log(one), [Information(logit, weight)])


def _negative_binomial(factor: Factor) -> NonZero:
    """NegativeBinomial(n, p) without zero, on (log μ, log n).

    With l = −log p, L = n l, c = 1 + L − f(L), f = f(L), g = g(l) and J as in
    `discrete.negative_binomial`:
    [[(1 − g)(g + (1 − g)f)c, −(1 − g)g(1 − f)c], [·, Jc/L − g²(1 − f)c]].
    J is an approximation. The part of the last entry that is orthogonal to log μ vanishes with μ
    and is prevented from becoming negative.
    """
    n, p = factor.parameters
    log_n, log_ratio = log(n), -log_odds(p)
    n = pt.exp(log_n)
    one = pt.softplus(log_ratio)
    rate = n * one
    f, g = _f(rate), _g(one)
    scale = 1.0 + rate - f
    mean = g + (1.0 - g) * f
    slope = -g * (1.0 - f) / mean
    about_mean = (1.0 - g) * mean * scale
    dispersion = scale * (negative_binomial_dispersion(n, log_ratio) / rate - g**2 * (1.0 - f))
    orthogonal = at_least(dispersion - about_mean * slope**2, 0.0)
    cross = about_mean * slope
    weight = ((about_mean, cross), (cross, orthogonal + cross * slope))
    return NonZero(log_n + log(one), [Information((log_n + log_ratio, log_n), weight)])


NON_ZERO: dict[type[Op], Callable[[Factor], NonZero]] = {
    PoissonRV: _poisson,
    BinomialRV: _binomial,
    NegBinomialRV: _negative_binomial,
}
"""Distributions of non-zero counts, by the type of the original distribution."""

_SERIES_BELOW = 0.3


def _h(x: TensorVariable) -> TensorVariable:
    """Function x/(eˣ − 1)."""
    x = at_least(x, _SERIES_BELOW)
    return x * pt.exp(-x) / -pt.expm1(-x)


def _f(x: TensorVariable) -> TensorVariable:
    """Function 1 − x/(eˣ − 1), which is x/2 near zero."""
    low = at_most(x, _SERIES_BELOW)
    even = _polynomial((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160), low**2)
    return pt.switch(x < _SERIES_BELOW, 0.5 * low - low**2 * even, 1.0 - _h(x))


def _g(x: TensorVariable) -> TensorVariable:
    """Function 1 − (1 − e⁻ˣ)/x, which is x/2 near zero."""
    low, high = at_most(x, _SERIES_BELOW), at_least(x, _SERIES_BELOW)
    terms = np.cumprod([0.5, *(-1.0 / k for k in range(3, 12))])
    series = low * _polynomial(list(terms), low)
    return pt.switch(x < _SERIES_BELOW, series, 1.0 + pt.expm1(-high) / high)
