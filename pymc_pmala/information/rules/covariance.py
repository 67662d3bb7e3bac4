"""Expected information of covariance and correlation matrices, in closed form."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions import transforms
from pymc.distributions.multivariate import LKJCorrRV, WishartRV, _LKJCholeskyCovRV
from pymc.pytensorf import constant_fold
from pytensor import config
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.parts import nested_information
from pymc_pmala.information.registry import Information, NoInformation, register_information
from pymc_pmala.information.scatter import scatter_of, scatter_of_cholesky, written_as_square
from pymc_pmala.information.shapes import (
    as_float,
    constant_numbers,
    copies_of,
    without_leading_ones,
)
from pymc_pmala.information.special import trigamma
from pymc_pmala.model.factors import Factor


@register_information(_LKJCholeskyCovRV)
def lkj_cholesky_cov(factor: Factor) -> list[Information]:
    """LKJCholeskyCov(n, η, sd_dist): that of the standard deviations plus that of LKJCorr."""
    n, eta, sd_dist = factor.parameters
    n = int(constant_numbers(factor, n))
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
    n = int(constant_numbers(factor, n))
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

    The transform fills in u by an Op without a forward derivative. To avoid it, the order of
    the elements is found by transforming a matrix of their indices.
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

    If observed, ½ ν tr(V⁻¹dV V⁻¹dV) on V. If free, in Bartlett's decomposition
    chol(V)⁻¹ chol(X) = A, 1 on A_ij, i > j, and 2(ν − i) on log A_ii, i = 0, 1, ….
    """
    nu, scale = factor.parameters
    nu = as_float(without_leading_ones(nu, 0))
    scale = without_leading_ones(scale, 2)
    # Before PyMC 6 the parameter is V; from PyMC 6 on it is its Cholesky factor.
    by_cholesky = hasattr(factor.op, "extended_signature")
    scatter = scatter_of_cholesky(scale) if by_cholesky else scatter_of(scale)
    if nu.ndim or scale.ndim > 2:
        raise NoInformation(f"{factor.name!r}: there is no rule for batched Wishart parameters.")
    if factor.observed:
        copies = copies_of(factor.value, 2, scale, 2)
        weight = 0.5 * nu * copies
        product = lambda t: [scatter.pull(weight * scatter.relative(t[0]))]  # noqa: E731
        return [Information(scatter.coordinate, product)]
    chol = written_as_square(factor.value)
    if chol is None or not by_cholesky:
        raise NoInformation(f"{factor.name!r}: the rule requires a Cholesky transform.")
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
    """Information of LKJ, given the rows of a Cholesky factor up to a scale.

    ``cholesky`` is packed by rows. The partial correlation of variables i and j given those
    before j is L_ij divided by the norm of (L_ij, …, L_ii). Its artanh is the arsinh of L_ij
    divided by the norm of the elements after it.
    """
    rows, cols = np.tril_indices(n)
    below = np.flatnonzero(rows > cols)
    after = (rows[:, None] == rows[below]) & (cols[:, None] > cols[below])
    norm = pt.sqrt(cholesky**2 @ after.astype(config.floatX))
    order = cols[below]
    shape = as_float(eta) + 0.5 * (n - 2 - order)
    weight = 4.0 * shape**2 / (2.0 * shape + 1.0)
    about_eta = (2.0 * trigamma(shape) - 4.0 * trigamma(2.0 * shape)).sum()
    return [
        Information(pt.arcsinh(cholesky[..., below] / norm), lambda t: [weight * t[0]]),
        Information(as_float(eta), lambda t: [about_eta * t[0]]),
    ]
