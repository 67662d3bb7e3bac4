"""The comparison of samplers, with each run in a separate process and its result stored."""

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

from benchmarks.cell import Task
from benchmarks.rows import ROWS
from benchmarks.samplers import SAMPLERS, samplers_of

__all__ = ["Settings", "compare", "load_results"]

ROOT = Path(__file__).parents[1]
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


# Decimal digits of the moments in a file of a reference.
DIGITS = 7
# One for each reference.
LOCKS: defaultdict[str, Lock] = defaultdict(Lock)


@dataclass(frozen=True)
class Settings:
    """The runs of a comparison, and where the results are stored.

    Attributes
    ----------
    rows : tuple of str
        Keys of `ROWS`.
    samplers : tuple of str or None
        Keys of `SAMPLERS`, which are run on all rows; those that each row has by default if None.
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
    references : Path
        Folder of the references, which are computed once and used by all comparisons.
    fresh : bool
        Whether to repeat runs that already have results.
    warm : bool
        Whether all cells share one cache of compiled code. This is faster, but cold set-up times
        are not measured.
    jobs : int
        Number of rows that are worked on at the same time, each by one process.
    """

    rows: tuple[str, ...]
    samplers: tuple[str, ...] | None
    seeds: int
    draws: int
    chains: int
    tune: int | None
    data: str | None
    reference_draws: int
    timeout: float
    results: Path
    references: Path
    fresh: bool
    warm: bool
    jobs: int


def compare(settings: Settings, tell: Callable[[str], None]) -> Iterator[None]:
    """Make the runs that have no results yet, and yield after every run.

    The samplers of a row take turns, seed by seed and in a different order each time, so that
    other load on the machine affects all of them alike. The first run of a cell starts with an
    empty cache of compiled code, which the later runs use.
    """
    done: SimpleQueue[str | None] = SimpleQueue()

    def work(name: str) -> None:
        try:
            for _ in _compare_row(name, settings, tell):
                done.put(None)
        finally:
            done.put(name)

    with ThreadPoolExecutor(settings.jobs) as pool:
        rows = [pool.submit(work, name) for name in settings.rows]
        try:
            left = len(rows)
            while left:
                if done.get() is None:
                    yield
                else:
                    left -= 1
        finally:
            pool.shutdown(cancel_futures=True)
    for row in rows:
        row.result()


def _compare_row(name: str, settings: Settings, tell: Callable[[str], None]) -> Iterator[None]:
    samplers = settings.samplers or samplers_of(ROWS[name])
    tasks = []
    for seed in range(1, settings.seeds + 1):
        shift = (seed - 1) % len(samplers)
        tasks += [_task(name, s, seed, settings) for s in samplers[shift:] + samplers[:shift]]
    tasks = [task for task in tasks if _is_open(task, settings, tell)]
    truth = _reference(name, settings, tell) if tasks else None
    if truth is None:
        return
    for task in tasks:
        if _run_once(task, truth, settings, tell):
            yield
    if not settings.warm:
        for sampler in samplers:
            shutil.rmtree(_cache(name, sampler, settings), ignore_errors=True)


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
    """Return the true moments of a row; None, with a message, if they cannot be computed.

    A stored reference is used if its chains are at least as long as those of the settings. Rows
    with the same posterior share one, which is not computed twice if they run at the same time.
    """
    reference = ROWS[name].reference
    source = reference if isinstance(reference, str) else name
    path = settings.references / f"{source}.json"
    with LOCKS[source]:
        if path.exists():
            stored = _record(path)
            if stored["draws"] >= settings.reference_draws:
                return stored["moments"]
        tell(f"{source}: reference")
        task = replace(_task(source, "reference", 0, settings), draws=settings.reference_draws)
        part = path.with_suffix(".part")
        failure = _run(task, part, "", 10 * settings.timeout, _shared_cache(settings))
        if failure:
            tell(f"{name}: skipped, because the reference failed ({failure})")
            return None
        moments = _rounded(_record(part))
        part.unlink()
        stored = {"draws": settings.reference_draws, "moments": moments}
        path.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    return moments


def _rounded(value: Any) -> Any:
    """Round the numbers of nested lists and dictionaries."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}")


def _path(task: Task, settings: Settings, seed: int | None = None) -> Path:
    name = f"{task.row}-{task.sampler}-{seed or task.seed}.json"
    return settings.results / "runs" / name


def _is_open(task: Task, settings: Settings, tell: Callable[[str], None]) -> bool:
    """Whether a task has no result yet and can have one."""
    if not SAMPLERS[task.sampler].installed:
        if task.seed == 1:
            package = SAMPLERS[task.sampler].package
            tell(f"{task.row}-{task.sampler}: skipped, {package} is not installed")
        return False
    path = _path(task, settings)
    return settings.fresh or not path.exists() or _record(path)["task"] != asdict(task)


def _run_once(task: Task, truth: dict, settings: Settings, tell: Callable[[str], None]) -> bool:
    """Run a task and store its record; return False if its first seed has failed."""
    label = f"{task.row}-{task.sampler}"
    path, first = _path(task, settings), _path(task, settings, seed=1)
    cache = _cache(task.row, task.sampler, settings)
    if task.seed > 1 and "failure" in _record(first):
        return False
    if task.seed == 1 and not settings.warm and SAMPLERS[task.sampler].compiler is None:
        shutil.rmtree(cache, ignore_errors=True)
    tell(f"{label}: seed {task.seed}")
    # With a shared cache it is unknown whether the first run compiles.
    cold = None if settings.warm and task.seed == 1 else not cache.exists()
    record: dict[str, Any] = {"task": asdict(task), "cold": cold}
    part = path.with_suffix(".part")
    failure = _run(task, part, json.dumps(truth), settings.timeout, cache)
    record |= {"failure": failure} if failure else _record(part)
    part.unlink(missing_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    outcome = failure or record["void"]
    if outcome:
        tell(f"{label}: seed {task.seed}: {outcome}")
    return True


def _cache(row: str, sampler: str, settings: Settings) -> Path:
    """Return the folder of the code that a sampler compiles for a row."""
    if settings.warm:
        return _shared_cache(settings)
    return settings.results / "cache" / f"{row}-{SAMPLERS[sampler].compiler or sampler}"


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
