"""Expected information of distributions that are composed of other distributions.

If the component of each element of a mixture were known, the information of these *complete*
data would be that of the weights, plus that of each component multiplied by its weight. This is
exact if the components do not overlap, as in hurdle models. Otherwise it is an upper bound of
the information of the mixture, because complete data cannot be less informative. As a metric it
is smooth and positive semi-definite, and costs no more than the components.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytensor.tensor as pt
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV, _HurdleRV
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import at_least, at_most, log_odds, log_odds_weight
from pymc_pmala.information.parts import over
from pymc_pmala.information.registry import (
    Information,
    NoInformation,
    register_information,
)
from pymc_pmala.information.rules.simplex import logits_of
from pymc_pmala.information.rules.truncation import (
    NON_ZERO,
    constant_number,
    part_information,
)
from pymc_pmala.information.shapes import copies_of, without_leading_ones
from pymc_pmala.model.factors import Factor, distribution_parameters


@register_information(MixtureRV, path="complete-data bound (zero-inflated: closed form)")
def mixture(factor: Factor) -> list[Information]:
    """Mixture(w, components): diag w − w wᵀ on log w, and w_k K_k for each component.

    This is the complete-data information, an upper bound of the information of the mixture.
    Zero-inflated counts are exact: see `_zero_inflated`.
    """
    inflation = _zero_inflation(factor)
    return _complete_data(factor) if inflation is None else _zero_inflated(*inflation)


@register_information(_HurdleRV)
def hurdle(factor: Factor) -> list[Information]:
    """Hurdle: ψ(1 − ψ) on logit ψ, and ψ times the information of the non-zero part.

    The parts do not overlap, so the complete-data information is exact.
    """
    return _complete_data(factor)


def _complete_data(factor: Factor) -> list[Information]:
    weights, *components = factor.parameters
    about_weights, shares = _weights_information(factor, weights, components[0].owner.op.ndim_supp)
    if len(components) == 1:
        return [*about_weights, *_batched_component(factor, components[0], shares)]
    informations = list(about_weights)
    for k, component in enumerate(components):
        informations += _weighted(_part(factor, component), shares[..., k])
    return informations


def _weights_information(
    factor: Factor, weights: TensorVariable, ndim_supp: int
) -> tuple[list[Information], TensorVariable]:
    """Information of the weights of a mixture, and the weights.

    The information is diag w − w wᵀ on log w or, if there are two weights, w₀w₁ on their
    log-odds.
    """
    log_ratio = _pair_log_odds(weights)
    if log_ratio is not None:
        elements = factor.value[(..., *(0,) * ndim_supp)]
        pair = Information(log_ratio, log_odds_weight(log_ratio))
        shares = pt.stack([pt.sigmoid(-log_ratio), pt.sigmoid(log_ratio)], axis=-1)
        return over(factor, elements, [pair]), shares
    copies = copies_of(factor.value, ndim_supp, weights, 1)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        # Centred twice, diag w − w wᵀ = (I − w1ᵀ) diag w (I − 1wᵀ), because one of the weights
        # may round to 1.
        mean = (weights * tangents[0]).sum(axis=-1, keepdims=True)
        change = weights * (tangents[0] - mean)
        return [copies * (change - weights * change.sum(axis=-1, keepdims=True))]

    return [Information(logits_of(weights), product)], weights


def _pair_log_odds(weights: TensorVariable) -> TensorVariable | None:
    """Log-odds of the second of two weights; None if the number of weights is not two."""
    if weights.type.shape[-1] != 2:
        return None
    node = weights.owner
    if node is not None and isinstance(node.op, MakeVector):
        return log_odds(node.inputs[1])
    if node is not None and isinstance(node.op, Join):
        # Before pytensor 3 the axis is the first input.
        *_, first, second = node.inputs
        if first.ndim and first.type.shape[-1] == second.type.shape[-1] == 1:
            return log_odds(second[..., 0])
    logits = logits_of(weights)
    return logits[..., 1] - logits[..., 0]


def _batched_component(
    factor: Factor, component: TensorVariable, shares: TensorVariable
) -> list[Information]:
    """Components given as one distribution, batched along its last batch axis."""
    part = _part(factor, component)
    if _ndim_supp(part) == 0:
        n = shares.shape[-1]
        value, unconstrained = (
            pt.broadcast_to(v[..., None], (*factor.value.shape, n))
            for v in (factor.value, factor.unconstrained)
        )
        part = replace(part, value=value, unconstrained=unconstrained)
        if not any(callable(i.weight) for i in part_information(part)):
            return over(part, value, _weighted(part, shares))
    informations: list[Information] = []
    for k, parameters in enumerate(_along_last_batch_axis(factor, component, shares)):
        informations += _weighted(
            replace(factor, op=part.op, parameters=parameters), shares[..., k]
        )
    return informations


def _along_last_batch_axis(
    factor: Factor, component: TensorVariable, shares: TensorVariable
) -> Iterator[tuple[TensorVariable, ...]]:
    """Parameters of each component of a distribution that batches them."""
    op, parameters = component.owner.op, distribution_parameters(component)
    n = shares.type.shape[-1]
    if n is None or len(op.ndims_params) != len(parameters):
        raise NoInformation(f"{factor.name!r}: the number of components is not known.")

    def component_of(parameter: TensorVariable, core: int, k: int) -> TensorVariable:
        axis = parameter.ndim - core - 1
        if axis < 0:
            return parameter
        at = 0 if parameter.type.shape[axis] == 1 else k
        return parameter[(slice(None),) * axis + (at,)]

    for k in range(n):
        yield tuple(
            component_of(parameter, core, k)
            for parameter, core in zip(parameters, op.ndims_params, strict=True)
        )


def _weighted(part: Factor, share: TensorVariable) -> list[Information]:
    """Information of a component, multiplied by its weight."""
    return [_times(part, share, information) for information in part_information(part)]


def _times(part: Factor, share: TensorVariable, information: Information) -> Information:
    weight: Any = information.weight
    if not callable(weight):
        share = pt.shape_padright(share, _ndim_supp(part))
        scaled = [[share * entry for entry in row] for row in weight]
        return Information(information.coordinates, scaled)
    # The elements are coupled, so they must all have the same weight.
    share = without_leading_ones(share, 0)
    if share.ndim:
        raise NoInformation(
            f"{part.name!r}: there is no rule for {type(part.op).__name__} components with "
            "weights that vary between elements."
        )
    return Information(information.coordinates, lambda t: [share * k for k in weight(t)])


def _ndim_supp(part: Factor) -> int:
    return getattr(part.op, "ndim_supp", 0)


def _part(factor: Factor, component: TensorVariable) -> Factor:
    """Factor of a component; its log-density remains that of the whole mixture."""
    parameters = tuple(distribution_parameters(component))
    return replace(factor, op=component.owner.op, parameters=parameters)


# Zeros


def _zero_inflation(factor: Factor) -> tuple[Factor, TensorVariable] | None:
    """Return the zero-inflated counts and the log-odds of their weight, or None."""
    weights, *components = factor.parameters
    if len(components) != 2:
        return None
    for zero, counts, sign in ((0, 1, 1.0), (1, 0, -1.0)):
        at_zero, part = _part(factor, components[zero]), _part(factor, components[counts])
        if not isinstance(at_zero.op, DiracDeltaRV) or type(part.op) not in NON_ZERO:
            continue
        log_ratio = _pair_log_odds(weights)
        if log_ratio is not None and constant_number(at_zero.parameters[0]) == 0:
            return part, sign * log_ratio
    return None


def _zero_inflated(part: Factor, log_psi_odds: TensorVariable) -> list[Information]:
    """Zero-inflated counts: a hurdle model with P(v ≠ 0) = r = ψ(1 − p₀).

    r(1 − r) on logit r = logit ψ + log(1 − p₀) − log(1 + p₀ψ/(1 − ψ)), and r times the
    information of the counts that are not zero.
    """
    non_zero = NON_ZERO[type(part.op)](part)
    log_rate = non_zero.log_rate
    # 1 − p₀ = 1 − exp(−L) equals L to full precision where L is small, and 1 where L is large.
    bounded = at_least(at_most(log_rate, 5.0), -35.0)
    log_complement = pt.switch(log_rate < -35.0, log_rate, pt.log(-pt.expm1(-pt.exp(bounded))))
    logit = log_psi_odds + log_complement - pt.softplus(log_psi_odds - pt.exp(log_rate))
    return [
        Information(logit, log_odds_weight(logit)),
        *[_times(part, pt.sigmoid(logit), i) for i in non_zero.informations],
    ]
