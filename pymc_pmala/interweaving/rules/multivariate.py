"""Standardised effects of multivariate distributions."""

from typing import Any

import pytensor.tensor as pt
from pymc.distributions.multivariate import CARRV, MvStudentTRV, ZeroSumNormalRV
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import log
from pymc_pmala.information.scatter import written_as_square
from pymc_pmala.information.shapes import without_leading_ones
from pymc_pmala.interweaving.registry import (
    Standardisation,
    location_scale,
    register_standardisation,
    sum_over,
)
from pymc_pmala.model.factors import Factor


@register_standardisation(MvNormalRV)
def mv_normal(factor: Factor) -> Standardisation:
    """MvNormal(μ, LLᵀ): z = L⁻¹(v − μ)."""
    mu, cov = factor.parameters
    return _whitened(factor.unconstrained, mu, cov)


@register_standardisation(MvStudentTRV)
def mv_student_t(factor: Factor) -> Standardisation:
    """MvStudentT(ν, μ, LLᵀ): z = L⁻¹(v − μ) has ν degrees of freedom still."""
    nu, mu, scale = factor.parameters
    return _whitened(factor.unconstrained, mu, scale, kept=(nu,))


@register_standardisation(ZeroSumNormalRV)
def zero_sum_normal(factor: Factor) -> Standardisation:
    """ZeroSumNormal(σ): z = u/σ, since the transform from u to the value is linear."""
    sigma, _ = factor.parameters
    return location_scale(factor.unconstrained, 0.0, log(sigma), form="scale")


@register_standardisation(CARRV)
def conditional_autoregression(factor: Factor) -> Standardisation:
    """CAR(μ, W, α, τ): z = √τ (v − μ) has the dependence α still."""
    mu, _, alpha, tau, _ = factor.parameters
    log_scale = -0.5 * log(without_leading_ones(tau, 0))
    if log_scale.ndim:
        log_scale = log_scale[..., None]
    mu = without_leading_ones(mu, 1)
    return location_scale(factor.unconstrained, mu, log_scale, kept=(alpha,))


def _whitened(
    effects: TensorVariable, mu: TensorVariable, cov: TensorVariable, kept: tuple[Any, ...] = ()
) -> Standardisation:
    """Return z = L⁻¹(v − μ), or z = Mᵀ(v − μ) for a precision matrix MMᵀ."""
    mu, cov = without_leading_ones(mu, 1), without_leading_ones(cov, 2)
    if cov.owner is not None and cov.owner.op == pt.linalg.inv:
        chol, transposed = _cholesky(cov.owner.inputs[0]), True
    else:
        chol, transposed = _cholesky(cov), False

    def standardise(u: TensorVariable, mu: TensorVariable, chol: TensorVariable) -> TensorVariable:
        return _times(chol.mT, u - mu) if transposed else _solve(chol, u - mu, lower=True)

    def restore(z: TensorVariable, mu: TensorVariable, chol: TensorVariable) -> TensorVariable:
        return mu + (_solve(chol.mT, z, lower=False) if transposed else _times(chol, z))

    def log_jacobian(mu: TensorVariable, chol: TensorVariable) -> TensorVariable:
        logs = pt.log(pt.abs(pt.diagonal(chol, axis1=-2, axis2=-1)))
        return (-1.0 if transposed else 1.0) * sum_over(logs, effects)

    return Standardisation((mu, chol), standardise, restore, log_jacobian, kept, "multivariate")


def _cholesky(matrix: TensorVariable) -> TensorVariable:
    """Return the factor L of LLᵀ, the model's own if it has written the matrix so."""
    root = written_as_square(matrix)
    if root is not None and getattr(root.tag, "lower_triangular", False):
        return root
    return pt.linalg.cholesky(matrix, lower=True)


def _times(matrix: TensorVariable, vectors: TensorVariable) -> TensorVariable:
    """Return Mv for all vectors v along the last axis."""
    if matrix.ndim == 2:
        return vectors @ matrix.mT
    return (matrix @ vectors[..., None])[..., 0]


def _solve(matrix: TensorVariable, vectors: TensorVariable, lower: bool) -> TensorVariable:
    """Return M⁻¹v for a triangular matrix and all vectors v along the last axis."""
    if matrix.ndim == 2 and vectors.ndim == 2:
        return pt.linalg.solve_triangular(matrix, vectors.mT, lower=lower).mT
    if matrix.ndim == 2 and vectors.ndim == 1:
        return pt.linalg.solve_triangular(matrix, vectors, lower=lower, b_ndim=1)
    return pt.linalg.solve_triangular(matrix, vectors[..., None], lower=lower)[..., 0]
