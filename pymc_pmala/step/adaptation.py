"""Quantities adapted during tuning and then frozen: step size, metric and thinning."""

import math
from collections.abc import Sequence

import numpy as np
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

__all__ = ["MetricAverage", "Mixing", "StepSizeAdaptation", "target_acceptance"]

# Optimal acceptance rate of Euler's proposal by dimension, measured on Gaussian targets whose
# precision is the metric; 0.574 is the limit (Roberts & Rosenthal 1998).
_EULER_DIMENSIONS = (1, 2, 3, 5, 10, 20, 1000)
_EULER_TARGETS = (0.80, 0.73, 0.69, 0.64, 0.63, 0.58, 0.574)
_EXPONENTIAL_TARGET = 0.5


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


@dataclass_state
class MixingState(DataClassState):
    mean: np.ndarray
    variance: np.ndarray
    jump: np.ndarray
    count: int


class Mixing(WithSamplingState):
    r"""Autocorrelation of a chain after one transition.

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
    # At this autocorrelation a draw is worth 0.6 independent draws. Recording every transition
    # would give the same effective size for 0.87 of the transitions, but PyMC would have to
    # process many more draws.
    _WANTED = 0.25
    # Upper limit: a chain that needs more is reported as slow.
    _MOST = 32
    # Number of transitions before the first estimate.
    _ENOUGH = 50

    def __init__(self, dimension: int):
        self.mean, self.variance, self.jump = np.zeros((3, dimension))
        self.count = 0

    def update(self, before: np.ndarray, after: np.ndarray) -> None:
        """Add one transition."""
        self.count += 1
        weight = 3.0 / (self.count + 2)
        distance = after - self.mean
        jump = after - before
        self.mean = self.mean + weight * distance
        self.variance = (1.0 - weight) * (self.variance + weight * distance * distance)
        self.jump = self.jump + weight * (jump * jump - self.jump)

    @property
    def correlations(self) -> np.ndarray:
        """φ of each coordinate, or zero if there are too few transitions to estimate it."""
        if self.count < self._ENOUGH or not np.all(self.variance > 0):
            return np.zeros_like(self.jump)
        return 1.0 - 0.5 * self.jump / self.variance

    @property
    def transitions(self) -> int:
        """Number of transitions that make draws nearly independent, at most 32."""
        slowest = float(self.correlations.max())
        if slowest <= self._WANTED:
            return 1
        if slowest >= 1:
            return self._MOST
        return min(round(math.log(self._WANTED) / math.log(slowest)), self._MOST)
