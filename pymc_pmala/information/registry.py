"""The information of a single factor, and the registry of rules by distribution.

A factor contributes :math:`J^T K J` to the metric, where :math:`K = E[s s^T]` is the
expected outer product of its score with respect to both value and parameters. A rule
states :math:`K` in *coordinates* of its choice in which K is smooth and bounded: a
location itself, the logarithm of a scale, the logit of a probability.
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
from pytensor.gradient import NullTypeGradError, disconnected_grad
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.arguments import as_tensor, check_function, shown
from pymc_pmala.model.factors import Factor

__all__ = [
    "Information",
    "NoInformation",
    "QuadraticForm",
    "custom_key",
    "factor_information",
    "fallback_information",
    "information_path",
    "information_rule",
    "operation_types",
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
        A single coordinate, or several that are correlated with each other.
    weight : tensor_like or nested sequence of tensor_like or callable
        The information of one independent element of the random variable: a tensor if
        there is one coordinate, an m × m nested sequence if there are m. Weights and
        coordinates broadcast against the shape of the random variable, like the
        parameters of the distribution: a scale shared by n elements accumulates the
        information of all n.
        In all other cases, such as a distribution with correlated elements, pass a
        function from the tangents dφ of the coordinates to K dφ. It must be linear,
        symmetric and positive semi-definite.

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
        self.coordinates = tuple(as_tensor("coordinates", c) for c in listed)
        if callable(weight):
            self.weight: Any = weight
        else:
            self.weight = _matrix([[weight]] if single else weight, len(listed))


def _matrix(weight: Any, size: int) -> list[list[Any]]:
    """Check and return the entries of the information about several coordinates."""
    try:
        rows = [list(row) for row in weight]
    except TypeError:
        rows = []
    if [len(row) for row in rows] != [size] * size:
        raise ValueError(
            f"weight must have {size} rows of {size} entries, one for each pair of coordinates, "
            f"but is {shown(weight)}."
        )
    for row in rows:
        for entry in row:
            as_tensor("weight", entry)
    return rows


class QuadraticForm:
    """The product with K of an `Information`, for the shape of its random variable.

    Attributes
    ----------
    coordinates : tuple of TensorVariable
        The coordinates φ, as functions of the sampled values.
    product : callable
        Function from tangents dφ to cotangents K dφ.
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
    """Product K dφ for information that couples coordinates but not elements.

    Coordinates keep their smallest common shape. The information of elements that share a
    coordinate is summed first, so that no tangent has more elements than necessary.
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
    """Sum a weight that broadcasts against ``value`` over some of its axes."""
    for axis, shared in enumerate(axes):
        if not shared:
            continue
        if weight.type.shape[axis] == 1:
            weight = weight * value.shape[axis]
        else:
            weight = weight.sum(axis, keepdims=True)
    return weight


class NoInformation(NotImplementedError):
    """Raised for a factor that has no information rule."""


Rule: TypeAlias = Callable[[Factor], Sequence[Information]]


class _Entry(NamedTuple):
    rule: Rule
    path: str


@singledispatch
def _entry(op: Op) -> _Entry | None:
    return None


# Rules of CustomDists. PyMC creates a new type for them whenever a model is built.
_custom_entries: dict[tuple | None, _Entry] = {}


def register_information(*op_types: type, path: str = "closed form") -> Callable[[Rule], Rule]:
    """Register an information rule for a distribution.

    Parameters
    ----------
    *op_types : type
        Distributions such as ``pm.Laplace``, or types of random-variable Ops,
        ``type(rv.owner.op)``. A ``CustomDist``, for which PyMC creates a new type with every
        model, is recognised by its name and the code of its functions.
    path : str
        The kind of information that the rule returns, as shown by `explain_metric`.

    Returns
    -------
    Callable
        A decorator for a function ``rule(factor) -> sequence of Information``.
    """
    found = operation_types(op_types)
    if not isinstance(path, str):
        raise TypeError(f"path must be a few words for tables, but is {shown(path)}.")

    def decorator(rule: Rule) -> Rule:
        check_function("rule", rule)
        entry = _Entry(rule, path)
        for op_type in found:
            _entry.register(op_type)(lambda op: entry)
            key = custom_key(op_type)
            if key is not None:
                _custom_entries[key] = entry
        return rule

    return decorator


def operation_types(given: Sequence[Any]) -> list[type[Op]]:
    """Return the types of Ops for which a user registers a rule, or raise an error."""
    if not given:
        raise TypeError(
            "Specify which distribution the rule is for: a distribution such as pm.Laplace, "
            "or type(rv.owner.op)."
        )
    return [_operation_type(one) for one in given]


def _operation_type(given: Any) -> type[Op]:
    """Return the type of Op that a user means, or raise an error if there is none."""
    # Check this first: an Op registered for a distribution counts as a subclass of it.
    if isinstance(given, type) and issubclass(given, Op):
        return given
    if not (isinstance(given, type) and issubclass(given, Distribution)):
        raise TypeError(
            f"{shown(given)} is not the type of a random-variable Op, so no factor would ever "
            "match it. Pass a distribution such as pm.Laplace, or `type(rv.owner.op)`."
        )
    if getattr(given, "rv_type", None) is None:
        raise TypeError(
            f"pm.{given.__name__} has no random-variable type of its own. Create a variable, "
            f"`rv = pm.{given.__name__}(...)`, and register the rule for `type(rv.owner.op)`."
        )
    return given.rv_type  # type: ignore[attr-defined]


def custom_key(op_type: type[Op]) -> tuple | None:
    """Key that identifies a CustomDist when its model is rebuilt; None for other Ops."""
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
    return _custom_entries.get(custom_key(type(op))) or _entry(op)


def information_rule(op: Op) -> Rule | None:
    """Return the rule registered for a distribution, or None."""
    entry = _find_entry(op)
    return None if entry is None else entry.rule


def factor_information(factor: Factor) -> list[QuadraticForm]:
    """Return the information of a factor by the rule of its distribution."""
    rule = information_rule(factor.op)
    if rule is None:
        raise NoInformation(
            f"There is no rule for the Fisher information of {factor.name!r} "
            f"({type(factor.op).__name__}). Register one with "
            "`pymc_pmala.register_information`, or choose another metric, "
            "for instance `metric='identity'`."
        )
    found = rule(factor)
    _check(found, rule, factor)
    return [QuadraticForm(i, factor) for i in [*found, *transform_information(factor)]]


def _check(found: Any, rule: Rule, factor: Factor) -> None:
    """Raise an error that names the rule and the variable if a rule's result is invalid."""
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
                    f"{said} has a negative weight, {np.min(weight.data):.3g}. A weight is the "
                    "variance of a score, so it must not be negative."
                )


def transform_information(factor: Factor) -> list[Information]:
    r"""Return the contribution of a custom transform to the information of a free variable.

    With w(u) the default coordinates and :math:`a = \partial_u \log |w'|`, the score of u is
    :math:`s_u = w' s_w + a`, and by Stein's identity :math:`E[s_u a] = -E[a']`

    .. math:: E[s_u^2] = E[-\partial_w^2 \log f \, w'^2 + a^2] .

    The first term is the information of the distribution itself, pulled back to u. It vanishes
    in a tail that the transform stretches, where the log-density falls with slope a. The term
    :math:`\frac12 |a'|` is added to :math:`a^2`, so that a flat density keeps some information
    where a changes sign, in the middle of an interval.

    If w is the logarithm of an unbounded variable, both :math:`w'` and a fall as 1/u, but the
    slope g of the log-density does not. The information is then raised towards :math:`|w' g|` by
    :math:`|w'| \sqrt{w'^2 + g^2} - w'^2`. This is the curvature in a tail :math:`e^{-u^2/2}`,
    and the geometric mean of :math:`w'^2` and :math:`g^2` in a tail :math:`e^{-u}`.
    """
    if factor.transform is None:
        return []
    u, log_jacobian, stretch = factor.transform
    slope = pt.grad(log_jacobian, u, disconnected_inputs="ignore")
    bend = pt.grad(slope.sum(), u, disconnected_inputs="ignore")
    weight = slope**2 + 0.5 * pt.abs(bend)
    if not isinstance(stretch, Constant):
        of_density = _slope(factor.logp.sum(), u)
        weight = weight + stretch * (pt.sqrt(stretch**2 + of_density**2) - stretch)
    return [Information(u, lambda tangents: [weight * tangents[0]])]


def _slope(logp: TensorVariable, u: TensorVariable) -> TensorVariable:
    """Return the gradient of a log-density, held constant if it cannot be differentiated again.

    The drift then lacks a term, which leaves the sampler exact.
    """
    slope = pt.grad(logp, u, disconnected_inputs="ignore")
    try:
        pt.grad(slope.sum(), u, disconnected_inputs="ignore")
    except (NotImplementedError, MethodNotDefined, NullTypeGradError):  # Rice has a Bessel function
        return disconnected_grad(slope)
    return slope


def fallback_information(factor: Factor) -> list[QuadraticForm]:
    r"""Return the information that is added to SoftAbs for a free variable without a rule.

    In a tail that falls exponentially the Hessian vanishes, and the length of a step must be
    limited by the squared slope s² of each element's log-density. It is used in the bounded
    form :math:`s^2 / (1 + s^2)`, because far from the mode of a normal density the slope does
    not indicate a suitable step length.
    """
    if factor.observed or factor.logp.ndim != factor.value.ndim:
        return []
    sampled = factor.unconstrained if factor.transform is None else factor.transform.sampled
    slope = pt.grad(factor.logp.sum(), sampled, disconnected_inputs="ignore")
    weight = 1.0 / (1.0 + slope**2)
    score = Information(factor.logp, lambda tangents: [weight * tangents[0]])
    return [QuadraticForm(i, factor) for i in [score, *transform_information(factor)]]


def information_path(factor: Factor) -> str | None:
    """Kind of information that the rule of a factor returns; None if there is no rule."""
    entry = _find_entry(factor.op)
    if entry is None:
        return None
    return entry.path if factor.transform is None else f"{entry.path} and the transform's slope"
