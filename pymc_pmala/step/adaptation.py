"""What is learned while a chain tunes, and frozen afterwards: step size, metric, thinning."""

import math
from collections.abc import Sequence

import numpy as np
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

__all__ = ["MetricAverage", "Mixing", "StepSizeAdaptation", "target_acceptance"]

# Best acceptance rate of Euler's proposal by dimension, measured on Gaussian targets with
# their own precision as the metric; 0.574 is the limit (Roberts & Rosenthal 1998).
_EULER_DIMENSIONS = (1, 2, 3, 5, 10, 20, 1000)
_EULER_TARGETS = (0.80, 0.73, 0.69, 0.64, 0.63, 0.58, 0.574)
_EXPONENTIAL_TARGET = 0.5


def target_acceptance(integrator: str, dimension: int) -> float:
    """Acceptance rate to tune the step size for."""
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
    r"""Robbins–Monro search for the step size with a given acceptance rate.

    .. math:: \log h_{t+1} = \min(\log h_t + c\, t^{-0.6} (\alpha_t - \alpha^*),\;
              \log h_{max})

    with Polyak averaging of the iterates, later ones counting more. Projection on the
    largest useful step, rather than dual averaging's running sum, lets the step come
    straight back when it has rested at its cap. The gain is renewed after 50, 150, 350, …
    transitions: a chain on its way from a far start needs other steps than at home, and
    would not unlearn them in time.

    Parameters
    ----------
    target : float
        Acceptance rate aimed at.
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
        """Forget everything and go on from a step size."""
        self.log_step = self.log_average = min(math.log(step_size), self._log_largest)
        self.count, self.horizon = self._FIRST_COUNT, self._FIRST_HORIZON

    def update(self, acceptance: float) -> None:
        """Learn from the acceptance probability of one transition."""
        self.count += 1
        if self.count > self.horizon:
            self.count, self.horizon = self._RENEWED_COUNT, 2 * self.horizon
        gain = self._GAIN * self.count**-self._DECAY
        self.log_step = min(self.log_step + gain * (acceptance - self.target), self._log_largest)
        weight = self.count**-self._AVERAGING
        self.log_average += weight * (self.log_step - self.log_average)

    @property
    def current(self) -> float:
        """The step size to explore with."""
        return math.exp(self.log_step)

    @property
    def averaged(self) -> float:
        """The step size to freeze."""
        return math.exp(self.log_average)


@dataclass_state
class MetricAverageState(DataClassState):
    mean: list[np.ndarray]
    count: int


class MetricAverage(WithSamplingState):
    """Mean of the metric along a chain, later points counting more (weight ∝ t)."""

    _state_class = MetricAverageState

    def __init__(self) -> None:
        self.mean: list[np.ndarray] = []
        self.count = 0

    def update(self, pieces: Sequence[np.ndarray]) -> None:
        """Take in the metric's parts at one more point; what is not finite is passed over."""
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
    r"""How far a chain is still correlated with itself after one transition.

    The autocorrelation of each coordinate, from its mean squared jump (von Neumann's ratio),

    .. math:: \phi_i = 1 - \frac{E(x'_i - x_i)^2}{2 \operatorname{Var} x_i}

    with later transitions counting more (weight ∝ t²).

    Parameters
    ----------
    dimension : int
        Number of coordinates.
    """

    _state_class = MixingState
    # Autocorrelation of draws that are worth 0.6 of independent ones, at 1/0.87 of the price
    # that as many of the finest draws would have, but for PyMC's own work for each.
    _WANTED = 0.25
    # Beyond it, a chain is better told to be slow than run for ever.
    _MOST = 32
    # Transitions before which nothing is known.
    _ENOUGH = 50

    def __init__(self, dimension: int):
        self.mean, self.variance, self.jump = np.zeros((3, dimension))
        self.count = 0

    def update(self, before: np.ndarray, after: np.ndarray) -> None:
        """Take in one transition."""
        self.count += 1
        weight = 3.0 / (self.count + 2)
        distance = after - self.mean
        jump = after - before
        self.mean = self.mean + weight * distance
        self.variance = (1.0 - weight) * (self.variance + weight * distance * distance)
        self.jump = self.jump + weight * (jump * jump - self.jump)

    @property
    def correlations(self) -> np.ndarray:
        """φ of each coordinate; zero as long as nothing is known."""
        if self.count < self._ENOUGH or not np.all(self.variance > 0):
            return np.zeros_like(self.jump)
        return 1.0 - 0.5 * self.jump / self.variance

    @property
    def transitions(self) -> int:
        """Transitions after which draws are nearly independent, within reason."""
        slowest = float(self.correlations.max())
        if slowest <= self._WANTED:
            return 1
        if slowest >= 1:
            return self._MOST
        return min(round(math.log(self._WANTED) / math.log(slowest)), self._MOST)
