"""Symbolic geometry of the hyperparameters when the standardised effects are held."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import gradient, pushforward
from pymc_pmala.factorization import Dense, Factorization
from pymc_pmala.interweaving import Interweaving
from pymc_pmala.metric import add_floor, information_metric
from pymc_pmala.model.target import Target

__all__ = ["HyperGeometry", "hyper_geometry"]


class HyperGeometry(NamedTuple):
    """The geometry that an interweaving move needs, as expressions in the raveled vector ``x``.

    Attributes
    ----------
    positions : ndarray
        Positions in x of the hyperparameters φ.
    carry : callable
        ``carry(x, phi)`` is the point to which x moves when φ changes.
    factorization : Dense
    state : list of TensorVariable
        The force and the factor of the metric of φ, and the log-Jacobian of the coordinates.
    """

    positions: np.ndarray
    carry: Callable[[TensorVariable, TensorVariable], TensorVariable]
    factorization: Dense
    state: list[TensorVariable]


def hyper_geometry(
    target: Target,
    interweaving: Interweaving,
    slope: TensorVariable,
    factorization: Factorization,
    averaged: Sequence[TensorVariable],
) -> HyperGeometry:
    r"""Build the force and the metric of the hyperparameters, with standardised effects held.

    In the coordinates y = (φ, z), with z the standardised effects, the density is
    :math:`\pi(x(y))\, |\partial x / \partial y|`. With the directions
    :math:`D = \partial x / \partial \varphi` at fixed z,

    .. math:: f = D\, \nabla_x (\log\pi + \log|\partial x / \partial y|), \qquad
              M = D\, G_r\, D^T,

    where :math:`G_r` is the Fisher information of the factors whose density still depends on φ. If
    the information of the data has been averaged for the main metric, and depends on φ as a whole,
    that average is part of :math:`G_r`. The derivative of M is omitted from the drift, which leaves
    the move exact.

    References
    ----------
    Y. Yu and X.-L. Meng (2011). To center or not to center: that is not the question – an
    ancillarity–sufficiency interweaving strategy (ASIS) for boosting MCMC efficiency. Journal of
    Computational and Graphical Statistics 20, 531–570.

    Parameters
    ----------
    target : Target
    interweaving : Interweaving
    slope : TensorVariable
        The gradient of the log-density at x.
    factorization : Factorization
        Defines the meaning of the averaged parts.
    averaged : sequence of TensorVariable
        Parts of the averaged information of the data; empty if it is computed at the point.
    """
    x, positions = target.x, interweaving.positions
    count = len(positions)
    log_jacobian = interweaving.log_jacobian(x)
    directions = _directions(x, interweaving)
    force = directions @ (slope + gradient(log_jacobian, x))
    metric = add_floor(_information(target, interweaving, directions, factorization, averaged))
    dense = Dense(count)
    [lower] = dense.factor([metric])
    # A deterministic replacement where the metric has no factor, as for the main metric.
    unit = pt.sqrt(1.0 + (force**2).sum()) * np.eye(count, dtype=x.dtype)
    lower = pt.switch(pt.abs(dense.half_log_det([lower])) < np.inf, lower, unit)
    state = [force, lower, log_jacobian.astype(x.dtype)]
    for name, part in zip(("hyper_force", "hyper_factor", "log_jacobian"), state, strict=True):
        part.name = name
    return HyperGeometry(positions, interweaving.carry, dense, state)


def _information(
    target: Target,
    interweaving: Interweaving,
    directions: TensorVariable,
    factorization: Factorization,
    averaged: Sequence[TensorVariable],
) -> TensorVariable:
    """Information along some directions of the factors whose density is not held."""
    held = set(interweaving.factors)
    rest = [factor for factor in target.factors if factor not in held]
    if not averaged or any(factor.observed for factor in held):
        return information_metric(target.x, rest).gram(directions)
    latent = information_metric(target.x, [factor for factor in rest if not factor.observed])
    return latent.gram(directions) + factorization.gram(averaged, directions)


def _directions(x: TensorVariable, interweaving: Interweaving) -> TensorVariable:
    """Rows ∂x/∂φ_j with the standardised effects held."""
    count = len(interweaving.positions)
    phi = pt.vector("phi", dtype=x.dtype, shape=(count,))
    along = phi.type("along")
    [tangent] = pushforward([interweaving.carry(x, phi)], phi, along)
    [rows] = batch([tangent], {along: pt.constant(np.eye(count, dtype=x.dtype))})
    return graph_replace([rows], {phi: x[interweaving.positions]})[0]
