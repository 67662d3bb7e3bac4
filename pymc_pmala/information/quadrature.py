r"""Expected information of univariate distributions by quadrature.

For distributions without a closed form, the information is

.. math:: K = \sum_k w_k\, s_k s_k^T, \qquad w_k \propto p(z_k)\, \Delta z_k,

with a fixed number of nodes :math:`z_k`, where :math:`s_k` is the derivative of the
log-density at the nodes. K is positive semi-definite for any choice of nodes. The trapezoidal
rule is used throughout, in a variable in which the density decays at both ends, so that it
converges exponentially (Trefethen & Weideman 2014).

Information that depends on a single shape parameter is computed in advance for many values of
it, and its factor R, :math:`K = R^T R`, is interpolated. The graph then has only a few
operations and is quick to compile and to differentiate. Information that depends on two shape
parameters is summed in the graph.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytensor.tensor as pt
import scipy
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
from pytensor.graph.basic import equal_computations
from pytensor.tensor.random.basic import BetaBinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import at_least, at_most, log, log_odds
from pymc_pmala.information.patterns import operation
from pymc_pmala.information.registry import Information, register_information
from pymc_pmala.model.factors import Factor

QUADRATURE = "quadrature"
"""Path of the rules in this module, as shown by `explain_metric`."""

_UNIT = np.linspace(0.0, 1.0, 48)
"""Positions of the nodes between the ends of an integral."""

_REACH = 8.0
"""Number of standard deviations beyond which a normal density is negligible."""


LogDensity: TypeAlias = Callable[..., TensorVariable]

_FINE = 400
"""Number of nodes of integrals that are computed in advance."""

_WeightedScores: TypeAlias = tuple[np.ndarray, list[np.ndarray]]
"""Weights of the nodes, up to a factor, and the scores at the nodes in each coordinate."""


class _Table(NamedTuple):
    """A triangular matrix R with K = RᵀR, as cubic splines in a shape parameter.

    Attributes
    ----------
    knots : array
        Evenly spaced knots.
    coefficients : array
        One column for each entry of R on or above its diagonal, row by row.
    """

    knots: np.ndarray
    coefficients: np.ndarray


class _Nodes(NamedTuple):
    """Nodes z along the last axis, and the logarithm of the interval that each represents."""

    z: TensorVariable
    log_length: TensorVariable


# Continuous distributions


@register_information(SkewNormalRV, path=QUADRATURE)
def skew_normal(factor: Factor) -> list[Information]:
    """SkewNormal(μ, σ, α): quadrature over z = (v − μ)/σ, on (v − μ, log σ, α)."""
    mu, sigma, alpha = factor.parameters
    log_sigma = log(sigma)
    size = 1.0 + alpha**2
    rates = (pt.exp(-log_sigma) * size**0.25, 1.0, size**-0.75)
    location = -mu if factor.observed else factor.value - mu
    return [
        Information(
            (location, log_sigma, alpha),
            _interpolated(_skew_normal_table(), pt.arcsinh(alpha), rates),
        )
    ]


@cache
def _skew_normal_table() -> _Table:
    """Table of the scores (1 + α²)^{−¼} ∂_z, ∂_{log σ}, (1 + α²)^¾ ∂_α of 2φ(z)Φ(αz).

    The shape parameter is arsinh α.
    """

    def scores(arcsinh_alpha: float) -> _WeightedScores:
        alpha = np.sinh(arcsinh_alpha)
        size = 1.0 + alpha**2
        # The density changes on the scales 1 and 1/α.
        end = np.arcsinh(_REACH * np.sqrt(size))
        t = np.linspace(-end, end, _FINE)
        z = np.sinh(t) / np.sqrt(size)
        weight = np.cosh(t) * np.exp(-0.5 * z**2) * scipy.special.ndtr(alpha * z)
        mills = np.sqrt(2 / np.pi) / scipy.special.erfcx(-alpha * z / np.sqrt(2))
        slope = alpha * mills - z
        return weight, [slope * size**-0.25, -1.0 - z * slope, z * mills * size**0.75]

    return _table(scores, -9.0, 9.0)


@register_information(ExGaussianRV, path=QUADRATURE)
def ex_gaussian(factor: Factor) -> list[Information]:
    """ExGaussian(μ, σ, ν): quadrature over z = (v − μ)/σ, on (v − μ, log σ, log ν)."""
    mu, sigma, nu = factor.parameters
    log_sigma, log_nu = log(sigma), log(nu)
    location = -mu if factor.observed else factor.value - mu
    return [
        Information(
            (location, log_sigma, log_nu),
            _interpolated(_ex_gaussian_table(), log_nu - log_sigma, (pt.exp(-log_sigma), 1.0, 1.0)),
        )
    ]


@cache
def _ex_gaussian_table() -> _Table:
    """Table of the scores in z, log σ and log ν of r exp(½r² − rz) Φ(z − r), r = σ/ν.

    The shape parameter is −log r.
    """

    def scores(log_ratio: float) -> _WeightedScores:
        rate = np.exp(-log_ratio)
        # The density rises on the scale 1 and has an exponential tail on the scale 1/r.
        t = np.linspace(-np.arcsinh(_REACH), np.arcsinh(_REACH + 40.0 / rate), _FINE)
        z = np.sinh(t)
        scaled = scipy.special.erfcx((rate - z) / np.sqrt(2))
        with np.errstate(over="ignore", invalid="ignore"):
            rise = np.exp(-0.5 * z**2) * scaled
            tail = 2.0 * scipy.special.ndtr(z - rate) * np.exp(0.5 * rate**2 - rate * z)
        weight = np.cosh(t) * np.where(z < rate, rise, tail)
        mills = np.sqrt(2 / np.pi) / scaled
        slope = mills - rate
        of_rate = 1.0 + rate * (rate - z - mills)
        return weight, [slope, -1.0 - z * slope + of_rate, -of_rate]

    return _table(scores, -7.0, 12.0)


@register_information(RiceRV, path=QUADRATURE)
def rice(factor: Factor) -> list[Information]:
    """Rice(b = ν/σ, σ): quadrature over y = v/σ, on (log σ, ν, log v)."""
    b, sigma = factor.parameters
    log_sigma = log(sigma)
    rates = (1.0, pt.exp(-log_sigma), pt.sqrt(1.0 + b**2))
    weight = _interpolated(_rice_table(), pt.arcsinh(b), rates)
    nu = _numerator(b, sigma)
    if factor.observed:
        return [Information((log_sigma, nu), [row[:2] for row in weight[:2]])]
    return [Information((log_sigma, nu, log(factor.value)), weight)]


def _numerator(ratio: TensorVariable, denominator: TensorVariable) -> TensorVariable:
    """Numerator a of a ratio a/b, taken from the model's graph if possible."""
    name, inputs = operation(ratio)
    if name == "TrueDiv" and equal_computations([inputs[1]], [denominator]):
        return inputs[0]
    return ratio * denominator


@cache
def _rice_table() -> _Table:
    """Table of the scores ∂_{log σ}, σ∂_ν and (1 + b²)^{−½} ∂_{log v}.

    The shape parameter is arsinh b.
    """

    def scores(arcsinh_b: float) -> _WeightedScores:
        b = np.sinh(arcsinh_b)
        # The density is nearly normal about b on the scale 1, and a power of y near zero.
        t = np.linspace(max(b - _REACH, -18.0), b + _REACH, _FINE)
        y = np.logaddexp(0.0, t)
        weight = scipy.special.expit(t) * y * np.exp(-0.5 * (y - b) ** 2) * scipy.special.i0e(y * b)
        ratio = scipy.special.i1e(y * b) / scipy.special.i0e(y * b)
        of_b, of_log_y = y * ratio - b, 2.0 - y**2 + y * b * ratio
        return weight, [-of_log_y - b * of_b, of_b, of_log_y / np.sqrt(1.0 + b**2)]

    return _table(scores, 0.0, 7.0)


@register_information(SkewStudentTRV, path=QUADRATURE)
def skew_student_t(factor: Factor) -> list[Information]:
    """SkewStudentT(a, b, μ, σ): quadrature over z = (v − μ)/σ, on (v − μ, log σ, log a, log b).

    The nodes are in 2 arsinh(z/√(a + b)), which is the logit of a Beta(a, b) variable. For a
    free variable, the score of the location is multiplied by the square root of
    (a + b + 3)/(a + b + z²), which for a = b gives the information of a free StudentT.
    """
    a, b, mu, sigma = factor.parameters
    shapes = pt.broadcast_arrays(log(a), log(b))
    log_a, log_b = (pt.shape_padright(shape) for shape in shapes)
    # Approximately the variance ψ'(a) + ψ'(b) of the logit.
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
    if not factor.observed:
        square = ((factor.value - mu) / sigma) ** 2
        scores[0] = scores[0] * pt.shape_padright(pt.sqrt((a + b + 3.0) / (a + b + square)))
    return [_location_scale(factor, mu, (log(sigma), *shapes), scores, weights)]


@register_information(KumaraswamyRV, path=QUADRATURE)
def kumaraswamy(factor: Factor) -> list[Information]:
    """Kumaraswamy(a, b): quadrature over its quantiles, on (logit v, log a, log b).

    The nodes are in the logarithm of −b log(1 − vᵃ), a standard exponential variable.
    """
    shapes = pt.broadcast_arrays(*map(log, factor.parameters))
    log_a, log_b = (pt.shape_padright(shape) for shape in shapes)
    log_exponential = -18.0 + (18.0 + np.log(40.0)) * _UNIT
    weights = np.exp(log_exponential - np.exp(log_exponential))
    # log(−log vᵃ) and log(−log v); 1 − vᵃ underflows long before the bound is reached.
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
        return [Information(shapes, outer(scores[1:], weights))]
    return [Information((log_odds(factor.value), *shapes), outer(scores, weights))]


def _log_complement(log_x: TensorVariable) -> TensorVariable:
    """Logarithm of 1 − exp(−x) as a function of log x."""
    inner = pt.log(-pt.expm1(-pt.exp(at_least(log_x, -35.0))))
    return pt.switch(log_x < -35.0, log_x, inner)


def _log_neg_log_complement(log_x: TensorVariable) -> TensorVariable:
    """Logarithm of −log(1 − exp(−x)) as a function of log x; exp(−x) must not underflow."""
    low, high = at_most(log_x, 0.0), at_least(log_x, 0.0)
    return pt.log(pt.switch(log_x < 0.0, -_log_complement(low), -pt.log1p(-pt.exp(-pt.exp(high)))))


def _logit(log_x: TensorVariable) -> TensorVariable:
    """Logit of exp(−x) as a function of log x."""
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
    return [Information(shapes, outer(scores[1:], weights))]


@register_information(DiscreteWeibullRV, path=QUADRATURE)
def discrete_weibull(factor: Factor) -> list[Information]:
    """DiscreteWeibull(q, β): sum over 0, …, 31 and an integral beyond, on (log λ, log β).

    With q = exp(−λ), P(v ≥ k) = exp(−λkᵝ). Beyond the sum, v is treated as a continuous Weibull
    variable, for which λvᵝ − λ32ᵝ has a standard exponential distribution.
    """
    q, beta = factor.parameters
    shapes = pt.broadcast_arrays(log(pt.softplus(-log_odds(q))), log(beta))
    log_rate, log_beta = (pt.shape_padright(shape) for shape in shapes)
    counts = np.arange(33.0)
    beyond = np.where(counts == 32.0, 1e3, 0.0)

    def log_probability(
        v: TensorVariable, log_rate: TensorVariable, log_beta: TensorVariable
    ) -> TensorVariable:
        """Log-probability of each count up to 31, and of all counts from 32 on."""
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
    return [Information(shapes, outer(joined, weights))]


def beta_binomial_weights(
    n: TensorVariable, support: TensorVariable, log_alpha: TensorVariable, log_beta: TensorVariable
) -> tuple[TensorVariable, TensorVariable]:
    """Probabilities of a BetaBinomial on a common support, and the support bounded by n.

    Counts greater than n have probability 0 and are replaced by n.
    """
    n = pt.cast(n, config.floatX)
    counts = pt.switch(support > n, n, support)
    alpha, beta = pt.exp(log_alpha), pt.exp(log_beta)
    log_ways = pt.gammaln(n + 1.0) - pt.gammaln(counts + 1.0) - pt.gammaln(n - counts + 1.0)
    log_p = log_ways + _betaln(alpha + counts, beta + n - counts) - _betaln(alpha, beta)
    return pt.switch(support > n, 0.0, pt.exp(log_p)), counts


# Information as a function of one shape parameter


def _table(scores: Callable[[float], _WeightedScores], lower: float, upper: float) -> _Table:
    """Tabulate R for values of the shape parameter between two bounds."""
    shapes = np.linspace(lower, upper, int(32 * (upper - lower)) + 1)
    rows = []
    for shape in shapes:
        weights, values = scores(shape)
        roots = np.sqrt(weights / weights.sum())
        factor = np.linalg.qr(roots[:, None] * np.stack(values, axis=1), mode="r")
        factor *= np.where(np.diag(factor) < 0, -1.0, 1.0)[:, None]
        rows.append(factor[np.triu_indices(len(values))])
    space = 0.125
    knots = np.arange(lower - space, upper + 1.5 * space, space)
    basis = _cubic(np.abs(shapes[:, None] - knots) / space, np.where)
    return _Table(knots, np.linalg.lstsq(basis, np.array(rows))[0])


def _interpolated(
    table: _Table, shape: TensorVariable, rates: Sequence[TensorVariable | float]
) -> list[list[TensorVariable]]:
    """Interpolate K at a shape, with coordinate i multiplied by ``rates[i]``.

    Outside the table, K at the nearer end is used.
    """
    knots, n = table.knots, len(rates)
    space = knots[1] - knots[0]
    within = at_least(at_most(shape, knots[-2]), knots[1])
    # Values and slopes are computed once, so that derivatives in many directions are products with
    # the slopes. This is correct only for first derivatives, and the product with K is
    # differentiated only once.
    held = disconnected_grad(within)
    offset = (pt.shape_padright(held) - knots) / space
    distance = pt.abs(offset)
    entries = _cubic(distance, pt.switch) @ table.coefficients
    slopes = (pt.sgn(offset) * _cubic_slope(distance)) @ (table.coefficients / space)
    entries = entries + slopes * pt.shape_padright(within - held)
    columns: list[dict[int, TensorVariable]] = [{} for _ in range(n)]
    for entry, (row, column) in enumerate(combinations_with_replacement(range(n), 2)):
        columns[column][row] = rates[column] * entries[..., entry]
    return [
        [sum(left[row] * right[row] for row in left.keys() & right.keys()) for right in columns]
        for left in columns
    ]


def _cubic(distance: Any, where: Callable) -> Any:
    """Cubic B-spline on five evenly spaced knots, at a distance from its centre."""
    inner = 2 / 3 - distance**2 * (1.0 - 0.5 * distance)
    outer = where(distance < 2.0, (2.0 - distance) ** 3 / 6.0, 0.0)
    return where(distance < 1.0, inner, outer)


def _cubic_slope(distance: TensorVariable) -> TensorVariable:
    """Derivative of `_cubic`."""
    inner = distance * (1.5 * distance - 2.0)
    outer = pt.switch(distance < 2.0, -0.5 * (2.0 - distance) ** 2, 0.0)
    return pt.switch(distance < 1.0, inner, outer)


# Quadrature


def _location_scale_scores(
    log_density: LogDensity, nodes: _Nodes, shapes: Sequence[TensorVariable]
) -> tuple[TensorVariable, list[TensorVariable]]:
    """Weights and scores in z = (v − μ)/σ, log σ and the shapes, from the log-density of z."""
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
    """Information on (v − μ, log σ, …) from the scores in (v − μ)/σ, log σ, …."""
    rates = [pt.exp(-others[0]), *[1.0] * len(others)]
    weight = [
        [left * right * entry for right, entry in zip(rates, row, strict=True)]
        for left, row in zip(rates, outer(scores, weights), strict=True)
    ]
    location = -mu if factor.observed else factor.value - mu
    return Information((location, *others), weight)


def _sinh_nodes(
    lower: TensorVariable | float, upper: TensorVariable, scale: TensorVariable | float
) -> _Nodes:
    """Nodes scale · sinh t, evenly spaced in t: dense near zero and sparse far from it."""
    t = lower + (upper - lower) * _UNIT
    return _Nodes(scale * pt.sinh(t), pt.log(scale * (upper - lower) * pt.cosh(t)))


def _scores(
    log_density: LogDensity, z: TensorVariable, shapes: Sequence[TensorVariable]
) -> tuple[TensorVariable, list[TensorVariable]]:
    """Log-density at the nodes, and its derivatives in z and the shape parameters.

    The nodes may depend on the parameters; the derivatives are taken at fixed nodes.
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


def outer(
    scores: Sequence[TensorVariable], weights: TensorVariable | np.ndarray
) -> list[list[TensorVariable]]:
    """Weighted sum of outer products Σ_k w_k s_k s_kᵀ."""
    entries = {
        (i, j): (weights * scores[i] * scores[j]).sum(axis=-1)
        for i in range(len(scores))
        for j in range(i + 1)
    }
    return [[entries[max(i, j), min(i, j)] for j in range(len(scores))] for i in range(len(scores))]


def _betaln(alpha: TensorVariable, beta: TensorVariable) -> TensorVariable:
    return pt.gammaln(alpha) + pt.gammaln(beta) - pt.gammaln(alpha + beta)
