"""Symbolic log-density, force and factor of the metric at a point."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.differentiation import value_and_gradient
from pymc_pmala.factorization import Factorization
from pymc_pmala.interweaving import Interweaving
from pymc_pmala.kernel.hyper_geometry import HyperGeometry, hyper_geometry
from pymc_pmala.metric import ConstantMetric, Metric
from pymc_pmala.model.target import Target

__all__ = ["DRIFTS", "SymbolicGeometry", "metric_factor", "metric_pieces", "symbolic_geometry"]

DRIFTS = ("gamma", "omega", "gradient")
"""Drifts of PMALA, of MMALA, and of the samplers without derivatives of the metric."""


class SymbolicGeometry(NamedTuple):
    """The geometry that a transition needs, as expressions in the raveled vector ``x``.

    Attributes
    ----------
    x : TensorVariable
        The point.
    logp : TensorVariable
        Log-density.
    force : TensorVariable
        The covector f with drift A f: the gradient, plus the correction of the method.
    factor : list of TensorVariable or None
        Triangular factor of the metric; None if the caller supplies a constant factor.
    log_det : TensorVariable or None
        Log |G|; not finite where the metric has no factor and has been replaced.
    half_log_det : TensorVariable or None
        Log |L|, also where the metric has been replaced.
    factorization : Factorization
        Defines the meaning of the parts of the factor.
    averaged : list of TensorVariable
        Inputs for the parts of G that have been averaged over earlier points; may be empty.
    hyper : HyperGeometry or None
        The geometry of the interweaving moves.
    """

    x: TensorVariable
    logp: TensorVariable
    force: TensorVariable
    factor: list[TensorVariable] | None
    log_det: TensorVariable | None
    half_log_det: TensorVariable | None
    factorization: Factorization
    averaged: list[TensorVariable]
    hyper: HyperGeometry | None


def symbolic_geometry(
    target: Target,
    metric: Metric,
    factorization: Factorization,
    drift: str,
    *,
    averages: bool = False,
    interweaving: Interweaving | None = None,
) -> SymbolicGeometry:
    r"""Build the log-density, the force and the factor of the metric at x.

    With :math:`v_i = \sum_{jk} \partial_j G_{ik} A_{jk}`, so that
    :math:`\Gamma = -\frac12 A v` and
    :math:`\Omega = 2\Gamma + \frac12 A \nabla\log|G|`, the drifts of the family are
    :math:`A f`, where

    =================  =========================================================
    ``"gradient"``     :math:`f = g`
    ``"gamma"``        :math:`f = g - v`, so A f = Ag + 2Γ
    ``"omega"``        :math:`f = g - 2v + \nabla\log|G|`, so A f = Ag + 2Ω
    =================  =========================================================

    Parameters
    ----------
    target : Target
    metric : Metric
    factorization : Factorization
    drift : {"gamma", "omega", "gradient"}
    averages : bool
        Whether information that has been averaged over earlier points is added to the metric. It
        does not depend on x, so v and ∇log|G| have no term for it.
    interweaving : Interweaving, optional
    """
    x = target.x
    logp, force = value_and_gradient(target.logp, x)
    averaged = _averaged_inputs(factorization, x.dtype) if averages else []
    hyper = None
    if interweaving is not None:
        hyper = hyper_geometry(target, interweaving, force, factorization, averaged)
    if isinstance(metric, ConstantMetric):
        return SymbolicGeometry(x, logp, force, None, None, None, factorization, [], hyper)
    found = metric_factor(metric, factorization, averaged)
    half_log_det = factorization.half_log_det(found)
    log_det = 2.0 * half_log_det
    factor, half_log_det = _where_finite(half_log_det, found, factorization, force)
    slope_alone = force
    if drift != "gradient":
        rows = factorization.rows(factor)
        divergence = metric.divergence(rows)
        slope = metric.log_det_gradient(rows) if drift == "omega" else None
        if divergence is not None:
            force = force - (divergence if drift == "gamma" else 2.0 * divergence)
        if slope is not None:
            force = force + slope
        force = pt.switch(pt.all(pt.abs(force) < np.inf), force, slope_alone)
    return SymbolicGeometry(
        x, logp, force, factor, log_det, half_log_det, factorization, averaged, hyper
    )


def _averaged_inputs(factorization: Factorization, dtype: str) -> list[TensorVariable]:
    """Inputs for parts of G, which have the shapes of the parts of its factor."""
    return [
        pt.tensor(f"averaged_{i}", dtype=dtype, shape=part.shape)
        for i, part in enumerate(factorization.identity())
    ]


def _where_finite(
    half_log_det: TensorVariable,
    factor: Sequence[TensorVariable],
    factorization: Factorization,
    slope: TensorVariable,
) -> tuple[list[TensorVariable], TensorVariable]:
    """Replace the metric by (1 + |∇log π|²) I where it has no factor.

    Points where only the metric is not finite or not positive definite belong to the posterior
    and must be sampled. The replacement is a deterministic function of x, so the draws are exact.
    The slope keeps steps from being longer than the distance over which the density changes.

    Returns
    -------
    factor : list of TensorVariable
    half_log_det : TensorVariable
        Its log-determinant.
    """
    length = pt.sqrt(1.0 + (slope**2).sum())
    is_finite = pt.abs(half_log_det) < np.inf
    parts = [
        pt.switch(is_finite, part, length * unit.astype(part.dtype))
        for part, unit in zip(factor, factorization.identity(), strict=True)
    ]
    return parts, pt.switch(is_finite, half_log_det, factorization.dimension * pt.log(length))


def metric_factor(
    metric: Metric, factorization: Factorization, averaged: Sequence[TensorVariable] = ()
) -> list[TensorVariable]:
    """Return the parts of the triangular factor of G(x), with averaged parts of G added."""
    pieces = metric_pieces(metric, factorization)
    if averaged:
        pieces = [here + mean for here, mean in zip(pieces, averaged, strict=True)]
    return factorization.factor(pieces)


def metric_pieces(metric: Metric, factorization: Factorization) -> list[TensorVariable]:
    """Return the parts of G(x) that are not zero by the structure of the model."""
    seeds = pt.constant(factorization.seeds.astype(metric.x.dtype))
    return factorization.pieces(metric.products(seeds))
