"""Tables and a figure of the results of the comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator
from rich.table import Table

from benchmarks.rows import ROWS
from benchmarks.samplers import SAMPLERS
from pymc_pmala.tools.quality import ENOUGH

__all__ = ["Cell", "cells", "draw_ratios", "ratio_tables", "remarks", "write_page"]

BASELINE = "nutpie"


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
    bulk_ess, tail_ess : float
        Effective sample sizes, each the smallest over all variables.
    rate : float
        min(bulk, tail) effective draws per second of sampling.
    rate_with_tuning : float
        The same per second of tuning and sampling.
    seconds_to_enough : float or None
        Seconds from the model to 400 effective draws, including cold set-up and tuning.
    void : str or None
        The reason why these figures are meaningless, if they are.
    """

    cold_setup: float | None
    warm_setup: float | None
    tuning: float
    seconds_per_draw: float
    gradients_per_draw: float
    bulk_ess: float
    tail_ess: float
    rate: float
    rate_with_tuning: float
    seconds_to_enough: float | None
    void: str | None


def cells(runs: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Cell | str]:
    """Return the cells by row and sampler, with a reason where there is no result."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        grouped.setdefault((run["task"]["row"], run["task"]["sampler"]), []).append(run)
    return {key: _cell(group) for key, group in grouped.items()}


def _cell(runs: list[dict[str, Any]]) -> Cell | str:
    failures = [run["failure"] for run in runs if "failure" in run]
    if failures:
        return failures[0]

    def middle(name: str) -> float:
        return median(run[name] for run in runs)

    def setup(cold: bool) -> float | None:
        times = [run["setup_seconds"] for run in runs if run["cold"] is cold]
        return median(times) if times else None

    def sizes(run: dict[str, Any]) -> float:
        return min(run["bulk_ess"], run["tail_ess"])

    cold, tuning = setup(True), middle("tuning_seconds")
    rate = median(sizes(run) / run["sampling_seconds"] for run in runs)
    voids = [run["void"] for run in runs if run["void"]]
    return Cell(
        cold_setup=cold,
        warm_setup=setup(False),
        tuning=tuning,
        seconds_per_draw=middle("seconds_per_draw"),
        gradients_per_draw=middle("gradients_per_draw"),
        bulk_ess=middle("bulk_ess"),
        tail_ess=middle("tail_ess"),
        rate=rate,
        rate_with_tuning=median(
            sizes(run) / (run["sampling_seconds"] + run["tuning_seconds"]) for run in runs
        ),
        seconds_to_enough=None if cold is None else cold + tuning + ENOUGH / rate,
        void=f"{len(voids)} of {len(runs)} seeds: {voids[0]}" if voids else None,
    )


# ---- Tables ------------------------------------------------------------------------------

FIGURES = {
    "Effective draws a second, tuning included": "rate_with_tuning",
    "Effective draws a second of sampling": "rate",
    f"Seconds from the model to {ENOUGH} effective draws": "seconds_to_enough",
}
DETAILS = {
    "set-up cold (s)": "cold_setup",
    "warm (s)": "warm_setup",
    "tuning (s)": "tuning",
    "draw (ms)": "seconds_per_draw",
    "gradients a draw": "gradients_per_draw",
    "bulk ESS": "bulk_ess",
    "tail ESS": "tail_ess",
    "ESS/s": "rate",
    "ESS/s with tuning": "rate_with_tuning",
    f"s to {ENOUGH}": "seconds_to_enough",
}


def ratio_tables(found: dict[tuple[str, str], Cell | str]) -> list[Table]:
    """Return a table for each figure, with the ratio of each entry to that of nutpie."""
    tables = []
    for title, figure in _known(found).items():
        header, lines = _grid(found, figure)
        table = Table(title=f"{title} (× {BASELINE})")
        for i, name in enumerate(header):
            table.add_column(name, justify="right" if i else "left")
        for line in lines:
            table.add_row(*line)
        tables.append(table)
    return tables


def _known(found: dict[tuple[str, str], Cell | str]) -> dict[str, str]:
    """Return the figures that are available for at least one cell."""
    return {
        title: figure
        for title, figure in FIGURES.items()
        if any(_value(cell, figure) is not None for cell in found.values())
    }


def _grid(
    found: dict[tuple[str, str], Cell | str], figure: str
) -> tuple[list[str], list[list[str]]]:
    rows, columns = _present(found)
    lines = []
    for row in rows:
        base = _value(found.get((row, BASELINE)), figure)
        line = [ROWS[row].title]
        for column in columns:
            line.append(_entry(found.get((row, column)), figure, base))
        lines.append(line)
    return ["", *[SAMPLERS[column].title for column in columns]], lines


def _present(found: dict[tuple[str, str], Cell | str]) -> tuple[list[str], list[str]]:
    rows = [row for row in ROWS if any(key[0] == row for key in found)]
    columns = [column for column in SAMPLERS if any(key[1] == column for key in found)]
    return rows, columns


def _value(cell: Cell | str | None, figure: str) -> float | None:
    return getattr(cell, figure) if isinstance(cell, Cell) and not cell.void else None


def _entry(cell: Cell | str | None, figure: str, base: float | None) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return "failed"
    if cell.void:
        return "void"
    value = getattr(cell, figure)
    if value is None:
        return "–"
    return _number(value) if base is None else f"{_number(value)} (×{_number(value / base)})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def remarks(found: dict[tuple[str, str], Cell | str]) -> list[str]:
    """List the reasons for void and failed cells."""
    lines = []
    for (row, column), cell in sorted(found.items()):
        reason = cell if isinstance(cell, str) else cell.void
        if reason:
            kind = "failed" if isinstance(cell, str) else "void"
            lines.append(f"{ROWS[row].title}, {SAMPLERS[column].title}, {kind}: {reason}")
    return lines


# ---- The page and its figure ---------------------------------------------------------------


def write_page(found: dict[tuple[str, str], Cell | str], setting: str, folder: Path) -> None:
    """Write the tables and the figure to the folder that the documentation includes."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = _present(found)
    parts = [setting]
    for title, figure in _known(found).items():
        parts += [f"## {title}", _markdown(*_grid(found, figure))]
    parts.append("## Row by row")
    for row in rows:
        lines = []
        for column in columns:
            cell = found.get((row, column))
            if isinstance(cell, Cell):
                lines.append([SAMPLERS[column].title, *_detail(cell)])
        parts += [f"### {ROWS[row].title}", ROWS[row].note, _markdown(["", *DETAILS], lines)]
    if lines := remarks(found):
        parts += ["## Void and failed", "\n".join(f"- {line}" for line in lines)]
    (folder / "tables.md").write_text("\n\n".join(filter(None, parts)) + "\n", encoding="utf-8")
    draw_ratios(found, folder / "ratios.svg")


def _detail(cell: Cell) -> list[str]:
    entries = []
    for name in DETAILS.values():
        value = getattr(cell, name)
        if name == "seconds_per_draw":
            value = 1e3 * value
        entries.append(_number(value))
    if cell.void:
        entries = [f"({entry})" for entry in entries]
    return entries


def _markdown(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *lines])


def draw_ratios(found: dict[tuple[str, str], Cell | str], path: Path) -> None:
    """Plot the effective draws per second of each sampler, tuning included, relative to nutpie."""
    rows, columns = _present(found)
    figure, axes = plt.subplots(figsize=(8, 1 + 0.4 * len(rows)), layout="constrained")
    markers = dict(zip(SAMPLERS, "oDs^vx+*12", strict=True))
    for column in columns:
        points = []
        for height, row in enumerate(reversed(rows)):
            value = _value(found.get((row, column)), "rate_with_tuning")
            base = _value(found.get((row, BASELINE)), "rate_with_tuning")
            if value is not None and base is not None:
                points.append((value / base, height))
        if points:
            label = SAMPLERS[column].title
            axes.plot(*zip(*points, strict=True), markers[column], label=label, alpha=0.8)
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticks(range(len(rows)), [ROWS[row].title for row in reversed(rows)])
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel(f"min(bulk, tail) ESS per second, tuning included, relative to {BASELINE}")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
