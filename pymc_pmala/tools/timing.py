"""Time of a run by phase: set-up, tuning and sampling."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from pymc_pmala.step.langevin import Langevin

__all__ = [
    "PhaseClock",
    "TimedRun",
    "sampling_share",
    "start_compilers",
    "timed_nutpie",
    "timed_sample",
]

Clock = Callable[[], float]
"""A function that returns the time in seconds."""

# All chains run in one process, so that their times can be compared.
QUIET = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}
# Number of draws of a chain that is ended by the clock: more than any chain should need.
MANY = 50_000
# Number of draws per chain of nutpie from which the time of a draw is first estimated.
PILOT = 100


class TimedRun(NamedTuple):
    """The draws of a sampler and the seconds of its phases, summed over all chains.

    ``first_setup`` is the set-up of an earlier run of the same sampler, which may have had to
    compile code.
    """

    idata: Any
    setup: float
    tuning: float
    sampling: float
    first_setup: float = math.nan


class PhaseClock:
    """Callback of `pm.sample` that measures the time of tuning and of recorded draws.

    The very first draw counts as part of the set-up, because nothing else marks the end of it.

    Parameters
    ----------
    now : callable
        Returns the time.
    seconds : float, optional
        Time for the recorded draws of the first chain, after which it is ended. The other chains
        make the same number of draws, unless they take three times as long.
    watch : callable, optional
        Called with every draw; its own time is not counted.

    Attributes
    ----------
    end_chain : callable
        Called when a chain is ended by the clock.
    """

    def __init__(
        self,
        now: Clock = time.perf_counter,
        seconds: float | None = None,
        watch: Callable[[Any], None] | None = None,
    ) -> None:
        self.now = now
        self.tuning = self.sampling = 0.0
        self.recorded = 0
        self.end_chain: Callable[[], None] = lambda: None
        self._seconds = seconds
        self._watch = watch
        self._first: int | None = None
        self._length = MANY
        self._chain_began, self._chain_recorded = 0.0, 0
        self._chain: int | None = None
        self._last: float | None = None

    def __call__(self, trace: Any, draw: Any) -> None:
        """Record a draw."""
        elapsed = 0.0 if self._last is None else self.now() - self._last
        if draw.chain != self._chain:
            self._chain, self._chain_began, self._chain_recorded = draw.chain, self.sampling, 0
            self._first = draw.chain if self._first is None else self._first
        if draw.tuning:
            self.tuning += elapsed
        else:
            self.sampling += elapsed
            self.recorded += 1
            self._chain_recorded += 1
        if self._watch is not None:
            self._watch(draw)
        self._last = self.now()
        if self._seconds is not None and self._is_enough():
            self.end_chain()
            # PyMC's documented way to end a chain from a callback; the next chain then starts.
            raise KeyboardInterrupt

    def _is_enough(self) -> bool:
        """Whether the chain has used its time or made its draws."""
        elapsed = self.sampling - self._chain_began
        if self._chain != self._first:
            return self._chain_recorded >= self._length or elapsed > 3.0 * (self._seconds or 0.0)
        self._length = self._chain_recorded
        return elapsed > (self._seconds or 0.0)


def timed_sample(
    model: pm.Model,
    step: Callable[[], Any] | None,
    options: dict[str, Any],
    clock: PhaseClock,
) -> TimedRun:
    """Sample with `pm.sample`, using the step method that a function returns or PyMC's NUTS.

    Parameters
    ----------
    model : pm.Model
    step : callable or None
        Function that returns the step method, called in the model's context as part of the
        set-up. None stands for NUTS as initialised by PyMC.
    options : dict
        ``draws``, ``chains``, ``random_seed`` and other arguments of `pm.sample`. Without
        ``draws``, chains are ended by the clock.
    clock : PhaseClock
    """
    start = clock.now()
    with model:
        method = {"nuts_sampler": "pymc"} if step is None else {"step": step()}
        clock.end_chain = lambda: _end_chains(method.get("step", []))
        idata = pm.sample(callback=clock, **method, **({"draws": MANY} | options), **QUIET)
    total = clock.now() - start
    # Chains that were ended by the clock are truncated to equal lengths.
    kept = idata.posterior.sizes["chain"] * idata.posterior.sizes["draw"]
    sampling = clock.sampling * min(1.0, kept / clock.recorded)
    return TimedRun(idata, total - clock.tuning - clock.sampling, clock.tuning, sampling)


def _end_chains(step: Any) -> None:
    for one in step if isinstance(step, Sequence) else [step]:
        for method in getattr(one, "methods", [one]):
            if isinstance(method, Langevin):
                method.end_chain()


def timed_nutpie(
    model: pm.Model,
    options: dict[str, Any],
    now: Clock = time.perf_counter,
    seconds: float | None = None,
    jitter: bool = True,
) -> TimedRun:
    """Compile and sample with nutpie, as `pm.sample` calls it.

    Without ``draws`` in the options, runs of increasing length determine how many draws a chain
    makes in the given time. Without jitter, all chains start at the initial point of the model.
    """
    import nutpie

    options = options.copy()
    start = now()
    compiled = nutpie.compile_pymc_model(model, jitter_rvs=None if jitter else set())
    setup = now() - start
    seed = options.pop("random_seed")

    def run(draws: int) -> TimedRun:
        start = now()
        idata = nutpie.sample(
            compiled, seed=seed, cores=1, progress_bar=False, **(options | {"draws": draws})
        )
        total = now() - start
        share = sampling_share(idata)
        return TimedRun(idata, setup, (1 - share) * total, share * total)

    if "draws" in options:
        return run(options["draws"])
    wanted, draws = (seconds or 0.0) * options["chains"], PILOT
    found = run(draws)
    # The time per draw cannot be estimated from a short run, which is dominated by its start.
    while found.sampling < 0.8 * wanted and draws < MANY:
        draws = int(min(MANY, draws * np.clip(wanted / found.sampling, 1.5, 30.0)))
        found = run(draws)
    return found


def sampling_share(idata: Any) -> float:
    """Fraction of the time of a nutpie run that was spent on the recorded draws.

    It is computed from the number of gradients of each draw, which dominate the time.
    """
    tuned = float(idata.warmup_sample_stats["n_steps"].sum())
    kept = float(idata.sample_stats["n_steps"].sum())
    return kept / (tuned + kept)


def start_compilers() -> None:
    """Compile a trivial function, so that one-off costs are not attributed to the model."""
    x = pt.vector()
    pytensor.function([x], pt.exp(x).sum())(np.zeros(2, dtype=x.dtype))
