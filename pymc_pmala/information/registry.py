"""The information of one factor, and the registry that finds it by distribution.

A factor contributes :math:`J^T K J` to the metric, with
:math:`K = E[s s^T]` the expected outer product of its score in both value and
parameters. A rule states :math:`K` in *coordinates* of its own choice, in which it is
smooth and bounded: a location as it is, a scale through its logarithm, a probability
through its logit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias

import pytensor.tensor as pt
from pytensor.graph.op import Op
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "Factor",
    "Information",
    "NoInformation",
    "QuadraticForm",
    "factor_information",
    "information_path",
    "information_rule",
    "register_information",
]


@dataclass(frozen=True, eq=False)
class Factor:
    """One term of the log-posterior: a random variable, given its parameters.

    Attributes
    ----------
    name : str
        Name of the random variable (or potential) in the model.
    op : Op or None
        The distribution; rules are dispatched on its type. None for a potential.
    value : TensorVariable
        The variable's value on its natural (constrained) scale: the data, or a function
        of the unconstrained value.
    unconstrained : TensorVariable
        The value as it is sampled, after PyMC's transform; the data if observed.
    parameters : tuple of TensorVariable
        The distribution's parameters as functions of the sampled values.
    logp : TensorVariable
        Elementwise log-density of the factor, log-Jacobian included.
    observed : bool
        Whether the value is data.
    scale : TensorVariable
        What the log-density is multiplied by (``total_size``).
    """

    name: str
    op: Any
    value: TensorVariable
    unconstrained: TensorVariable
    parameters: tuple[TensorVariable, ...]
    logp: TensorVariable
    observed: bool
    scale: TensorVariable


Tangents: TypeAlias = Sequence[TensorVariable]
Product: TypeAlias = Callable[[Tangents], Tangents]


class Information:
    r"""A quadratic form :math:`\sum_{ab} d\phi_a^T K_{ab}\, d\phi_b` in coordinates φ.

    Parameters
    ----------
    coordinates : TensorVariable or sequence of TensorVariable
        One coordinate, or several that are correlated with each other.
    weight : tensor_like or nested sequence of tensor_like or callable
        The information of one independent element of the random variable. With one
        coordinate a tensor; with m coordinates an m × m nested sequence. Weights and
        coordinates broadcast against the shape of the random variable, as the
        distribution's parameters do: a scale shared by n elements collects the
        information of all n.
        For anything else (a distribution with correlated elements, say) a function from
        the tangents dφ of the coordinates to K dφ, linear, symmetric and positive
        semi-definite.

    Examples
    --------
    A Normal with location mu and scale sigma::

        [Information(value - mu, 1 / sigma**2), Information(log(sigma), 2.0)]
    """

    def __init__(
        self,
        coordinates: TensorVariable | Sequence[TensorVariable],
        weight: Any | Sequence[Sequence[Any]] | Product,
    ):
        single = not isinstance(coordinates, Sequence)
        listed = [coordinates] if single else list(coordinates)
        self.coordinates = tuple(pt.as_tensor_variable(c) for c in listed)
        self.weight: Any = weight if callable(weight) or not single else [[weight]]


class QuadraticForm:
    """The product with K of an `Information` that knows its random variable's shape.

    Attributes
    ----------
    coordinates : tuple of TensorVariable
        φ, functions of the sampled values.
    product : callable
        Tangents dφ to cotangents K dφ.
    """

    def __init__(self, information: Information, factor: Factor):
        if callable(information.weight):
            self.coordinates = information.coordinates
            product = information.weight
        else:
            self.coordinates, product = _elementwise(information, factor.value)
        self.product: Product = lambda tangents: [factor.scale * k for k in product(tangents)]


def _elementwise(
    information: Information, value: TensorVariable
) -> tuple[tuple[TensorVariable, ...], Product]:
    """K dφ for information that couples coordinates but not elements.

    Coordinates keep the smallest shape that they share; the information of elements that
    share a coordinate is added up first, so that no tangent has more elements than needed.
    """
    coordinates = [_pad(c, value.ndim) for c in information.coordinates]
    shared = [
        all(c.type.shape[axis] == 1 for c in coordinates) and value.type.shape[axis] != 1
        for axis in range(value.ndim)
    ]
    if len(coordinates) > 1:
        coordinates = pt.broadcast_arrays(*coordinates)
    entries = [
        [_add_over(_pad(entry, value.ndim), shared, value) for entry in row]
        for row in information.weight
    ]

    def product(tangents: Tangents) -> Tangents:
        return [
            sum(entry * tangent for entry, tangent in zip(row, tangents, strict=True))
            for row in entries
        ]

    return tuple(coordinates), product


def _pad(variable: Any, ndim: int) -> TensorVariable:
    variable = pt.as_tensor_variable(variable)
    return pt.shape_padleft(variable, ndim - variable.ndim)


def _add_over(
    weight: TensorVariable, axes: Sequence[bool], value: TensorVariable
) -> TensorVariable:
    """Sum of a weight that broadcasts against ``value`` over some of its axes."""
    for axis, shared in enumerate(axes):
        if not shared:
            continue
        if weight.type.shape[axis] == 1:
            weight = weight * value.shape[axis]
        else:
            weight = weight.sum(axis, keepdims=True)
    return weight


class NoInformation(NotImplementedError):
    """A factor has no rule for its information."""


Rule: TypeAlias = Callable[[Factor], Sequence[Information]]


class _Entry(NamedTuple):
    rule: Rule
    path: str


@singledispatch
def _entry(op: Op) -> _Entry | None:
    return None


def register_information(*op_types: type[Op], path: str = "closed form") -> Callable[[Rule], Rule]:
    """Register the information of a distribution, by the type of its random variable's Op.

    Parameters
    ----------
    *op_types : type
        The type of ``rv.owner.op`` of the distribution's random variables.
    path : str
        What kind of information the rule gives, for `explain_metric`.

    Returns
    -------
    Callable
        A decorator for a function ``rule(factor) -> sequence of Information``.
    """

    def decorator(rule: Rule) -> Rule:
        for op_type in op_types:
            _entry.register(op_type)(lambda op: _Entry(rule, path))
        return rule

    return decorator


def information_rule(op: Op) -> Rule | None:
    """The rule that is registered for a distribution."""
    entry = _entry(op)
    return None if entry is None else entry.rule


def factor_information(factor: Factor) -> list[QuadraticForm]:
    """The information of a factor by the rule of its distribution."""
    rule = information_rule(factor.op)
    if rule is None:
        raise NoInformation(
            f"No rule for the Fisher information of {factor.name!r} "
            f"({type(factor.op).__name__}). Register one with "
            "`pymc_pmala.register_information`, or choose another metric, "
            "for instance `metric='identity'`."
        )
    return [QuadraticForm(information, factor) for information in rule(factor)]


def information_path(op: Op) -> str | None:
    """What kind of information the rule of a distribution gives; None without a rule."""
    entry = _entry(op)
    return None if entry is None else entry.path
