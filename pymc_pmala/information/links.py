"""Logarithms and logits of parameters that are computed by link functions.

The information is stated in terms of the logarithm of a positive parameter and the logit
of a probability. Where the model computes the parameter by a link function (``exp``,
``sigmoid``, …), the logarithm or logit is a smooth function of the *input* of the link. When
it is computed from this input, all derivatives stay finite even where the parameter itself
underflows or overflows.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor import config
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.patterns import (
    complement_exponent,
    cumulative_logits,
    interval,
    is_constant,
    is_positive,
    is_probability,
    negated,
    normal_argument,
    operation,
    other_share,
    selected,
)

__all__ = ["at_least", "at_most", "log", "log_odds", "log_odds_weight"]

_Transform: TypeAlias = Callable[[TensorVariable], TensorVariable]


def log(positive: TensorVariable) -> TensorVariable:
    """Logarithm of a positive expression, exact where the expression underflows."""
    positive = pt.as_tensor_variable(positive)
    name, inputs = operation(positive)
    if name in _TRANSPARENT or (name == "Switch" and all(map(is_positive, inputs[1:]))):
        return _through(positive, log)
    if name == "Exp":
        return _expand(inputs[0])
    if name == "Sigmoid":
        return -pt.softplus(-_expand(inputs[0]))
    if name == "Softplus":
        return _log_softplus(inputs[0])
    if name == "Log1p" and operation(inputs[0])[0] == "Exp":
        return _log_softplus(operation(inputs[0])[1][0])
    if name == "Softmax":
        return _log_softmax(inputs[0], selected(positive).owner.op.axis)
    if (logits := cumulative_logits(positive)) is not None:
        return _log_ordered(logits)
    if (bounds := interval(positive)) is not None and is_constant(bounds[1], 0.0):
        unconstrained, _, upper = bounds
        return log(upper) - pt.softplus(-unconstrained)
    if (normal := normal_argument(positive)) is not None:
        return _log_normal_cdf(normal)
    if (exponent := complement_exponent(positive)) is not None and is_positive(exponent):
        return _log_expm1(exponent) - exponent
    if name == "Sub" and is_constant(inputs[0], 1.0) and is_probability(inputs[1]):
        return -pt.softplus(log_odds(inputs[1]))
    if name == "Add" and len(inputs) == 2 and all(map(is_positive, inputs)):
        first, second = map(log, inputs)
        return first + pt.softplus(second - first)
    if name == "Mul" and all(map(is_positive, inputs)):
        return pt.add(*map(log, inputs))
    if name == "TrueDiv" and all(map(is_positive, inputs)):
        return log(inputs[0]) - log(inputs[1])
    if name == "Reciprocal" and is_positive(inputs[0]):
        return -log(inputs[0])
    if name == "Sqrt" and is_positive(inputs[0]):
        return 0.5 * log(inputs[0])
    if name == "Sqr" and is_positive(inputs[0]):
        return 2.0 * log(inputs[0])
    if name == "Pow" and is_positive(inputs[0]):
        return inputs[1] * log(inputs[0])
    return pt.log(_away_from_zero(_as_float(positive)))


def log_odds(probability: TensorVariable) -> TensorVariable:
    """Logit of a probability, exact where the probability rounds to 0 or 1."""
    probability = pt.as_tensor_variable(probability)
    name, inputs = operation(probability)
    if name in _TRANSPARENT or (name == "Switch" and all(map(is_probability, inputs[1:]))):
        return _through(probability, log_odds)
    if name == "Sigmoid":
        return _expand(inputs[0])
    if (bounds := interval(probability)) is not None:
        unconstrained, lower, upper = bounds
        if is_constant(lower, 0.0) and is_constant(upper, 1.0):
            return unconstrained
    if (normal := normal_argument(probability)) is not None:
        return _log_normal_cdf(normal) - _log_normal_cdf(-normal)
    if (exponent := complement_exponent(probability)) is not None:
        return _log_expm1(exponent)
    if name == "Exp":
        exponent = negated(inputs[0])
        return -_log_expm1(-inputs[0] if exponent is None else exponent)
    if name == "Sub" and is_constant(inputs[0], 1.0):
        return -log_odds(inputs[1])
    if name == "TrueDiv" and (other := other_share(*inputs)) is not None:
        return log(inputs[0]) - log(other)
    if name == "Reciprocal" and (other := other_share(pt.constant(1.0), inputs[0])) is not None:
        return -log(other)
    probability = _as_float(probability)
    below_one = at_most(probability, 1.0 - float(np.finfo(probability.dtype).eps))
    return pt.log(_away_from_zero(probability)) - pt.log1p(-below_one)


def log_odds_weight(log_odds: TensorVariable) -> TensorVariable:
    """Information p(1 − p) of one Bernoulli trial about the logit of p, from that logit."""
    # σ(1 − σ) would round to zero at 37. The first factor is usually part of the likelihood too.
    return pt.sigmoid(log_odds) * pt.sigmoid(-log_odds)


_TRANSPARENT = ("structure", "check", "Second", "Join", "MakeVector")
"""Operations that commute with elementwise functions."""


def _through(variable: TensorVariable, function: _Transform) -> TensorVariable:
    """Move an elementwise function from the output of an operation to its inputs."""
    name, inputs = operation(variable)
    node = selected(variable).owner
    if name == "check":
        return function(inputs[0])
    if name == "structure":
        inner = function(inputs[0])
        if isinstance(node.op, Elemwise):  # a cast
            return inner
        return node.op(inner, *inputs[1:])
    if name == "Second":
        return pt.second(inputs[0], function(inputs[1]))
    if name == "Switch":
        condition, *branches = inputs
        return pt.switch(condition, *map(function, branches))
    if name == "MakeVector":
        return pt.stack(list(map(function, inputs)))
    # Before pytensor 3, the axis of a join is an input.
    first = 0 if hasattr(node.op, "axis") else 1
    return node.op(*inputs[:first], *map(function, inputs[first:]))


def _expand(exponent: TensorVariable) -> TensorVariable:
    """Rewrite logarithms of links in the input of a link, as in log a − log b."""
    name, inputs = operation(exponent)
    if name == "Log":
        return log(inputs[0])
    if name in ("Add", "Sub", "Neg"):
        return selected(exponent).owner.op(*map(_expand, inputs))
    return exponent


def _as_float(variable: TensorVariable) -> TensorVariable:
    # PyMC stores constants in the smallest type that holds them, and the logarithm of an
    # int8 is a float32.
    return variable if variable.dtype == config.floatX else pt.cast(variable, config.floatX)


def _away_from_zero(variable: TensorVariable) -> TensorVariable:
    """Bound a positive number that may have underflowed, such as a rate without exposure.

    At the smallest positive number its logarithm is finite and constant, so that an element
    without information contributes 0.
    """
    return at_least(variable, float(np.finfo(variable.dtype).tiny))


def _log_ordered(logits: TensorVariable) -> TensorVariable:
    """Logarithm of σ(b) − σ(a) = σ(b) σ(−a) (1 − exp(a − b)) for successive logits a, b."""
    below, above = -pt.softplus(-logits), -pt.softplus(logits)
    gap = logits[..., 1:] - logits[..., :-1]
    inner = below[..., 1:] + above[..., :-1] + pt.log(-pt.expm1(-gap))
    return pt.concatenate([below[..., :1], inner, above[..., -1:]], axis=-1)


def _log_softmax(x: TensorVariable, axis: int | tuple[int, ...] | None) -> TensorVariable:
    # Written out, because pytensor 2 returns the reverse derivative of LogSoftmax as the forward
    # one.
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - pt.log(pt.exp(shifted).sum(axis=axis, keepdims=True))


def _log_softplus(u: TensorVariable) -> TensorVariable:
    # Below -30, softplus(u) = exp(u) to full precision, and then underflows.
    return pt.switch(u < -30, u, pt.log(pt.softplus(at_least(u, -30.0))))


def _log_expm1(a: TensorVariable) -> TensorVariable:
    """Logarithm of eᵃ − 1 for a > 0, computed from log a where a underflows.

    Below a = 1e-8 it equals log a + a/2 to full precision. Above log a = 100 it is held
    constant, because the information is 0 there and the derivative of a would overflow.
    """
    if not is_positive(a):
        return a + pt.log(-pt.expm1(-a))
    log_a = at_most(log(a), 100.0)
    low, high = pt.exp(at_most(log_a, -18.0)), pt.exp(at_least(log_a, -18.0))
    return pt.switch(log_a < -18.0, log_a + 0.5 * low, high + pt.log(-pt.expm1(-high)))


def _log_normal_cdf(u: TensorVariable) -> TensorVariable:
    """Logarithm of Φ(u) with a derivative that stays finite in the lower tail."""
    low, high = at_most(u, -1.0), at_least(u, -1.0)
    return pt.switch(
        u < -1.0,
        pt.log(0.5 * pt.erfcx(-low / np.sqrt(2))) - 0.5 * low**2,
        pt.log1p(-0.5 * pt.erfc(high / np.sqrt(2))),
    )


def at_least(x: TensorVariable, bound: float) -> TensorVariable:
    """The larger of two numbers.

    The derivative of ``pt.maximum`` contains a product with a Boolean, for which pytensor's
    rewrites log an error.
    """
    return pt.switch(x < bound, bound, x)


def at_most(x: TensorVariable, bound: float) -> TensorVariable:
    """The smaller of two numbers; see `at_least`."""
    return pt.switch(x > bound, bound, x)
