"""The page of the documentation with the results of the comparison, and its figure."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from benchmarks.report import (
    BASELINE,
    FIGURES,
    Figure,
    grid,
    is_known,
    number,
    present,
    ratio,
    remarks,
)
from benchmarks.results import EFFECTIVE, Cell, Cells
from benchmarks.rows import ROWS
from benchmarks.samplers import SAMPLERS

__all__ = ["draw_ratios", "write_page"]

DETAILS = {
    "set-up cold (s)": "cold_setup",
    "warm (s)": "warm_setup",
    "tuning (s)": "tuning",
    "draw (ms)": "seconds_per_draw",
    "gradients a draw": "gradients_per_draw",
    "steps a draw": "steps_per_draw",
    "bulk ESS": "bulk_ess",
    "tail ESS": "tail_ess",
    "ESS/s": "rate",
    "ESS/s with tuning": "rate_with_tuning",
    f"s to {EFFECTIVE}": "cold_seconds",
    "MB": "memory",
}
PANELS = ("cold_seconds", "tail_rate")
MARKERS = dict(zip(SAMPLERS, "oDs^v<x+*12P", strict=True))


def write_page(found: Cells, setting: str, folder: Path) -> None:
    """Write the tables and the figure to the folder that the documentation includes."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = present(found)
    parts = [setting]
    for figure in FIGURES:
        if not is_known(found, figure):
            continue
        parts += [f"## {figure.title}", _markdown(*grid(found, figure))]
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
        entries.append(number(value))
    if cell.void:
        entries = [f"({entry})" for entry in entries]
    return entries


def _markdown(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *lines])


def draw_ratios(found: Cells, path: Path) -> None:
    """Plot the figures of `PANELS` relative to the baseline; to the right is better."""
    rows, _ = present(found)
    figure, panels = plt.subplots(
        1, len(PANELS), figsize=(10, 1.5 + 0.25 * len(rows)), sharey=True, layout="constrained"
    )
    shown = {figure.name: figure for figure in FIGURES}
    for axes, name in zip(panels, PANELS, strict=True):
        _draw_panel(axes, found, shown[name])
    panels[0].set_yticks(range(len(rows)), [ROWS[row].title for row in reversed(rows)])
    panels[0].set_ylim(-0.5, len(rows) - 0.5)
    if panels[0].get_legend_handles_labels()[0]:
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6,
            frameon=False,
        )  # fmt: skip
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _draw_panel(axes: Axes, found: Cells, figure: Figure) -> None:
    rows, columns = present(found)
    for column in columns:
        ratios = [ratio(found, row, column, figure) for row in reversed(rows)]
        points = [(times, height) for height, times in enumerate(ratios) if times is not None]
        if points:
            label = SAMPLERS[column].title
            axes.plot(*zip(*points, strict=True), MARKERS[column], label=label, alpha=0.8)
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.grid(axis="y", linewidth=0.3)
    axes.set_title(figure.title, fontsize="medium")
    axes.set_xlabel(f"times better than {BASELINE}")
