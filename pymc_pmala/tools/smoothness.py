r"""Where a log-density jumps, or ends: there the divergence theorem has a boundary term.

Along a segment from s to t, a log-density with slope g satisfies

.. math:: \log\pi(t) - \log\pi(s) = \tfrac12 (t - s) \cdot (g(s) + g(t)) + O(|t - s|^3).

The difference of the two sides disappears as a segment is halved again and again, unless there is a
jump, a boundary, or a slope that is not the derivative.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from pymc_pmala.tools.generator import Evaluation

__all__ = ["variables_with_jumps"]

# Rays along elements of each variable, from different draws, in standard deviations of the draws.
_RAYS = 6
_OFFSETS = np.linspace(-3.0, 3.0, 13)
_HALVINGS = 12
_SUSPECT = 0.05
_JUMP = 0.01
# Where the density is smaller by the exponential of this, a boundary does not matter.
_DEPTH = 30.0

Evaluate = Callable[[np.ndarray, int], Evaluation]
"""From x, and the number of the draw for the variables that are held, to the density there."""
Point = tuple[float, float, float]
"""Offset along a ray, log-density and its slope along the ray."""
Segment = tuple[Point, Point]


def variables_with_jumps(
    evaluate: Evaluate, draws: np.ndarray, places: Sequence[np.ndarray]
) -> list[int]:
    """Numbers of the variables along which the log-density has a jump or a boundary.

    Parameters
    ----------
    evaluate : callable
        From x and the number of a draw to an `Evaluation`, as a `Generator`.
    draws : ndarray of shape (n, d)
    places : sequence of ndarray
        Positions in x of the elements of each variable.
    """
    rng = np.random.default_rng(0)
    sds = draws.std(axis=0)
    found = []
    for number, elements in enumerate(places):
        if not len(elements):
            continue
        rays = zip(rng.choice(len(draws), _RAYS), rng.choice(elements, _RAYS), strict=True)
        if any(_jumps_along(evaluate, draws[i], i, e, sds[e]) for i, e in rays):
            found.append(number)
    return found


def _jumps_along(evaluate: Evaluate, start: np.ndarray, draw: int, element: int, sd: float) -> bool:
    def at(offset: float) -> Point:
        x = start.copy()
        x[element] += offset * sd
        there = evaluate(x, draw)
        return offset, float(there.logp), sd * float(there.slope[element])

    points = [at(offset) for offset in _OFFSETS]
    deepest = points[len(points) // 2][1] - _DEPTH
    segments = [segment for segment in pairwise(points) if _matters(segment, deepest)]
    suspects = sorted(segments, key=_mismatch, reverse=True)[:2]
    return any(_persists(s, at, deepest) for s in suspects if _mismatch(s) > _SUSPECT)


def _persists(segment: Segment, at: Callable[[float], Point], deepest: float) -> bool:
    """Whether the mismatch remains in one half of a segment after repeated halving."""
    for _ in range(_HALVINGS):
        left, right = segment
        middle = at(0.5 * (left[0] + right[0]))
        halves = [half for half in ((left, middle), (middle, right)) if _matters(half, deepest)]
        if not halves:
            return False
        segment = max(halves, key=_mismatch)
        if _mismatch(segment) < _JUMP:
            return False
    return True


def _matters(segment: Segment, deepest: float) -> bool:
    """Whether the density at one end is not negligible."""
    return any(value > deepest for _, value, _ in segment)


def _mismatch(segment: Segment) -> float:
    (s, first, slope), (t, second, other) = segment
    difference = second - first - 0.5 * (t - s) * (slope + other)
    return abs(difference) if np.isfinite(difference) else np.inf
