"""Compare PMALA and MALA with NUTS on six well-known models."""

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path

# One BLAS thread, so that times can be compared. This must be set before NumPy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from rich.console import Console

from examples.gallery.models import MODELS
from examples.gallery.pictures import draw
from pymc_pmala import Comparison, compare

DOCS = Path(__file__).parents[2] / "docs" / "_six"
SAMPLERS = ("PMALA", "MALA", "NUTS", "nutpie")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the samplers on the requested models."""
    parser = argparse.ArgumentParser(prog="python -m examples.gallery", description=__doc__)
    parser.add_argument("--only", default="", help="comma-separated models (default: all)")
    parser.add_argument("--draws", type=int, default=1000, help="draws per chain (1000)")
    parser.add_argument("--tune", type=int, help="tuning draws (default: that of each sampler)")
    parser.add_argument(
        "--docs", type=Path, nargs="?", const=DOCS, help="write table and pictures to this folder"
    )
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="comma-separated")
    options = parser.parse_args(arguments)
    samplers = options.samplers.split(",")
    names = options.only.split(",") if options.only else list(MODELS)
    found = {}
    for name in names:
        found[name] = compare(
            MODELS[name](),
            steps=samplers,
            draws=options.draws,
            tune=options.tune,
            random_seed=1,
            progressbar=False,
        )
        Console().print(name, found[name])
    if options.docs:
        options.docs.mkdir(exist_ok=True)
        for name, comparison in found.items():
            draw(name, comparison.idata, options.docs / f"{name}.png")
        (options.docs / "table.md").write_text(table(found, samplers), encoding="utf-8")


def table(found: dict[str, Comparison], samplers: Sequence[str]) -> str:
    """Return a Markdown table: seconds to 400 effective draws of each sampler, by model."""
    lines = [
        "| model | " + " | ".join(f"`{name}`" for name in samplers) + " | largest difference |"
    ]
    lines.append("|---|" + "---:|" * (len(samplers) + 1))
    for name, comparison in found.items():
        figures = {f.name: f for f in comparison.samplers}
        times = [_time(figures[sampler]) for sampler in samplers]
        difference = f"{figures['PMALA'].disagreement:.1f}"
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(times)} | {difference} |")
    return "\n".join(lines) + "\n"


def _time(figures) -> str:
    if figures.trouble is not None or math.isnan(figures.seconds_to_enough):
        return "unreliable"
    return f"{figures.seconds_to_enough:.2g}"


if __name__ == "__main__":
    main()
