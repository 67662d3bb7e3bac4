"""Expected information of multivariate distributions, in closed form."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import transforms
from pymc.distributions.multivariate import (
    CARRV,
    ICARRV,
    KroneckerNormalRV,
    LKJCorrRV,
    MatrixNormalRV,
    MvStudentTRV,
    StickBreakingWeightsRV,
    WishartRV,
    ZeroSumNormalRV,
    _LKJCholeskyCovRV,
)
from pymc.distributions.transforms import _default_transform
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
from pytensor import config
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Apply
from pytensor.scalar import basic as scalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.basic import DirichletRV, MultinomialRV, MvNormalRV
from pytensor.tensor.special import Softmax
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.factors import distribution_parameters
from pymc_pmala.information.links import log
from pymc_pmala.information.registry import (
    Factor,
    Information,
    NoInformation,
    QuadraticForm,
    factor_information,
    register_information,
)
from pymc_pmala.information.special import trigamma

__all__ = ["nested_information"]


# Normal and Student-t


@register_information(MvNormalRV)
def mv_normal(factor: Factor) -> list[Information]:
    """MvNormal(μ, Σ): Σ⁻¹ on v − μ; on Σ the form ½ tr(Σ⁻¹dΣ Σ⁻¹dΣ)."""
    mu, cov = factor.parameters
    return _multivariate_normal(factor, mu, cov)


@register_information(KroneckerNormalRV)
def kronecker_normal(factor: Factor) -> list[Information]:
    """KroneckerNormal(μ, σ, K₁, K₂, …): a multivariate normal with Σ = ⊗ K_i + σ² I."""
    mu, sigma, *covs = factor.parameters
    cov = reduce(pt.linalg.kron, [_without_leading_ones(c, 2) for c in covs])
    sigma = _without_leading_ones(sigma, 0)
    return _multivariate_normal(factor, mu, cov + sigma**2 * pt.eye(cov.shape[-1]))


@register_information(MvStudentTRV)
def mv_student_t(factor: Factor) -> list[Information]:
    """MvStudentT(ν, μ, Σ) in k dimensions (Lange, Little & Taylor 1989, appendix B).

    With w = (ν + k)/(ν + k + 2) and S = Σ⁻¹dΣ: w Σ⁻¹ on v − μ;
    ½ w [tr S² − (tr S)²/(ν + k)] on Σ; −tr S/((ν + k)(ν + k + 2)) between Σ and ν;
    on ν, ¼ [ψ'(ν/2) − ψ'((ν + k)/2)] − k(ν + k + 4)/(2ν(ν + k)(ν + k + 2)).
    """
    nu, mu, scale = factor.parameters
    nu, mu = _float(_without_leading_ones(nu, 0)), _without_leading_ones(mu, 1)
    scatter = _scatter(scale)
    k = _float(factor.value.shape[-1])
    if nu.ndim:
        raise NoInformation(f"{factor.name!r}: no rule for a batch of degrees of freedom.")
    weight = (nu + k) / (nu + k + 2.0)
    cross = -nu / ((nu + k) * (nu + k + 2.0))
    copies = _copies(factor.value, 1, scatter.coordinate, 2)
    about_nu = _copies(factor.value, 1, nu, 0) * _log_nu_information(nu, k)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        change = scatter.relative(tangents[0])
        trace = _trace(change)
        along = cross * tangents[1] - 0.5 * weight / (nu + k) * trace
        return [
            copies * scatter.pull(0.5 * weight * change + _diagonal(along, scatter.precision)),
            copies * cross * trace.sum() + about_nu * tangents[1],
        ]

    return [
        _location(factor, mu, weight * scatter.precision),
        Information([scatter.coordinate, log(nu)], product),
    ]


def _log_nu_information(nu: TensorVariable, k: TensorVariable) -> TensorVariable:
    """Information of a multivariate t about log ν; its leading term k(k + 6)/(2ν²) when large.

    The closed form is a difference of order ν⁻⁴ between terms of order ν⁻¹.
    """
    bounded = pt.minimum(nu, 1e3)
    trigammas = trigamma(0.5 * bounded) - trigamma(0.5 * (bounded + k))
    rational = 2.0 * k * (bounded + k + 4.0) / (bounded * (bounded + k) * (bounded + k + 2.0))
    exact = 0.25 * bounded**2 * (trigammas - rational)
    return pt.switch(nu < 1e3, exact, 0.5 * k * (k + 6.0) / nu**2)


@register_information(MatrixNormalRV)
def matrix_normal(factor: Factor) -> list[Information]:
    """MatrixNormal(μ, U, V), m × n: U⁻¹ dδ V⁻¹ on δ = v − μ.

    With R = U⁻¹dU and C = V⁻¹dV: ½ [n tr R² + m tr C² + 2 tr R tr C] on U and V.
    """
    mu, row_chol, col_chol = factor.parameters
    rows = _scatter_of_cholesky(_without_leading_ones(row_chol, 2))
    cols = _scatter_of_cholesky(_without_leading_ones(col_chol, 2))
    value = factor.value
    if value.ndim > 2:
        raise NoInformation(f"{factor.name!r}: no rule for a batch of matrices.")
    m, n = (_float(length) for length in value.shape)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        row, col = rows.relative(tangents[0]), cols.relative(tangents[1])
        return [
            rows.pull(0.5 * n * row + _diagonal(0.5 * _trace(col), row)),
            cols.pull(0.5 * m * col + _diagonal(0.5 * _trace(row), col)),
        ]

    return [
        Information(value - mu, lambda t: [rows.precision @ t[0] @ cols.precision]),
        Information([rows.coordinate, cols.coordinate], product),
    ]


@register_information(ZeroSumNormalRV)
def zero_sum_normal(factor: Factor) -> list[Information]:
    """ZeroSumNormal(σ): 1/σ² on v, which has Π(n_i − 1) degrees of freedom; 2 of each on log σ."""
    sigma, _ = factor.parameters
    log_sigma = log(sigma)
    free = 1.0
    for axis in range(-factor.op.ndim_supp, 0):
        n = _float(factor.value.shape[axis])
        free = free * (n - 1.0) / n
    return [
        Information(factor.value, pt.exp(-2.0 * log_sigma)),
        Information(log_sigma, 2.0 * free),
    ]


@register_information(CARRV)
def conditional_autoregression(factor: Factor) -> list[Information]:
    """CAR(μ, W, α, τ): Q = τ(D − αW) on v − μ.

    With λ the eigenvalues of D^{-½} W D^{-½} and r = λ/(1 − αλ): n/2 on log τ,
    ½ Σ r² on α, −½ Σ r between them.
    """
    mu, adjacency, alpha, tau, _ = factor.parameters
    adjacency = _numbers(factor, adjacency)
    degree = adjacency.sum(axis=0)
    eigenvalues = np.linalg.eigvalsh(adjacency / np.sqrt(np.outer(degree, degree)))
    mu = _without_leading_ones(mu, 1)
    alpha, tau = (_float(_without_leading_ones(p, 0)) for p in (alpha, tau))
    log_tau = log(tau)
    precision = pt.exp(log_tau) * (np.diag(degree) - alpha * adjacency)
    ratio = eigenvalues / (1.0 - alpha * eigenvalues)
    copies = _copies(factor.value, 1, tau, 0)
    weight = [
        [0.5 * len(degree), -0.5 * ratio.sum()],
        [-0.5 * ratio.sum(), 0.5 * (ratio**2).sum()],
    ]

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        return [copies * sum(w * t for w, t in zip(row, tangents, strict=True)) for row in weight]

    return [
        _location(factor, mu, precision),
        Information([log_tau, alpha], product),
    ]


@register_information(ICARRV)
def intrinsic_conditional_autoregression(factor: Factor) -> list[Information]:
    """ICAR(W, σ, s): (D − W)/σ² + 11ᵀ/(s n)² on v, and 2(n − 1) on log σ.

    The density is improper, and PyMC leaves out its factor σ^{1−n}, so that the expectation
    on log σ is that of the curvature under the proper part of the field.
    """
    adjacency, sigma, zero_sum = factor.parameters
    adjacency = _numbers(factor, adjacency)
    n = len(adjacency)
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    log_sigma = log(_without_leading_ones(sigma, 0))
    total = (n * _without_leading_ones(zero_sum, 0)) ** -2
    precision = pt.exp(-2.0 * log_sigma) * laplacian + total
    return [
        Information(factor.value, lambda t: [t[0] @ precision]),
        Information(log_sigma, lambda t: [2.0 * (n - 1) * t[0]]),
    ]


# Simplexes


@register_information(MultinomialRV)
def multinomial(factor: Factor) -> list[Information]:
    """Multinomial(n, p): n (diag p − p pᵀ) on log p, or on the logits of p."""
    n, p = factor.parameters
    p = _without_leading_ones(p, 1)
    n = _float(n)
    trials = n + pt.zeros(factor.value.shape[:-1])
    trials = _sum_to_batch(trials, p.ndim - 1, p.type.shape[:-1])[..., None]

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        change = p * tangents[0]
        return [trials * (change - p * change.sum(axis=-1, keepdims=True))]

    return [Information(_logits(p), product)]


@register_information(DirichletRV)
def dirichlet(factor: Factor) -> list[Information]:
    """Dirichlet(a), with a₀ = Σ a_i.

    On a: diag ψ'(a) − ψ'(a₀) 11ᵀ. Free, also (a₀ diag a − a aᵀ)/(a₀ + 1) on the logits of
    the value, and aaᵀ/a₀ − diag a between those and log a.
    """
    (a,) = factor.parameters
    a = _float(_without_leading_ones(a, 1))
    copies = _copies(factor.value, 1, a, 1) if factor.observed else 1.0
    logits = _logits(factor.value)
    log_a = log(a) if factor.observed else pt.broadcast_to(log(a), logits.shape)
    total = a.sum(axis=-1, keepdims=True)

    def about_a(change: TensorVariable) -> TensorVariable:
        change = a * change
        common = trigamma(total) * change.sum(axis=-1, keepdims=True)
        return copies * a * (trigamma(a) * change - common)

    def centred(change: TensorVariable) -> TensorVariable:
        return a * change - a / total * (a * change).sum(axis=-1, keepdims=True)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        value, change = tangents
        return [
            total / (total + 1.0) * centred(value) - centred(change),
            about_a(change) - centred(value),
        ]

    if factor.observed:
        return [Information(log_a, lambda t: [about_a(t[0])])]
    return [Information([logits, log_a], product)]


@register_information(StickBreakingWeightsRV)
def stick_breaking_weights(factor: Factor) -> list[Information]:
    """StickBreakingWeights(α): fractions v_k ~ Beta(1, α) of what is left of the stick.

    On logit v_k and log α: [[α/(2 + α), α/(1 + α)], [α/(1 + α), 1]].
    """
    alpha, _ = factor.parameters
    alpha = _float(alpha)
    value = factor.value
    left = pt.cumsum(value[..., ::-1], axis=-1)[..., ::-1]
    log_odds = _safe_log(value[..., :-1]) - _safe_log(left[..., 1:])
    cross = alpha / (1.0 + alpha)
    weight = [[alpha / (2.0 + alpha), cross], [cross, 1.0]]
    weight = [[pt.atleast_1d(pt.as_tensor(w)[..., None]) for w in row] for row in weight]
    return _over(factor, log_odds, [Information([log_odds, log(alpha)[..., None]], weight)])


# Covariance and correlation matrices


@register_information(_LKJCholeskyCovRV)
def lkj_cholesky_cov(factor: Factor) -> list[Information]:
    """LKJCholeskyCov(n, η, sd_dist): that of the standard deviations, and that of LKJCorr."""
    n, eta, sd_dist = factor.parameters
    n = int(_numbers(factor, n))
    rows, _ = np.tril_indices(n)
    same_row = (rows[:, None] == np.arange(n)).astype(config.floatX)
    log_sd = 0.5 * pt.log(factor.value**2 @ same_row)
    return [
        *nested_information(factor, sd_dist, pt.exp(log_sd)),
        *_correlation_information(factor.value, n, eta),
    ]


@register_information(LKJCorrRV)
def lkj_corr(factor: Factor) -> list[Information]:
    """LKJCorr(n, η): independent partial correlations z of order j, z = 2 Beta(b, b) − 1.

    With b = η + (n − 2 − j)/2: 4b²/(2b + 1) on artanh z, 2ψ'(b) − 4ψ'(2b) on η.
    """
    n, eta = factor.parameters
    n = int(_numbers(factor, n))
    value = factor.value
    if factor.op.ndim_supp == 1:  # PyMC 5: the correlations above the diagonal
        upper = np.zeros((n, n), dtype=int)
        upper[np.triu_indices(n, 1)] = np.arange(n * (n - 1) // 2)
        value = pt.linalg.cholesky(value[..., upper + upper.T] * (1 - np.eye(n)) + np.eye(n))
    elif factor.unconstrained.ndim < value.ndim:
        return _correlation_information(_before_normalisation(factor.unconstrained, n), n, eta)
    return _correlation_information(value[(..., *np.tril_indices(n))], n, eta)


def _before_normalisation(unconstrained: TensorVariable, n: int) -> TensorVariable:
    """Packed rows (u, 1) that CholeskyCorrTransform divides by their norm.

    It puts u in its place by an Op that has no forward derivative, hence this detour: the
    order of its elements is found by transforming a matrix of their numbers.
    """
    count = n * (n - 1) // 2
    numbered = np.eye(n)
    numbered[np.tril_indices(n, -1)] = np.arange(count)
    transform = transforms.CholeskyCorrTransform(n)
    [order] = constant_fold([transform.forward(pt.constant(numbered))])
    rows, cols = np.tril_indices(n)
    ones = pt.ones((*unconstrained.shape[:-1], len(rows)))
    return ones[..., np.flatnonzero(rows > cols)].set(unconstrained[..., np.argsort(order)])


@register_information(WishartRV)
def wishart(factor: Factor) -> list[Information]:
    """Wishart(ν, V).

    Observed: ½ ν tr(V⁻¹dV V⁻¹dV) on V. Free, in Bartlett's decomposition
    chol(V)⁻¹ chol(X) = A: 1 on A_ij, i > j, and 2(ν − i) on log A_ii, i = 0, 1, ….
    """
    nu, scale = factor.parameters
    nu = _float(_without_leading_ones(nu, 0))
    scale = _without_leading_ones(scale, 2)
    # Before PyMC 6 the parameter is V, afterwards its Cholesky factor.
    by_cholesky = hasattr(factor.op, "extended_signature")
    scatter = _scatter_of_cholesky(scale) if by_cholesky else _scatter(scale)
    if nu.ndim or scale.ndim > 2:
        raise NoInformation(f"{factor.name!r}: no rule for a batch of Wishart parameters.")
    if factor.observed:
        copies = _copies(factor.value, 2, scale, 2)
        weight = 0.5 * nu * copies
        product = lambda t: [scatter.pull(weight * scatter.relative(t[0]))]  # noqa: E731
        return [Information(scatter.coordinate, product)]
    chol = _written_as_square(factor.value)
    if chol is None or not by_cholesky:
        raise NoInformation(f"{factor.name!r}: no rule without a Cholesky transform.")
    bartlett = pt.linalg.solve_triangular(scale, chol, lower=True)
    below = pt.tril(bartlett, -1)
    log_diagonal = pt.log(pt.diagonal(bartlett, axis1=-2, axis2=-1))
    freedom = nu - pt.arange(chol.shape[-1])
    return [
        Information(below, lambda t: [t[0]]),
        Information(log_diagonal, lambda t: [2.0 * freedom * t[0]]),
    ]


def _correlation_information(
    cholesky: TensorVariable, n: int, eta: TensorVariable
) -> list[Information]:
    """Information of LKJ, given the rows of a Cholesky factor up to their scale.

    ``cholesky`` is packed by rows. The partial correlation of variables i and j given those
    before j is L_ij over the norm of (L_ij, …, L_ii); its artanh is the arsinh of L_ij over
    the norm of what comes after.
    """
    rows, cols = np.tril_indices(n)
    below = np.flatnonzero(rows > cols)
    after = (rows[:, None] == rows[below]) & (cols[:, None] > cols[below])
    norm = pt.sqrt(cholesky**2 @ after.astype(config.floatX))
    order = cols[below]
    shape = _float(eta) + 0.5 * (n - 2 - order)
    weight = 4.0 * shape**2 / (2.0 * shape + 1.0)
    about_eta = (2.0 * trigamma(shape) - 4.0 * trigamma(2.0 * shape)).sum()
    return [
        Information(pt.arcsinh(cholesky[..., below] / norm), lambda t: [weight * t[0]]),
        Information(_float(eta), lambda t: [about_eta * t[0]]),
    ]


# Distributions within distributions


def nested_information(
    factor: Factor, distribution: TensorVariable, value: TensorVariable
) -> list[Information]:
    """Information of a distribution that is a part of another, at a given value of it.

    Parameters
    ----------
    factor : Factor
        The whole.
    distribution : TensorVariable
        A random variable outside of the model, whose inputs are functions of the sampled
        values.
    value : TensorVariable
        Its value, data or a function of the sampled values.
    """
    node = distribution.owner
    unconstrained, logp = value, pm.logp(distribution, value)
    transform = _default_transform(node.op, distribution)
    if transform is not None and not factor.observed:
        unconstrained = transform.forward(value, *node.inputs)
        logp = logp + transform.log_jac_det(unconstrained, *node.inputs)
    part = replace(
        factor,
        op=node.op,
        value=value,
        unconstrained=unconstrained,
        parameters=tuple(distribution_parameters(distribution)),
        logp=logp,
        scale=pt.constant(1.0),
    )
    return [Information(form.coordinates, form.product) for form in factor_information(part)]


def _over(
    factor: Factor, value: TensorVariable, informations: Sequence[Information]
) -> list[Information]:
    """Elementwise information, whose elements are those of ``value``."""
    part = replace(factor, value=value, scale=pt.constant(1.0))
    forms = [QuadraticForm(information, part) for information in informations]
    return [Information(form.coordinates, form.product) for form in forms]


# Covariance matrices in the form in which the model gives them


class _Scatter(NamedTuple):
    """A covariance matrix Σ as a function of the matrix by which the model gives it.

    Attributes
    ----------
    coordinate : TensorVariable
        Σ itself, its Cholesky factor or its inverse.
    precision : TensorVariable
        Σ⁻¹.
    relative : callable
        From a tangent of the coordinate to a matrix similar to S = Σ⁻¹dΣ.
    pull : callable
        Its adjoint, so that ``pull(½ relative(d))`` is the gradient in d of ¼ tr S².
    """

    coordinate: TensorVariable
    precision: TensorVariable
    relative: Callable[[TensorVariable], TensorVariable]
    pull: Callable[[TensorVariable], TensorVariable]


def _multivariate_normal(
    factor: Factor, mu: TensorVariable, cov: TensorVariable
) -> list[Information]:
    mu = _without_leading_ones(mu, 1)
    scatter = _scatter(cov)
    weight = 0.5 * _copies(factor.value, 1, scatter.coordinate, 2)
    return [
        _location(factor, mu, scatter.precision),
        Information(scatter.coordinate, lambda t: [scatter.pull(weight * scatter.relative(t[0]))]),
    ]


def _location(factor: Factor, mu: TensorVariable, precision: TensorVariable) -> Information:
    """Σ⁻¹ on v − μ; on μ alone, once for all the elements that share it, if v is data."""
    coordinate, copies = factor.value - mu, 1.0
    if factor.observed and precision.ndim == 2:
        coordinate, copies = mu, _copies(factor.value, 1, mu, 1)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        return [copies * _times_matrix(tangents[0], precision)]

    return Information(coordinate, product)


def _scatter(cov: TensorVariable) -> _Scatter:
    """Σ in terms of what the model computes it from: L of LLᵀ, T of T⁻¹, or Σ itself."""
    cov = _without_leading_ones(cov, 2)
    chol = _written_as_cholesky(cov)
    if chol is not None:
        return _scatter_of_cholesky(chol)
    if cov.owner is not None and cov.owner.op == pt.linalg.inv:
        tau = cov.owner.inputs[0]
        sigma = _inverse(tau)
        return _Scatter(tau, tau, lambda d: -sigma @ d, lambda r: -r @ sigma)
    precision = _inverse(cov)
    return _Scatter(cov, precision, lambda d: precision @ d, lambda r: r @ precision)


def _scatter_of_cholesky(chol: TensorVariable) -> _Scatter:
    inverse = pt.linalg.solve_triangular(chol, pt.eye(chol.shape[-1]), lower=True)
    inverse = _with_derivative_of_inverse(inverse, chol)

    def relative(tangent: TensorVariable) -> TensorVariable:
        half = inverse @ tangent
        return half + half.mT

    return _Scatter(chol, inverse.mT @ inverse, relative, lambda r: 2.0 * inverse.mT @ r)


def _inverse(matrix: TensorVariable) -> TensorVariable:
    """Inverse of a positive-definite matrix by its Cholesky factor; NaN if it has none."""
    chol = pt.linalg.cholesky(matrix, lower=True)
    half = pt.linalg.solve_triangular(chol, pt.eye(matrix.shape[-1]), lower=True)
    return _with_derivative_of_inverse(half.mT @ half, matrix)


def _with_derivative_of_inverse(inverse: TensorVariable, matrix: TensorVariable) -> TensorVariable:
    """``inverse``, with dA⁻¹ = −A⁻¹ dA A⁻¹ instead of the derivative of how it was computed.

    Two products per tangent, where the derivatives of a Cholesky factorisation and of a
    triangular solve take many more. Right for first derivatives only, which is what the
    product with K is differentiated for.
    """
    inverse = disconnected_grad(inverse)
    return inverse - inverse @ (matrix - disconnected_grad(matrix)) @ inverse


def _written_as_cholesky(cov: TensorVariable) -> TensorVariable | None:
    """L, if the matrix is written L Lᵀ with L known to be lower triangular."""
    root = _written_as_square(cov)
    return root if root is not None and getattr(root.tag, "lower_triangular", False) else None


def _written_as_square(matrix: TensorVariable) -> TensorVariable | None:
    """B, if the matrix is written B Bᵀ."""
    node = matrix.owner
    if node is None:
        return None
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    if not isinstance(op, Dot):
        return None
    left, right = node.inputs
    if right.owner is None or not isinstance(right.owner.op, DimShuffle):
        return None
    transposed = (*range(left.ndim - 2), left.ndim - 1, left.ndim - 2)
    same = right.owner.inputs[0] is left and tuple(right.owner.op.new_order) == transposed
    return left if same else None


# Logits


def _logits(p: TensorVariable) -> TensorVariable:
    """Log p up to a term that its elements share: the logits, where p is made from them."""
    node = p.owner
    if node is not None and isinstance(node.op, Softmax):
        return node.inputs[0]
    shared = _is_elemwise(node, scalar.TrueDiv) and node.inputs[1].type.shape[-1:] == (1,)
    if not shared or not _is_elemwise(node.inputs[0].owner, scalar.Exp):
        return _safe_log(p)
    [logits] = node.inputs[0].owner.inputs
    if _is_elemwise(logits.owner, scalar.Sub) and logits.owner.inputs[1].type.shape[-1:] == (1,):
        return logits.owner.inputs[0]
    return logits


def _safe_log(p: TensorVariable) -> TensorVariable:
    """Log p, with a derivative of zero where p has all but underflowed, its cube included."""
    return pt.log(pt.maximum(p, np.finfo(config.floatX).tiny ** 0.3))


def _is_elemwise(node: Apply | None, scalar_type: type) -> bool:
    if node is None or not isinstance(node.op, Elemwise):
        return False
    return isinstance(node.op.scalar_op, scalar_type)


# Shapes


def _without_leading_ones(variable: TensorVariable, ndim: int) -> TensorVariable:
    """Drop the batch axes that PyMC adds to parameters that have none."""
    extra = 0
    while variable.ndim - extra > ndim and variable.type.shape[extra] == 1:
        extra += 1
    if not extra:
        return variable
    node = variable.owner
    padded = ("x",) * extra + tuple(range(variable.ndim - extra))
    if node is not None and isinstance(node.op, DimShuffle) and node.op.new_order == padded:
        return node.inputs[0]
    return pt.squeeze(variable, axis=tuple(range(extra)))


def _copies(
    value: TensorVariable, value_core: int, parameter: TensorVariable, core: int
) -> TensorVariable | float:
    """How many elements of the random variable share each element of a parameter."""
    batch = value.ndim - value_core
    missing = batch - (parameter.ndim - core)
    copies = 1.0
    for axis in range(batch):
        if axis < missing or parameter.type.shape[axis - missing] == 1:
            copies = copies * _float(value.shape[axis])
    return copies


def _sum_to_batch(
    weight: TensorVariable, ndim: int, shape: tuple[int | None, ...]
) -> TensorVariable:
    """Sum over the batch axes that a parameter with this batch shape does not have."""
    missing = weight.ndim - ndim
    if missing > 0:
        weight = weight.sum(axis=tuple(range(missing)))
    for axis, length in enumerate(shape):
        if length == 1:
            weight = weight.sum(axis=axis, keepdims=True)
    return weight


def _times_matrix(vectors: TensorVariable, matrix: TensorVariable) -> TensorVariable:
    """Symmetric matrices times vectors, either of them batched."""
    if matrix.ndim == 2:
        return vectors @ matrix
    return (vectors[..., None, :] @ matrix)[..., 0, :]


def _trace(matrix: TensorVariable) -> TensorVariable:
    return pt.diagonal(matrix, axis1=-2, axis2=-1).sum(axis=-1)


def _diagonal(number: TensorVariable, like: TensorVariable) -> TensorVariable:
    """The identity, of the size of another matrix, times numbers."""
    return number[..., None, None] * pt.eye(like.shape[-1])


def _float(variable: TensorVariable) -> TensorVariable:
    return pt.cast(variable, config.floatX)


def _numbers(factor: Factor, parameter: TensorVariable) -> np.ndarray:
    """The numbers of a parameter that must be constant."""
    try:
        [numbers] = constant_fold([parameter])
    except NotConstantValueError as error:
        raise NoInformation(f"{factor.name!r}: {parameter} is not constant.") from error
    return np.asarray(numbers)
