"""How the effects of a factor are standardised, and the registry of rules by distribution.

A rule states a map between the sampled values u of a free variable and *standardised effects* z
whose distribution does not depend on the parameters that the rule takes in, for a location–scale
family z = (u − μ)/σ.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.arguments import as_tensor, check_function, shown
from pymc_pmala.information.registry import custom_key, operation_types
from pymc_pmala.information.shapes import as_float
from pymc_pmala.model.factors import Factor

__all__ = [
    "Standardisation",
    "location_scale",
    "register_standardisation",
    "standardisation",
    "sum_over",
]


class Standardisation(NamedTuple):
    r"""A map between the sampled values u of a variable and its standardised effects z.

    Attributes
    ----------
    parameters : tuple of TensorVariable
        The parameters θ of the map, as functions of the sampled values.
    standardise : callable
        Function from u and the parameters to z.
    restore : callable
        Function from z and the parameters to u, the inverse of ``standardise``.
    log_jacobian : callable
        Function from the parameters to the scalar :math:`\log |\partial u / \partial z|`, which
        must not depend on z.
    kept : tuple of TensorVariable
        The parameters of the distribution on which the distribution of z still depends, such as
        the degrees of freedom of a Student-t.
    form : str
        A few words for tables, such as "location–scale".
    """

    parameters: tuple[TensorVariable, ...]
    standardise: Callable[..., TensorVariable]
    restore: Callable[..., TensorVariable]
    log_jacobian: Callable[..., TensorVariable]
    kept: tuple[TensorVariable, ...] = ()
    form: str = "location–scale"


def location_scale(
    effects: TensorVariable,
    location: Any = 0.0,
    log_scale: Any = 0.0,
    kept: tuple[TensorVariable, ...] = (),
    form: str = "location–scale",
) -> Standardisation:
    """Return z = (u − μ)/σ for every element.

    Parameters
    ----------
    effects : TensorVariable
        The sampled values u, or any tensor of their shape.
    location, log_scale : tensor_like
        μ and log σ, which broadcast against u.
    kept, form
        See `Standardisation`.
    """
    effects = as_tensor("effects", effects)
    parameters = as_tensor("location", location), as_tensor("log_scale", log_scale)
    return Standardisation(
        parameters=tuple(_pad(p, effects.ndim) for p in parameters),
        standardise=lambda u, location, log_scale: (u - location) * pt.exp(-log_scale),
        restore=lambda z, location, log_scale: location + z * pt.exp(log_scale),
        log_jacobian=lambda location, log_scale: sum_over(log_scale, effects),
        kept=kept,
        form=form,
    )


def _pad(variable: Any, ndim: int) -> TensorVariable:
    variable = pt.as_tensor_variable(variable)
    return pt.shape_padleft(variable, ndim - variable.ndim)


def sum_over(term: TensorVariable, effects: TensorVariable) -> TensorVariable:
    """Sum a term that broadcasts against the effects over all of their elements."""
    term = _pad(term, effects.ndim)
    copies = 1.0
    for axis, length in enumerate(effects.type.shape):
        if term.type.shape[axis] == 1:
            known = length is not None
            copies = copies * (length if known else as_float(effects.shape[axis]))
    return copies * term.sum()


Rule: TypeAlias = Callable[[Factor], Standardisation | None]


@singledispatch
def _rule(op: Op) -> Rule | None:
    return None


# Rules of CustomDists. PyMC creates a new type for them whenever a model is built.
_custom_rules: dict[tuple | None, Rule] = {}


def register_standardisation(*op_types: type) -> Callable[[Rule], Rule]:
    """Register how the effects of a distribution are standardised, for interweaving.

    Parameters
    ----------
    *op_types : type
        Distributions such as ``pm.Laplace``, or types of random-variable Ops, as for
        `register_information`.

    Returns
    -------
    Callable
        A decorator for a function ``rule(factor) -> Standardisation or None``. It is given the
        factor of a free variable under its default transform, so that ``factor.unconstrained`` is
        the sampled value u. None means that this factor is not standardised.

    Examples
    --------
    A Laplace distribution with location mu and scale b::

        @register_standardisation(pm.Laplace)
        def laplace(factor):
            mu, b = factor.parameters
            return location_scale(factor.unconstrained, mu, log(b))
    """
    found = operation_types(op_types)

    def decorator(rule: Rule) -> Rule:
        check_function("rule", rule)
        for op_type in found:
            _rule.register(op_type)(lambda op: rule)
            key = custom_key(op_type)
            if key is not None:
                _custom_rules[key] = rule
        return rule

    return decorator


def standardisation(factor: Factor) -> Standardisation | None:
    """Return the standardisation of a factor by the rule of its distribution, or None."""
    rule = _custom_rules.get(custom_key(type(factor.op))) or _rule(factor.op)
    if rule is None:
        return None
    found = rule(factor)
    _check(found, rule, factor)
    return found


def _check(found: Any, rule: Rule, factor: Factor) -> None:
    """Raise an error that names the rule and the variable if a rule's result is invalid."""
    if found is None:
        return
    said = f"The rule {getattr(rule, '__name__', rule)!r} for the effects {factor.name!r}"
    if not isinstance(found, Standardisation):
        raise TypeError(f"{said} must return a `Standardisation` or None, not {shown(found)}.")
    for name in ("standardise", "restore", "log_jacobian"):
        if not callable(function := getattr(found, name)):
            raise TypeError(f"{said}: {name} must be a function, but is {shown(function)}.")
    if not isinstance(found.form, str):
        raise TypeError(f"{said}: form must be a few words, but is {shown(found.form)}.")
    for name in ("parameters", "kept"):
        listed = getattr(found, name)
        if not (isinstance(listed, tuple) and all(isinstance(v, Variable) for v in listed)):
            raise TypeError(f"{said}: {name} must be a tuple of tensors, but is {shown(listed)}.")
