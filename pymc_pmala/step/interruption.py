"""Handling of Ctrl-C, which ends all chains of a run wherever it arrives."""

from typing import Any

__all__ = ["Run", "is_interrupt"]


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is a KeyboardInterrupt or was caused by one.

    Within a call of numba's code the interrupt becomes a ``SystemError``, "returned a result with
    an exception set", which PyMC does not recognize as an interrupt.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class Run:
    """The chains that PyMC draws one after another in one process with one step method.

    After an interrupt has ended one of them, PyMC starts the next one, which should then end
    immediately. Chains belong to the same run if PyMC restores the same state object before each
    of them: every call of ``pm.sample`` uses an object of its own.

    Attributes
    ----------
    is_over : bool
        Whether an earlier chain of this run was interrupted.
    has_draws : bool
        Whether this run has an earlier chain.
    drawn : int
        Number of draws of the current chain.
    """

    def __init__(self) -> None:
        self.is_over = self.has_draws = False
        self.drawn = 0
        self._length = 0
        self._interrupted = False
        self._state: Any = None
        self._same_state = False

    def restore(self, state: Any) -> None:
        """Record that PyMC has restored a state of the step method."""
        self._same_state, self._state = state is self._state, state
        self.is_over = False

    def begin(self, length: int) -> None:
        """Record the start of a chain with a given number of draws; 0 if it is unknown."""
        # An interrupt in a callback or in PyMC's own code is not seen here, but draws are missing.
        ended_early = self._interrupted or self.drawn < self._length
        self.has_draws, self._same_state = self._same_state, False
        self.is_over = self.has_draws and ended_early
        self._length, self.drawn, self._interrupted = length, 0, False

    def interrupt(self) -> None:
        """Record that the current chain was interrupted."""
        self._interrupted = True

    def complete(self) -> None:
        """Record that the current chain is complete, even if it is shorter than requested."""
        self.drawn = self._length
