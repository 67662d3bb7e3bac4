"""The state of a chain, and the account of its transitions."""

from typing import NamedTuple

import numpy as np

__all__ = ["Info", "Noise", "Record", "State"]


class State(NamedTuple):
    """A point of a chain with the geometry needed for the next proposal.

    Attributes
    ----------
    x : ndarray
        The raveled point.
    logp : ndarray
        Log-density, a scalar.
    force : ndarray
        The covector f with drift A f.
    factor : tuple of ndarray
        The parts of the triangular factor L of the metric G = LLᵀ.
    log_det : float
        Log-determinant of G; not finite where G has no factor and has been replaced.
    half_log_det : ndarray or None
        Log-determinant of L, a scalar; None if the metric is constant.
    averaged : tuple of ndarray
        The information that has been averaged over earlier points, as part of the metric.
    hyper : tuple of ndarray
        The geometry of the interweaving moves: force, factor and log-Jacobian.
    """

    x: np.ndarray
    logp: np.ndarray
    force: np.ndarray
    factor: tuple[np.ndarray, ...]
    log_det: float
    half_log_det: np.ndarray | None = None
    averaged: tuple[np.ndarray, ...] = ()
    hyper: tuple[np.ndarray, ...] = ()

    @property
    def fault(self) -> str | None:
        """The reason why no proposal can be made from this state, or None."""
        if not np.isfinite(self.logp):
            return f"the log-density is {self.logp}"
        if not all(np.all(np.isfinite(part)) for part in self.factor):
            return "the metric is not finite or not positive definite"
        if not np.all(np.isfinite(self.force)):
            return "the gradient of the log-density, or the drift, is not finite"
        return None


class Noise(NamedTuple):
    """Random numbers for n transitions.

    Attributes
    ----------
    normals : ndarray of shape (n, d)
        Standard normal numbers.
    log_uniforms : ndarray of shape (n,)
        Logarithms of uniform random numbers between 0 and 1.
    """

    normals: np.ndarray
    log_uniforms: np.ndarray


class Info(NamedTuple):
    """An account of some transitions.

    Attributes
    ----------
    transitions : int
        Number of transitions.
    acceptance : float
        Sum of the acceptance probabilities.
    accepted : int
        Number of accepted proposals.
    rejections : int
        Number of rejected proposals since the last accepted one.
    diverging : int
        Number of proposals without a finite geometry.
    divergence : tuple of two ndarray or None
        The point from which the first of these was made, and the proposed point.
    hyper_acceptance : float
        Sum of the acceptance probabilities of the interweaving moves.
    """

    transitions: int = 0
    acceptance: float = 0.0
    accepted: int = 0
    rejections: int = 0
    diverging: int = 0
    divergence: tuple[np.ndarray, np.ndarray] | None = None
    hyper_acceptance: float = 0.0


class Record(NamedTuple):
    """Some draws and an account of the transitions of each of them.

    Attributes
    ----------
    x : ndarray of shape (draws, d)
    numbers : ndarray of shape (draws, 7)
        For each draw: log-density, log |G|, and the sums of `Info`: acceptance, accepted,
        rejections, diverging, hyper_acceptance.
    sources, destinations : ndarray of shape (draws, d)
        The two end points of the first divergence of each draw that has one.
    """

    x: np.ndarray
    numbers: np.ndarray
    sources: np.ndarray
    destinations: np.ndarray

    def info(self, draw: int, transitions: int) -> Info:
        """Return the account of one draw."""
        _, _, acceptance, *counts, hyper = self.numbers[draw].tolist()
        accepted, rejections, diverging = map(int, counts)
        ends = (self.sources[draw], self.destinations[draw]) if diverging else None
        return Info(transitions, acceptance, accepted, rejections, diverging, ends, hyper)
