"""Recognise link functions and expressions that are positive by construction in graphs."""

from typing import Any

import numpy as np
from pytensor.graph.basic import Constant, equal_computations
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Prod, Sum, add
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import Softmax
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compat import INDEXING_OPS

__all__ = [
    "complement_exponent",
    "cumulative_logits",
    "interval",
    "is_constant",
    "is_positive",
    "is_probability",
    "negated",
    "normal_argument",
    "operation",
    "other_share",
    "selected",
]

_STRUCTURAL = (Alloc, DimShuffle, Reshape, SpecifyShape, *INDEXING_OPS)

# Compare types, not names: a user's Op may have the same name as one of pytensor's.
_NAMES = {
    kind: kind.__name__
    for kind in (
        scalar.Add,
        scalar.Sub,
        scalar.Mul,
        scalar.TrueDiv,
        scalar.Neg,
        scalar.Reciprocal,
        scalar.Exp,
        scalar.Expm1,
        scalar.Log,
        scalar.Log1p,
        scalar.Pow,
        scalar.Sqr,
        scalar.Sqrt,
        scalar.Second,
        scalar.Switch,
        scalar.EQ,
        scalar.NEQ,
        scalar.AND,
        scalar.OR,
        scalar_math.Erf,
        scalar_math.Erfc,
        scalar_math.Sigmoid,
        scalar_math.Softplus,
    )
}


def operation(variable: TensorVariable) -> tuple[str | None, list[TensorVariable]]:
    """Return the name of the operation that computes a variable, if known, and its inputs."""
    node = selected(variable).owner
    if node is None:
        return None, []
    if isinstance(node.op, _STRUCTURAL):
        return "structure", node.inputs
    if isinstance(node.op, CheckAndRaise):
        return "check", node.inputs
    if isinstance(node.op, Softmax | Join | MakeVector | Prod | Sum):
        return type(node.op).__name__, node.inputs
    if not isinstance(node.op, Elemwise):
        return None, []
    if isinstance(node.op.scalar_op, scalar.Cast):
        return "structure", node.inputs
    return _NAMES.get(type(node.op.scalar_op)), node.inputs


def selected(variable: TensorVariable) -> TensorVariable:
    """Resolve switches with a known condition, as in PyMC's interval transform."""
    node = variable.owner
    if node is None or not isinstance(node.op, Elemwise):
        return variable
    if not isinstance(node.op.scalar_op, scalar.Switch):
        return variable
    condition, yes, no = node.inputs
    known = _known(condition)
    return variable if known is None else selected(yes if known else no)


_COMPARISONS = {"NEQ": np.not_equal, "EQ": np.equal, "AND": np.logical_and, "OR": np.logical_or}


def _known(variable: TensorVariable) -> bool | float | None:
    """Evaluate a graph of comparisons between constants, if all elements are equal."""
    if isinstance(variable, Constant):
        numbers = np.unique(variable.data)
        return numbers[0] if numbers.size == 1 else None
    name, inputs = operation(variable)
    if name == "structure":
        return _known(inputs[0])
    if name not in _COMPARISONS:
        return None
    values: list[Any] = [_known(i) for i in inputs]
    return None if None in values else _COMPARISONS[name](*values)


_POSITIVE_OF_POSITIVE = (
    "Mul", "Add", "TrueDiv", "Reciprocal", "Sqrt", "Sqr", "Log1p", "Expm1", "Prod", "Sum",
)  # fmt: skip


def is_positive(variable: TensorVariable) -> bool:
    """Whether a graph is positive by construction."""
    variable = selected(variable)
    if isinstance(variable, Constant):
        return bool(np.all(np.asarray(variable.data) > 0))
    name, inputs = operation(variable)
    if name in ("structure", "check"):
        return is_positive(inputs[0])
    if name == "Second":
        return is_positive(inputs[1])
    if name in ("Exp", "Softplus"):
        return True
    if name in _POSITIVE_OF_POSITIVE and all(map(is_positive, inputs)):
        return True
    if name == "Pow":
        return is_positive(inputs[0])
    return is_probability(variable)


def is_probability(variable: TensorVariable) -> bool:
    """Whether a graph is between 0 and 1 by construction."""
    variable = selected(variable)
    if isinstance(variable, Constant):
        return bool(np.all((np.asarray(variable.data) > 0) & (np.asarray(variable.data) < 1)))
    name, inputs = operation(variable)
    if name in ("structure", "check"):
        return is_probability(inputs[0])
    if name in ("Sigmoid", "Softmax"):
        return True
    if name == "Sub" and is_constant(inputs[0], 1.0):
        return is_probability(inputs[1])
    if name == "Exp":
        return (exponent := negated(inputs[0])) is not None and is_positive(exponent)
    if (exponent := complement_exponent(variable)) is not None:
        return is_positive(exponent)
    if (bounds := interval(variable)) is not None:
        return is_constant(bounds[1], 0.0) and is_constant(bounds[2], 1.0)
    return normal_argument(variable) is not None


def negated(variable: TensorVariable) -> TensorVariable | None:
    """Return a if the graph has the form −a, else None."""
    name, inputs = operation(variable)
    if name == "Neg":
        return inputs[0]
    if name == "Mul" and len(inputs) == 2:
        for minus_one, other in (inputs, inputs[::-1]):
            if is_constant(minus_one, -1.0):
                return other
    return None


def complement_exponent(variable: TensorVariable) -> TensorVariable | None:
    """Return a if the graph has the form 1 − exp(−a) or −expm1(−a), else None."""
    name, inputs = operation(variable)
    if name == "Sub" and is_constant(inputs[0], 1.0):
        inner, wanted = inputs[1], "Exp"
    else:
        inner, wanted = negated(variable), "Expm1"
    if inner is None:
        return None
    name, inputs = operation(inner)
    return negated(inputs[0]) if name == wanted else None


def interval(
    variable: TensorVariable,
) -> tuple[TensorVariable, TensorVariable, TensorVariable] | None:
    """Return u, a and b if the graph is PyMC's interval transform σ(u) b + (1 − σ(u)) a."""
    name, terms = operation(variable)
    if name != "Add" or len(terms) != 2:
        return None
    (first, upper_part), (second, lower_part) = map(operation, terms)
    if first != "Mul" or second != "Mul" or len(upper_part) != 2 or len(lower_part) != 2:
        return None
    share, upper = upper_part
    complement, lower = lower_part
    name, inputs = operation(complement)
    if operation(share)[0] != "Sigmoid" or name != "Sub" or inputs[1] is not share:
        return None
    return operation(share)[1][0], lower, upper


def cumulative_logits(variable: TensorVariable) -> TensorVariable | None:
    """Return z if the graph is PyMC's ordered logistic: differences of (0, σ(z), 1)."""
    name, inputs = operation(variable)
    if name != "Sub" or any(operation(i)[0] != "structure" for i in inputs):
        return None
    cumulative, other = (i.owner.inputs[0] for i in inputs)
    if cumulative is not other or operation(cumulative)[0] != "Join":
        return None
    *_, zeros, middle, ones = cumulative.owner.inputs
    number = [operation(i)[1][1:] for i in (zeros, ones)]
    name, inputs = operation(middle)
    if name != "Sigmoid" or not all(number):
        return None
    return inputs[0] if is_constant(number[0][0], 0.0) and is_constant(number[1][0], 1.0) else None


def is_constant(variable: TensorVariable, number: float) -> bool:
    """Whether a graph is a constant with all elements equal to ``number``."""
    name, inputs = operation(variable)
    if name == "structure":
        return is_constant(inputs[0], number)
    return isinstance(variable, Constant) and bool(np.all(np.isclose(variable.data, number)))


def normal_argument(variable: TensorVariable) -> TensorVariable | None:
    """Return u if the graph is the normal CDF Φ(u), else None."""
    name, inputs = operation(variable)
    other = None
    if name == "TrueDiv" and is_constant(inputs[1], 2.0):
        other = inputs[0]
    elif name == "Mul" and len(inputs) == 2:
        for half, factor in (inputs, inputs[::-1]):
            other = factor if is_constant(half, 0.5) else other
    if other is None:
        return None
    name, arguments = operation(other)
    if name == "Erfc":
        return -np.sqrt(2) * arguments[0]
    if name == "Add" and any(is_constant(a, 1.0) for a in arguments):
        for argument in arguments:
            inner, error_arguments = operation(argument)
            if inner == "Erf":
                return np.sqrt(2) * error_arguments[0]
    return None


def other_share(part: TensorVariable, whole: TensorVariable) -> TensorVariable | None:
    """Return b if ``part / whole`` is a / (a + b) with a and b positive, else None."""
    name, terms = operation(whole)
    if name != "Add" or not all(map(is_positive, terms)):
        return None
    for index, term in enumerate(terms):
        same_number = (number := _known(term)) is not None and number == _known(part)
        if same_number or equal_computations([term], [part]):
            rest = [t for i, t in enumerate(terms) if i != index]
            return add(*rest) if len(rest) > 1 else rest[0]
    return None
