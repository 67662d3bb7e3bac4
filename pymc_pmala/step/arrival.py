"""Moves at the start of tuning, from a distant starting point to the typical set."""

import math
from typing import NamedTuple

import numpy as np

from pymc_pmala.kernel.integrators import INTEGRATORS
from pymc_pmala.kernel.kernel import Kernel, State
from pymc_pmala.step.preconditioning import Preconditioning

__all__ = ["LOOKS", "MOST_MOVES", "Arrival", "start_nearby"]

LOOKS = (0, 20, 50, 100)
"""Transitions after which the arrival is checked; again, since a plateau may be mistaken for it."""
MOST_MOVES = 100
"""Maximum number of moves of a chain towards the typical set."""

# Maximum number of points tried on a line, and the squared length of the drift per dimension above
# which a point counts as far from the typical set.
_TRIALS, _HOME = 12, 4
# Maximum distance that a transformed variable moves at once.
_REACH = 2.0
# Share of the possible gain below which another direction is tried as well.
_POOR = 0.1
# Maximum gain that the slope may promise of a first step, as a multiple of the log-density.
_MOST_GAIN = 2.0
# A step that is too long is shortened to this share of it at the most.
_LEAST = 1.0 / 32.0
# A maximum between two multiples of a step is known well enough if their ratio is less than this.
_CLOSE = 3.0
# Number of points tried if the gradient is not finite at the start; PyMC tries as many.
_STARTS = 10


class Line(NamedTuple):
    """A line from a state, on which transformed variables do not go beyond their reach.

    Attributes
    ----------
    state : State
    way : ndarray
        Where the line leads to at scale 1.
    reach : ndarray
        Maximum distance of each element of x.
    """

    state: State
    way: np.ndarray
    reach: np.ndarray

    def at(self, scale: float) -> np.ndarray:
        """Return the point at a multiple of the way."""
        first, beyond = min(scale, 1.0), max(scale, 1.0)
        return self.state.x + first * (beyond * self.way).clip(-self.reach, self.reach)

    def slope(self, state: State, scale: float) -> float:
        """Return the derivative of the log-density by the scale."""
        if scale <= 1.0:
            return float(state.force @ self.way.clip(-self.reach, self.reach))
        return float(state.force @ np.where(np.abs(scale * self.way) < self.reach, self.way, 0.0))


class Arrival(NamedTuple):
    r"""Fisher scoring with the noise of the diffusion and a line search.

    In the typical set the squared length :math:`f^T A f` of the drift in the metric is about d,
    the dimension. The noise keeps hierarchical models from collapsing into the neck of the
    funnel. The moves are not a Markov chain: they are part of tuning, and what is learned on
    the way is discarded.

    Attributes
    ----------
    kernel : Kernel
    preconditioning : Preconditioning
    transformed : ndarray of bool
        Which elements of x are transformed. A logarithm or a logit changes by at most a few
        units at once.
    """

    kernel: Kernel
    preconditioning: Preconditioning
    transformed: np.ndarray

    def move(self, state: State, rng: np.random.Generator) -> tuple[State | None, int]:
        """Return the next state on the way to the typical set, and the evaluations it took.

        This is the result of a line search along the largest useful step of the diffusion. If it
        gains little, it is the better of this and a line search along the force divided by the
        diagonal of G. The second is needed where the information in some direction is almost zero,
        as it may be where the model does not fit at all, so that the full step goes far astray.

        Returns
        -------
        state : State or None
            None if the chain has arrived, or if neither search finds a point.
        evaluations : int
        """
        kernel = self.kernel
        integrator = INTEGRATORS["exponential"]
        scales = integrator.scales(integrator.largest_step)
        noise = rng.standard_normal(kernel.dimension, kernel.dtype)
        proposed, _ = kernel.propose(state, noise, kernel.as_arrays(scales))
        way = np.nan_to_num(proposed.x - state.x)
        if not _is_long(state, way, scales.drift):
            return None, 1
        line = Line(state, way, np.where(self.transformed, _REACH, np.inf))
        best, spent = self._search(line, proposed)
        possible = min(line.slope(state, 0.0), abs(float(state.logp)))
        if best is None or best.logp - state.logp < _POOR * possible:
            _, diagonal = kernel.factorization.diagonals(state.factor)
            aside = state.force / diagonal[np.argsort(kernel.factorization.order)]
            other, more = self._search(line._replace(way=aside))
            spent += more
            if best is None or (other is not None and other.logp > best.logp):
                best = other
        return best, 1 + spent

    def is_far(self, state: State) -> bool:
        """Whether a state is far from the typical set, judged by the drift without noise."""
        integrator = INTEGRATORS["exponential"]
        scales = integrator.scales(integrator.largest_step)
        still = np.zeros_like(state.x)
        proposed, _ = self.kernel.propose(state, still, self.kernel.as_arrays(scales))
        return _is_long(state, proposed.x - state.x, scales.drift)

    def _search(self, line: Line, end: State | None = None) -> tuple[State | None, int]:
        """Find a point near the maximum of the log-density along a line.

        The slope at a point tells on which side of the maximum it lies, and whether there is
        more to gain than the noise of the diffusion. A step that is too short is made four times
        longer again and again: from a rate that is far too high, a full step of Fisher scoring
        only divides it by e.

        Parameters
        ----------
        line : Line
        end : State, optional
            The state at the end of the way, if that lies on the line.

        Returns
        -------
        state : State or None
            None if no point is acceptable.
        evaluations : int
        """
        state, slope = line.state, line.slope(line.state, 0.0)
        if not slope > 0:
            return None, 0
        dimension, best = len(state.x), None
        low, high, spent = 0.0, math.inf, 0
        # Far from the posterior a step may be absurdly long; hardly any log-density rises above 0.
        scale = min(1.0, _MOST_GAIN * (dimension + abs(float(state.logp))) / slope)
        found = end if end is not None and np.array_equal(line.at(scale), end.x) else None
        while spent < _TRIALS and high > _CLOSE * low:
            if found is None:
                found = self.kernel.init(line.at(scale), self.preconditioning.constants)
                spent += 1
            here = line.slope(found, scale)
            # The secant from the last point before the maximum.
            change = max(abs(slope - here), np.finfo(float).tiny)
            part, width = 0.25, scale - low
            if _is_level(state, found) and (best is None or found.logp > best.logp):
                best = found
                if here > 0:
                    low, slope = scale, here
                else:
                    high = scale
                if not 0.5 * here * here * width / change > dimension:
                    break
            elif best is not None and not low:
                break
            else:
                high = scale
                part = min(max(slope / change, _LEAST), part) if change < math.inf else _LEAST
            if high == math.inf:
                scale *= 4.0
            else:
                scale = math.sqrt(low * high) if low else part * high
            found = None
        return best, spent


def _is_long(state: State, way: np.ndarray, scale: float | np.ndarray) -> bool:
    """Whether a drift, multiplied by a scale, is too long for a point of the typical set."""
    dimension = len(state.x)
    return bool(not state.force @ way < scale * _HOME * (dimension + _HOME))


def _is_level(state: State, other: State) -> bool:
    """Whether the log-density of another state is as high, up to the noise of the diffusion."""
    return bool(other.logp > state.logp - len(state.x)) and other.fault is None


def start_nearby(
    kernel: Kernel, state: State, preconditioning: Preconditioning, rng: np.random.Generator
) -> tuple[State, int]:
    """Find a start near a point at which the gradient is not finite; count the points tried.

    Up to ten points are tried, with the same jitter as in PyMC. NUTS can start from such points,
    for example a shape parameter of exactly zero. If none can be used, the last one is returned.
    """
    start, count = state.x, 0
    for _ in range(_STARTS):
        count += 1
        x = (start + rng.uniform(-1.0, 1.0, len(start))).astype(kernel.dtype)
        state = kernel.init(x, preconditioning.constants)
        if state.fault is None:
            break
    return state, count
