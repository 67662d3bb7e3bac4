"""SoftAbs of a Hessian as a metric."""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import gradient, gradients, pushforward
from pymc_pmala.calculus.softabs import divided_differences, softabs
from pymc_pmala.metric.differences import (
    DifferencedExpressionMetric,
    by_differences,
    difference_step,
    neighbours,
)
from pymc_pmala.metric.metric import Metric
from pymc_pmala.model.target import elements_used

__all__ = ["SoftAbsMetric", "finite_or_zero", "softabs_metric"]

# At an inflection point the Hessian vanishes although the density still changes. A floor on the
# scale of a prior prevents proposals far out in the tails.
_FLOOR = 1e-2


class SoftAbsMetric(Metric):
    r"""SoftAbs of the Hessian :math:`H = -\nabla^2 \log p`, with its exact derivative.

    With :math:`H = Q \Lambda Q^T` and the divided differences R of SoftAbs, the
    contractions of the derivative need the third derivatives of log p only along pairs of
    directions:

    .. math:: (Q^T v)_a = \sum_b R_{ab} (Q^T M_b)_a, \qquad
              M_b = -\nabla^2(\nabla\log p)[q_b, A q_b],

    which are d mixed second derivatives of the gradient, batched.

    Parameters
    ----------
    x : TensorVariable
    logp : TensorVariable
        A scalar function of ``x``.
    floor : float
        Smallest possible eigenvalue of the metric, on the elements of ``x`` that ``logp``
        depends on; zero on the others.
    largest : int, optional
        If the graph of the third derivatives has more nodes than this, they are omitted, and with
        them the contribution of the metric to the drift. This lowers the acceptance rate, but the
        sampler remains exact.
    """

    def __init__(
        self,
        x: TensorVariable,
        logp: TensorVariable,
        floor: float,
        largest: int | None = None,
    ):
        self.x = x
        self.floor = floor
        self.slope = gradient(logp, x)
        self.directions = x.type("u"), x.type("w")
        first, second = self.directions
        [product] = pushforward([self.slope], x, first)
        # A linear log-density has no Hessian, but one product per direction is still needed.
        self.product = 0.0 * first if _is_zero(product, first) else product
        [mixed] = pushforward([self.product], x, second)
        self.mixed = None if _is_zero(mixed, second) or _is_large(mixed, largest) else mixed
        basis = pt.constant(np.eye(x.type.shape[0], dtype=x.dtype)[elements_used(logp, x)])
        [rows] = batch([self.product], {first: basis})
        self.eigenvalues, self.vectors = _spectrum(rows, basis)

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows Q f(Λ) Qᵀ u."""
        scaled = (seeds @ self.vectors) * softabs(self.eigenvalues, self.floor)
        return scaled @ self.vectors.T

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Q Σ_b R_ab (Qᵀ M_b)_a."""
        if self.mixed is None:
            return None
        partners = (rows.T @ (rows @ self.vectors)).T
        third = self._third_derivatives(partners) @ self.vectors
        differences = divided_differences(self.eigenvalues, self.floor)
        return self.vectors @ (differences * third.T).sum(axis=1)

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """Gradient ∇ tr(W H), with W = Q (R ∘ QᵀAQ) Qᵀ held fixed."""
        if self.mixed is None:
            return None
        whitened = rows @ self.vectors
        differences = divided_differences(self.eigenvalues, self.floor)
        partners = (self.vectors @ (differences * (whitened.T @ whitened))).T
        return self._third_derivatives(partners).sum(axis=0)

    def _third_derivatives(self, partners: TensorVariable) -> TensorVariable:
        """Rows −∇²(∇log p)[q_b, w_b], where the w_b are the rows of ``partners``."""
        first, second = self.directions
        [third] = batch([self.mixed], {first: self.vectors.T, second: partners})
        return -finite_or_zero(third)


def softabs_metric(x: TensorVariable, logp: TensorVariable, largest: int | None = None) -> Metric:
    """SoftAbs of the Hessian of a log-density, by finite differences where necessary."""
    if not by_differences([logp]):
        return SoftAbsMetric(x, logp, _FLOOR, largest)
    used = elements_used(logp, x)
    basis = pt.constant(np.eye(x.type.shape[0], dtype=x.dtype)[used])
    step = difference_step([logp], x)
    slopes = gradients(logp, x, neighbours(x, basis, step))
    rows = (slopes[: len(used)] - slopes[len(used) :]) / (2.0 * step)
    eigenvalues, vectors = _spectrum(rows, basis)
    matrix = (vectors * softabs(eigenvalues, _FLOOR)) @ vectors.T
    return DifferencedExpressionMetric(x, matrix)


def _is_zero(derivative: TensorVariable | None, direction: TensorVariable) -> bool:
    """Whether a derivative that is linear in a direction does not depend on it."""
    return derivative is None or direction not in graph_inputs([derivative])


def _is_large(graph: TensorVariable, most: int | None) -> bool:
    return most is not None and sum(1 for _ in toposort([graph])) > most


def _spectrum(rows: TensorVariable, basis: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
    """Eigenvalues and eigenvectors of −∇²log p, from its rows along a basis of elements."""
    # Products with the identity have a cost, and for a single element pytensor 3 creates an
    # indexed update that numba does not compile.
    whole = basis.type.shape[0] == basis.type.shape[1]
    # Branches of a switch that are not taken may lack a finite second derivative.
    rows = finite_or_zero(rows)
    hessian = rows if whole else rows @ basis.T
    eigenvalues, vectors = pt.linalg.eigh(-0.5 * (hessian + hessian.T))
    return eigenvalues, vectors if whole else basis.T @ vectors


def finite_or_zero(variable: TensorVariable) -> TensorVariable:
    """Replace the elements of a variable that are not finite by zero."""
    return pt.switch(pt.abs(variable) < np.inf, variable, 0.0)
