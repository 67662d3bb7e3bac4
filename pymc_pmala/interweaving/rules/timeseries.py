"""Standardised effects of time series: their initial values and innovations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytensor
import pytensor.tensor as pt
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.distributions.transforms import _default_transform
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.information.links import log
from pymc_pmala.interweaving.registry import (
    Standardisation,
    location_scale,
    register_standardisation,
    standardisation,
)
from pymc_pmala.model.factors import Factor, distribution_parameters


@register_standardisation(RandomWalkRV)
def random_walk(factor: Factor) -> Standardisation:
    """RandomWalk: the standardised initial value and steps v_t − v_{t−1}."""
    initial, innovation, _ = factor.parameters
    axis = factor.unconstrained.ndim - factor.op.ndim_supp
    # In the nested distributions, time is the first axis; in the walk it follows the batch axes.
    walk = pt.moveaxis(factor.unconstrained, axis, 0)
    first = _part(factor, initial, walk[:1])
    later = _part(factor, innovation, walk[1:] - walk[:-1])

    count = len(first.parameters)

    def standardise(u: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        walk = pt.moveaxis(u, axis, 0)
        z = [
            first.standardise(walk[:1], *parameters[:count]),
            later.standardise(walk[1:] - walk[:-1], *parameters[count:]),
        ]
        return pt.concatenate(z, axis=0)

    def restore(z: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        steps = [
            first.restore(z[:1], *parameters[:count]),
            later.restore(z[1:], *parameters[count:]),
        ]
        return pt.moveaxis(pt.cumsum(pt.concatenate(steps, axis=0), axis=0), 0, axis)

    def log_jacobian(*parameters: TensorVariable) -> TensorVariable:
        return first.log_jacobian(*parameters[:count]) + later.log_jacobian(*parameters[count:])

    parameters, kept = first.parameters + later.parameters, first.kept + later.kept
    return Standardisation(parameters, standardise, restore, log_jacobian, kept, "random walk")


@register_standardisation(AutoRegressiveRV)
def autoregressive(factor: Factor) -> Standardisation:
    """AR(ρ, σ): z_t = (v_t − ρ₀ − Σ_i ρ_i v_{t−i})/σ, and the standardised initial values."""
    rho, sigma, initial, _ = factor.parameters
    u, order, constant = factor.unconstrained, factor.op.ar_order, int(factor.op.constant_term)
    start = _part(factor, initial, u[..., :order])
    noise = location_scale(u[..., order:], 0.0, log(sigma)[..., None])
    count = len(start.parameters)

    def coefficients(rho: TensorVariable) -> list[TensorVariable]:
        return [rho[..., constant + lag, None] for lag in range(order)]

    def level(rho: TensorVariable) -> Any:
        return rho[..., 0, None] if constant else 0.0

    def standardise(u: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        rho, of_start, of_noise = parameters[0], parameters[1 : 1 + count], parameters[1 + count :]
        past = [c * u[..., order - i : -i] for i, c in enumerate(coefficients(rho), start=1)]
        innovations = u[..., order:] - sum(past, level(rho))
        z = [
            start.standardise(u[..., :order], *of_start),
            noise.standardise(innovations, *of_noise),
        ]
        return pt.concatenate(z, axis=-1)

    def restore(z: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        rho, of_start, of_noise = parameters[0], parameters[1 : 1 + count], parameters[1 + count :]
        first = start.restore(z[..., :order], *of_start)
        # What the initial values would have as innovations after zeros.
        first = _difference(first, coefficients(rho))
        later = level(rho) + noise.restore(z[..., order:], *of_noise)
        innovations = pt.concatenate([first, later], axis=-1)
        return _solve_recursion(innovations, coefficients(rho), u.type.shape[-1])

    def log_jacobian(rho: TensorVariable, *parameters: TensorVariable) -> TensorVariable:
        of_start, of_noise = parameters[:count], parameters[count:]
        return start.log_jacobian(*of_start) + noise.log_jacobian(*of_noise)

    parameters = (rho, *start.parameters, *noise.parameters)
    form = "autoregression"
    return Standardisation(parameters, standardise, restore, log_jacobian, start.kept, form)


def _part(factor: Factor, distribution: TensorVariable, value: TensorVariable) -> Standardisation:
    """Return the standardisation of a component at a value; the value itself without a rule."""
    node = distribution.owner
    parameters = tuple(distribution_parameters(distribution))
    found = None
    # A series is sampled on the scale of its values.
    if _default_transform(node.op, distribution) is None:
        part = replace(factor, op=node.op, value=value, unconstrained=value, parameters=parameters)
        found = standardisation(part)
    if found is not None:
        return found
    return Standardisation(
        (), lambda u: u, lambda z: z, lambda: pt.constant(0.0), parameters, "unchanged"
    )


def _difference(v: TensorVariable, coefficients: Sequence[TensorVariable]) -> TensorVariable:
    """Return v_t − Σ_i ρ_i v_{t−i}, where v is zero before its first element."""
    return v - sum(c * _later(v, i) for i, c in enumerate(coefficients, start=1))


def _solve_recursion(
    w: TensorVariable, coefficients: Sequence[TensorVariable], length: int
) -> TensorVariable:
    """Solve v_t = w_t + Σ_i ρ_i v_{t−i}, where v is zero before its first element."""
    if not IS_PYTENSOR_3:
        return _solve_by_doubling(w, coefficients, length)
    order, terms = len(coefficients), pt.moveaxis(w, -1, 0)
    lags = range(-1, -order - 1, -1)

    def step(now: TensorVariable, *past: TensorVariable) -> TensorVariable:
        earlier, weights = past[:order], past[order:]
        return pt.add(now, *[c * v for c, v in zip(weights, earlier, strict=True)])

    solved = pytensor.scan(
        step,
        sequences=[terms],
        outputs_info=[{"initial": pt.zeros_like(terms[:order]), "taps": list(lags)}],
        non_sequences=[c[..., 0] for c in coefficients],
        return_updates=False,
    )
    return pt.moveaxis(solved, 0, -1)


def _solve_by_doubling(
    w: TensorVariable, coefficients: Sequence[TensorVariable], length: int
) -> TensorVariable:
    r"""Solve the recursion in log₂(length) steps, without a loop.

    With the shift S and :math:`P(S) = 1 - \sum_i \rho_i S^i`, the solution is

    .. math:: v = P(S)^{-1} w = \frac{1}{P(S) P(-S)} P(-S) w ,

    where the denominator is a polynomial of the same order in S². Repeated, the shift exceeds the
    length of the series, and the denominator is 1.

    Remove with pytensor 2, whose loops take thirty times as long. Numba's are faster than this and
    take a tenth of its time to compile.
    """
    c: list[Any] = [1.0, *(-coefficient for coefficient in coefficients)]
    order, reach = len(coefficients), 1
    while reach < length:
        terms = [
            (-1.0) ** i * c[i] * _later(w, i * reach)
            for i in range(1, order + 1)
            if i * reach < length
        ]
        w = pt.add(w, *terms)
        c = [1.0, *(_even_coefficient(c, i) for i in range(1, order + 1))]
        reach *= 2
    return w


def _even_coefficient(c: Sequence[Any], i: int) -> Any:
    """Coefficient of S²ⁱ in P(S)P(−S): (−1)ⁱcᵢ² + 2 Σ_{j<i} (−1)ʲ cⱼ c₂ᵢ₋ⱼ."""
    # A square, since rewrites would expand repeated products into all of their factors.
    square = (-1.0) ** i * c[i] ** 2
    pairs = [(j, 2 * i - j) for j in range(i) if 2 * i - j < len(c)]
    return square + sum(2.0 * (-1.0) ** j * c[j] * c[k] for j, k in pairs)


def _later(v: TensorVariable, steps: int) -> TensorVariable:
    """Return a series shifted to later times, with zeros before it."""
    return pt.concatenate([pt.zeros_like(v[..., :steps]), v[..., :-steps]], axis=-1)
