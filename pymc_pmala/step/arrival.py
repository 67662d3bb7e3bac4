"""How a chain in tuning goes from a far start to the typical set."""

from typing import NamedTuple

import numpy as np

from pymc_pmala.kernel.integrators import INTEGRATORS
from pymc_pmala.kernel.kernel import Kernel, State
from pymc_pmala.step.preconditioning import Preconditioning

__all__ = ["LOOKS", "MOST_MOVES", "Arrival", "start_nearby"]

LOOKS = (0, 20, 50, 100)
"""Transitions after which a chain in tuning is asked whether it is there: a plateau may look so."""
MOST_MOVES = 100
"""Moves of a chain towards the typical set, at most."""

# Points tried for each move, and the squared length of the drift per dimension from which a point
# is far from the typical set.
_BACKTRACKING, _HOME = 12, 4
# How far a transformed variable may move at once on the way.
_REACH = 2.0
# Points tried where the start has no gradient, as many as PyMC tries.
_STARTS = 10


class Arrival(NamedTuple):
    r"""Fisher scoring with the diffusion's noise and a search along the line.

    In the typical set the squared length :math:`f^T A f` of the drift in the metric is about d,
    the dimension. The noise keeps a hierarchy from running into its neck. This is no Markov
    chain: it belongs to tuning, and what has been learned on the way is forgotten.

    Attributes
    ----------
    kernel : Kernel
    preconditioning : Preconditioning
    transformed : ndarray of bool
        Which elements of x have a transform: no logarithm or logit changes by more than a few
        units at once.
    """

    kernel: Kernel
    preconditioning: Preconditioning
    transformed: np.ndarray

    def move(self, state: State, rng: np.random.Generator) -> State | None:
        """The next state on the way home; None if the chain is there, or finds no way.

        The largest useful step if it does not fall far. Else the better of two searches: along
        it, and along the force divided by the diagonal of G, since information that is next to
        nothing in one direction, as it may be where the model does not fit at all, sends the
        whole step astray.
        """
        kernel = self.kernel
        integrator = INTEGRATORS["exponential"]
        scales = integrator.scales(integrator.largest_step)
        noise = rng.standard_normal(kernel.dimension, kernel.dtype)
        proposed, _ = kernel.propose(state, noise, kernel.as_arrays(scales))
        way = np.nan_to_num(proposed.x - state.x)
        if state.force @ way < scales.drift * _HOME * (kernel.dimension + _HOME):
            return None
        reach = np.where(self.transformed, _REACH, np.inf)
        scale = min(1.0, np.min(reach / np.maximum(np.abs(way), _REACH)))
        if scale == 1.0 and _is_level(state, proposed):
            return proposed
        _, diagonal = kernel.factorization.diagonals(state.factor)
        aside = state.force / diagonal[np.argsort(kernel.factorization.order)]
        searches = (self._search(state, w) for w in (scale * way, aside.clip(-reach, reach)))
        found = [search for search in searches if search is not None]
        return max(found, key=lambda search: search.logp, default=None)

    def _search(self, state: State, way: np.ndarray) -> State | None:
        """The first of ever nearer points on a way that is level, or a better one after it."""
        best: State | None = None
        for i in range(_BACKTRACKING):
            found = self.kernel.init(state.x + 0.25**i * way, self.preconditioning.factor)
            if best is not None and not found.logp > best.logp:
                break
            if _is_level(state, found):
                best = found
        return best


def _is_level(state: State, other: State) -> bool:
    """Whether another state is as good as this one, but for the diffusion's noise."""
    return bool(other.logp > state.logp - len(state.x)) and other.fault is None


def start_nearby(
    kernel: Kernel, state: State, preconditioning: Preconditioning, rng: np.random.Generator
) -> State:
    """Another start where the given one has no gradient: PyMC's own jitter, for ten tries.

    NUTS starts from such points, a shape parameter of exactly zero for example. The last state
    tried if all have a fault.
    """
    start = state.x
    for _ in range(_STARTS):
        x = (start + rng.uniform(-1.0, 1.0, len(start))).astype(kernel.dtype)
        state = kernel.init(x, preconditioning.factor)
        if state.fault is None:
            break
    return state
