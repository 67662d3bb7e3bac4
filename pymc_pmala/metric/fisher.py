"""The Fisher metric of a model: the expected information of its factors, matrix-free."""

from collections.abc import Sequence

import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import Loops, gradient, pushforward
from pymc_pmala.information import QuadraticForm
from pymc_pmala.metric.metric import Metric

__all__ = ["FisherMetric"]


class FisherMetric(Metric):
    r"""Expected Fisher information :math:`G = \sum_f J_f^T K_f J_f` of a model's factors.

    Products with G are computed without forming it: :math:`G l = J^T (K (J l))` takes one
    forward and one reverse pass, batched over directions.
    """

    def __init__(self, x: TensorVariable, forms: Sequence[QuadraticForm]):
        self.x = x
        self.direction = x.type("l")
        self.coordinates: list[TensorVariable] = []
        self.tangents: list[TensorVariable] = []
        self.cotangents: list[TensorVariable] = []
        self.loops: Loops = {}
        for form in forms:
            self._add(form)

    def _add(self, form: QuadraticForm) -> None:
        """Add the tangents J l and cotangents K J l of one form, in the direction l."""
        tangents = pushforward(form.coordinates, self.x, self.direction, self.loops)
        if all(tangent is None for tangent in tangents):
            return
        filled = [
            pt.zeros_like(c) if t is None else t
            for c, t in zip(form.coordinates, tangents, strict=True)
        ]
        for coordinate, tangent, cotangent in zip(
            form.coordinates, tangents, form.product(filled), strict=True
        ):
            if tangent is not None:
                self.coordinates.append(coordinate)
                self.tangents.append(tangent)
                self.cotangents.append(cotangent)

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows Σ_f J_fᵀ K_f J_f u."""
        if not self.coordinates:
            return pt.zeros_like(seeds)
        cost = _inner(self.coordinates, self.cotangents)
        product = gradient(cost, self.x, consider_constant=self.cotangents)
        [products] = batch([product], {self.direction: seeds})
        return products

    def gram(self, rows: TensorVariable) -> TensorVariable:
        """Matrix Σ_f (J_f u)ᵀ K_f (J_f w), without a reverse pass."""
        count = rows.type.shape[0]
        total = pt.zeros((count, count), dtype=self.x.dtype)
        if not self.coordinates:
            return total
        batched = batch([*self.tangents, *self.cotangents], {self.direction: rows})
        n = len(self.tangents)
        for left, right in zip(batched[:n], batched[n:], strict=True):
            # The tangents are transposed, because pytensor computes again what is transposed.
            total += right.reshape((count, -1)) @ left.reshape((count, -1)).T
        return total

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Contraction v, by the product rule for Jᵀ (K J l_r).

        The derivative of K J l_r takes one forward pass, which is pulled back once after
        summing over r. That of Jᵀ is the reverse pass of J l_r with its cotangent held fixed.
        """
        if not self.coordinates:
            return None
        derivatives = pushforward(self.cotangents, self.x, self.direction)
        moving = [
            (c, d) for c, d in zip(self.coordinates, derivatives, strict=True) if d is not None
        ]
        batched = batch(
            [*self.tangents, *self.cotangents, *[d for _, d in moving]], {self.direction: rows}
        )
        n = len(self.tangents)
        tangents, cotangents = batched[:n], batched[n : 2 * n]
        summed = [d.sum(axis=0) for d in batched[2 * n :]]
        cost = _inner([c for c, _ in moving], summed) + _inner(tangents, cotangents)
        return gradient(cost, self.x, consider_constant=[rows, *cotangents, *summed])

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """∇ Σ_r (J l_r)ᵀ K (J l_r)."""
        if not self.coordinates:
            return None
        batched = batch([*self.tangents, *self.cotangents], {self.direction: rows})
        n = len(self.tangents)
        return gradient(_inner(batched[:n], batched[n:]), self.x, consider_constant=[rows])


def _inner(left: Sequence[TensorVariable], right: Sequence[TensorVariable]) -> TensorVariable:
    """Sum of the elementwise products of two lists of arrays."""
    return sum(((a * b).sum() for a, b in zip(left, right, strict=True)), pt.constant(0.0))
