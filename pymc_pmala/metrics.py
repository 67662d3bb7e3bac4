r"""Metrics G(x): their products and the contractions of their derivative, as expressions.

The derivative of G enters the samplers only through two contractions with A = G⁻¹. With
:math:`A = \sum_r l_r l_r^T` they need no derivative tensor:

.. math:: v_i = \sum_{jk} \partial_j G_{ik} A_{jk}
          = \sum_r \frac{d}{d\epsilon} [G(x + \epsilon l_r) l_r]_i,
          \qquad
          \nabla \log |G| = \nabla_x \sum_r l_r^T G(x) l_r .
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.differentiation import (
    Loops,
    along_elements,
    batch,
    gradient,
    gradients,
    has_loop,
    has_opaque_op,
    in_loops,
    pushforward,
    sum_present,
)
from pymc_pmala.information import (
    Factor,
    NoInformation,
    QuadraticForm,
    RaveledModel,
    elements_used,
    factor_information,
    fallback_information,
)
from pymc_pmala.softabs import divided_differences, softabs

__all__ = [
    "ConstantMetric",
    "DifferencedExpressionMetric",
    "DifferencedFisherMetric",
    "ExpressionMetric",
    "FisherMetric",
    "FlooredMetric",
    "LoopFisherMetric",
    "Metric",
    "SoftAbsMetric",
    "SumMetric",
    "build_metric",
    "finite_or_zero",
    "information_terms",
    "is_floored",
    "softabs_metric",
]


class Metric(ABC):
    """A positive-definite matrix G at every point x, in symbolic form."""

    x: TensorVariable

    def matrix(self) -> TensorVariable:
        """G(x), d × d."""
        return self.products(_identity(self.x))

    @abstractmethod
    def products(self, seeds: TensorVariable) -> TensorVariable:
        """The products G(x) u with the rows u of ``seeds``, as rows."""

    @abstractmethod
    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """The contraction v, with ``rows`` the l_r; None if G is constant."""

    @abstractmethod
    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """∇log|G|, with ``rows`` the l_r; None if G is constant."""


class ConstantMetric(Metric):
    """The same matrix everywhere."""

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        self.x = x
        self._matrix = matrix

    def matrix(self) -> TensorVariable:
        """G."""
        return self._matrix

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows G u."""
        return seeds @ self._matrix

    def divergence(self, rows: TensorVariable) -> None:
        """Zero."""
        return None

    def log_det_gradient(self, rows: TensorVariable) -> None:
        """Zero."""
        return None


class ExpressionMetric(Metric):
    """A matrix given as an expression in x."""

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


class DifferencedExpressionMetric(ExpressionMetric):
    """A matrix given as an expression in x that cannot well be differentiated.

    Second derivatives through a loop, an ODE solver for example, take minutes to compile,
    and an Op from elsewhere may have none: G is differentiated by central differences along
    the l_r, all points in one loop. These have unit length in the metric, so one ε fits all.
    """

    def __init__(self, x: TensorVariable, matrix: TensorVariable):
        super().__init__(x, matrix)
        self._step = _difference_step([matrix], x)

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Σ_r [G(x + εl_r) − G(x − εl_r)] l_r / 2ε."""
        return (self._differences(rows) * rows[:, None, :]).sum(axis=(0, 2))

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """Slopes tr(A ∂_r G) along the l_r, taken back to the coordinates of x."""
        slopes = ((rows @ self._differences(rows)) * rows).sum(axis=(1, 2))
        return pt.linalg.solve_triangular(rows, slopes, lower=True, b_ndim=1)

    def _differences(self, rows: TensorVariable) -> TensorVariable:
        [matrices] = batch([self.matrix()], {self.x: _neighbours(self.x, rows, self._step)})
        ahead, behind = matrices[: self.x.type.shape[0]], matrices[self.x.type.shape[0] :]
        return (ahead - behind) / (2.0 * self._step)


class FisherMetric(Metric):
    r"""Expected Fisher information :math:`G = \sum_f J_f^T K_f J_f` of a model's factors.

    G is applied matrix-free: :math:`G l = J^T (K (J l))`, one forward and one reverse pass,
    and batched over directions.
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
        """Tangents J l and cotangents K J l of one form, in the direction l."""
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

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Contraction v, by the product rule for Jᵀ (K J l_r).

        The derivative of K J l_r is one forward pass, pulled back once after summing over
        r; that of Jᵀ is the reverse pass of J l_r with its cotangent held.
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


class DifferencedFisherMetric(FisherMetric):
    r"""Expected Fisher information where the model runs a loop (an ODE solver, a recursion).

    Second derivatives through a loop take minutes to compile, and an Op from elsewhere may
    have none. First ones in forward mode are cheap, all directions in the same loop, so
    :math:`G = J^T (K J)` is formed from J itself and differentiated by central differences
    along the l_r. These have unit length in the metric, so one ε fits all.
    """

    def __init__(self, x: TensorVariable, forms: Sequence[QuadraticForm]):
        super().__init__(x, forms)
        self._step = _difference_step(self.coordinates, x)

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows Σ_f J_fᵀ (K_f J_f u)."""
        tangents, cotangents = self._columns(self.x[None])
        return seeds @ (tangents[0] @ cotangents[0].T)

    def divergence(self, rows: TensorVariable) -> TensorVariable:
        """Σ_r [G(x + εl_r) − G(x − εl_r)] l_r / 2ε."""
        tangents, cotangents = self._columns(_neighbours(self.x, rows, self._step))
        weights = pt.concatenate([rows, -rows]) / (2.0 * self._step)
        pulled = (weights[:, :, None] * cotangents).sum(axis=1)
        return (tangents * pulled[:, None, :]).sum(axis=(0, 2))

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable:
        """Slopes tr(A ∂_r G) along the l_r, taken back to the coordinates of x."""
        d = self.x.type.shape[0]
        tangents, cotangents = (
            (rows @ part.swapaxes(0, 1).reshape((d, -1))).reshape((d, 2 * d, -1))
            for part in self._columns(_neighbours(self.x, rows, self._step))
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


class SoftAbsMetric(Metric):
    r"""SoftAbs of the Hessian :math:`H = -\nabla^2 \log p`, with its exact derivative.

    With :math:`H = Q \Lambda Q^T` and the divided differences R of SoftAbs, the
    contractions of the derivative need the third derivatives of log p only along pairs of
    directions:

    .. math:: (Q^T v)_a = \sum_b R_{ab} (Q^T M_b)_a, \qquad
              M_b = -\nabla^2(\nabla\log p)[q_b, A q_b],

    d mixed second derivatives of the gradient, batched.

    Parameters
    ----------
    x : TensorVariable
    logp : TensorVariable
        A scalar function of ``x``.
    floor : float
        Smallest possible eigenvalue of the metric, on the elements of ``x`` that ``logp``
        depends on; zero on the others.
    largest : int, optional
        Nodes of the third derivatives' graph beyond which they are left out, and with them the
        metric's part of the drift. That costs some acceptance, and no exactness.
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
        # Of a linear log-density: no Hessian, but one product for each direction all the same.
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
        """∇ tr(W H), with W = Q (R ∘ QᵀAQ) Qᵀ held."""
        if self.mixed is None:
            return None
        whitened = rows @ self.vectors
        differences = divided_differences(self.eigenvalues, self.floor)
        partners = (self.vectors @ (differences * (whitened.T @ whitened))).T
        return self._third_derivatives(partners).sum(axis=0)

    def _third_derivatives(self, partners: TensorVariable) -> TensorVariable:
        """Rows −∇²(∇log p)[q_b, w_b], with the w_b the rows of ``partners``."""
        first, second = self.directions
        [third] = batch([self.mixed], {first: self.vectors.T, second: partners})
        return -finite_or_zero(third)


class SumMetric(Metric):
    """The sum of metrics: their matrices and their contractions add up."""

    def __init__(self, terms: Sequence[Metric]):
        self.x = terms[0].x
        self.terms = terms

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Sum of the terms' products."""
        return pt.add(*[term.products(seeds) for term in self.terms])

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """Sum of the terms' contractions."""
        return sum_present([term.divergence(rows) for term in self.terms])

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """Sum of the terms' gradients."""
        return sum_present([term.log_det_gradient(rows) for term in self.terms])


class FlooredMetric(Metric):
    r"""A metric that stays positive definite in directions without information.

    :math:`G + \delta\, \mathrm{diag}(G_{ii} + 1)` with δ a few thousand rounding errors:
    out of sight wherever a parameter is identified, enough for a Cholesky factor where none
    is. The floor's own derivative, as small, is left out of the contractions.
    """

    def __init__(self, metric: Metric):
        self.x = metric.x
        self.metric = metric

    def products(self, seeds: TensorVariable) -> TensorVariable:
        """Rows of G + δ diag(G_ii + 1), for seeds that single out every element."""
        products = self.metric.products(seeds)
        delta = _floor(products.dtype)
        diagonal = (seeds * products).sum(axis=0)
        return products + delta * seeds * (diagonal + 1.0)

    def divergence(self, rows: TensorVariable) -> TensorVariable | None:
        """The metric's own."""
        return self.metric.divergence(rows)

    def log_det_gradient(self, rows: TensorVariable) -> TensorVariable | None:
        """The metric's own."""
        return self.metric.log_det_gradient(rows)


def _floor(dtype: np.dtype | str) -> float:
    return 4096 * float(np.finfo(dtype).eps)


def is_floored(pivots: np.ndarray, diagonal: np.ndarray) -> bool:
    r"""Whether a floored metric has a direction in which the floor is all there is.

    The information on an element that the elements before it leave over is :math:`L_{ii}^2`.
    If a direction v ending at i has none, it is the floor's,
    :math:`\delta \sum_j (G_{jj} + 1) v_j^2 / v_i^2`: some d times
    :math:`\delta G_{ii}` where v weighs its elements alike, and δ for an element alone.

    Parameters
    ----------
    pivots, diagonal : ndarray
        :math:`L_{ii}^2` and :math:`G_{ii}`, of `Factorization.diagonals`.
    """
    delta, eps = _floor(pivots.dtype), np.finfo(pivots.dtype).eps
    # Single precision cannot tell a floored direction from strong correlation.
    relative = min(4.0 * len(pivots) * delta, math.sqrt(eps))
    return bool((pivots <= relative * diagonal + 2.0 * delta).any())


def _by_differences(graphs: Sequence[TensorVariable]) -> bool:
    # Batching a loop from outside is slow, and pytensor 2 then compiles the model's own loop,
    # which cannot be differentiated afterwards.
    return has_loop(graphs) or has_opaque_op(graphs)


def _difference_step(graphs: Sequence[TensorVariable], x: TensorVariable) -> float:
    # Solvers and simulations from elsewhere are rarely exact to more than six digits.
    return 1e-3 if has_opaque_op(graphs) else float(np.cbrt(np.finfo(x.dtype).eps))


def _neighbours(x: TensorVariable, rows: TensorVariable, step: float) -> TensorVariable:
    return pt.concatenate([x + step * rows, x - step * rows])


def _is_zero(derivative: TensorVariable | None, direction: TensorVariable) -> bool:
    """Whether a derivative in a direction, which is linear in it, does not depend on it."""
    return derivative is None or direction not in graph_inputs([derivative])


def _is_large(graph: TensorVariable, most: int | None) -> bool:
    return most is not None and sum(1 for _ in toposort([graph])) > most


def _spectrum(rows: TensorVariable, basis: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
    """Eigenvalues and eigenvectors of −∇²log p, from its rows along a basis of elements."""
    # Products with the identity are not for free, and of one element pytensor 3 makes an
    # indexed update that numba does not compile.
    whole = basis.type.shape[0] == basis.type.shape[1]
    # Branches of a switch that are not taken may have no second derivative.
    rows = finite_or_zero(rows)
    hessian = rows if whole else rows @ basis.T
    eigenvalues, vectors = pt.linalg.eigh(-0.5 * (hessian + hessian.T))
    return eigenvalues, vectors if whole else basis.T @ vectors


def finite_or_zero(variable: TensorVariable) -> TensorVariable:
    """A variable with zeros in the place of what is not finite."""
    return pt.switch(pt.abs(variable) < np.inf, variable, 0.0)


def _identity(x: TensorVariable) -> TensorVariable:
    # A constant, so that what is known before sampling is folded away before sampling.
    return pt.constant(np.eye(x.type.shape[0], dtype=x.dtype))


def _inner(left: Sequence[TensorVariable], right: Sequence[TensorVariable]) -> TensorVariable:
    """Sum of the elementwise products of two lists of arrays."""
    return sum(((a * b).sum() for a, b in zip(left, right, strict=True)), pt.constant(0.0))


MetricChoice = str | np.ndarray | Callable[[pm.Model, TensorVariable], TensorVariable]


# SoftAbs of a Hessian vanishes with it at an inflection point, where the density does
# carry on: a floor on the scale of a prior keeps proposals from leaving for the tails.
SOFTABS_FLOOR = 1e-2

# Third derivatives of a factor without a rule that are worth their time to compile: beyond it
# minutes, for a log-density of a hundred operations.
_LARGEST = 600


def build_metric(choice: MetricChoice, model: pm.Model, raveled: RaveledModel) -> Metric:
    """The metric that a user asked for, on a model."""
    x = raveled.x
    if isinstance(choice, str):
        if choice == "fisher":
            return fisher_metric(raveled)
        if choice == "softabs":
            return softabs_metric(x, raveled.logp)
        if choice == "identity":
            return ConstantMetric(x, _identity(x))
        raise ValueError(
            f"Unknown metric {choice!r}. Choose 'fisher', 'softabs', 'identity', "
            "a positive-definite array, or a function `metric(model, x)`."
        )
    if callable(choice):
        matrix = pt.as_tensor_variable(choice(model, x)).astype(x.dtype)
        kind = DifferencedExpressionMetric if _by_differences([matrix]) else ExpressionMetric
        return kind(x, matrix)
    return ConstantMetric(x, pt.as_tensor_variable(np.asarray(choice)))


def softabs_metric(x: TensorVariable, logp: TensorVariable, largest: int | None = None) -> Metric:
    """SoftAbs of a log-density's Hessian, which is taken by differences where it must be."""
    if not _by_differences([logp]):
        return SoftAbsMetric(x, logp, SOFTABS_FLOOR, largest)
    used = elements_used(logp, x)
    basis = pt.constant(np.eye(x.type.shape[0], dtype=x.dtype)[used])
    step = _difference_step([logp], x)
    slopes = gradients(logp, x, _neighbours(x, basis, step))
    rows = (slopes[: len(used)] - slopes[len(used) :]) / (2.0 * step)
    eigenvalues, vectors = _spectrum(rows, basis)
    matrix = (vectors * softabs(eigenvalues, SOFTABS_FLOOR)) @ vectors.T
    return DifferencedExpressionMetric(x, matrix)


def fisher_metric(raveled: RaveledModel) -> Metric:
    """Expected information of every factor that has a rule, SoftAbs of the others' Hessian."""
    forms: list[QuadraticForm] = []
    without_rule: list[Factor] = []
    for factor in raveled.factors:
        try:
            forms += factor_information(factor)
        except NoInformation:
            without_rule.append(factor)
            if not _by_differences([factor.logp]):
                forms += fallback_information(factor)
    terms = information_terms(raveled.x, forms)
    if without_rule:
        logp = pt.add(*[factor.logp.sum() for factor in without_rule])
        terms.append(softabs_metric(raveled.x, logp, _LARGEST))
    return FlooredMetric(SumMetric(terms))


def information_terms(x: TensorVariable, forms: Sequence[QuadraticForm]) -> list[Metric]:
    """The metrics whose sum is that of the forms, each differentiated as its graph allows."""
    differenced = [form for form in forms if _by_differences(form.coordinates)]
    plain = [form for form in forms if not _by_differences(form.coordinates)]
    terms: list[Metric] = [FisherMetric(x, plain)]
    if differenced:
        coordinates = [c for form in differenced for c in form.coordinates]
        kind = DifferencedFisherMetric if has_opaque_op(coordinates) else LoopFisherMetric
        terms.append(kind(x, differenced))
    return terms
