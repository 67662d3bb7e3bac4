"""Logarithms and logits of parameters that see through links.

A positive parameter enters the information through its logarithm, a probability through
its logit. Where the model computes the parameter by a link (``exp``, ``sigmoid``, …), the
logarithm or logit is a smooth function of the link's *input*; taking it there keeps every
derivative finite where the parameter itself has long under- or overflowed.
"""

import numpy as np
import pytensor.tensor as pt
from pytensor import config
from pytensor.graph.basic import Constant
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import Softmax
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compat import INDEXING_OPS

__all__ = ["log", "log_odds", "log_odds_weight"]

_STRUCTURAL = (Alloc, DimShuffle, Reshape, SpecifyShape, *INDEXING_OPS)


def log(positive: TensorVariable) -> TensorVariable:
    """Logarithm of a positive expression, exact where the expression underflows."""
    positive = pt.as_tensor_variable(positive)
    name, inputs = _operation(positive)
    if name == "structure":
        return positive.owner.op(log(inputs[0]), *inputs[1:])
    if name == "Exp":
        return inputs[0]
    if name == "Sigmoid":
        return -pt.softplus(-inputs[0])
    if name == "Softplus":
        return _log_softplus(inputs[0])
    if name == "Softmax":
        return pt.special.log_softmax(inputs[0], axis=positive.owner.op.axis)
    if name == "Mul" and all(map(_is_positive, inputs)):
        return pt.add(*map(log, inputs))
    if name == "TrueDiv" and all(map(_is_positive, inputs)):
        return log(inputs[0]) - log(inputs[1])
    if name == "Reciprocal" and _is_positive(inputs[0]):
        return -log(inputs[0])
    if name == "Sqrt" and _is_positive(inputs[0]):
        return 0.5 * log(inputs[0])
    if name == "Sqr" and _is_positive(inputs[0]):
        return 2.0 * log(inputs[0])
    if name == "Pow" and _is_positive(inputs[0]):
        return inputs[1] * log(inputs[0])
    return pt.log(_as_float(positive))


def log_odds(probability: TensorVariable) -> TensorVariable:
    """Logit of a probability, exact where the probability rounds to 0 or 1."""
    probability = pt.as_tensor_variable(probability)
    name, inputs = _operation(probability)
    if name == "structure":
        return probability.owner.op(log_odds(inputs[0]), *inputs[1:])
    if name == "Sigmoid":
        return inputs[0]
    if name == "Sub" and _is_constant(inputs[0], 1.0):
        return -log_odds(inputs[1])
    if name == "Neg" and _operation(inputs[0])[0] == "Expm1":
        return -_log_odds_of_exp(_operation(inputs[0])[1][0])
    if name == "Exp":
        return _log_odds_of_exp(inputs[0])
    if name == "Mul" and (normal := _half_error_function(inputs)) is not None:
        return _log_normal_cdf(normal) - _log_normal_cdf(-normal)
    if name == "TrueDiv" and (other := _other_share(*inputs)) is not None:
        return log(inputs[0]) - log(other)
    probability = _as_float(probability)
    return pt.log(probability) - pt.log1p(-probability)


def log_odds_weight(log_odds: TensorVariable) -> TensorVariable:
    """p(1 − p) from the logit of p: the information of one Bernoulli trial about it."""
    return pt.sigmoid(log_odds) * pt.sigmoid(-log_odds)


def _as_float(variable: TensorVariable) -> TensorVariable:
    # PyMC stores constants in the smallest type that holds them, and the logarithm of an
    # int8 is a float32.
    return variable if variable.dtype == config.floatX else pt.cast(variable, config.floatX)


def _operation(variable: TensorVariable) -> tuple[str | None, list[TensorVariable]]:
    """Name of the operation that made a variable, and what it was made from."""
    node = variable.owner
    if node is None:
        return None, []
    if isinstance(node.op, _STRUCTURAL):
        return "structure", node.inputs
    if isinstance(node.op, Softmax):
        return "Softmax", node.inputs
    if isinstance(node.op, Elemwise):
        if isinstance(node.op.scalar_op, scalar.Cast):
            return "structure", node.inputs
        return type(node.op.scalar_op).__name__, node.inputs
    return None, []


def _is_positive(variable: TensorVariable) -> bool:
    """Whether a graph is positive by construction."""
    if isinstance(variable, Constant):
        return bool(np.all(np.asarray(variable.data) > 0))
    name, inputs = _operation(variable)
    if name == "structure":
        return _is_positive(inputs[0])
    if name in ("Exp", "Sigmoid", "Softplus", "Softmax"):
        return True
    if name in ("Mul", "Add", "TrueDiv", "Reciprocal", "Sqrt", "Sqr"):
        return all(map(_is_positive, inputs))
    return name == "Pow" and _is_positive(inputs[0])


def _is_constant(variable: TensorVariable, number: float) -> bool:
    name, inputs = _operation(variable)
    if name == "structure":
        return _is_constant(inputs[0], number)
    return isinstance(variable, Constant) and bool(np.all(np.isclose(variable.data, number)))


def _log_softplus(u: TensorVariable) -> TensorVariable:
    # Below -30, softplus(u) = exp(u) to full precision, and then underflows.
    return pt.switch(u < -30, u, pt.log(pt.softplus(pt.maximum(u, -30))))


def _log_odds_of_exp(log_probability: TensorVariable) -> TensorVariable:
    """Logit of exp(−a), with a = −``log_probability`` > 0: −log(eᵃ − 1)."""
    a = -log_probability
    return -(a + pt.log1mexp(-a))


def _half_error_function(inputs: list[TensorVariable]) -> TensorVariable | None:
    """U, if the product of the inputs is written as the normal CDF Φ(u)."""
    if len(inputs) != 2 or not any(_is_constant(i, 0.5) for i in inputs):
        return None
    [other] = [i for i in inputs if not _is_constant(i, 0.5)] or [None]
    if other is None:
        return None
    name, arguments = _operation(other)
    if name == "Erfc":
        return -np.sqrt(2) * arguments[0]
    if name == "Add" and any(_is_constant(a, 1.0) for a in arguments):
        for argument in arguments:
            inner, error_arguments = _operation(argument)
            if inner == "Erf":
                return np.sqrt(2) * error_arguments[0]
    return None


def _log_normal_cdf(u: TensorVariable) -> TensorVariable:
    """Log Φ(u) whose derivative stays finite in the lower tail."""
    low = pt.minimum(u, -1.0)
    high = pt.maximum(u, -1.0)
    return pt.switch(
        u < -1.0,
        pt.log(0.5 * pt.erfcx(-low / np.sqrt(2))) - 0.5 * low**2,
        pt.log1p(-0.5 * pt.erfc(high / np.sqrt(2))),
    )


def _other_share(part: TensorVariable, whole: TensorVariable) -> TensorVariable | None:
    """B, if the ratio is written a / (a + b) with a and b positive."""
    name, terms = _operation(whole)
    if name != "Add" or part not in terms or not all(map(_is_positive, terms)):
        return None
    rest = list(terms)
    rest.remove(part)
    return pt.add(*rest) if len(rest) > 1 else (rest[0] if rest else None)
