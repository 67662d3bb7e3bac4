"""The directive ``distribution-table``: a table of how distributions enter the metric."""

from distributions import NO_GRADIENT, NO_HESSIAN, Row, distribution_rows, missing_distributions
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective


class DistributionTable(SphinxDirective):
    """A table of one family: ``continuous``, ``discrete``, ``multivariate``, …"""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build the table, and warn of distributions that no table lists."""
        missing = missing_distributions()
        if missing:
            logging.getLogger(__name__).warning(
                "no table lists %s: add them to distributions.py", missing
            )
        head = ("distribution", "path", "information")
        return [_table(head, distribution_rows(self.arguments[0]))]


def _table(head: tuple[str, ...], rows: list[Row]) -> nodes.table:
    group = nodes.tgroup("", cols=len(head))
    group += [nodes.colspec("", colwidth=width) for width in (22, 26, 52)]
    group += nodes.thead("", _cells([nodes.Text(h) for h in head]))
    body = nodes.tbody("")
    for row in rows:
        name = nodes.literal(text=row.name)
        known = row.path not in (NO_GRADIENT, NO_HESSIAN)
        path = nodes.Text(row.path) if known else nodes.strong(text=row.path)
        body += _cells([name, path, nodes.Text(row.formula)])
    group += body
    return nodes.table("", group, classes=["distributions"])


def _cells(contents: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", c)) for c in contents])


def setup(app) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("distribution-table", DistributionTable)
    return {"parallel_read_safe": True}
