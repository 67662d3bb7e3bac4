"""One run of the comparison in its own process: ``python -m benchmarks.cell TASK RESULT``.

TASK is a `Task` in JSON. The measurements are written to the file RESULT.
"""

import json
import logging
import resource
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reference import exact, long_run, why_void
from benchmarks.rows import ROWS
from benchmarks.samplers import SAMPLERS
from benchmarks.transition import gradient_call, interleaved
from pymc_pmala.tools.quality import comparable, effective_sizes, moments
from pymc_pmala.tools.timing import start_compilers

__all__ = ["Task", "measure", "peak_memory", "reference", "warnings_of"]


@dataclass(frozen=True)
class Task:
    """One run: a sampler on a row with a seed, or the reference of the row.

    Attributes
    ----------
    row, sampler : str
        Keys of `ROWS` and `SAMPLERS`; the sampler may also be ``"reference"``.
    seed : int
        Seed of the run.
    draws, chains : int
        Number of draws of each chain, and number of chains.
    tune : int or None
        Number of tuning steps; the default of the sampler if None.
    data : str or None
        Folder of data files.
    """

    row: str
    sampler: str
    seed: int
    draws: int
    chains: int
    tune: int | None
    data: str | None


def measure(task: Task, truth: dict[str, dict]) -> dict[str, Any]:
    """Sample; return times, effective sample sizes and whether the draws are correct."""
    row, sampler = ROWS[task.row], SAMPLERS[task.sampler]
    model = row.build(task.data)
    sampler.load()
    start_compilers()
    options = {"draws": task.draws, "chains": task.chains, "random_seed": task.seed}
    if task.tune is not None:
        options["tune"] = task.tune
    with warnings_of("pymc") as warned:
        draws, setup, tuning, sampling, steps = sampler.run(model, row, options)
    memory = peak_memory()
    bulk, tail = effective_sizes(draws)
    gradient = interleaved({"gradient": gradient_call(model)})["gradient"]
    per_draw = sampling / (task.draws * task.chains)
    return {
        "setup_seconds": setup,
        "tuning_seconds": tuning,
        "sampling_seconds": sampling,
        "seconds_per_draw": per_draw,
        "gradient_seconds": gradient,
        "gradients_per_draw": per_draw / gradient,
        "steps_per_draw": steps,
        "peak_memory": memory,
        "bulk_ess": bulk,
        "tail_ess": tail,
        "void": why_void(comparable(draws, model), truth),
        "warnings": sorted(set(warned)),
    }


def peak_memory() -> float:
    """Return the largest memory that this process has held so far, in megabytes."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In kilobytes on Linux and in bytes on macOS.
    return largest / (1e6 if sys.platform == "darwin" else 1e3)


@contextmanager
def warnings_of(name: str) -> Iterator[list[str]]:
    """Collect the warnings that a logger receives, which are not shown."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    level, shown = logger.level, logger.handlers
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING)
    try:
        yield messages
    finally:
        logger.handlers = shown
        logger.setLevel(level)


def reference(task: Task) -> dict[str, dict]:
    """Return the true means and sds of a row: exact ones, or those of a long run."""
    row = ROWS[task.row]
    if isinstance(row.reference, str):
        raise ValueError(f"the reference of {task.row} is that of {row.reference}")
    if isinstance(row.reference, dict):
        return exact(row.reference)
    model = row.build(task.data)
    names = [rv.name for rv in model.free_RVs]
    draws = long_run(row.reference(task.data), names, task.draws, row.jitter)
    return moments(comparable(draws, model))


def main() -> None:
    """Run the task given on the command line."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    task = Task(**json.loads(sys.argv[1]))
    try:
        if task.sampler == "reference":
            found = reference(task)
        else:
            found = measure(task, json.loads(sys.stdin.read()))
    except Exception as error:
        traceback.print_exc()
        # The table shows the last line; some messages contain a traceback of their own.
        sys.exit(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    Path(sys.argv[2]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
