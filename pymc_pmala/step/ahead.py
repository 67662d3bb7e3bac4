"""Draws that one call of compiled code makes ahead, to be handed out one by one."""

import time
from typing import Any

import numpy as np

from pymc_pmala.kernel.kernel import Record, State

__all__ = ["Block", "BlockSize"]

# Seconds that a block may take, so that progress bars and callbacks are not held up.
_BUDGET = 0.02


class Block:
    """Some draws, of which the first ``taken`` have been handed out.

    Draws do not depend on how many of them are made in one call, because each takes its random
    numbers in turn. If a block is abandoned before its end, the generator is set back to the
    draw that was handed out last.

    Parameters
    ----------
    start : ndarray
        The point from which the first draw was made.
    record : Record
    end : State
        The state at the last draw.
    step_size : float
    generator : dict
        The state of the random number generator before the first draw.
    evaluations : int
        Number of evaluations of the geometry that preceded the first draw.
    """

    def __init__(
        self,
        start: np.ndarray,
        record: Record,
        end: State,
        step_size: float,
        generator: dict[str, Any],
        evaluations: int = 0,
    ):
        self.start, self.record, self.end = start, record, end
        self.step_size, self.generator, self.evaluations = step_size, generator, evaluations
        self.numbers = record.numbers.tolist()
        self.taken = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether all draws have been handed out."""
        return self.taken == len(self.numbers)


class BlockSize:
    """The number of draws to make in one call: as many as fit into some 20 ms.

    Only the size of blocks depends on the clock; the draws do not depend on the size. A block ends
    at the latest where the metric is checked, which needs the state at that draw.
    """

    def __init__(self) -> None:
        self._size, self._start = 1, 0.0

    def next(self, most: int) -> int:
        """Return the size of the next block, and start the clock."""
        self._start = time.perf_counter()
        return min(self._size, most)

    def record(self, size: int) -> None:
        """Stop the clock after a block of given size."""
        passed = time.perf_counter() - self._start
        fitting = int(size * _BUDGET / max(passed, 1e-9))
        # Twice as many at most, since the first calls may be slow for other reasons.
        self._size = max(1, min(fitting, 2 * self._size))
