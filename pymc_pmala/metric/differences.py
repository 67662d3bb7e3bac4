"""Metrics whose derivative is taken by finite differences, where the graph has none."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.differentiation import (
    along_elements,
    batch,
    has_loop,
    has_opaque_op,
    in_loops,
)
from pymc_pmala.information import QuadraticForm
from pymc_pmala.metric.expression import ExpressionMetric
from pymc_pmala.metric.fisher import FisherMetric

__all__ = [
    "DifferencedExpressionMetric",
    "DifferencedFisherMetric",
    "LoopFisherMetric",
    "by_differences",
    "difference_step",
    "neighbours",
]


class DifferencedExpressionMetric(ExpressionMetric):
    """A matrix given as an expression in x that cannot well be differentiated.

    Second derivatives through a loop, an ODE solver for example, take minutes to compile,
    and an Op from elsewhere may have none: G is differentiated by central differences along
    the l_r, all points in one loop. These have unit length in the metric, so one ε fits all.
    """

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        super().__init__(x, matrix)
        self._step = difference_step([matrix], x)

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Σ_r [G(x + εl_r) − G(x − εl_r)] l_r / 2ε."""
        return (self._differences(rows) * rows[:, None, :]).sum(axis=(0, 2))

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """Slopes tr(A ∂_r G) along the l_r, taken back to the coordinates of x."""
        slopes = ((rows @ self._differences(rows)) * rows).sum(axis=(1, 2))
        return pt.linalg.solve_triangular(rows, slopes, lower=True, b_ndim=1)

    def _differences(self, rows: TensorVariable) -> TensorVariable:
        [matrices] = batch([self.matrix()], {self.x: neighbours(self.x, rows, self._step)})
        ahead, behind = matrices[: self.x.type.shape[0]], matrices[self.x.type.shape[0] :]
        return (ahead - behind) / (2.0 * self._step)


class DifferencedFisherMetric(FisherMetric):
    r"""Expected Fisher information where the model runs a loop (an ODE solver, a recursion).

    Second derivatives through a loop take minutes to compile, and an Op from elsewhere may
    have none. First ones in forward mode are cheap, all directions in the same loop, so
    :math:`G = J^T (K J)` is formed from J itself and differentiated by central differences
    along the l_r. These have unit length in the metric, so one ε fits all.
    """

    def __init__(self, x: TensorVariable, forms: Sequence[QuadraticForm]):
        super().__init__(x, forms)
        self._step = difference_step(self.coordinates, x)

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows Σ_f J_fᵀ (K_f J_f u)."""
        tangents, cotangents = self._columns(self.x[None])
        return seeds @ (tangents[0] @ cotangents[0].T)

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Σ_r [G(x + εl_r) − G(x − εl_r)] l_r / 2ε."""
        tangents, cotangents = self._columns(neighbours(self.x, rows, self._step))
        weights = pt.concatenate([rows, -rows]) / (2.0 * self._step)
        pulled = (weights[:, :, None] * cotangents).sum(axis=1)
        return (tangents * pulled[:, None, :]).sum(axis=(0, 2))

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """Slopes tr(A ∂_r G) along the l_r, taken back to the coordinates of x."""
        d = self.x.type.shape[0]
        tangents, cotangents = (
            (rows @ part.swapaxes(0, 1).reshape((d, -1))).reshape((d, 2 * d, -1))
            for part in self._columns(neighbours(self.x, rows, self._step))
        )
        traces = (tangents * cotangents).sum(axis=(0, 2))
        slopes = (traces[:d] - traces[d:]) / (2.0 * self._step)
        return pt.linalg.solve_triangular(rows, slopes, lower=True, b_ndim=1)

    def _columns(self, points: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """J and K J at points (first axis), by element of x (second), for all coordinates."""
        graphs = in_loops([*self.tangents, *self.cotangents], self.loops)
        count, d = points.type.shape
        columns = [
            column.reshape((count, d, -1))
            for column in along_elements(graphs, self.x, self.direction, points)
        ]
        return self._joined(columns)

    def _joined(self, parts: Sequence[TensorVariable]) -> tuple[TensorVariable, TensorVariable]:
        """Tangents and cotangents, those of all coordinates side by side."""
        n = len(self.tangents)
        return pt.concatenate(parts[:n], axis=-1), pt.concatenate(parts[n:], axis=-1)


class LoopFisherMetric(DifferencedFisherMetric):
    r"""Expected Fisher information through a loop that can be batched at will.

    Forward differences along the l_r, and no pair of directions taken twice: with
    :math:`T_{rs} = \partial_r J l_s = T_{sr}` the contraction v has

    .. math:: l_s^T v = \sum_r T_{rs} \cdot K J l_r + J l_s \cdot \sum_r \partial_r (K J l_r),

    d(d + 1)/2 tangents where central differences of G need 2d².
    """

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Contraction v, from its products with the l_s."""
        d = self.x.type.shape[0]
        step = float(np.finfo(self.x.dtype).eps ** 0.45)
        here, weighted_here = (rows @ part[0] for part in self._columns(self.x[None]))
        first, second = np.triu_indices(d)
        there, weighted_there = self._along((self.x + step * rows)[first], rows[second])
        bends = (there - here[second]) / step
        # Of two different directions, each has the bend along the other.
        onto_second = np.eye(d, dtype=self.x.dtype)[:, second]
        onto_first = np.where(first == second, 0.0, np.eye(d, dtype=self.x.dtype)[:, first])
        products = onto_second @ (bends * weighted_here[first]).sum(axis=1)
        products += onto_first @ (bends * weighted_here[second]).sum(axis=1)
        own = np.flatnonzero(first == second)
        products += here @ ((weighted_there[own] - weighted_here).sum(axis=0) / step)
        return pt.linalg.solve_triangular(rows, products, lower=True, b_ndim=1)

    def _along(
        self, points: TensorVariable, directions: TensorVariable
    ) -> tuple[TensorVariable, TensorVariable]:
        """J l and K J l at each point in the direction beside it, for all coordinates."""
        graphs = in_loops([*self.tangents, *self.cotangents], self.loops)
        count = points.type.shape[0]
        batched = [
            part.reshape((count, -1))
            for part in batch(graphs, {self.x: points, self.direction: directions})
        ]
        return self._joined(batched)


def by_differences(graphs: Sequence[TensorVariable]) -> bool:
    """Whether graphs are to be differentiated by differences."""
    # Batching a loop from outside is slow, and pytensor 2 then compiles the model's own loop,
    # which cannot be differentiated afterwards.
    return has_loop(graphs) or has_opaque_op(graphs)


def difference_step(graphs: Sequence[TensorVariable], x: TensorVariable) -> float:
    """Length ε of a difference along a direction of unit length in the metric."""
    # Solvers and simulations from elsewhere are rarely exact to more than six digits.
    return 1e-3 if has_opaque_op(graphs) else float(np.cbrt(np.finfo(x.dtype).eps))


def neighbours(x: TensorVariable, rows: TensorVariable, step: float) -> TensorVariable:
    """The points x ± ε l_r, as rows."""
    return pt.concatenate([x + step * rows, x - step * rows])
