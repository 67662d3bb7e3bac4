"""Metrics given as an expression in x."""

from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import gradient, pushforward
from pymc_pmala.metric.metric import Metric

__all__ = ["ExpressionMetric"]


class ExpressionMetric(Metric):
    """A metric given as an expression in x."""

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        self.x = x
        self._matrix = matrix

    def matrix(self) -> TensorVariable:
        """G(x)."""
        return self._matrix

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows G(x) u."""
        return seeds @ self._matrix

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Σ_r d/dε G(x + εl_r) l_r by forward mode."""
        direction = self.x.type("l")
        [derivative] = pushforward([self._matrix @ direction], self.x, direction)
        if derivative is None:
            return None
        [batched] = batch([derivative], {direction: rows})
        return batched.sum(axis=0)

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """∇ Σ_r l_rᵀ G l_r by reverse mode."""
        cost = ((rows @ self._matrix) * rows).sum()
        return gradient(cost, self.x, consider_constant=[rows])
