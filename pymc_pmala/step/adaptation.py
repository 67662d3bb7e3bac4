"""Quantities adapted during tuning and then frozen: step size, metric and thinning."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

__all__ = ["MetricAverage", "Mixing", "Schedule", "StepSizeAdaptation", "target_acceptance"]

# Optimal acceptance rate of Euler's proposal by dimension, measured on Gaussian targets whose
# precision is the metric; 0.574 is the limit (Roberts & Rosenthal 1998).
_EULER_DIMENSIONS = (1, 2, 3, 5, 10, 20, 1000)
_EULER_TARGETS = (0.80, 0.73, 0.69, 0.64, 0.63, 0.58, 0.574)
_EXPONENTIAL_TARGET = 0.6


def target_acceptance(integrator: str, dimension: int) -> float:
    """Return the default acceptance rate for tuning the step size."""
    if integrator == "exponential":
        return _EXPONENTIAL_TARGET
    return float(np.interp(math.log(dimension), np.log(_EULER_DIMENSIONS), _EULER_TARGETS))


@dataclass_state
class StepSizeState(DataClassState):
    log_step: float
    log_average: float
    count: int
    horizon: int


class StepSizeAdaptation(WithSamplingState):
    r"""Robbins–Monro adaptation of the step size to a given acceptance rate.

    .. math:: \log h_{t+1} = \min(\log h_t + c\, t^{-0.6} (\alpha_t - \alpha^*),\;
              \log h_{max})

    with Polyak averaging of the iterates, in which later ones have more weight. Unlike the
    running sum of dual averaging, the projection onto the largest useful step lets the step
    size decrease immediately after it has been at its maximum. The gain is reset after 50,
    150, 350, … transitions: a chain that starts far from the typical set needs different
    steps on the way there, and would otherwise not forget them in time.

    Parameters
    ----------
    target : float
        Target acceptance rate.
    largest : float
        Largest useful step size.
    """

    _state_class = StepSizeState
    _GAIN, _DECAY, _AVERAGING = 1.5, 0.6, 0.75
    _FIRST_COUNT, _FIRST_HORIZON, _RENEWED_COUNT = 3, 50, 10

    def __init__(self, target: float, largest: float):
        self.target, self.largest = target, largest
        self._log_largest = math.log(largest)
        self.restart(largest)

    def restart(self, step_size: float) -> None:
        """Discard what has been learned and restart from a given step size."""
        self.log_step = self.log_average = min(math.log(step_size), self._log_largest)
        self.count, self.horizon = self._FIRST_COUNT, self._FIRST_HORIZON

    def update(self, acceptance: float) -> None:
        """Update the step size with the acceptance probability of one transition."""
        self.count += 1
        if self.count > self.horizon:
            self.count, self.horizon = self._RENEWED_COUNT, 2 * self.horizon
        gain = self._GAIN * self.count**-self._DECAY
        self.log_step = min(self.log_step + gain * (acceptance - self.target), self._log_largest)
        weight = self.count**-self._AVERAGING
        self.log_average += weight * (self.log_step - self.log_average)

    @property
    def current(self) -> float:
        """The step size to use during tuning."""
        return math.exp(self.log_step)

    @property
    def averaged(self) -> float:
        """The step size to use after tuning."""
        return math.exp(self.log_average)


@dataclass_state
class MetricAverageState(DataClassState):
    mean: list[np.ndarray]
    count: int


class MetricAverage(WithSamplingState):
    """Mean of the metric along a chain, with weights proportional to t."""

    _state_class = MetricAverageState

    def __init__(self) -> None:
        self.mean: list[np.ndarray] = []
        self.count = 0

    def update(self, pieces: Sequence[np.ndarray]) -> None:
        """Add the parts of the metric at one more point, if they are finite."""
        if not all(np.all(np.isfinite(piece)) for piece in pieces):
            return
        self.count += 1
        weight = 2.0 / (self.count + 1)
        if self.count == 1:
            self.mean = [piece.copy() for piece in pieces]
        self.mean = [m + weight * (p - m) for m, p in zip(self.mean, pieces, strict=True)]


class Schedule(NamedTuple):
    """The moves that make one draw.

    Attributes
    ----------
    transitions : int
        Number of transitions.
    every : int
        An interweaving move follows every so many of them; 0 if there are none.
    """

    transitions: int
    every: int

    @property
    def hyper_moves(self) -> int:
        """Number of interweaving moves."""
        return self.transitions // self.every if self.every else 0


@dataclass_state
class MixingState(DataClassState):
    mean: np.ndarray
    variance: np.ndarray
    jump: np.ndarray
    hyper_jump: np.ndarray
    count: int


class Mixing(WithSamplingState):
    r"""Autocorrelation of a chain after one transition, and after an interweaving move.

    The autocorrelation of each coordinate is estimated from its mean squared jump (von
    Neumann's ratio),

    .. math:: \phi_i = 1 - \frac{E(x'_i - x_i)^2}{2 \operatorname{Var} x_i}

    with weights proportional to t².

    Parameters
    ----------
    dimension : int
        Number of coordinates.
    """

    _state_class = MixingState
    # At this autocorrelation a draw is worth three quarters of an independent draw. Recording every
    # transition would give the same effective size for fewer transitions, but PyMC would have to
    # process many more draws.
    _WANTED = 0.15
    # Minimum number of cycles with an interweaving move. Where scales vary, squared jumps tell
    # most about the region where they are large.
    _LEAST = 2
    # Upper limit: a chain that needs more is reported as slow.
    _MOST = 32
    # Number of transitions before the first estimate.
    _ENOUGH = 50
    # The numbers of transitions between two interweaving moves that are considered.
    _EVERY = (1, 2, 4, 8, 16)

    def __init__(self, dimension: int):
        self.mean, self.variance, self.jump, self.hyper_jump = np.zeros((4, dimension))
        self.count = 0

    def update(self, before: np.ndarray, after: np.ndarray, then: np.ndarray | None = None) -> None:
        """Add one transition, and the point after its interweaving move if it has one."""
        self.count += 1
        weight = 3.0 / (self.count + 2)
        last = after if then is None else then
        distance = last - self.mean
        jump = after - before
        self.mean = self.mean + weight * distance
        self.variance = (1.0 - weight) * (self.variance + weight * distance * distance)
        self.jump = self.jump + weight * (jump * jump - self.jump)
        if then is not None:
            jump = then - after
            self.hyper_jump = self.hyper_jump + weight * (jump * jump - self.hyper_jump)

    @property
    def correlations(self) -> np.ndarray:
        """φ of each coordinate, or zero if there are too few transitions to estimate it."""
        return self._correlations(self.jump)

    def _correlations(self, jump: np.ndarray) -> np.ndarray:
        if self.count < self._ENOUGH or not np.all(self.variance > 0):
            return np.zeros_like(jump)
        return 1.0 - 0.5 * jump / self.variance

    def schedule(self, may_interweave: bool, must_interweave: bool) -> Schedule:
        r"""Return the cheapest schedule of moves that makes draws nearly independent.

        A cycle of m transitions and an interweaving move leaves a coordinate with the
        autocorrelation :math:`\phi_i^m \psi_i`, where ψ is that after the interweaving move
        alone, and takes m + 1 evaluations. A draw has at most 32 transitions.
        """
        main, hyper = (
            np.log(self._correlations(jump).clip(1e-3, 1.0))
            for jump in (self.jump, self.hyper_jump)
        )
        plans = [] if must_interweave else [self._plan(main, Schedule(1, 0))]
        if may_interweave:
            plans += [self._plan(m * main + hyper, Schedule(m, m)) for m in self._EVERY]
        _, cheapest = min(plans)
        return cheapest

    def _plan(self, log_correlations: np.ndarray, cycle: Schedule) -> tuple[float, Schedule]:
        """Return the cost of nearly independent draws made of given cycles, and the schedule."""
        cycles = self._cycles(log_correlations)
        least = self._LEAST if cycle.every else 1
        count = round(max(least, min(cycles, self._MOST // cycle.transitions)))
        moves = cycle.transitions + cycle.hyper_moves
        # Where the limit cuts a draw short, the cost is that of what would be needed.
        return max(count, cycles) * moves, Schedule(count * cycle.transitions, cycle.every)

    def _cycles(self, log_correlations: np.ndarray) -> float:
        """Return how many cycles pass until the slowest coordinate has forgotten its past."""
        slowest = float(log_correlations.max())
        return math.inf if slowest >= 0 else max(1.0, math.log(self._WANTED) / slowest)
