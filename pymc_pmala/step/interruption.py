"""How Ctrl-C ends a run: as an interrupt wherever it arrives, and for all chains."""

from typing import Any

__all__ = ["Run", "is_interrupt"]


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or what became of it on its way.

    Within numba's call the interrupt becomes a ``SystemError``, "returned a result with an
    exception set", which PyMC does not know for what it is.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class Run:
    """The chains that PyMC draws one after another in one process with one step.

    An interrupt ends one of them, and PyMC begins the next, which is to end at once. They
    belong together if PyMC puts the step back into the same state before each: it is one object
    within a call of ``pm.sample``, and another in the next call.

    Attributes
    ----------
    is_over : bool
        Whether the chain that begins follows one that was interrupted.
    has_draws : bool
        Whether a chain of this run has come before this one.
    drawn : int
        Draws made by the present chain.
    """

    def __init__(self) -> None:
        self.is_over = self.has_draws = False
        self.drawn = 0
        self._length = 0
        self._interrupted = False
        self._state: Any = None
        self._same_state = False

    def restore(self, state: Any) -> None:
        """The step is put into a state."""
        self._same_state, self._state = state is self._state, state
        self.is_over = False

    def begin(self, length: int) -> None:
        """A chain begins, of so many draws; 0 if PyMC does not say."""
        # In a callback or in PyMC's own code the interrupt is not seen, but draws are missing.
        ended_early = self._interrupted or self.drawn < self._length
        self.has_draws, self._same_state = self._same_state, False
        self.is_over = self.has_draws and ended_early
        self._length, self.drawn, self._interrupted = length, 0, False

    def interrupt(self) -> None:
        """The present chain was interrupted."""
        self._interrupted = True

    def complete(self) -> None:
        """The present chain is as long as it was to be, whatever was asked of PyMC."""
        self.drawn = self._length
