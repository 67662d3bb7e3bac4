"""The statistics of a draw, and the progress bar that shows them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning
from rich.progress import ProgressColumn, TextColumn
from rich.table import Column

__all__ = ["STATISTICS", "progress_columns", "progress_update"]


class _Number:
    """The type of a float64 statistic that compares equal to both float64 and bool.

    PyMC rejects a compound step whose methods declare different types for the same statistic,
    and its own methods differ in ``accepted``: it is float64 in Metropolis, and bool in
    HamiltonianMC and DEMetropolis. This type can be combined with any of them. It cannot have a
    hash, because it equals two different types.
    """

    dtype = np.dtype(np.float64)
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) or other is bool or other is np.float64


STATISTICS: dict[str, tuple[Any, list[int] | None]] = {
    # The name and type that NUTS uses. PyMC renames it to `acceptance_rate`; declared under that
    # name, the statistic would be lost in a compound step with NUTS.
    "mean_tree_accept": (np.dtype(np.float64), []),
    "accepted": (_Number(), []),
    # Acceptance rate of the interweaving moves; NaN if there are none.
    "interweaving_accept": (np.float64, []),
    "diverging": (bool, []),
    # NUTS declares `int` here and HamiltonianMC `np.int64`; this type equals both.
    "divergences": (np.dtype(np.int64), []),
    "n_transitions": (np.int64, []),
    # Evaluations of the log-density with its gradient and metric, in tuning also those from which
    # the metric is learned. The evaluation of a point that is handed in does not count.
    "n_steps": (np.int64, []),
    "step_size": (np.float64, []),
    "step_size_bar": (np.float64, []),
    "log_det_metric": (np.float64, []),
    "metric_floored": (np.float64, []),
    "metric_replaced": (bool, []),
    "model_logp": (np.float64, []),
    "warning": (SamplerWarning, None),
}
"""Types and shapes of the statistics of a draw, in PyMC's format."""

_SHOWN = ("divergences", "step_size", "acceptance_rate")


def progress_columns(n_chains: int) -> tuple[list[ProgressColumn], dict[str, list[int]]]:
    """Return the columns of the progress bar and their values before the first draw."""
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
    """Return a function from the statistics of a draw to the values of the columns."""

    def update(stats: dict[str, Any]) -> dict[str, Any]:
        return {
            "divergences": stats["divergences"],
            "step_size": stats["step_size"],
            "acceptance_rate": stats["mean_tree_accept"],
            "failing": stats["divergences"] > 0,
        }

    return update
