"""Compare the samplers, or measure the cost of their transitions."""

import argparse
import json
import logging
import os
import platform
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

# One BLAS thread, so that times can be compared. This must be set before NumPy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import matplotlib  # noqa: E402

matplotlib.use("Agg")

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.comparison import ROOT, Settings, compare, load_results  # noqa: E402
from benchmarks.data import LOGISTIC_SETS  # noqa: E402
from benchmarks.page import draw_ratios, write_page  # noqa: E402
from benchmarks.report import ratio_tables, remarks  # noqa: E402
from benchmarks.results import Cell, cells  # noqa: E402
from benchmarks.rows import ROWS  # noqa: E402
from benchmarks.samplers import EVERYWHERE, SAMPLERS  # noqa: E402
from benchmarks.transition import dimension_table, transition_table  # noqa: E402

CHAINS = 2
DRAWS = 1000


def main() -> None:
    """Run one benchmark and print its tables."""
    arguments = _parser().parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    if arguments.benchmark == "samplers":
        _compare(arguments)
    else:
        _measure(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "benchmark",
        nargs="?",
        default="samplers",
        choices=["samplers", "transition", "dimension"],
        help="compare samplers (default), or measure a transition in gradients or by dimension",
    )
    parser.add_argument("--only", type=_names(ROWS), metavar="ROW,…", help=", ".join(ROWS))
    parser.add_argument("--data", help="folder of CSV files (default: PMALA_DATA, then PyPI)")
    parser.add_argument("--json", type=Path, help="also write the rows of the table to this file")
    group = parser.add_argument_group("samplers")
    group.add_argument(
        "--samplers",
        type=_names(SAMPLERS),
        metavar="NAME,…",
        help=f"{', '.join(SAMPLERS)} (default: {', '.join(EVERYWHERE)}, and others on some rows)",
    )
    group.add_argument("--seeds", type=int, default=2, help="number of runs of each cell (2)")
    group.add_argument("--draws", type=int, default=DRAWS, help=f"draws per chain ({DRAWS})")
    group.add_argument("--tune", type=int, help="tuning steps (default of each sampler)")
    group.add_argument("--timeout", type=float, default=300.0, help="time limit in seconds (300)")
    group.add_argument("--jobs", type=int, default=2, help="rows worked on at the same time (2)")
    group.add_argument("--results", type=Path, default=Path("benchmark-results"))
    group.add_argument(
        "--references",
        type=Path,
        help="folder of the true means and sds, computed once (default: in the results)",
    )
    group.add_argument("--fresh", action="store_true", help="repeat runs that already have results")
    group.add_argument(
        "--warm", action="store_true", help="share one cache of compiled code (no cold set-up)"
    )
    group.add_argument("--quick", action="store_true", help="a short trial: one seed, few draws")
    group.add_argument("--docs", action="store_true", help="write the tables of the documentation")
    group = parser.add_argument_group("dimension")
    group.add_argument(
        "--dimensions",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[5, 20, 50, 100, 200, 500],
        metavar="D,…",
    )
    return parser


def _names(known: dict):
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
        return names

    return parse


def _compare(arguments: argparse.Namespace) -> None:
    settings = Settings(
        rows=arguments.only or tuple(ROWS),
        samplers=arguments.samplers,
        seeds=1 if arguments.quick else arguments.seeds,
        draws=200 if arguments.quick else arguments.draws,
        chains=CHAINS,
        tune=arguments.tune,
        data=str(Path(arguments.data).resolve()) if arguments.data else None,
        reference_draws=500 if arguments.quick else 2000,
        timeout=arguments.timeout,
        results=arguments.results,
        references=arguments.references or arguments.results / "references",
        fresh=arguments.fresh,
        warm=arguments.warm,
        jobs=arguments.jobs,
    )
    progress = Console(stderr=True)
    with progress.status("comparing") as status:

        def tell(message: str) -> None:
            status.update(message)
            progress.log(message, highlight=False)

        for _ in compare(settings, tell):
            with (settings.results / "table.txt").open("w", encoding="utf-8") as file:
                _print(settings, Console(file=file, width=200))
    _print(settings, Console())
    found = cells(load_results(settings.results))
    draw_ratios(found, settings.results / "ratios.svg")
    if arguments.json:
        arguments.json.write_text(json.dumps(_flat(found), indent=1) + "\n")
    if arguments.docs:
        setting = _setting(load_results(settings.results))
        write_page(found, setting, ROOT / "docs" / "_benchmark")


def _print(settings: Settings, console: Console) -> None:
    found = cells(load_results(settings.results))
    for table in ratio_tables(found):
        console.print(table)
    for line in remarks(found):
        console.print(line, highlight=False)


def _flat(found: dict) -> list[dict]:
    return [
        {"row": row, "sampler": sampler}
        | ({"failure": cell} if isinstance(cell, str) else _figures(cell))
        for (row, sampler), cell in found.items()
    ]


def _figures(cell: Cell) -> dict:
    return vars(cell) | {name: getattr(cell, name) for name in ("cold_seconds", "warm_seconds")}


def _setting(runs: list[dict]) -> str:
    """Describe the versions and settings of the measurement in a sentence."""
    packages = ["pymc", "pytensor"]
    packages += [s.package for s in SAMPLERS.values() if s.package != "pymc" and s.installed]
    versions = ", ".join(f"{name} {version(name)}" for name in dict.fromkeys(packages))
    seeds = Counter((run["task"]["row"], run["task"]["sampler"]) for run in runs).values()
    return (
        f"Python {platform.python_version()} with {versions}; chains of "
        f"{_range(run['task']['draws'] for run in runs)} draws, {CHAINS} of them run one after the "
        f"other; medians over {_range(seeds)} seeds."
    )


def _range(numbers: Iterable[int]) -> str:
    first, *_, last = sorted([*numbers] * 2)
    return str(first) if first == last else f"{first}–{last}"


def _measure(arguments: argparse.Namespace) -> None:
    with Console(stderr=True).status(f"measuring {arguments.benchmark}"):
        if arguments.benchmark == "transition":
            names = arguments.only or ("pima", "german")
            rows = transition_table([n for n in names if n in LOGISTIC_SETS], arguments.data)
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
