"""The figures of a cell of the comparison, from the records of its runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks.samplers import SAMPLERS

__all__ = ["EFFECTIVE", "Cell", "Cells", "cells"]

EFFECTIVE = 1000
"""Number of effective draws to which the time is measured."""


@dataclass(frozen=True)
class Cell:
    """Results of one sampler on one row, as medians over seeds.

    Attributes
    ----------
    cold_setup, warm_setup : float or None
        Seconds before the first draw, with an empty and with a full cache of compiled code; None
        if not measured.
    tuning : float
        Seconds of tuning, summed over chains.
    seconds_per_draw, gradients_per_draw : float
        The cost of a draw, in seconds and in evaluations of the log-density and its gradient.
    steps_per_draw : float or None
        Transitions or leapfrog steps per draw.
    bulk_ess, tail_ess : float
        Effective sample sizes, each the smallest over all variables.
    bulk_rate, tail_rate, rate : float
        Effective draws per second of sampling: bulk, tail, and the smaller of the two.
    rate_with_tuning : float
        min(bulk, tail) effective draws per second of tuning and sampling.
    per_gradient : float
        min(bulk, tail) effective draws in the time of a thousand gradients.
    memory : float
        Largest memory of the process in megabytes.
    void : str or None
        The reason why these figures are meaningless, if they are.
    """

    cold_setup: float | None
    warm_setup: float | None
    tuning: float
    seconds_per_draw: float
    gradients_per_draw: float
    steps_per_draw: float | None
    bulk_ess: float
    tail_ess: float
    bulk_rate: float
    tail_rate: float
    rate: float
    rate_with_tuning: float
    per_gradient: float
    memory: float
    void: str | None

    @property
    def cold_seconds(self) -> float | None:
        """Seconds from the model to `EFFECTIVE` draws, with an empty cache of compiled code."""
        return self._seconds(self.cold_setup)

    @property
    def warm_seconds(self) -> float | None:
        """Seconds from the model to `EFFECTIVE` draws, with a full cache of compiled code."""
        return self._seconds(self.warm_setup)

    def _seconds(self, setup: float | None) -> float | None:
        return None if setup is None else setup + self.tuning + EFFECTIVE / self.rate


Cells = dict[tuple[str, str], Cell | str]
"""Cells by row and sampler, with a reason where there is no result."""


def cells(runs: Sequence[dict[str, Any]]) -> Cells:
    """Return the cells of all runs."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        grouped.setdefault((run["task"]["row"], run["task"]["sampler"]), []).append(run)
    found = {key: _cell(group) for key, group in grouped.items()}
    return {key: _with_cold_setup(key, cell, found) for key, cell in found.items()}


def _with_cold_setup(key: tuple[str, str], cell: Cell | str, found: Cells) -> Cell | str:
    """Take the cold set-up from the sampler that compiles the same functions, if it was first."""
    row, sampler = key
    other = found.get((row, SAMPLERS[sampler].compiler or sampler))
    if isinstance(cell, str) or cell.cold_setup is not None or not isinstance(other, Cell):
        return cell
    return replace(cell, cold_setup=other.cold_setup)


def _cell(runs: list[dict[str, Any]]) -> Cell | str:
    failures = [run["failure"] for run in runs if "failure" in run]
    if failures:
        return failures[0]

    def middle(figure: Callable[[dict[str, Any]], float]) -> float:
        return median(figure(run) for run in runs)

    def named(name: str) -> float:
        return median(run[name] for run in runs)

    def setup(cold: bool) -> float | None:
        times = [run["setup_seconds"] for run in runs if run["cold"] is cold]
        return median(times) if times else None

    def size(run: dict[str, Any]) -> float:
        return min(run["bulk_ess"], run["tail_ess"])

    steps = [run["steps_per_draw"] for run in runs if run["steps_per_draw"] is not None]
    voids = [run["void"] for run in runs if run["void"]]
    return Cell(
        cold_setup=setup(True),
        warm_setup=setup(False),
        tuning=named("tuning_seconds"),
        seconds_per_draw=named("seconds_per_draw"),
        gradients_per_draw=named("gradients_per_draw"),
        steps_per_draw=median(steps) if steps else None,
        bulk_ess=named("bulk_ess"),
        tail_ess=named("tail_ess"),
        bulk_rate=middle(lambda run: run["bulk_ess"] / run["sampling_seconds"]),
        tail_rate=middle(lambda run: run["tail_ess"] / run["sampling_seconds"]),
        rate=middle(lambda run: size(run) / run["sampling_seconds"]),
        rate_with_tuning=middle(
            lambda run: size(run) / (run["sampling_seconds"] + run["tuning_seconds"])
        ),
        per_gradient=middle(
            lambda run: 1000 * size(run) * run["gradient_seconds"] / run["sampling_seconds"]
        ),
        memory=named("peak_memory"),
        void=f"{len(voids)} of {len(runs)} seeds: {voids[0]}" if voids else None,
    )
