"""Tables of the results of the comparison."""

from statistics import geometric_mean
from typing import NamedTuple

from rich.table import Table

from benchmarks.results import EFFECTIVE, Cell, Cells
from benchmarks.rows import ROWS
from benchmarks.samplers import SAMPLERS

__all__ = [
    "BASELINE",
    "FIGURES",
    "grid",
    "is_known",
    "number",
    "present",
    "ratio",
    "ratio_tables",
    "remarks",
]

BASELINE = "nutpie"


class Figure(NamedTuple):
    """A figure that has a table: its title, the attribute of a cell, and whether more is better."""

    title: str
    name: str
    more_is_better: bool


FIGURES = [
    Figure(f"Seconds from the model to {EFFECTIVE} effective draws, cold", "cold_seconds", False),
    Figure(f"Seconds from the model to {EFFECTIVE} effective draws, warm", "warm_seconds", False),
    Figure("Effective draws a second of sampling, bulk", "bulk_rate", True),
    Figure("Effective draws a second of sampling, tail", "tail_rate", True),
    Figure("Effective draws in the time of 1000 gradients", "per_gradient", True),
    Figure("Peak memory in MB", "memory", False),
    Figure("Seconds of set-up, cold", "cold_setup", False),
]


def ratio_tables(found: Cells) -> list[Table]:
    """Return a table for each figure that was measured."""
    tables = []
    for figure in FIGURES:
        if not is_known(found, figure):
            continue
        header, lines = grid(found, figure)
        table = Table(title=f"{figure.title} (ratio to {BASELINE}, above 1 is better)")
        for i, name in enumerate(header):
            table.add_column(name, justify="right" if i else "left")
        for line in lines[:-1]:
            table.add_row(*line)
        table.add_section()
        table.add_row(*lines[-1])
        tables.append(table)
    return tables


def is_known(found: Cells, figure: Figure) -> bool:
    """Whether a figure was measured for more than one column, or for the only one."""
    known = {column for (_, column), cell in found.items() if _value(cell, figure) is not None}
    return len(known) >= min(2, len(present(found)[1]))


def grid(found: Cells, figure: Figure) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of a table, the last of which has the geometric means."""
    rows, columns = present(found)
    lines = [
        [ROWS[row].title, *[_entry(found, row, column, figure) for column in columns]]
        for row in rows
    ]
    means = [_mean_ratio(found, column, figure) for column in columns]
    header = ["", *[SAMPLERS[column].title for column in columns]]
    return header, [*lines, ["Geometric mean", *means]]


def present(found: Cells) -> tuple[list[str], list[str]]:
    """Return the rows and the columns that have cells."""
    rows = [row for row in ROWS if any(key[0] == row for key in found)]
    columns = [column for column in SAMPLERS if any(key[1] == column for key in found)]
    return rows, columns


def ratio(found: Cells, row: str, column: str, figure: Figure) -> float | None:
    """Return how many times better than the baseline a cell is; None if either has no figure."""
    value = _value(found.get((row, column)), figure)
    base = _value(found.get((row, BASELINE)), figure)
    if value is None or base is None:
        return None
    return value / base if figure.more_is_better else base / value


def _value(cell: Cell | str | None, figure: Figure) -> float | None:
    return getattr(cell, figure.name) if isinstance(cell, Cell) and not cell.void else None


def _entry(found: Cells, row: str, column: str, figure: Figure) -> str:
    cell = found.get((row, column))
    if isinstance(cell, str):
        return "failed"
    if cell is not None and cell.void:
        return "void"
    value, times = _value(cell, figure), ratio(found, row, column, figure)
    return number(value) if times is None else f"{number(value)} (×{number(times)})"


def _mean_ratio(found: Cells, column: str, figure: Figure) -> str:
    """Return the geometric mean of a column's ratios, and the number of rows that have one."""
    ratios = [ratio(found, row, column, figure) for row in present(found)[0]]
    known = [times for times in ratios if times is not None]
    return f"×{number(geometric_mean(known))} of {len(known)}" if known else "–"


def number(value: float | None) -> str:
    """Return a number with two digits, or a dash."""
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def remarks(found: Cells) -> list[str]:
    """List the reasons for void and failed cells."""
    lines = []
    for (row, column), cell in sorted(found.items()):
        reason = cell if isinstance(cell, str) else cell.void
        if reason:
            kind = "failed" if isinstance(cell, str) else "void"
            lines.append(f"{ROWS[row].title}, {SAMPLERS[column].title}, {kind}: {reason}")
    return lines
