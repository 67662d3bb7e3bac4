r"""Zero-mean functions of a posterior, from the generator of its Langevin diffusion.

For a smooth function f and :math:`b = A\nabla\log\pi + \nabla\cdot A`,

.. math:: 2\mathcal{L}f = \operatorname{tr}(A \nabla^2 f) + b \cdot \nabla f
          = \pi^{-1}\, \nabla\cdot(\pi A \nabla f)

has mean zero under π if the flux :math:`\pi A\nabla f` vanishes at the boundary. A may be the
inverse of any metric: here that of a position-dependent metric, and a constant matrix C.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort
from pytensor.graph.utils import MethodNotDefined
from pytensor.scalar.basic import (
    Abs,
    Ceil,
    Clip,
    Floor,
    Mod,
    RoundHalfAwayFromZero,
    RoundHalfToEven,
    ScalarMaximum,
    ScalarMinimum,
    Sign,
    Trunc,
    discrete_dtypes,
)
from pytensor.tensor.math import Max, Min
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.sort import SortOp
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import (
    has_loop,
    has_opaque_op,
    pushforward,
    value_and_gradient,
)
from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Dense
from pymc_pmala.metric import Metric
from pymc_pmala.model.target import Target

__all__ = ["Evaluation", "Generator", "is_smooth"]


_KINKED = (
    *(Abs, Ceil, Clip, Floor, Mod, RoundHalfAwayFromZero, RoundHalfToEven, Sign, Trunc),
    *(ScalarMaximum, ScalarMinimum, Max, Min, SortOp),
)


class Evaluation(NamedTuple):
    r"""Values at one point; stacked along a first axis for many points.

    Attributes
    ----------
    logp : ndarray
        Log-density.
    slope : ndarray of shape (d,)
        :math:`\nabla\log\pi`.
    inverse : ndarray of shape (d, d)
        A, the inverse of the metric.
    drift : ndarray of shape (d,)
        :math:`b = A\nabla\log\pi + \nabla\cdot A`, where :math:`\nabla\cdot A = 2\Gamma`.
    values : ndarray of shape (m,)
        The functions f.
    moving, fixed : ndarray of shape (m,)
        Their generators :math:`2\mathcal{L}f` with A, and with the constant matrix C.
    """

    logp: np.ndarray
    slope: np.ndarray
    inverse: np.ndarray
    drift: np.ndarray
    values: np.ndarray
    moving: np.ndarray
    fixed: np.ndarray


class Generator:
    """The compiled generator of functions of the draws of a target.

    Parameters
    ----------
    target : Target
    metric : Metric
    functions : sequence of Variable
        Smooth expressions in ``target.x``.
    held : mapping of str to ndarray
        Draws of the variables that the target holds fixed.
    """

    def __init__(
        self,
        target: Target,
        metric: Metric,
        functions: Sequence[Variable],
        held: Mapping[str, np.ndarray],
    ):
        d, x = target.dimension, target.x
        rows = pt.matrix("rows", dtype=x.dtype, shape=(d, d))
        self._function = compile_graph(
            [x, rows], _outputs(target, metric, functions, rows), target.model
        )
        self._dtype = x.dtype
        self._held = [(shared, held[value.name]) for value, shared in target.shared.items()]
        self._rows = np.eye(d, dtype=x.dtype)
        self.holds_variables = bool(self._held)

    def set_constant(self, inverse: np.ndarray) -> None:
        """Set the constant matrix C."""
        self._rows = np.ascontiguousarray(np.linalg.cholesky(inverse).T.astype(self._dtype))

    def __call__(self, x: np.ndarray, draw: int) -> Evaluation:
        """Evaluate at x, with the held variables at their values in a draw."""
        for shared, values in self._held:
            shared.set_value(values[draw])
        return Evaluation(*self._function(x.astype(self._dtype), self._rows))


def _outputs(
    target: Target, metric: Metric, functions: Sequence[Variable], constant: TensorVariable
) -> list[TensorVariable]:
    """Graphs of the fields of an `Evaluation`."""
    x = target.x
    logp, slope = value_and_gradient(target.logp, x)
    dense = Dense(target.dimension)
    rows = dense.rows(dense.factor([metric.matrix()]))
    contraction = metric.divergence(rows)
    force = slope if contraction is None else slope - contraction
    drift = rows.T @ (rows @ force)
    drifts = pt.stack([drift, constant.T @ (constant @ slope)])
    directions = pt.concatenate([rows, constant])
    empty = pt.zeros(0, dtype=x.dtype)
    values = pt.concatenate([empty, *[f.ravel().astype(x.dtype) for f in functions]])
    moving, fixed = _generators(values, x, drifts, directions)
    return [logp, slope, rows.T @ rows, drift, values, moving, fixed]


def is_smooth(function: TensorVariable, x: TensorVariable) -> bool:
    """Whether the generator of a function can be derived from its graph."""
    # Second derivatives through a loop take minutes to compile.
    if has_loop([function]) or has_opaque_op([function]) or _has_kink(function, x):
        return False
    direction = x.type("u")
    try:
        [slope] = pushforward([function.ravel()], x, direction)
        if slope is not None:
            pushforward([slope], x, direction)
    except (NotImplementedError, MethodNotDefined, NullTypeGradError):
        return False
    return True


def _has_kink(function: TensorVariable, x: TensorVariable) -> bool:
    """Whether a graph branches, rounds or sorts: derivatives do not see what happens there."""
    depending = {x}
    for node in toposort([function]):
        if depending.isdisjoint(node.inputs) or isinstance(node.op, Shape | Shape_i):
            continue
        depending.update(node.outputs)
        op = getattr(node.op, "scalar_op", node.op)
        discrete = any(v.type.dtype in discrete_dtypes for v in node.outputs)
        if discrete or isinstance(op, _KINKED):
            return True
    return False


def _generators(
    values: TensorVariable, x: TensorVariable, drifts: TensorVariable, rows: TensorVariable
) -> list[TensorVariable]:
    """Σ_r f''[l_r, l_r] + f'[b] of all functions, for two drifts and their directions."""
    direction = x.type("u")
    [slope] = pushforward([values], x, direction)
    if slope is None:
        return [pt.zeros_like(values)] * 2
    [found] = batch([slope], {direction: drifts})
    [bend] = pushforward([slope], x, direction)
    if bend is not None:
        # One graph for all directions: compiling two would take twice as long.
        [bends] = batch([bend], {direction: rows})
        found = found + bends.reshape((2, x.type.shape[0], -1)).sum(axis=1)
    return [found[0], found[1]]
