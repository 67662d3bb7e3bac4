"""Results that print as tables: by rich in a terminal, as HTML in a notebook."""

import html
import io
import shutil
from collections.abc import Sequence
from typing import ClassVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

__all__ = ["Tabular"]


class Tabular:
    """A result that prints as a table, with notes below it."""

    _TITLE: ClassVar[str]
    _TEXT: ClassVar[tuple[str, ...]]
    """Headings of the first columns, which contain text."""
    _NUMBERS: ClassVar[tuple[str, ...]]
    """Headings of the remaining columns, which contain numbers."""

    def _cells(self) -> Sequence[Sequence[str]]:
        raise NotImplementedError

    def _notes(self) -> Sequence[str]:
        raise NotImplementedError

    def __rich__(self) -> Table:
        """Render as a table in the terminal."""
        # Without vertical lines: the table of a comparison then fits into 80 columns.
        table = Table(
            title=self._TITLE,
            caption="\n".join(self._notes()),
            caption_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        name, *others = self._TEXT
        table.add_column(name, no_wrap=True)
        for heading in others:
            table.add_column(heading, overflow="fold")
        rows = self._cells()
        for i, heading in enumerate(self._NUMBERS, len(self._TEXT)):
            # A number is never cut, however narrow the terminal: the heading is broken instead.
            width = max([len(row[i]) for row in rows] + [len(word) for word in heading.split()])
            table.add_column(heading, justify="right", min_width=width, overflow="fold")
        for row in rows:
            table.add_row(*row)
        return table

    def __str__(self) -> str:
        """Render as plain text."""
        out = io.StringIO()
        # As wide as the terminal; in a file, wide enough for any table. In a notebook, rich would
        # display it and write nothing.
        width = max(80, shutil.get_terminal_size((1000, 24)).columns)
        console = Console(file=out, width=width, color_system=None, force_jupyter=False)
        console.print(self.__rich__())
        return out.getvalue().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Render as a table in a notebook."""
        sides = ["left"] * len(self._TEXT) + ["right"] * len(self._NUMBERS)
        styles = [f"text-align: {side}; padding: 0.2em 0.7em" for side in sides]

        def line(tag: str, cells: Sequence[str]) -> str:
            parts = (
                f'<{tag} style="{style}">{html.escape(cell)}</{tag}>'
                for style, cell in zip(styles, cells, strict=True)
            )
            return f"<tr>{''.join(parts)}</tr>"

        head = line("th", [*self._TEXT, *self._NUMBERS])
        body = "".join(line("td", row) for row in self._cells())
        foot = "<br>".join(html.escape(note) for note in self._notes())
        title = f"<caption>{html.escape(self._TITLE)}</caption>"
        return f"<table>{title}<thead>{head}</thead><tbody>{body}</tbody></table><p>{foot}</p>"
