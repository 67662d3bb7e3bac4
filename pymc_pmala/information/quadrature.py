r"""Expected information of univariate distributions by quadrature.

For distributions without a closed form,

.. math:: K = \sum_k w_k\, s_k s_k^T, \qquad w_k \propto p(z_k)\, \Delta z_k,

with a fixed number of nodes :math:`z_k`, whose places are smooth functions of the parameters,
and :math:`s_k` the derivative of the log-density at the nodes. K is positive semi-definite
whatever the nodes, and differentiable because they are. The trapezoidal rule is used
throughout, in a variable in which the density decays at both ends: it then converges
exponentially (Trefethen & Weideman 2014).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import (
    ExGaussianRV,
    KumaraswamyRV,
    RiceRV,
    SkewNormalRV,
    SkewStudentTRV,
)
from pymc.distributions.discrete import DiscreteWeibullRV
from pytensor import config
from pytensor.gradient import disconnected_grad
from pytensor.tensor.random.basic import BetaBinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import at_least, at_most, log, log_normal_cdf, log_odds
from pymc_pmala.information.registry import Factor, Information, register_information
from pymc_pmala.information.special import log_bessel_i0e

QUADRATURE = "quadrature"
"""The path of the rules of this module."""

_UNIT = np.linspace(0.0, 1.0, 48)
"""Places of the nodes between the ends of an integral."""

_REACH = 8.0
"""Standard deviations beyond which a normal density is nothing."""


LogDensity: TypeAlias = Callable[..., TensorVariable]


class _Nodes(NamedTuple):
    """Nodes z on the last axis, and the logarithm of the length of z that each stands for."""

    z: TensorVariable
    log_length: TensorVariable


# Continuous distributions


@register_information(SkewNormalRV, path=QUADRATURE)
def skew_normal(factor: Factor) -> list[Information]:
    """SkewNormal(μ, σ, α): quadrature over z = (v − μ)/σ, on (v − μ, log σ, α).

    The density 2φ(z)Φ(αz) changes on the scales 1 and 1/α: nodes in arsinh(z √(1 + α²)).
    """
    mu, sigma, alpha = factor.parameters
    column = pt.shape_padright(alpha)
    finest = (1.0 + column**2) ** -0.5
    end = pt.arcsinh(_REACH / finest)
    nodes = _sinh_nodes(-end, end, finest)

    def log_density(z: TensorVariable, alpha: TensorVariable) -> TensorVariable:
        return log_normal_cdf(alpha * z) - 0.5 * z**2

    weights, scores = _location_scale_scores(log_density, nodes, [alpha])
    return [_location_scale(factor, mu, (log(sigma), alpha), scores, weights)]


@register_information(ExGaussianRV, path=QUADRATURE)
def ex_gaussian(factor: Factor) -> list[Information]:
    """ExGaussian(μ, σ, ν): quadrature over z = (v − μ)/σ, on (v − μ, log σ, log ν).

    A normal rise on the scale 1, an exponential tail on the scale ν/σ: nodes in arsinh z.
    """
    mu, sigma, nu = factor.parameters
    log_sigma, log_nu = log(sigma), log(nu)
    # Below ν = σ/1000 nothing is known of ν; erfcx would lose its derivative to rounding.
    log_ratio = at_least(at_most(log_nu - log_sigma, 40.0), -7.0)
    upper = pt.arcsinh(_REACH + 40.0 * pt.exp(pt.shape_padright(log_ratio)))
    nodes = _sinh_nodes(-np.arcsinh(_REACH), upper, 1.0)

    def log_density(z: TensorVariable, log_ratio: TensorVariable) -> TensorVariable:
        rate = pt.exp(-log_ratio)
        below = at_most(z - rate, 0.0)
        above = at_least(z - rate, 0.0)
        rise = pt.log(pt.erfcx(-below / np.sqrt(2))) - 0.5 * z**2
        tail = pt.log(pt.erfc(-above / np.sqrt(2))) - rate * (above + 0.5 * rate)
        return pt.switch(z < rate, rise, tail) - log_ratio

    weights, [of_z, of_scale, of_ratio] = _location_scale_scores(log_density, nodes, [log_ratio])
    scores = [of_z, of_scale - of_ratio, of_ratio]
    return [_location_scale(factor, mu, (log_sigma, log_nu), scores, weights)]


@register_information(SkewStudentTRV, path=QUADRATURE)
def skew_student_t(factor: Factor) -> list[Information]:
    """SkewStudentT(a, b, μ, σ): quadrature over z = (v − μ)/σ, on (v − μ, log σ, log a, log b).

    2 arsinh(z/√(a + b)) is the logit of a Beta(a, b) variable: nodes in it.
    """
    a, b, mu, sigma = factor.parameters
    shapes = pt.broadcast_arrays(log(a), log(b))
    log_a, log_b = (pt.shape_padright(shape) for shape in shapes)
    # About the variance ψ'(a) + ψ'(b) of the logit.
    variance = pt.exp(-log_a) + pt.exp(-2.0 * log_a) + pt.exp(-log_b) + pt.exp(-2.0 * log_b)
    width = 0.5 * at_most(pt.sqrt(variance), 20.0)
    inner = _sinh_nodes(-np.arcsinh(20.0), np.arcsinh(20.0), width)
    y = 0.5 * (log_a - log_b) + inner.z
    log_root = 0.5 * pt.log(pt.exp(log_a) + pt.exp(log_b))
    nodes = _Nodes(pt.exp(log_root) * pt.sinh(y), inner.log_length + log_root + pt.log(pt.cosh(y)))

    def log_density(
        z: TensorVariable, log_a: TensorVariable, log_b: TensorVariable
    ) -> TensorVariable:
        a, b = pt.exp(log_a), pt.exp(log_b)
        y = pt.arcsinh(z / pt.sqrt(a + b))
        exponents = (a + 0.5) * pt.softplus(-2.0 * y) + (b + 0.5) * pt.softplus(2.0 * y)
        return -exponents - _betaln(a, b) - 0.5 * pt.log(a + b)

    weights, scores = _location_scale_scores(log_density, nodes, shapes)
    return [_location_scale(factor, mu, (log(sigma), *shapes), scores, weights)]


@register_information(RiceRV, path=QUADRATURE)
def rice(factor: Factor) -> list[Information]:
    """Rice(b = ν/σ, σ): quadrature over y = v/σ, on (log v − log σ, b).

    A normal density about b on the scale 1, or a power of y near zero: nodes in the inverse
    of the softplus function of y.
    """
    b, sigma = factor.parameters
    bounded = at_least(at_most(b, 1e8), 1e-8)
    column = pt.shape_padright(bounded)
    lower = at_least(column - _REACH, -18.0)
    t = lower + (column + _REACH - lower) * _UNIT
    y = pt.softplus(t)
    log_length = pt.log(pt.sigmoid(t) / y) + pt.log(column + _REACH - lower)
    nodes = _Nodes(pt.log(y), log_length)

    def log_density(log_y: TensorVariable, b: TensorVariable) -> TensorVariable:
        y = pt.exp(log_y)
        return 2.0 * log_y - 0.5 * (y - b) ** 2 + log_bessel_i0e(y * b)

    density, scores = _scores(log_density, nodes.z, [bounded])
    log_sigma = log(sigma)
    value = -log_sigma if factor.observed else log(factor.value) - log_sigma
    return [Information((value, b), _outer(scores, _weights(density + nodes.log_length)))]


@register_information(KumaraswamyRV, path=QUADRATURE)
def kumaraswamy(factor: Factor) -> list[Information]:
    """Kumaraswamy(a, b): quadrature over its quantiles, on (logit v, log a, log b).

    −b log(1 − vᵃ) is a standard exponential variable: nodes in its logarithm.
    """
    shapes = pt.broadcast_arrays(*map(log, factor.parameters))
    log_a, log_b = (pt.shape_padright(shape) for shape in shapes)
    log_exponential = -18.0 + (18.0 + np.log(40.0)) * _UNIT
    weights = np.exp(log_exponential - np.exp(log_exponential))
    # log(−log vᵃ) and log(−log v); 1 − vᵃ has underflowed long before the bound.
    log_x = _log_neg_log_complement(at_most(log_exponential - log_b, 6.5))
    z = _logit(log_x - log_a)

    def log_density(
        z: TensorVariable, log_a: TensorVariable, log_b: TensorVariable
    ) -> TensorVariable:
        log_x = log_a + log(pt.softplus(-z))
        rest = _log_complement(log_x)
        return log_a + log_b - pt.exp(log_x) + (pt.exp(log_b) - 1.0) * rest - pt.softplus(z)

    _, scores = _scores(log_density, z, shapes)
    weights = weights / weights.sum()
    if factor.observed:
        return [Information(shapes, _outer(scores[1:], weights))]
    return [Information((log_odds(factor.value), *shapes), _outer(scores, weights))]


def _log_complement(log_x: TensorVariable) -> TensorVariable:
    """Log of 1 − exp(−x) from log x."""
    inner = pt.log(-pt.expm1(-pt.exp(at_least(log_x, -35.0))))
    return pt.switch(log_x < -35.0, log_x, inner)


def _log_neg_log_complement(log_x: TensorVariable) -> TensorVariable:
    """Log of −log(1 − exp(−x)) from log x."""
    inner = pt.log(-_log_complement(at_most(log_x, 3.4)))
    return pt.switch(log_x < 3.4, inner, -pt.exp(log_x))


def _logit(log_x: TensorVariable) -> TensorVariable:
    """Logit of exp(−x) from log x."""
    return -pt.exp(log_x) - _log_complement(log_x)


# Discrete distributions


@register_information(BetaBinomialRV, path=QUADRATURE)
def beta_binomial(factor: Factor) -> list[Information]:
    """BetaBinomial(n, α, β): sum over the support, on (log α, log β)."""
    n, alpha, beta = factor.parameters
    shapes = pt.broadcast_arrays(log(alpha), log(beta))
    n = pt.shape_padright(n)
    support = pt.arange(n.max() + 1)
    weights, successes = beta_binomial_weights(n, support, *map(pt.shape_padright, shapes))

    def log_density(
        z: TensorVariable, log_alpha: TensorVariable, log_beta: TensorVariable
    ) -> TensorVariable:
        alpha, beta = pt.exp(log_alpha), pt.exp(log_beta)
        return _betaln(alpha + z, beta + n - z) - _betaln(alpha, beta)

    _, scores = _scores(log_density, successes, shapes)
    return [Information(shapes, _outer(scores[1:], weights))]


@register_information(DiscreteWeibullRV, path=QUADRATURE)
def discrete_weibull(factor: Factor) -> list[Information]:
    """DiscreteWeibull(q, β): sum over 0, …, 31 and an integral beyond, on (log λ, log β).

    With q = exp(−λ): P(v ≥ k) = exp(−λkᵝ). Beyond the sum v is a continuous Weibull
    variable, for which λvᵝ − λ32ᵝ is a standard exponential one.
    """
    q, beta = factor.parameters
    shapes = pt.broadcast_arrays(log(pt.softplus(-log_odds(q))), log(beta))
    log_rate, log_beta = (pt.shape_padright(shape) for shape in shapes)
    counts = np.arange(33.0)
    beyond = np.where(counts == 32.0, 1e3, 0.0)

    def log_probability(
        v: TensorVariable, log_rate: TensorVariable, log_beta: TensorVariable
    ) -> TensorVariable:
        """Of each count up to 31, and of all from 32 on."""
        here = np.sign(counts) * hazard(np.log(np.maximum(counts, 1.0)), log_rate, log_beta)
        after = hazard(np.log(counts + 1.0), log_rate, log_beta) + beyond
        return pt.log(-pt.expm1(-at_least(after - here, 1e-290))) - here

    def hazard(
        log_v: np.ndarray, log_rate: TensorVariable, log_beta: TensorVariable
    ) -> TensorVariable:
        return pt.exp(at_most(log_rate + pt.exp(log_beta) * log_v, 6.0))

    density, [_, *scores] = _scores(log_probability, pt.constant(counts), shapes)
    probability = pt.exp(density)
    exponential, share = np.polynomial.laguerre.laggauss(12)
    start, log_32 = hazard(np.log(32.0), log_rate, log_beta), pt.exp(log_beta) * np.log(32.0)
    log_power = pt.log(start + exponential) - log_rate  # β log v
    tail_scores = [
        pt.zeros_like(log_power) + (1.0 - exponential),
        1.0 + log_power - (start + exponential) * log_power + start * log_32,
    ]
    joined = [pt.concatenate(pair, axis=-1) for pair in zip(scores, tail_scores, strict=True)]
    weights = pt.concatenate([probability, probability[..., -1:] * share], axis=-1)
    return [Information(shapes, _outer(joined, weights))]


def beta_binomial_weights(
    n: TensorVariable, support: TensorVariable, log_alpha: TensorVariable, log_beta: TensorVariable
) -> tuple[TensorVariable, TensorVariable]:
    """Probabilities of a BetaBinomial on a common support, and the support cut off at n.

    Where a count of the support is more than n, its probability is 0 and it is counted as n.
    """
    n = pt.cast(n, config.floatX)
    counts = pt.switch(support > n, n, support)
    alpha, beta = pt.exp(log_alpha), pt.exp(log_beta)
    log_ways = pt.gammaln(n + 1.0) - pt.gammaln(counts + 1.0) - pt.gammaln(n - counts + 1.0)
    log_p = log_ways + _betaln(alpha + counts, beta + n - counts) - _betaln(alpha, beta)
    return pt.switch(support > n, 0.0, pt.exp(log_p)), counts


# The rules of quadrature


def _location_scale_scores(
    log_density: LogDensity, nodes: _Nodes, shapes: Sequence[TensorVariable]
) -> tuple[TensorVariable, list[TensorVariable]]:
    """Weights, and scores in z = (v − μ)/σ, log σ and the shapes, from the log-density of z."""
    density, [of_z, *of_shapes] = _scores(log_density, nodes.z, shapes)
    weights = _weights(density + nodes.log_length)
    return weights, [of_z, -1.0 - nodes.z * of_z, *of_shapes]


def _location_scale(
    factor: Factor,
    mu: TensorVariable,
    others: Sequence[TensorVariable],
    scores: Sequence[TensorVariable],
    weights: TensorVariable,
) -> Information:
    """Information on (v − μ, log σ, …) from the scores in (v − μ)/σ and those others."""
    rates = [pt.exp(-others[0]), *[1.0] * len(others)]
    weight = [
        [left * right * entry for right, entry in zip(rates, row, strict=True)]
        for left, row in zip(rates, _outer(scores, weights), strict=True)
    ]
    location = -mu if factor.observed else factor.value - mu
    return Information((location, *others), weight)


def _sinh_nodes(
    lower: TensorVariable | float, upper: TensorVariable, scale: TensorVariable | float
) -> _Nodes:
    """Nodes scale · sinh t, evenly spaced in t: fine near zero, coarse far from it."""
    t = lower + (upper - lower) * _UNIT
    return _Nodes(scale * pt.sinh(t), pt.log(scale * (upper - lower) * pt.cosh(t)))


def _scores(
    log_density: LogDensity, z: TensorVariable, shapes: Sequence[TensorVariable]
) -> tuple[TensorVariable, list[TensorVariable]]:
    """Log-density at the nodes, and its derivatives there in z and the shape parameters.

    The nodes may depend on the parameters; the derivatives are at fixed nodes.
    """
    at, *columns = pt.broadcast_arrays(z, *map(pt.shape_padright, shapes))
    density = log_density(at, *columns)
    scores = pt.grad(
        density.sum(), [at, *columns], consider_constant=[z], disconnected_inputs="ignore"
    )
    return density, scores


def _weights(log_mass: TensorVariable) -> TensorVariable:
    mass = pt.exp(log_mass - disconnected_grad(log_mass.max(axis=-1, keepdims=True)))
    return mass / mass.sum(axis=-1, keepdims=True)


def _outer(
    scores: Sequence[TensorVariable], weights: TensorVariable | np.ndarray
) -> list[list[TensorVariable]]:
    """Σ_k w_k s_k s_kᵀ."""
    entries = {
        (i, j): (weights * scores[i] * scores[j]).sum(axis=-1)
        for i in range(len(scores))
        for j in range(i + 1)
    }
    return [
        [entries[max(i, j), min(i, j)] for j in range(len(scores))] for i in range(len(scores))
    ]


def _betaln(alpha: TensorVariable, beta: TensorVariable) -> TensorVariable:
    return pt.gammaln(alpha) + pt.gammaln(beta) - pt.gammaln(alpha + beta)
