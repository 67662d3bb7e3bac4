"""Moves at the start of tuning, from a distant starting point to the typical set."""

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

# Number of points tried for each move, and the squared length of the drift per dimension above
# which a point counts as far from the typical set.
_BACKTRACKING, _HOME = 12, 4
# Maximum distance that a transformed variable moves at once.
_REACH = 2.0
# Number of points tried if the gradient is not finite at the start; PyMC tries as many.
_STARTS = 10


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

        This is the result of the largest useful step, unless the log-density falls far.
        Otherwise it is the better of two line searches: one along this step, and one along the
        force divided by the diagonal of G. The second is needed where the information in some
        direction is almost zero, as it may be where the model does not fit at all, so that the
        full step goes far astray.

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
        reach = np.where(self.transformed, _REACH, np.inf)
        scale = min(1.0, np.min(reach / np.maximum(np.abs(way), _REACH)))
        if scale == 1.0 and _is_level(state, proposed):
            return proposed, 1
        _, diagonal = kernel.factorization.diagonals(state.factor)
        aside = state.force / diagonal[np.argsort(kernel.factorization.order)]
        searches = [self._search(state, w) for w in (scale * way, aside.clip(-reach, reach))]
        found = [end for end, _ in searches if end is not None]
        best = max(found, key=lambda end: end.logp, default=None)
        return best, 1 + sum(spent for _, spent in searches)

    def is_far(self, state: State) -> bool:
        """Whether a state is far from the typical set, judged by the drift without noise."""
        integrator = INTEGRATORS["exponential"]
        scales = integrator.scales(integrator.largest_step)
        still = np.zeros_like(state.x)
        proposed, _ = self.kernel.propose(state, still, self.kernel.as_arrays(scales))
        return _is_long(state, proposed.x - state.x, scales.drift)

    def _search(self, state: State, way: np.ndarray) -> tuple[State | None, int]:
        """Backtrack along a line to the first acceptable point, and on while the points improve."""
        best: State | None = None
        for i in range(_BACKTRACKING):
            found = self.kernel.init(state.x + 0.25**i * way, self.preconditioning.constants)
            if best is not None and not found.logp > best.logp:
                break
            if _is_level(state, found):
                best = found
        return best, i + 1


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
