"""The progress of a comparison: which sampler is running, and how long the others will take."""

import time
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["Watch", "duration"]


class Watch:
    """Progress bar with one line for the comparison and one for each sampler.

    Parameters
    ----------
    samplers, chains : int
        Number of samplers, and of the chains of each.
    seconds : float or None
        Sampling time that each sampler is given, if it is known.
    shown : bool
        Whether to show anything.
    """

    def __init__(self, samplers: int, chains: int, seconds: float | None, shown: bool) -> None:
        self._samplers, self._chains, self._seconds = samplers, chains, seconds
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[phase]}"),
            TimeElapsedColumn(),
            disable=not shown,
        )
        self._task: Any = None
        self._done = 0

    def __enter__(self) -> "Watch":
        self._began = time.perf_counter()
        self._progress.start()
        self._total = self._progress.add_task("all", total=self._samplers, phase=self.forecast())
        return self

    def __exit__(self, *error: object) -> None:
        self._end_task()
        self._progress.update(self._total, completed=self._done, phase="done")
        self._progress.stop()

    def start(self, name: str) -> None:
        """Start the line of the next sampler."""
        self._end_task()
        self._progress.update(self._total, completed=self._done, phase=self.forecast())
        self._task = self._progress.add_task(name, total=None, phase="setting up, compiling")

    def see(self, draw: Any) -> None:
        """Show a draw, but not too often: updating must not take longer than drawing."""
        if draw.draw_idx % 50:
            return
        doing = "tuning" if draw.tuning else "sampling"
        phase = f"{doing} chain {draw.chain + 1} of {self._chains}, draw {draw.draw_idx}"
        self._progress.update(self._task, total=self._chains, completed=draw.chain, phase=phase)

    def forecast(self) -> str:
        """Say how long the comparison will take, from what is known so far."""
        place = f"sampler {self._done + 1} of {self._samplers}"
        left = self._samplers - self._done
        if self._done:
            spent = time.perf_counter() - self._began
            return f"{place}, about {duration(spent / self._done * left)} left"
        if self._seconds is not None:
            return f"{place}, at least {duration(self._seconds * left)}"
        return place

    def _end_task(self) -> None:
        if self._task is None:
            return
        self._progress.update(self._task, total=1, completed=1, phase="done")
        self._progress.stop_task(self._task)
        self._task = None
        self._done += 1


def duration(seconds: float) -> str:
    """Format a time in the unit in which one would say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
