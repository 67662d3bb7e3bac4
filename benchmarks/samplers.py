"""The samplers of the comparison, each run with a user's defaults and timed by phase."""

import importlib
import importlib.util
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from benchmarks.rows import Row
from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.quality import free_draws
from pymc_pmala.timing import QUIET, PhaseClock, TimedRun, timed_nutpie, timed_sample

__all__ = ["SAMPLERS", "Sampler", "TimedDraws", "processor_seconds"]


def processor_seconds() -> float:
    """Processor time of this process and of the compilers that it has called.

    With one thread this is the time of a clock on the wall, less what other processes of a
    busy machine take.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class TimedDraws(NamedTuple):
    """Draws of the free variables, (chain, draw, …) each, and the seconds they took."""

    draws: dict[str, np.ndarray]
    setup: float
    tuning: float
    sampling: float


@dataclass(frozen=True)
class Sampler:
    """A column of the table.

    Attributes
    ----------
    title : str
        How tables call it.
    run : callable
        ``run(model, row, options)`` samples; `options` are `draws`, `chains`, `random_seed`
        and, unless it is left to the sampler, `tune`.
    package : str
        What must be installed.
    """

    title: str
    run: Callable[[pm.Model, Row, dict[str, Any]], TimedDraws]
    package: str = "pymc"

    @property
    def installed(self) -> bool:
        """Whether it can run here."""
        return importlib.util.find_spec(self.package) is not None

    def load(self) -> None:
        """Import what the run would import, so that importing is not measured."""
        if self.package in ("numpyro", "blackjax"):
            importlib.import_module("pymc.sampling.jax")
        importlib.import_module(self.package)


def _timed(model: pm.Model, options: dict[str, Any], step=None) -> TimedDraws:
    run = timed_sample(model, step, options, PhaseClock(processor_seconds))
    return _timed_draws(run, model)


def _timed_draws(run: TimedRun, model: pm.Model) -> TimedDraws:
    return TimedDraws(free_draws(run.idata, model), run.setup, run.tuning, run.sampling)


def _langevin(cls: type, model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    def step():
        if not row.blocks:
            return cls()
        return [cls([model[name] for name in block]) for block in row.blocks]

    return _timed(model, options, step)


def _nuts(model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    return _timed(model, options if row.jitter else options | {"init": "adapt_diag"})


def _nutpie(model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    return _timed_draws(timed_nutpie(model, options, processor_seconds, jitter=row.jitter), model)


def _jax(name: str, model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    """NUTS of a JAX package through PyMC.

    It compiles, tunes and samples in one call. XLA tells how long it compiled; the rest is
    divided by the number of draws.
    """
    from jax import monitoring

    compiling = 0.0

    def listen(event: str, duration: float, **kwargs) -> None:
        nonlocal compiling
        if event.startswith("/jax/core/compile"):
            compiling += duration

    monitoring.register_event_duration_secs_listener(listen)
    wall, start = time.perf_counter(), processor_seconds()
    with model:
        idata = pm.sample(
            nuts_sampler=name, nuts_sampler_kwargs={"jitter": row.jitter}, **options, **QUIET
        )
    total = processor_seconds() - start
    # Both are told by the clock on the wall.
    running = max(float(idata.posterior.attrs["sampling_time"]) - compiling, 0.0)
    running *= total / (time.perf_counter() - wall)
    tune = int(idata.posterior.attrs["tuning_steps"])
    share = tune / (tune + options["draws"])
    draws = free_draws(idata, model)
    return TimedDraws(draws, total - running, share * running, (1 - share) * running)


def _column(cls: type) -> Sampler:
    return Sampler(cls.__name__, lambda *arguments: _langevin(cls, *arguments))


def _jax_column(title: str, name: str) -> Sampler:
    return Sampler(title, lambda *arguments: _jax(name, *arguments), name)


SAMPLERS: dict[str, Sampler] = {
    "pmala": _column(PMALA),
    "mmala": _column(MMALA),
    "simplified_mmala": _column(SimplifiedMMALA),
    "mala": _column(MALA),
    "nuts": Sampler("pm.NUTS", _nuts),
    "nutpie": Sampler("nutpie", _nutpie, "nutpie"),
    "numpyro": _jax_column("NumPyro", "numpyro"),
    "blackjax": _jax_column("BlackJAX", "blackjax"),
}
