r"""Expected information of censored or truncated data.

With F the distribution function and s the score of a value between the limits l and r,

.. math:: K = E[s s^T;\, l < v < r] + \frac{\dot F_l \dot F_l^T}{F_l}
              + \frac{\dot F_r \dot F_r^T}{1 - F_r}

for censored data, and K is the covariance of s given :math:`l < v < r` for truncated data.
A censored Normal has a closed form; otherwise the expectation is computed by quadrature
over the quantiles between the limits.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import WeibullBetaRV
from pymc.logprob.basic import icdf
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.basic import (
    CauchyRV,
    ExponentialRV,
    GumbelRV,
    LaplaceRV,
    LogisticRV,
    LogNormalRV,
    NormalRV,
)
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import at_least, at_most, log
from pymc_pmala.information.quadrature import outer
from pymc_pmala.information.registry import Information
from pymc_pmala.information.shapes import as_float

__all__ = ["censored_information", "truncated_information"]

# Distributions for which PyMC implements the quantiles, and a distribution function that can be
# differentiated twice with respect to the parameters.
_BY_QUANTILES: dict[type, Callable[..., TensorVariable]] = {
    CauchyRV: pm.Cauchy.dist,
    ExponentialRV: lambda scale: pm.Exponential.dist(scale=scale),
    GumbelRV: pm.Gumbel.dist,
    LaplaceRV: pm.Laplace.dist,
    LogNormalRV: pm.LogNormal.dist,
    LogisticRV: pm.Logistic.dist,
    NormalRV: pm.Normal.dist,
    WeibullBetaRV: pm.Weibull.dist,
}

# Trapezoidal rule in the logit of a probability: scores grow no faster than powers of the logit.
_LOGITS = np.linspace(-14.0, 14.0, 24)
_PROBABILITIES = 1.0 / (1.0 + np.exp(-_LOGITS))
_SHARES = _PROBABILITIES * (1.0 - _PROBABILITIES)
_SHARES = _SHARES / _SHARES.sum()

# A limit more than this many standard deviations away has no effect.
_REACH = 37.0


def censored_information(
    op: Any, parameters: Sequence[TensorVariable], lower: TensorVariable, upper: TensorVariable
) -> list[Information] | None:
    """Information of censored data about the parameters; None if there is no rule."""
    if isinstance(op, NormalRV):
        mu, sigma = parameters
        return [_censored_normal(mu, log(sigma), lower, upper)]
    inner = _between(op, parameters, lower, upper)
    if inner is None:
        return None
    inside = inner.above - inner.below
    weight = outer(inner.scores, _SHARES)
    slopes_below, slopes_above = inner.slopes
    entries = [
        [
            inside * weight[i][j]
            + slopes_below[i] * slopes_below[j] / at_least(inner.below, _TINY)
            + slopes_above[i] * slopes_above[j] / at_least(1.0 - inner.above, _ROUNDING)
            for j in range(len(weight))
        ]
        for i in range(len(weight))
    ]
    return [Information(inner.parameters, entries)]


_TINY = float(np.finfo(np.float64).tiny)
# 1 − F is known up to this.
_ROUNDING = float(np.finfo(np.float64).eps)


def truncated_information(
    op: Any, parameters: Sequence[TensorVariable], lower: TensorVariable, upper: TensorVariable
) -> list[Information] | None:
    """Information of truncated data about the parameters; None if there is no rule."""
    inner = _between(op, parameters, lower, upper)
    if inner is None:
        return None
    centred = [s - (s * _SHARES).sum(axis=-1, keepdims=True) for s in inner.scores]
    return [Information(inner.parameters, outer(centred, _SHARES))]


def _censored_normal(
    mu: TensorVariable, log_sigma: TensorVariable, lower: TensorVariable, upper: TensorVariable
) -> Information:
    """Information of a censored Normal on (μ, log σ).

    Let a and b be the standardised limits, r = φ/Φ at a and λ = φ/(1 − Φ) at b. The entries,
    in units of (1/σ², 1/σ, 1), are [Φ(b) − Φ(a)] (1, 0, 2)
    plus φ(a)(a + r, 1 + a² + ar, a + a³ + a²r) minus φ(b)(b − λ, 1 + b² − bλ, b + b³ − b²λ).
    """
    rate = pt.exp(-log_sigma)
    a, b = (at_least(at_most((x - mu) * rate, _REACH), -_REACH) for x in (lower, upper))
    inside = 0.5 * (pt.erfc(-b / np.sqrt(2)) - pt.erfc(-a / np.sqrt(2)))
    # Both ends are given by the same function, evaluated at a and at −b.
    first, cross, second = (
        of_a + sign * of_b
        for of_a, of_b, sign in zip(_end(a), _end(-b), (1.0, -1.0, 1.0), strict=True)
    )
    about_mean = (inside + first) * rate**2
    about_both = cross * rate
    return Information(
        (mu, log_sigma), ((about_mean, about_both), (about_both, 2.0 * inside + second))
    )


def _end(a: TensorVariable) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """φ(a)(a + r), φ(a)(1 + a² + ar) and φ(a)(a + a³ + a²r), r = φ(a)/Φ(a)."""
    density = pt.exp(-0.5 * a**2) / np.sqrt(2 * np.pi)
    ratio = np.sqrt(2 / np.pi) / pt.erfcx(-a / np.sqrt(2))
    excess = a + ratio
    return density * excess, density * (1.0 + a * excess), density * a * (1.0 + a * excess)


class _Between(NamedTuple):
    """A distribution between two limits; all attributes except ``scores`` are elementwise.

    Attributes
    ----------
    parameters : list of TensorVariable
        The parameters that are not constant.
    below, above : TensorVariable
        Values of F at the lower and at the upper limit.
    slopes : pair of lists of TensorVariable
        Derivatives of ``below`` and ``above`` with respect to the parameters.
    scores : list of TensorVariable
        Derivatives of the log-density at quantiles between the limits, along the last axis.
    """

    parameters: list[TensorVariable]
    below: TensorVariable
    above: TensorVariable
    slopes: tuple[list[TensorVariable], list[TensorVariable]]
    scores: list[TensorVariable]


def _between(
    op: Any, parameters: Sequence[TensorVariable], lower: TensorVariable, upper: TensorVariable
) -> _Between | None:
    dist = _BY_QUANTILES.get(type(op))
    if dist is None:
        return None
    varying = [i for i, parameter in enumerate(parameters) if _varies(parameter)]
    arrays = pt.broadcast_arrays(*map(as_float, parameters), as_float(lower), as_float(upper))
    *columns, low, high = (pt.shape_padright(array) for array in arrays)

    def cdf(distribution: TensorVariable, x: TensorVariable) -> TensorVariable:
        return pt.exp(pm.logcdf(distribution, x))

    # Replace an infinite limit by a very distant one: its derivatives are then 0, and not 0
    # times infinity.
    below, above = (cdf(dist(*columns), at_least(at_most(x, 1e100), -1e100)) for x in (low, high))
    probability, *wide = pt.broadcast_arrays(below + (above - below) * _PROBABILITIES, *columns)
    distribution = dist(*wide)
    held = disconnected_grad(icdf(distribution, probability))
    # Quantiles depend on the parameters: this adds the first derivative of the inverse function.
    at = held + (probability - cdf(distribution, held)) / pt.exp(pm.logp(distribution, held))
    values, *broad = pt.broadcast_arrays(at, *wide)
    scores = pt.grad(
        pm.logp(dist(*broad), values).sum(), [broad[i] for i in varying], consider_constant=[at]
    )
    moving = [columns[i] for i in varying]
    of_below, of_above = (
        [s[..., 0] for s in pt.grad(f.sum(), moving, disconnected_inputs="ignore")]
        for f in (below, above)
    )
    return _Between(
        [arrays[i] for i in varying], below[..., 0], above[..., 0], (of_below, of_above), scores
    )


def _varies(variable: TensorVariable) -> bool:
    return any(not isinstance(v, Constant) for v in graph_inputs([variable]))
