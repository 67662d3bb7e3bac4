"""Source code of scalar operations and numbers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar.math import Sigmoid

__all__ = ["expression", "literal"]

_INFIX: dict[type, str] = {
    scalar.Add: "+",
    scalar.Mul: "*",
    scalar.Sub: "-",
    scalar.TrueDiv: "/",
    scalar.LT: "<",
    scalar.GT: ">",
    scalar.LE: "<=",
    scalar.GE: ">=",
    scalar.EQ: "==",
    scalar.NEQ: "!=",
    scalar.AND: "&",
    scalar.OR: "|",
}

_FUNCTIONS: dict[type, str] = {
    scalar.Exp: "math.exp",
    scalar.Log: "math.log",
    scalar.Log1p: "math.log1p",
    scalar.Expm1: "math.expm1",
    scalar.Sqrt: "math.sqrt",
    scalar.Sin: "math.sin",
    scalar.Cos: "math.cos",
    scalar.Tanh: "math.tanh",
    scalar.ArcTan: "math.atan",
}

_OTHERS: dict[type, Callable[..., str]] = {
    scalar.Neg: lambda a: f"-{a}",
    scalar.Abs: lambda a: f"abs({a})",
    scalar.Sqr: lambda a: f"{a} * {a}",
    scalar.Reciprocal: lambda a: f"1.0 / {a}",
    scalar.Identity: lambda a: a,
    scalar.Second: lambda a, b: b,
    scalar.Switch: lambda c, a, b: f"{a} if {c} else {b}",
    # NaN is passed on.
    scalar.Minimum: lambda a, b: f"{a} if {a} < {b} or {a} != {a} else {b}",
    scalar.Maximum: lambda a, b: f"{a} if {a} > {b} or {a} != {a} else {b}",
    scalar.Invert: lambda a: f"not {a}",
    scalar.IsNan: lambda a: f"{a} != {a}",
    scalar.IsInf: lambda a: f"abs({a}) == math.inf",
    scalar.Sign: lambda a: f"1 if {a} > 0 else (-1 if {a} < 0 else {a})",
    Sigmoid: lambda a: f"1.0 / (1.0 + math.exp(-{a}))",
}

# Types that result from numba's own type promotion; results of other types are cast.
_NATIVE = ("float64", "int64", "bool")


def expression(op: Any, node: Any, arguments: Sequence[str]) -> str | None:
    """Return the source code of a scalar operation, or None if it is not plain arithmetic.

    Parameters
    ----------
    op : ScalarOp
    node : Apply
        Its output determines the type of the result.
    arguments : sequence of str
        Names or literals.
    """
    dtype = node.outputs[0].type.dtype
    kind = type(op)
    if kind is scalar.Invert and dtype != "bool":
        return None
    if kind is scalar.Cast:
        return _cast(arguments[0], dtype)
    if kind in _INFIX:
        found = f" {_INFIX[kind]} ".join(arguments)
    elif kind in _FUNCTIONS:
        found = f"{_FUNCTIONS[kind]}({arguments[0]})"
    elif kind in _OTHERS:
        found = _OTHERS[kind](*arguments)
    else:
        return None
    # In pytensor the sum of two booleans is a boolean, in numba it is an integer.
    counts = dtype == "bool" and kind in (scalar.Add, scalar.Mul, scalar.AND, scalar.OR)
    return _cast(found, dtype) if counts or dtype not in _NATIVE else found


def _cast(value: str, dtype: str) -> str:
    return f"({value}) != 0" if dtype == "bool" else f"np.{dtype}({value})"


def literal(value: Any) -> str | None:
    """Return the source code of a number, or None if the value is not a real number."""
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "biuf":
        return None
    if number.dtype.kind == "b":
        return str(bool(number))
    if number.dtype.kind in "iu":
        return f"({int(number)})"
    if math.isnan(number):
        return "math.nan"
    if math.isinf(number):
        return "math.inf" if number > 0 else "(-math.inf)"
    return f"({float(number)!r})"
