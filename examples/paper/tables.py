"""Tables for the terminal and for the documentation."""

from dataclasses import dataclass, field

import numpy as np
import rich.table

__all__ = ["Table", "interval", "published"]


@dataclass
class Table:
    """A table with a title, headings and rows of text."""

    title: str
    headings: list[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Append a row."""
        self.rows.append(cells)

    def __rich__(self) -> rich.table.Table:
        """Render in a terminal."""
        table = rich.table.Table(title=self.title)
        for i, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Render for the documentation."""
        lines = [self.headings, ["---", *["---:"] * (len(self.headings) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def interval(values: np.ndarray) -> str:
    """Format the mean over the replicates and its standard error."""
    mean = f"{values.mean():.0f}"
    return mean if len(values) < 2 else f"{mean} ± {values.std(ddof=1) / len(values) ** 0.5:.0f}"


def published(row: tuple[float, ...] | None) -> str:
    """Format the published values, if there are any."""
    return "" if row is None else ", ".join(f"{value:g}" for value in row)
