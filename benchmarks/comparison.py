"""The comparison of samplers, with each run in a separate process and its result stored."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cell import Task
from benchmarks.samplers import SAMPLERS

__all__ = ["Settings", "compare", "load_results"]

ROOT = Path(__file__).parents[1]
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass(frozen=True)
class Settings:
    """The runs of a comparison, and where the results are stored.

    Attributes
    ----------
    rows, samplers : tuple of str
        Keys of `ROWS` and `SAMPLERS`.
    seeds : int
        Number of runs of each cell, with seeds 1, 2, …
    draws, chains, tune, data
        As in `Task`.
    reference_draws : int
        Number of draws of each of the four chains of a reference.
    timeout : float
        Time limit of a run in seconds.
    results : Path
        Folder of the results.
    fresh : bool
        Whether to repeat runs that already have results.
    warm : bool
        Whether all cells share one cache of compiled code. This is faster, but cold set-up times
        are not measured.
    """

    rows: tuple[str, ...]
    samplers: tuple[str, ...]
    seeds: int
    draws: int
    chains: int
    tune: int | None
    data: str | None
    reference_draws: int
    timeout: float
    results: Path
    fresh: bool
    warm: bool


def compare(settings: Settings, tell: Callable[[str], None]) -> Iterator[None]:
    """Make the runs that have no results yet, and yield after every run.

    The samplers of a row take turns, seed by seed and in a different order each time, so that
    other load on the machine affects all of them alike. The first run of a cell starts with an
    empty cache of compiled code, which the later runs use.
    """
    for name in settings.rows:
        truth = _reference(name, settings, tell)
        if truth is None:
            continue
        for seed in range(1, settings.seeds + 1):
            shift = (seed - 1) % len(settings.samplers)
            for sampler in settings.samplers[shift:] + settings.samplers[:shift]:
                if _run_once(_task(name, sampler, seed, settings), truth, settings, tell):
                    yield


def load_results(folder: Path) -> list[dict[str, Any]]:
    """Load all runs in a folder of results."""
    return [_record(path) for path in sorted(folder.glob("runs/*.json"))]


def _record(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _task(row: str, sampler: str, seed: int, settings: Settings) -> Task:
    return Task(row, sampler, seed, settings.draws, settings.chains, settings.tune, settings.data)


def _reference(
    name: str, settings: Settings, tell: Callable[[str], None]
) -> dict[str, dict] | None:
    """Return the true moments of a row; None, with a message, if they cannot be computed."""
    path = settings.results / "references" / f"{name}.json"
    if settings.fresh or not path.exists():
        tell(f"{name}: reference")
        task = replace(_task(name, "reference", 0, settings), draws=settings.reference_draws)
        failure = _run(task, path, "", 10 * settings.timeout, _shared_cache(settings))
        if failure:
            tell(f"{name}: skipped, because the reference failed ({failure})")
            return None
    return _record(path)


def _run_once(task: Task, truth: dict, settings: Settings, tell: Callable[[str], None]) -> bool:
    """Run a task and store its record; return False if there is nothing to run."""
    label = f"{task.row}-{task.sampler}"
    path = settings.results / "runs" / f"{label}-{task.seed}.json"
    cache = _shared_cache(settings) if settings.warm else settings.results / "cache" / label
    if not SAMPLERS[task.sampler].installed:
        if task.seed == 1:
            tell(f"{label}: skipped, {SAMPLERS[task.sampler].package} is not installed")
        return False
    if not settings.fresh and path.exists() and _record(path)["task"] == asdict(task):
        return False
    first = path.with_name(f"{label}-1.json")
    if task.seed > 1 and "failure" in _record(first):
        return False
    if task.seed == 1 and not settings.warm:
        shutil.rmtree(cache, ignore_errors=True)
    tell(f"{label}: seed {task.seed}")
    # With a shared cache it is unknown whether the first run compiles.
    cold = None if settings.warm and task.seed == 1 else not cache.exists()
    record: dict[str, Any] = {"task": asdict(task), "cold": cold}
    part = path.with_suffix(".part")
    failure = _run(task, part, json.dumps(truth), settings.timeout, cache)
    record |= {"failure": failure} if failure else _record(part)
    part.unlink(missing_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    outcome = failure or record["void"]
    if outcome:
        tell(f"{label}: seed {task.seed}: {outcome}")
    return True


def _shared_cache(settings: Settings) -> Path:
    return settings.results / "cache" / "shared"


def _run(task: Task, path: Path, stdin: str, timeout: float, cache: Path) -> str | None:
    """Run a task in a new process; return a description of the failure, or None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    flags = [os.environ.get("PYTENSOR_FLAGS", ""), f"base_compiledir={cache.resolve()}"]
    environment = ONE_THREAD | {
        "PYTENSOR_FLAGS": ",".join(filter(None, flags)),
        "NUMBA_CACHE_DIR": str(cache.resolve() / "numba"),
    }
    command = [
        sys.executable,
        "-m",
        "benchmarks.cell",
        json.dumps(asdict(task)),
        str(path.resolve()),
    ]
    try:
        subprocess.run(
            command, input=stdin, cwd=ROOT, env=os.environ | environment, timeout=timeout,
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no result after {timeout:.0f} s"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        return lines[-1][:200] if lines else f"exit status {error.returncode}"
    return None
