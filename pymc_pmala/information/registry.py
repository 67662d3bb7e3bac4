"""The information of one factor, and the registry that finds it by distribution.

A factor contributes :math:`J^T K J` to the metric, with
:math:`K = E[s s^T]` the expected outer product of its score in both value and
parameters. A rule states :math:`K` in *coordinates* of its own choice, in which it is
smooth and bounded: a location as it is, a scale through its logarithm, a probability
through its logit.
"""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.distribution import Distribution
from pymc.distributions.shape_utils import _change_dist_size
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.model.factors import Factor

__all__ = [
    "Information",
    "NoInformation",
    "QuadraticForm",
    "factor_information",
    "fallback_information",
    "information_path",
    "information_rule",
    "register_information",
    "transform_information",
]


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


# Rules of CustomDists, whose types PyMC makes anew whenever a model is built.
_custom_entries: dict[tuple | None, _Entry] = {}


def register_information(*op_types: type, path: str = "closed form") -> Callable[[Rule], Rule]:
    """Register the information of a distribution, by the type of its random variable's Op.

    Parameters
    ----------
    *op_types : type
        Distributions such as ``pm.Laplace``, or the types of ``rv.owner.op``. A ``CustomDist``,
        whose type PyMC makes anew with every model, is known again by its name and the code of
        its functions.
    path : str
        What kind of information the rule gives, for `explain_metric`.

    Returns
    -------
    Callable
        A decorator for a function ``rule(factor) -> sequence of Information``.
    """
    found = [_op_type(given) for given in op_types]
    if not found:
        raise TypeError("For which distribution? Give pm.Laplace, say, or type(rv.owner.op).")

    def decorator(rule: Rule) -> Rule:
        entry = _Entry(rule, path)
        for op_type in found:
            _entry.register(op_type)(lambda op: entry)
            key = _custom_key(op_type)
            if key is not None:
                _custom_entries[key] = entry
        return rule

    return decorator


def _op_type(given: Any) -> type[Op]:
    """The type of Op that a user means; an error for what is no random variable's."""
    # First: an Op with a distribution registered for it counts as one's subclass.
    if isinstance(given, type) and issubclass(given, Op):
        return given
    if not (isinstance(given, type) and issubclass(given, Distribution)):
        raise TypeError(
            f"{given!r} is not the type of a random variable's Op, and no factor would ever "
            "match it. Give a distribution such as pm.Laplace, or `type(rv.owner.op)`."
        )
    if getattr(given, "rv_type", None) is None:
        raise TypeError(
            f"pm.{given.__name__} has no type of random variable of its own. Make one, "
            f"`rv = pm.{given.__name__}(...)`, and register `type(rv.owner.op)`."
        )
    return given.rv_type  # type: ignore[attr-defined]


def _custom_key(op_type: type[Op]) -> tuple | None:
    """What a CustomDist has in common with itself in a model built again; None for others."""
    bases = (CustomDistRV, CustomSymbolicDistRV)
    if op_type in bases or not issubclass(op_type, bases):
        return None
    codes = []
    for dispatcher in (_logprob, _change_dist_size):
        function = dispatcher.dispatch(op_type)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        given = {name: cell.cell_contents for name, cell in cells}
        codes += [getattr(given[n], "__code__", given[n]) for n in ("logp", "dist") if n in given]
    return op_type.__name__, *codes


def _find_entry(op: Op) -> _Entry | None:
    return _custom_entries.get(_custom_key(type(op))) or _entry(op)


def information_rule(op: Op) -> Rule | None:
    """The rule that is registered for a distribution."""
    entry = _find_entry(op)
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
    found = rule(factor)
    _check(found, rule, factor)
    return [QuadraticForm(i, factor) for i in [*found, *transform_information(factor)]]


def _check(found: Any, rule: Rule, factor: Factor) -> None:
    """Refuse what is no information, with the names of the rule and of the variable."""
    said = f"The rule {getattr(rule, '__name__', rule)!r} for the information of {factor.name!r}"
    is_list = isinstance(found, Sequence) and all(isinstance(f, Information) for f in found)
    if not is_list:
        raise TypeError(f"{said} must return a list of `Information`, but returned {found!r}.")
    for information in found:
        if callable(information.weight):
            continue
        for i, row in enumerate(information.weight):
            weight = pt.as_tensor_variable(row[i])
            if isinstance(weight, Constant) and np.any(weight.data < 0):
                raise ValueError(
                    f"{said} has a negative weight, {np.min(weight.data):.3g}. Information is the "
                    "variance of the score: a weight is at least zero."
                )


def transform_information(factor: Factor) -> list[Information]:
    r"""What a transform of the user's own adds to the information of a free variable.

    With w(u) the default coordinates and :math:`a = \partial_u \log |w'|`, the score of u is
    :math:`s_u = w' s_w + a`, and by Stein's identity :math:`E[s_u a] = -E[a']`

    .. math:: E[s_u^2] = E[-\partial_w^2 \log f \, w'^2 + a^2] .

    The first term is the distribution's own information, pulled back; it vanishes in a tail that
    the transform stretches, in which the log-density falls with slope a. To :math:`a^2` is added
    :math:`\frac12 |a'|`, so that a flat density keeps some information where a changes its
    sign, in the middle of an interval.
    """
    if factor.transform is None:
        return []
    u, log_jacobian = factor.transform
    slope = pt.grad(log_jacobian, u, disconnected_inputs="ignore")
    bend = pt.grad(slope.sum(), u, disconnected_inputs="ignore")
    weight = slope**2 + 0.5 * pt.abs(bend)
    return [Information(u, lambda tangents: [weight * tangents[0]])]


def fallback_information(factor: Factor) -> list[QuadraticForm]:
    r"""What a free variable without a rule has beside the SoftAbs of its Hessian.

    In a tail that falls exponentially the Hessian vanishes. There the square of the slope s of
    each element's log-density says how far a step may go. It is bounded,
    :math:`s^2 / (1 + s^2)`, since the slope is no guide far from the mode of a normal density.
    """
    if factor.observed or factor.logp.ndim != factor.value.ndim:
        return []
    sampled = factor.unconstrained if factor.transform is None else factor.transform.sampled
    slope = pt.grad(factor.logp.sum(), sampled, disconnected_inputs="ignore")
    weight = 1.0 / (1.0 + slope**2)
    score = Information(factor.logp, lambda tangents: [weight * tangents[0]])
    return [QuadraticForm(i, factor) for i in [score, *transform_information(factor)]]


def information_path(factor: Factor) -> str | None:
    """What kind of information the rule of a factor's distribution gives; None without a rule."""
    entry = _find_entry(factor.op)
    if entry is None:
        return None
    return entry.path if factor.transform is None else f"{entry.path} and the transform's slope"
