"""Find the best sampler for a model by measurement."""

import importlib.util
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymc as pm

from pymc_pmala.arguments import (
    check_count,
    check_flag,
    check_seed,
    context_model,
    is_number,
    shown,
)
from pymc_pmala.step.step_methods import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.tools.plots import plot_comparison
from pymc_pmala.tools.posterior_draws import fixed_variables
from pymc_pmala.tools.quality import ENOUGH
from pymc_pmala.tools.tables import Tabular
from pymc_pmala.tools.timing import (
    PhaseClock,
    TimedRun,
    start_compilers,
    timed_nutpie,
    timed_sample,
)
from pymc_pmala.tools.verdict import (
    SamplerFigures,
    number,
    recommend,
    sampler_figures,
    three_figures,
)
from pymc_pmala.tools.watch import Watch, duration

__all__ = ["Comparison", "SamplerFigures", "compare"]

LANGEVIN = {cls.__name__: cls for cls in (PMALA, SimplifiedMMALA, MMALA, MALA)}
NAMES = (*LANGEVIN, "NUTS", "nutpie")
SHORT = {"draws": 2, "tune": 2, "chains": 1}


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """A comparison of samplers on one model, which prints as a table.

    Attributes
    ----------
    samplers : list of SamplerFigures
        Sorted by the time of tuning and 400 effective draws, with unreliable samplers last.
    recommended : str or None
        Name of the recommended sampler; None if no sampler is reliable.
    reason : str
        Reason for the recommendation.
    idata : dict
        The draws of each sampler by name, as returned by PyMC.
    seconds : float
        Time that the comparison took.
    """

    samplers: list[SamplerFigures]
    recommended: str | None
    reason: str
    idata: dict[str, Any]
    seconds: float = math.nan

    _TITLE = "Samplers compared"
    _TEXT = ("sampler",)
    _NUMBERS = (
        "bulk ESS",
        "tail ESS",
        "ESS/s",
        f"s to {ENOUGH}",
        "set-up (s)",
        "r-hat",
        "diverg.",
        "off (MCSE)",
    )

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                f.name,
                number(f.bulk_ess, ".0f"),
                number(f.tail_ess, ".0f"),
                three_figures(f.ess_per_second),
                three_figures(f.seconds_to_enough),
                number(f.setup_seconds, ".1f"),
                number(f.rhat, ".3f"),
                str(f.divergences),
                number(f.disagreement, ".1f"),
            )
            for f in self.samplers
        ]

    def _notes(self) -> list[str]:
        troubles = [f"{f.name}: {f.trouble}." for f in self.samplers if f.trouble]
        first = ", ".join(
            f"{f.name} {f.first_setup_seconds:.1f} s"
            for f in self.samplers
            if math.isfinite(f.first_setup_seconds)
        )
        notes = [self.reason, *troubles]
        if first:
            notes.append(f"First set-ups, with what had to be compiled: {first}.")
        if math.isfinite(self.seconds):
            notes.append(f"The comparison took {duration(self.seconds)}.")
        return notes

    def plot(self, axes: Sequence[Any] | None = None) -> Any:
        """Plot effective draws per second, and the time to 400 effective draws by phase.

        Parameters
        ----------
        axes : sequence of two matplotlib axes, optional
            Axes to plot on; a new figure by default.

        Returns
        -------
        ndarray of two matplotlib axes
        """
        return plot_comparison(self.samplers, self.recommended, axes)


def compare(
    model: pm.Model | None = None,
    *,
    steps: Sequence[str | type] | Mapping[str, str | Callable[[], Any]] | None = None,
    draws: int | None = None,
    seconds: float | None = None,
    tune: int | None = None,
    chains: int = 4,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Comparison:
    """Run several samplers on a model and recommend one of them.

    The samplers run one after the other with their default settings, each with its chains in
    sequence in the current process. Discrete variables are sampled by the step methods that PyMC
    assigns to them. The recommendation depends on the time of tuning and of 400 effective draws.
    Set-up times are listed beside it. Each sampler is set up twice, and the second time counts, so
    that all of them find their compiled code in the cache.

    Parameters
    ----------
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    steps : sequence of str or class, or mapping of str to str or callable, optional
        Which of ``"PMALA"``, ``"SimplifiedMMALA"``, ``"MMALA"``, ``"MALA"``, ``"NUTS"`` and
        ``"nutpie"`` to run; by default all that are installed and can sample the model. Step
        method classes, as in ``[PMALA, pm.Slice]``, sample all continuous variables. A mapping
        gives the samplers names of your choice, and may contain functions that return a step
        method or a list of step methods:
        ``{"Euler": lambda: PMALA(integrator="euler"), "NUTS": "NUTS"}``.
    draws : int, optional
        Number of draws per chain, 1000 by default.
    seconds : float, optional
        Sampling time of each sampler, after compiling and tuning; use it instead of `draws`. The
        first chain gets its share of the time, and the other chains make the same number of draws.
    tune : int, optional
        Number of tuning steps per chain; by default that of each sampler.
    chains : int, default 4
        Number of chains per sampler.
    random_seed : int, optional
        Seed of every run.
    progressbar : bool, default True
        Whether to show the progress of the comparison.

    Returns
    -------
    Comparison
        Prints as a table in a terminal and in a notebook; ``.plot()`` plots it. After Ctrl-C it
        contains the samplers measured so far.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_pmala import compare
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, 1, observed=[0.3, 1.2, 0.8])
    >>> comparison = compare(model, seconds=5)  # doctest: +SKIP
    >>> comparison.recommended  # doctest: +SKIP
    'MALA'
    """
    if draws is not None and seconds is not None:
        raise ValueError("Pass draws or seconds, not both: only one of them can end a chain.")
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise ValueError(f"seconds must be a positive number, but is {shown(seconds)}.")
    for name, count, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1)):
        if name == "chains" or count is not None:
            check_count(name, count, least)
    check_seed("random_seed", random_seed)
    check_flag("progressbar", progressbar)
    model = context_model(model)
    chosen = _choose(steps, model)
    options: dict[str, Any] = {"chains": chains, "random_seed": random_seed}
    if tune is not None:
        options["tune"] = tune
    if seconds is None:
        options["draws"] = 1000 if draws is None else draws
    start_compilers()
    found: dict[str, TimedRun | str] = {}
    began = time.perf_counter()
    watch = Watch(len(chosen), chains, seconds, progressbar)
    with _quiet_pymc(), _noticed_interrupt() as interrupt, watch:

        def see(draw: Any) -> None:
            if interrupt.is_set():
                # On Ctrl-C, PyMC ends the current chain and starts the next one.
                raise KeyboardInterrupt
            watch.see(draw)

        for name, sampler in chosen.items():
            watch.start(name)
            per_chain = None if seconds is None else seconds / chains
            try:
                # The first run is too short to count, and leaves compiled code in the cache.
                first = _run(sampler, model, options | SHORT, None, see).setup
                measured = _run(sampler, model, options, per_chain, see)
                run: TimedRun | str = measured._replace(first_setup=first)
            except Exception as error:
                # A sampler that cannot sample the model does not end the comparison.
                text = str(error).strip().partition("\n")[0]
                run = f"failed, {type(error).__name__}: {text}".rstrip(".")
            except KeyboardInterrupt:
                interrupt.set()
            if interrupt.is_set():
                break
            found[name] = run
    left = [name for name in chosen if name not in found]
    if not found:
        raise KeyboardInterrupt
    figures = sampler_figures(found, model, chains)
    recommended, reason = recommend(figures)
    if recommended is not None and not fixed_variables(model):
        reason += (
            " For posterior means alone fewer draws are enough: see `posterior_mean`, which "
            "reduces their errors."
        )
    if left:
        reason = f"Interrupted before measuring {', '.join(left)}. {reason}"
    runs = {name: run.idata for name, run in found.items() if isinstance(run, TimedRun)}
    return Comparison(figures, recommended, reason, runs, time.perf_counter() - began)


# ---- Running -----------------------------------------------------------------------------

Sampler = str | Callable[[], Any]


def _choose(
    steps: Sequence[str | type] | Mapping[str, Sampler] | None, model: pm.Model
) -> dict[str, Sampler]:
    """Return the samplers to run, by their names in the table."""
    has_nutpie = importlib.util.find_spec("nutpie") is not None
    if steps is None:
        nutpie = ("nutpie",) if has_nutpie and not model.discrete_value_vars else ()
        return {name: name for name in (*LANGEVIN, "NUTS", *nutpie)}
    if isinstance(steps, str):
        steps = [steps]
    if not isinstance(steps, Mapping | Sequence) or isinstance(steps, bytes):
        raise TypeError(
            f"steps must be a list of names or classes, or a mapping, but is {shown(steps)}."
        )
    if isinstance(steps, Mapping):
        chosen: dict[str, Sampler] = dict(steps)
    else:
        chosen = {s if isinstance(s, str) else getattr(s, "__name__", repr(s)): s for s in steps}
    if not chosen:
        raise ValueError("There is nothing to compare: steps is empty.")
    unknown = [s for s in chosen.values() if not callable(s) and s not in list(NAMES)]
    if unknown:
        raise ValueError(
            f"steps lists unknown samplers, {shown(unknown)}. Expected some of {list(NAMES)}, or a "
            "mapping from names to functions that return a step method."
        )
    if "nutpie" in chosen.values() and not has_nutpie:
        raise ImportError("nutpie is not installed. Run `pip install nutpie`, or omit it.")
    return chosen


def _run(
    sampler: Sampler,
    model: pm.Model,
    options: dict[str, Any],
    seconds: float | None,
    see: Callable[[Any], None],
) -> TimedRun:
    if sampler == "nutpie":
        return timed_nutpie(model, options, seconds=seconds)
    clock = PhaseClock(seconds=seconds, watch=see)
    if sampler == "NUTS":
        return timed_sample(model, None, options, clock)
    if isinstance(sampler, str):
        cls = LANGEVIN[sampler]
        return timed_sample(model, lambda: cls(model.continuous_value_vars), options, clock)
    if isinstance(sampler, type):
        # A step method class, which is instantiated as in `pm.sample`.
        return timed_sample(model, lambda: sampler(model.continuous_value_vars), options, clock)
    return timed_sample(model, sampler, options, clock)


@contextmanager
def _noticed_interrupt() -> Iterator[threading.Event]:
    """Record Ctrl-C, which PyMC treats as the end of one chain without reporting it."""
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield event
        return

    def notice(*arguments: Any) -> None:
        event.set()
        before(*arguments)

    signal.signal(signal.SIGINT, notice)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _quiet_pymc() -> Iterator[None]:
    """Prevent PyMC's messages about each run from disrupting the progress bar."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
