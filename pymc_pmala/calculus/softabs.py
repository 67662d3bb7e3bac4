r"""The SoftAbs function of a symmetric matrix and its derivative.

:math:`f(\lambda) = \lambda \coth(\alpha\lambda)` makes any spectrum positive: it approaches
:math:`|\lambda|` for large eigenvalues and is never below :math:`1/\alpha` (Betancourt 2013).
All functions are defined for zero and for equal eigenvalues.
"""

import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["divided_differences", "softabs", "softabs_slope"]


def softabs(eigenvalues: TensorVariable, floor: float) -> TensorVariable:
    """SoftAbs function λ coth(λ / floor)."""
    t = eigenvalues / floor
    near_zero = pt.abs(t) < 1e-2
    safe = pt.switch(near_zero, 1.0, t)
    return floor * pt.switch(near_zero, 1.0 + t**2 / 3.0 - t**4 / 45.0, safe / pt.tanh(safe))


def softabs_slope(eigenvalues: TensorVariable, floor: float) -> TensorVariable:
    """Derivative of `softabs`: coth t − t / sinh² t, with t = λ / floor."""
    t = eigenvalues / floor
    near_zero = pt.abs(t) < 1e-2
    safe = pt.switch(near_zero, 1.0, t)
    decay = pt.exp(-2.0 * pt.abs(safe))
    slope = 1.0 / pt.tanh(safe) - 4.0 * safe * decay / (1.0 - decay) ** 2
    return pt.switch(near_zero, 2.0 * t / 3.0 - 4.0 * t**3 / 45.0, slope)


def divided_differences(eigenvalues: TensorVariable, floor: float) -> TensorVariable:
    r"""Matrix :math:`R_{ij} = (f(\lambda_i) - f(\lambda_j)) / (\lambda_i - \lambda_j)`.

    The derivative of the matrix function f(H) = Q f(Λ) Qᵀ in the direction Ḣ is
    :math:`Q (R \circ Q^T \dot H Q) Q^T` (Daleckii & Krein). For nearly equal eigenvalues the
    slope at their mean is used.
    """
    left, right = eigenvalues[:, None], eigenvalues[None, :]
    gap = left - right
    close = pt.abs(gap) < 1e-5 * (floor + pt.abs(left) + pt.abs(right))
    values = softabs(eigenvalues, floor)
    ratio = (values[:, None] - values[None, :]) / pt.switch(close, 1.0, gap)
    return pt.switch(close, softabs_slope(0.5 * (left + right), floor), ratio)
