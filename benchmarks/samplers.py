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


# One process and one thread for all; what follows on the draws is the same for all.
QUIET = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}


class PhaseClock:
    """Callback of `pm.sample` that adds up the time of tuning and of recorded draws.

    The very first draw is left to the set-up, whose end nothing else marks.
    """

    def __init__(self) -> None:
        self.tuning = self.sampling = 0.0
        self._last: float | None = None

    def __call__(self, trace, draw) -> None:
        now = time.process_time()
        if self._last is not None:
            if draw.tuning:
                self.tuning += now - self._last
            else:
                self.sampling += now - self._last
        self._last = now


def _timed(model: pm.Model, options: dict[str, Any], step=None) -> TimedDraws:
    clock = PhaseClock()
    start = processor_seconds()
    with model:
        method = {"step": step()} if step else {"nuts_sampler": "pymc"}
        idata = pm.sample(callback=clock, **method, **options, **QUIET)
    total = processor_seconds() - start
    setup = total - clock.tuning - clock.sampling
    return TimedDraws(_free_draws(idata, model), setup, clock.tuning, clock.sampling)


def _langevin(cls: type, model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    def step():
        if not row.blocks:
            return cls()
        return [cls([model[name] for name in block]) for block in row.blocks]

    return _timed(model, options, step)


def _nuts(model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    return _timed(model, options)


def _nutpie(model: pm.Model, row: Row, options: dict[str, Any]) -> TimedDraws:
    """As `pm.sample` calls it, in its two halves."""
    import nutpie

    options = options.copy()
    seed = options.pop("random_seed")
    start = processor_seconds()
    compiled = nutpie.compile_pymc_model(model)
    middle = processor_seconds()
    idata = nutpie.sample(compiled, seed=seed, cores=1, progress_bar=False, **options)
    total = processor_seconds() - middle
    # Draws come with their number of gradients, which is what the time goes into.
    tuned = float(idata.warmup_sample_stats["n_steps"].sum())
    share = tuned / (tuned + float(idata.sample_stats["n_steps"].sum()))
    draws = _free_draws(idata, model)
    return TimedDraws(draws, middle - start, share * total, (1 - share) * total)


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
        idata = pm.sample(nuts_sampler=name, **options, **QUIET)
    total = processor_seconds() - start
    # Both are told by the clock on the wall.
    running = max(float(idata.posterior.attrs["sampling_time"]) - compiling, 0.0)
    running *= total / (time.perf_counter() - wall)
    tune = int(idata.posterior.attrs["tuning_steps"])
    share = tune / (tune + options["draws"])
    draws = _free_draws(idata, model)
    return TimedDraws(draws, total - running, share * running, (1 - share) * running)


def _free_draws(idata, model: pm.Model) -> dict[str, np.ndarray]:
    return {v.name: np.asarray(idata.posterior[v.name].values) for v in model.free_RVs}


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
