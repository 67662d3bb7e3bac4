"""Expected information of multivariate normal and Student-t distributions, in closed form."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.multivariate import (
    CARRV,
    ICARRV,
    KroneckerNormalRV,
    MatrixNormalRV,
    MvStudentTRV,
    ZeroSumNormalRV,
)
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import at_most, log
from pymc_pmala.information.registry import Information, NoInformation, register_information
from pymc_pmala.information.scatter import diagonal, scatter_of, scatter_of_cholesky, trace
from pymc_pmala.information.shapes import (
    as_float,
    constant_numbers,
    copies_of,
    times_matrix,
    without_leading_ones,
)
from pymc_pmala.information.special import trigamma
from pymc_pmala.model.factors import Factor


@register_information(MvNormalRV)
def mv_normal(factor: Factor) -> list[Information]:
    """MvNormal(μ, Σ): Σ⁻¹ on v − μ, and the form ½ tr(Σ⁻¹dΣ Σ⁻¹dΣ) on Σ."""
    mu, cov = factor.parameters
    return _multivariate_normal(factor, mu, cov)


@register_information(KroneckerNormalRV)
def kronecker_normal(factor: Factor) -> list[Information]:
    """KroneckerNormal(μ, σ, K₁, K₂, …): a multivariate normal with Σ = ⊗ K_i + σ² I."""
    mu, sigma, *covs = factor.parameters
    cov = reduce(pt.linalg.kron, [without_leading_ones(c, 2) for c in covs])
    sigma = without_leading_ones(sigma, 0)
    return _multivariate_normal(factor, mu, cov + sigma**2 * pt.eye(cov.shape[-1]))


@register_information(MvStudentTRV)
def mv_student_t(factor: Factor) -> list[Information]:
    """MvStudentT(ν, μ, Σ) in k dimensions (Lange, Little & Taylor 1989, appendix B).

    With w = (ν + k)/(ν + k + 2) and S = Σ⁻¹dΣ: w Σ⁻¹ on v − μ;
    ½ w [tr S² − (tr S)²/(ν + k)] on Σ; −tr S/((ν + k)(ν + k + 2)) between Σ and ν;
    ¼ [ψ'(ν/2) − ψ'((ν + k)/2)] − k(ν + k + 4)/(2ν(ν + k)(ν + k + 2)) on ν.
    If free, (ν + k)/(ν + m) Σ⁻¹ on v − μ with m = (v − μ)ᵀ Σ⁻¹ (v − μ), as for a StudentT.
    """
    nu, mu, scale = factor.parameters
    nu, mu = as_float(without_leading_ones(nu, 0)), without_leading_ones(mu, 1)
    scatter = scatter_of(scale)
    k = as_float(factor.value.shape[-1])
    if nu.ndim:
        raise NoInformation(f"{factor.name!r}: there is no rule for batched degrees of freedom.")
    weight = (nu + k) / (nu + k + 2.0)
    cross = -nu / ((nu + k) * (nu + k + 2.0))
    copies = copies_of(factor.value, 1, scatter.coordinate, 2)
    about_nu = copies_of(factor.value, 1, nu, 0) * _log_nu_information(nu, k)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        change = scatter.relative(tangents[0])
        relative = trace(change)
        along = cross * tangents[1] - 0.5 * weight / (nu + k) * relative
        return [
            copies * scatter.pull(0.5 * weight * change + diagonal(along, scatter.precision)),
            copies * cross * relative.sum() + about_nu * tangents[1],
        ]

    if factor.observed:
        location = _location(factor, mu, weight * scatter.precision)
    else:
        location = _mixed_location(factor.value - mu, nu, k, scatter.precision)
    return [location, Information([scatter.coordinate, log(nu)], product)]


def _mixed_location(
    distance: TensorVariable, nu: TensorVariable, k: TensorVariable, precision: TensorVariable
) -> Information:
    """Information (ν + k)/(ν + m) Σ⁻¹ on v − μ: the precision of a scale mixture at v."""
    squared = (distance * times_matrix(distance, precision)).sum(axis=-1, keepdims=True)
    weight = (nu + k) / (nu + squared)
    return Information(distance, lambda t: [weight * times_matrix(t[0], precision)])


def _log_nu_information(nu: TensorVariable, k: TensorVariable) -> TensorVariable:
    """Information of a multivariate t about log ν.

    For large ν the leading term k(k + 6)/(2ν²) is used, because the closed form is a difference
    of order ν⁻⁴ between terms of order ν⁻¹.
    """
    bounded = at_most(nu, 1e3)
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
    rows = scatter_of_cholesky(without_leading_ones(row_chol, 2))
    cols = scatter_of_cholesky(without_leading_ones(col_chol, 2))
    value = factor.value
    if value.ndim > 2:
        raise NoInformation(f"{factor.name!r}: there is no rule for batched matrices.")
    m, n = (as_float(length) for length in value.shape)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        row, col = rows.relative(tangents[0]), cols.relative(tangents[1])
        return [
            rows.pull(0.5 * n * row + diagonal(0.5 * trace(col), row)),
            cols.pull(0.5 * m * col + diagonal(0.5 * trace(row), col)),
        ]

    return [
        Information(value - mu, lambda t: [rows.precision @ t[0] @ cols.precision]),
        Information([rows.coordinate, cols.coordinate], product),
    ]


@register_information(ZeroSumNormalRV)
def zero_sum_normal(factor: Factor) -> list[Information]:
    """ZeroSumNormal(σ): 1/σ² on v, and 2 on log σ for each of Π(n_i − 1) degrees of freedom."""
    sigma, _ = factor.parameters
    log_sigma = log(sigma)
    free = 1.0
    for axis in range(-factor.op.ndim_supp, 0):
        n = as_float(factor.value.shape[axis])
        free = free * (n - 1.0) / n
    return [
        Information(factor.value, pt.exp(-2.0 * log_sigma)),
        Information(log_sigma, 2.0 * free),
    ]


@register_information(CARRV)
def conditional_autoregression(factor: Factor) -> list[Information]:
    """CAR(μ, W, α, τ): Q = τ(D − αW) on v − μ.

    With λ the eigenvalues of D^{-½} W D^{-½} and r = λ/(1 − αλ), n/2 on log τ,
    ½ Σ r² on α and −½ Σ r between them.
    """
    mu, adjacency, alpha, tau, _ = factor.parameters
    adjacency = constant_numbers(factor, adjacency)
    degree = adjacency.sum(axis=0)
    eigenvalues = np.linalg.eigvalsh(adjacency / np.sqrt(np.outer(degree, degree)))
    mu = without_leading_ones(mu, 1)
    alpha, tau = (as_float(without_leading_ones(p, 0)) for p in (alpha, tau))
    log_tau = log(tau)
    precision = pt.exp(log_tau) * (np.diag(degree) - alpha * adjacency)
    ratio = eigenvalues / (1.0 - alpha * eigenvalues)
    copies = copies_of(factor.value, 1, tau, 0)
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

    The density is improper and PyMC omits its factor σ^{1−n}, so the information on log σ is the
    expectation of the curvature under the proper part of the field.
    """
    adjacency, sigma, zero_sum = factor.parameters
    adjacency = constant_numbers(factor, adjacency)
    n = len(adjacency)
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    log_sigma = log(without_leading_ones(sigma, 0))
    total = (n * without_leading_ones(zero_sum, 0)) ** -2
    precision = pt.exp(-2.0 * log_sigma) * laplacian + total
    return [
        Information(factor.value, lambda t: [t[0] @ precision]),
        Information(log_sigma, lambda t: [2.0 * (n - 1) * t[0]]),
    ]


def _multivariate_normal(
    factor: Factor, mu: TensorVariable, cov: TensorVariable
) -> list[Information]:
    mu = without_leading_ones(mu, 1)
    scatter = scatter_of(cov)
    weight = 0.5 * copies_of(factor.value, 1, scatter.coordinate, 2)
    return [
        _location(factor, mu, scatter.precision),
        Information(scatter.coordinate, lambda t: [scatter.pull(weight * scatter.relative(t[0]))]),
    ]


def _location(factor: Factor, mu: TensorVariable, precision: TensorVariable) -> Information:
    """Information Σ⁻¹ on v − μ.

    If v is data, it is stated on μ, and the elements that share μ are summed.
    """
    coordinate, copies = factor.value - mu, 1.0
    if factor.observed and precision.ndim == 2:
        coordinate, copies = mu, copies_of(factor.value, 1, mu, 1)

    def product(tangents: Sequence[TensorVariable]) -> list[TensorVariable]:
        return [copies * times_matrix(tangents[0], precision)]

    return Information(coordinate, product)
