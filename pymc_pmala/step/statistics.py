"""What a step method tells of each draw, and how the progress bar shows it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning
from rich.progress import ProgressColumn, TextColumn
from rich.table import Column

__all__ = ["STATISTICS", "progress_columns", "progress_update"]


class _Number:
    """The type of a statistic that is stored as float64, and that PyMC's steps call otherwise.

    PyMC refuses a compound step whose methods differ in the type of a statistic, and its own
    differ in ``accepted``: float64 in Metropolis, bool in HamiltonianMC and DEMetropolis. To
    stand beside any of them this compares equal to both, and so has no hash.
    """

    dtype = np.dtype(np.float64)
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) or other is bool or other is np.float64


STATISTICS: dict[str, tuple[Any, list[int] | None]] = {
    # NUTS's name and type, which PyMC makes `acceptance_rate` of: under that name at once, it
    # would be lost beside NUTS.
    "mean_tree_accept": (np.dtype(np.float64), []),
    "accepted": (_Number(), []),
    "diverging": (bool, []),
    # NUTS has `int` here and HamiltonianMC `np.int64`; this equals both.
    "divergences": (np.dtype(np.int64), []),
    "n_transitions": (np.int64, []),
    "step_size": (np.float64, []),
    "step_size_bar": (np.float64, []),
    "log_det_metric": (np.float64, []),
    "metric_floored": (np.float64, []),
    "metric_replaced": (bool, []),
    "model_logp": (np.float64, []),
    "warning": (SamplerWarning, None),
}
"""Types and shapes of the statistics of a draw, as PyMC takes them."""

_SHOWN = ("divergences", "step_size", "acceptance_rate")


def progress_columns(n_chains: int) -> tuple[list[ProgressColumn], dict[str, list[int]]]:
    """Columns of the progress bar, and what they show before the first draw."""
    forms = (
        "{task.fields[divergences]}",
        "{task.fields[step_size]:0.3f}",
        "{task.fields[acceptance_rate]:0.2f}",
    )
    titles = ("Divergences", "Step size", "Accept")
    columns: list[ProgressColumn] = [
        TextColumn(form, table_column=Column(title, ratio=1))
        for form, title in zip(forms, titles, strict=True)
    ]
    return columns, {name: [0] * n_chains for name in _SHOWN}


def progress_update() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the columns show after a draw, by its statistics."""

    def update(stats: dict[str, Any]) -> dict[str, Any]:
        return {
            "divergences": stats["divergences"],
            "step_size": stats["step_size"],
            "acceptance_rate": stats["mean_tree_accept"],
            "failing": stats["divergences"] > 0,
        }

    return update
