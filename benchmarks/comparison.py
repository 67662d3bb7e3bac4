"""The comparison of samplers: every run in a process of its own, none of them run twice."""

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
    """What is run, and where the results are kept.

    Attributes
    ----------
    rows, samplers : tuple of str
        Keys of `ROWS` and `SAMPLERS`.
    seeds : int
        Runs of each cell, with seeds 1, 2, …
    draws, chains, tune, data
        As in `Task`.
    reference_draws : int
        Draws of each of the four chains of a reference.
    timeout : float
        Seconds after which a run is given up.
    results : Path
        Folder of the results.
    fresh : bool
        Whether to run again what has been run.
    warm : bool
        Whether all cells share one cache of compiled code: faster, and no compilation is cold.
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
    """Run what has not been run, and yield after every run.

    The samplers of a row take turns, seed by seed and each time in another order, so that a
    busy moment of the machine hits all of them alike. The first run of a cell compiles into
    an empty cache, those after it find what the first has left.
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
    """All runs in a folder of results."""
    return [_record(path) for path in sorted(folder.glob("runs/*.json"))]


def _record(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _task(row: str, sampler: str, seed: int, settings: Settings) -> Task:
    return Task(row, sampler, seed, settings.draws, settings.chains, settings.tune, settings.data)


def _reference(
    name: str, settings: Settings, tell: Callable[[str], None]
) -> dict[str, dict] | None:
    """The row's true moments; None, and a note, where they cannot be found."""
    path = settings.results / "references" / f"{name}.json"
    if settings.fresh or not path.exists():
        tell(f"{name}: reference")
        task = replace(_task(name, "reference", 0, settings), draws=settings.reference_draws)
        failure = _run(task, path, "", 10 * settings.timeout, _shared_cache(settings))
        if failure:
            tell(f"{name}: left out, no reference ({failure})")
            return None
    return _record(path)


def _run_once(task: Task, truth: dict, settings: Settings, tell: Callable[[str], None]) -> bool:
    """Run a task and keep its record; False if there was nothing to run."""
    label = f"{task.row}-{task.sampler}"
    path = settings.results / "runs" / f"{label}-{task.seed}.json"
    cache = _shared_cache(settings) if settings.warm else settings.results / "cache" / label
    if not SAMPLERS[task.sampler].installed:
        if task.seed == 1:
            tell(f"{label}: left out, {SAMPLERS[task.sampler].package} is not installed")
        return False
    if not settings.fresh and path.exists() and _record(path)["task"] == asdict(task):
        return False
    first = path.with_name(f"{label}-1.json")
    if task.seed > 1 and "failure" in _record(first):
        return False
    if task.seed == 1 and not settings.warm:
        shutil.rmtree(cache, ignore_errors=True)
    tell(f"{label}: seed {task.seed}")
    # Of a shared cache nobody knows what the first run finds in it.
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
    """Do a task in a new process; what went wrong, if something did."""
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
