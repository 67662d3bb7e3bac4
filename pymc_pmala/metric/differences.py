"""Metrics that are differentiated by finite differences."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import (
    along_elements,
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
    """A matrix given as an expression in x that is hard or impossible to differentiate.

    Second derivatives through a loop, such as an ODE solver, take minutes to compile, and an Op
    from another library may have none. G is therefore differentiated by central differences
    along the l_r, with all points in one loop. The l_r have unit length in the metric, so the
    same ε suits all of them.
    """

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        super().__init__(x, matrix)
        self._step = difference_step([matrix], x)

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Σ_r [G(x + εl_r) − G(x − εl_r)] l_r / 2ε."""
        return (self._differences(rows) * rows[:, None, :]).sum(axis=(0, 2))

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """Slopes tr(A ∂_r G) along the l_r, transformed back to the coordinates of x."""
        slopes = ((rows @ self._differences(rows)) * rows).sum(axis=(1, 2))
        return pt.linalg.solve_triangular(rows, slopes, lower=True, b_ndim=1)

    def _differences(self, rows: TensorVariable) -> TensorVariable:
        [matrices] = batch([self.matrix()], {self.x: neighbours(self.x, rows, self._step)})
        ahead, behind = matrices[: self.x.type.shape[0]], matrices[self.x.type.shape[0] :]
        return (ahead - behind) / (2.0 * self._step)


class DifferencedFisherMetric(FisherMetric):
    r"""Expected Fisher information of a model with a loop (an ODE solver, a recursion).

    Second derivatives through a loop take minutes to compile, and an Op from another library
    may have none. First derivatives in forward mode are cheap, with all directions in the same
    loop. Therefore :math:`G = J^T (K J)` is formed from J and differentiated by central
    differences along the l_r. The l_r have unit length in the metric, so the same ε suits all of
    them.
    """

    def __init__(self, x: TensorVariable, forms: Sequence[QuadraticForm]):
        super().__init__(x, forms)
        self._step = difference_step(self.coordinates, x)

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows Σ_f J_fᵀ (K_f J_f u)."""
        tangents, cotangents = self._columns(self.x[None])
        return seeds @ (tangents[0] @ cotangents[0].T)

    def gram(self, rows: TensorVariable) -> TensorVariable:
        """Products with the matrix: all directions are in the same loop already."""
        return self.products(rows) @ rows.T

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Σ_r [G(x + εl_r) − G(x − εl_r)] l_r / 2ε."""
        tangents, cotangents = self._columns(neighbours(self.x, rows, self._step))
        weights = pt.concatenate([rows, -rows]) / (2.0 * self._step)
        pulled = (weights[:, :, None] * cotangents).sum(axis=1)
        return (tangents * pulled[:, None, :]).sum(axis=(0, 2))

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """Slopes tr(A ∂_r G) along the l_r, transformed back to the coordinates of x."""
        d = self.x.type.shape[0]
        tangents, cotangents = (
            (rows @ part.swapaxes(0, 1).reshape((d, -1))).reshape((d, 2 * d, -1))
            for part in self._columns(neighbours(self.x, rows, self._step))
        )
        traces = (tangents * cotangents).sum(axis=(0, 2))
        slopes = (traces[:d] - traces[d:]) / (2.0 * self._step)
        return pt.linalg.solve_triangular(rows, slopes, lower=True, b_ndim=1)

    def _columns(self, points: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """Return J and K J at points (first axis), by element of x (second axis)."""
        graphs = in_loops([*self.tangents, *self.cotangents], self.loops)
        count, d = points.type.shape
        columns = [
            column.reshape((count, d, -1))
            for column in along_elements(graphs, self.x, self.direction, points)
        ]
        return self._joined(columns)

    def _joined(self, parts: Sequence[TensorVariable]) -> tuple[TensorVariable, TensorVariable]:
        """Join the tangents, and the cotangents, of all coordinates along the last axis."""
        n = len(self.tangents)
        return pt.concatenate(parts[:n], axis=-1), pt.concatenate(parts[n:], axis=-1)


class LoopFisherMetric(DifferencedFisherMetric):
    r"""Expected Fisher information through a loop that can be batched freely.

    Forward differences are taken along the l_r, without taking any pair of directions twice. With
    :math:`T_{rs} = \partial_r J l_s = T_{sr}` the contraction v satisfies

    .. math:: l_s^T v = \sum_r T_{rs} \cdot K J l_r + J l_s \cdot \sum_r \partial_r (K J l_r),

    which needs d(d + 1)/2 tangents, whereas central differences of G need 2d².
    """

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Contraction v, computed from its products with the l_s."""
        d = self.x.type.shape[0]
        step = float(np.finfo(self.x.dtype).eps ** 0.45)
        here, weighted_here = (rows @ part[0] for part in self._columns(self.x[None]))
        first, second = np.triu_indices(d)
        there, weighted_there = self._along((self.x + step * rows)[first], rows[second])
        bends = (there - here[second]) / step
        # The second derivative along two different directions counts for both of them.
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
        """Return J l and K J l for each pair of a point and a direction l."""
        graphs = in_loops([*self.tangents, *self.cotangents], self.loops)
        count = points.type.shape[0]
        batched = [
            part.reshape((count, -1))
            for part in batch(graphs, {self.x: points, self.direction: directions})
        ]
        return self._joined(batched)


def by_differences(graphs: Sequence[TensorVariable]) -> bool:
    """Whether graphs are to be differentiated by finite differences."""
    # Batching a loop from outside is slow, and pytensor 2 then compiles the loop of the model,
    # which can no longer be differentiated.
    return has_loop(graphs) or has_opaque_op(graphs)


def difference_step(graphs: Sequence[TensorVariable], x: TensorVariable) -> float:
    """Step length ε of a difference along a direction of unit length in the metric."""
    # Solvers and simulations from other libraries are rarely accurate to more than six digits.
    return 1e-3 if has_opaque_op(graphs) else float(np.cbrt(np.finfo(x.dtype).eps))


def neighbours(x: TensorVariable, rows: TensorVariable, step: float) -> TensorVariable:
    """Return the points x ± ε l_r, as rows."""
    return pt.concatenate([x + step * rows, x - step * rows])
