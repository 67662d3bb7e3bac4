"""The samplers of the comparison, run with their default settings and timed by phase."""

import importlib
import importlib.util
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pymc as pm

from benchmarks.rows import Row
from benchmarks.walnuts import sample_walnuts
from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.tools.quality import free_draws
from pymc_pmala.tools.timing import QUIET, PhaseClock, TimedRun, timed_nutpie, timed_sample

__all__ = ["EVERYWHERE", "SAMPLERS", "Sampler", "TimedDraws", "processor_seconds", "samplers_of"]


def processor_seconds() -> float:
    """Return the processor time of this process and of the compilers that it has called.

    With one thread this is the elapsed time, less the time taken by other processes on a busy
    machine.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class TimedDraws(NamedTuple):
    """Draws of the free variables, of shape (chain, draw, …), and the seconds of each phase.

    `steps` is the mean number of transitions or leapfrog steps per draw; None if unknown.
    """

    draws: dict[str, np.ndarray]
    setup: float
    tuning: float
    sampling: float
    steps: float | None = None


@dataclass(frozen=True)
class Sampler:
    """A column of the table.

    Attributes
    ----------
    title : str
        The name in tables.
    run : callable
        ``run(model, row, options)`` samples the model. The `options` are `draws`, `chains`,
        `random_seed` and, unless the default of the sampler is used, `tune`.
    package : str
        The package that must be installed.
    compiler : str or None
        The sampler that compiles the same functions, if it is not this one; its cold set-up is
        also that of this one.
    """

    title: str
    run: Callable[[pm.Model, Row, dict[str, Any]], TimedDraws]
    package: str = "pymc"
    compiler: str | None = None

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.package) is not None

    def load(self) -> None:
        """Import the packages before the run, so that the time to import them is not measured."""
        if self.package in ("numpyro", "blackjax"):
            importlib.import_module("pymc.sampling.jax")
        importlib.import_module(self.package)


def _timed(model: pm.Model, options: dict[str, Any], step=None) -> TimedDraws:
    run = timed_sample(model, step, options, PhaseClock(processor_seconds))
    return _timed_draws(run, model)


def _timed_draws(run: TimedRun, model: pm.Model) -> TimedDraws:
    steps = [
        float(run.idata.sample_stats[name].mean())
        for name in ("n_transitions", "n_steps")
        if name in run.idata.sample_stats
    ]
    return TimedDraws(free_draws(run.idata, model), run.setup, run.tuning, run.sampling, *steps[:1])


def _langevin(
    cls: type, arguments: dict[str, Any], model: pm.Model, row: Row, options: dict[str, Any]
) -> TimedDraws:
    def step():
        if not row.blocks:
            return cls(**arguments)
        return [cls([model[name] for name in block], **arguments) for block in row.blocks]

    return _timed(model, options, step)


def _nuts(model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    return _timed(model, options if row.jitter else options | {"init": "adapt_diag"})


def _nutpie(adaptation: str, model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    options = options if adaptation == "diag" else options | {"adaptation": adaptation}
    return _timed_draws(timed_nutpie(model, options, processor_seconds, jitter=row.jitter), model)


def _walnutpie(model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    return TimedDraws(*sample_walnuts(model, options, processor_seconds, row.jitter))


def _jax(name: str, model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    """Run NUTS of a JAX package through PyMC.

    Compilation, tuning and sampling happen in one call of an internal function of PyMC. JAX reports
    the compilation times. The rest of the call is divided in proportion to the number of draws.
    """
    from jax import block_until_ready, monitoring
    from pymc.sampling import jax as backend

    compiling: list[tuple[float, float]] = []
    running = 0.0

    def listen(event: str, duration: float, **kwargs: Any) -> None:
        if event.startswith("/jax/core/compile"):
            now = time.perf_counter()
            compiling.append((now - duration, now))

    function = f"_sample_{name}_nuts"
    sample = getattr(backend, function)

    def timed(**arguments: Any) -> Any:
        nonlocal running
        compiling.clear()
        wall, start = time.perf_counter(), processor_seconds()
        drawn = block_until_ready(sample(**arguments))
        passed = time.perf_counter() - wall
        # JAX reports compilation in elapsed time.
        share = 1.0 - _covered(compiling) / passed
        running = share * (processor_seconds() - start)
        return drawn

    monitoring.register_event_duration_secs_listener(listen)
    start = processor_seconds()
    with model, patch.object(backend, function, timed):
        idata = pm.sample(
            nuts_sampler=name, nuts_sampler_kwargs={"jitter": row.jitter}, **options, **QUIET
        )
    total = processor_seconds() - start
    tune = int(idata.posterior.attrs["tuning_steps"])
    share = tune / (tune + options["draws"])
    draws = free_draws(idata, model)
    return TimedDraws(draws, total - running, share * running, (1 - share) * running)


def _covered(intervals: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals, since compilations may be nested."""
    covered, end = 0.0, -math.inf
    for start, stop in sorted(intervals):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


def _column(cls: type) -> Sampler:
    return Sampler(cls.__name__, partial(_langevin, cls, {}))


def _euler_column(cls: type) -> Sampler:
    """Return a column with Euler's integrator, for comparison with the default."""
    return Sampler(f"{cls.__name__}, Euler", partial(_langevin, cls, {"integrator": "euler"}))


def _jax_column(title: str, name: str) -> Sampler:
    return Sampler(title, partial(_jax, name), name)


SAMPLERS: dict[str, Sampler] = {
    "pmala": _column(PMALA),
    "mala": _column(MALA),
    "nuts": Sampler("pm.NUTS", _nuts),
    "nutpie": Sampler("nutpie", partial(_nutpie, "diag"), "nutpie"),
    "nutpie_low_rank": Sampler(
        "nutpie, low rank", partial(_nutpie, "low_rank"), "nutpie", compiler="nutpie"
    ),
    "walnutpie": Sampler("walnutpie", _walnutpie, "walnutpie", compiler="nutpie"),
    "mmala": _column(MMALA),
    "simplified_mmala": _column(SimplifiedMMALA),
    "numpyro": _jax_column("NumPyro", "numpyro"),
    "blackjax": _jax_column("BlackJAX", "blackjax"),
    "pmala_euler": _euler_column(PMALA),
    "mala_euler": _euler_column(MALA),
}

EVERYWHERE = ("pmala", "mala", "nuts", "nutpie", "nutpie_low_rank")
"""The samplers that are run on every row; the others are run where a row asks for them."""


def samplers_of(row: Row) -> tuple[str, ...]:
    """Return the samplers that are run on a row by default, in the order of the columns."""
    return tuple(name for name in SAMPLERS if name in EVERYWHERE + row.extra)
