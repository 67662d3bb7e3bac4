"""Expected information of distributions on, or parameterised by, a simplex, in closed form."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.multivariate import DirichletMultinomialRV, StickBreakingWeightsRV
from pytensor import config
from pytensor.graph.basic import Apply
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import DirichletRV, MultinomialRV
from pytensor.tensor.special import Softmax
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import at_least, log
from pymc_pmala.information.parts import over
from pymc_pmala.information.quadrature import beta_binomial_weights
from pymc_pmala.information.registry import Information, register_information
from pymc_pmala.information.shapes import as_float, copies_of, sum_to_batch, without_leading_ones
from pymc_pmala.information.special import trigamma
from pymc_pmala.model.factors import Factor

__all__ = ["logits_of"]


@register_information(MultinomialRV)
def multinomial(factor: Factor) -> list[Information]:
    """Multinomial(n, p): n (diag p − p pᵀ) on log p, or on the logits of p."""
    n, p = factor.parameters
    p = without_leading_ones(p, 1)
    n = as_float(n)
    trials = n + pt.zeros(factor.value.shape[:-1])
    trials = sum_to_batch(trials, p.ndim - 1, p.type.shape[:-1])[..., None]

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        change = p * tangents[0]
        return [trials * (change - p * change.sum(axis=-1, keepdims=True))]

    return [Information(logits_of(p), product)]


@register_information(DirichletMultinomialRV)
def dirichlet_multinomial(factor: Factor) -> list[Information]:
    """DirichletMultinomial(n, a), with a₀ = Σ a_i.

    diag E[ψ'(a_i) − ψ'(a_i + v_i)] − [ψ'(a₀) − ψ'(a₀ + n)] 11ᵀ on a, where v_i is
    BetaBinomial(n, a_i, a₀ − a_i) and the expectation is a sum over its support.
    """
    n, a = factor.parameters
    a = as_float(without_leading_ones(a, 1))
    n = as_float(without_leading_ones(n, 0))[..., None]
    total = a.sum(axis=-1, keepdims=True)
    support = pt.arange(n.max() + 1.0)
    weights, counts = beta_binomial_weights(
        n[..., None], support, pt.log(a)[..., None], pt.log(total - a)[..., None]
    )
    column = a[..., None]
    expected = (weights * (trigamma(column) - trigamma(column + counts))).sum(axis=-1)
    common = trigamma(total) - trigamma(total + n)

    def over_elements(weight: TensorVariable, length: TensorVariable | int) -> TensorVariable:
        weight = pt.broadcast_to(weight, (*factor.value.shape[:-1], length))
        return sum_to_batch(weight, a.ndim, a.type.shape[:-1])

    about_a, about_total = over_elements(expected, a.shape[-1]), over_elements(common, 1)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        change = a * tangents[0]
        return [a * (about_a * change - about_total * change.sum(axis=-1, keepdims=True))]

    return [Information(log(a), product)]


@register_information(DirichletRV)
def dirichlet(factor: Factor) -> list[Information]:
    """Dirichlet(a), with a₀ = Σ a_i.

    diag ψ'(a) − ψ'(a₀) 11ᵀ on a. If free, also (a₀ diag a − a aᵀ)/(a₀ + 1) on the logits of
    the value, and aaᵀ/a₀ − diag a between the logits and log a.
    """
    (a,) = factor.parameters
    a = as_float(without_leading_ones(a, 1))
    copies = copies_of(factor.value, 1, a, 1) if factor.observed else 1.0
    logits = logits_of(factor.value)
    log_a = log(a) if factor.observed else pt.broadcast_to(log(a), logits.shape)
    total = a.sum(axis=-1, keepdims=True)

    def about_a(change: TensorVariable) -> TensorVariable:
        change = a * change
        common = trigamma(total) * change.sum(axis=-1, keepdims=True)
        return copies * a * (trigamma(a) * change - common)

    def centred(change: TensorVariable) -> TensorVariable:
        return a * change - a / total * (a * change).sum(axis=-1, keepdims=True)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        value, change = tangents
        return [
            total / (total + 1.0) * centred(value) - centred(change),
            about_a(change) - centred(value),
        ]

    if factor.observed:
        return [Information(log_a, lambda t: [about_a(t[0])])]
    return [Information([logits, log_a], product)]


@register_information(StickBreakingWeightsRV)
def stick_breaking_weights(factor: Factor) -> list[Information]:
    """StickBreakingWeights(α): fractions v_k ~ Beta(1, α) of the remaining stick.

    [[α/(2 + α), α/(1 + α)], [α/(1 + α), 1]] on (logit v_k, log α).
    """
    alpha, _ = factor.parameters
    alpha = as_float(alpha)
    value = factor.value
    left = pt.cumsum(value[..., ::-1], axis=-1)[..., ::-1]
    log_odds = _safe_log(value[..., :-1]) - _safe_log(left[..., 1:])
    cross = alpha / (1.0 + alpha)
    weight = [[alpha / (2.0 + alpha), cross], [cross, 1.0]]
    weight = [[pt.atleast_1d(pt.as_tensor(w)[..., None]) for w in row] for row in weight]
    return over(factor, log_odds, [Information([log_odds, log(alpha)[..., None]], weight)])


def logits_of(p: TensorVariable) -> TensorVariable:
    """Logarithm of p up to a common term: the logits, if p is computed from logits."""
    node = p.owner
    if node is not None and isinstance(node.op, Softmax):
        return node.inputs[0]
    shared = _is_elemwise(node, scalar.TrueDiv) and node.inputs[1].type.shape[-1:] == (1,)
    if not shared or not _is_elemwise(node.inputs[0].owner, scalar.Exp):
        return _safe_log(p)
    [logits] = node.inputs[0].owner.inputs
    if _is_elemwise(logits.owner, scalar.Sub) and logits.owner.inputs[1].type.shape[-1:] == (1,):
        return logits.owner.inputs[0]
    return logits


def _safe_log(p: TensorVariable) -> TensorVariable:
    """Logarithm of p, with zero derivative where p or its cube underflows."""
    return pt.log(at_least(p, np.finfo(config.floatX).tiny ** 0.3))


def _is_elemwise(node: Apply | None, scalar_type: type) -> bool:
    if node is None or not isinstance(node.op, Elemwise):
        return False
    return isinstance(node.op.scalar_op, scalar_type)
