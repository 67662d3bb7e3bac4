"""Find the best sampler for a model by measurement."""

import importlib.util
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymc as pm
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pymc_pmala.step.step_methods import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.tools.plots import plot_comparison
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

__all__ = ["Comparison", "SamplerFigures", "compare"]

LANGEVIN = {cls.__name__: cls for cls in (PMALA, SimplifiedMMALA, MMALA, MALA)}
NAMES = (*LANGEVIN, "NUTS", "nutpie")


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """A comparison of samplers on one model, which prints as a table.

    Attributes
    ----------
    samplers : list of SamplerFigures
        Sorted by the time to 400 effective draws, with unreliable samplers last.
    recommended : str or None
        Name of the recommended sampler; None if no sampler is reliable.
    reason : str
        Reason for the recommendation.
    idata : dict
        The draws of each sampler by name, as returned by PyMC.
    """

    samplers: list[SamplerFigures]
    recommended: str | None
    reason: str
    idata: dict[str, Any]

    _TITLE = "Samplers compared"
    _TEXT = ("sampler",)
    _NUMBERS = (
        "bulk ESS",
        "tail ESS",
        "ESS/s",
        f"s to {ENOUGH}",
        "compile (s)",
        "r-hat",
        "divergences",
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
                number(f.compile_seconds, ".1f"),
                number(f.rhat, ".3f"),
                str(f.divergences),
                number(f.disagreement, ".1f"),
            )
            for f in self.samplers
        ]

    def _notes(self) -> list[str]:
        troubles = [f"{f.name}: {f.trouble}." for f in self.samplers if f.trouble]
        return [self.reason, *troubles]

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
    assigns to them. Code that was compiled earlier is taken from the cache, as in any other run.

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
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be positive, not {seconds}.")
    model = pm.modelcontext(model)
    chosen = _choose(steps, model)
    options: dict[str, Any] = {"chains": chains, "random_seed": random_seed}
    if tune is not None:
        options["tune"] = tune
    if seconds is None:
        options["draws"] = 1000 if draws is None else draws
    start_compilers()
    found: dict[str, TimedRun | str] = {}
    with _quiet_pymc(), _noticed_interrupt() as interrupt, _Watch(chains, progressbar) as watch:

        def see(draw: Any) -> None:
            if interrupt.is_set():
                # On Ctrl-C, PyMC ends the current chain and starts the next one.
                raise KeyboardInterrupt
            watch.see(draw)

        for name, sampler in chosen.items():
            watch.start(name)
            per_chain = None if seconds is None else seconds / chains
            try:
                run: TimedRun | str = _run(sampler, model, options, per_chain, see)
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
    if left:
        reason = f"Interrupted before measuring {', '.join(left)}. {reason}"
    runs = {name: run.idata for name, run in found.items() if isinstance(run, TimedRun)}
    return Comparison(figures, recommended, reason, runs)


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
    if isinstance(steps, Mapping):
        chosen: dict[str, Sampler] = dict(steps)
    else:
        chosen = {s if isinstance(s, str) else getattr(s, "__name__", repr(s)): s for s in steps}
    if not chosen:
        raise ValueError("There is nothing to compare: steps is empty.")
    unknown = [s for s in chosen.values() if not callable(s) and s not in NAMES]
    if unknown:
        raise ValueError(
            f"Unknown samplers {unknown}. Expected some of {list(NAMES)}, or a mapping from "
            "names to functions that return a step method."
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


class _Watch:
    """Progress bar with one line for each sampler."""

    def __init__(self, chains: int, shown: bool) -> None:
        self._chains = chains
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[phase]}"),
            TimeElapsedColumn(),
            disable=not shown,
        )
        self._task: Any = None

    def __enter__(self) -> "_Watch":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end_task()
        self._progress.stop()

    def start(self, name: str) -> None:
        """Start the line of the next sampler."""
        self._end_task()
        self._task = self._progress.add_task(name, total=None, phase="compiling and sampling")

    def see(self, draw: Any) -> None:
        """Show a draw, but not too often: updating must not take longer than drawing."""
        if draw.draw_idx % 50:
            return
        doing = "tuning" if draw.tuning else "sampling"
        phase = f"{doing} chain {draw.chain + 1} of {self._chains}, draw {draw.draw_idx}"
        self._progress.update(self._task, total=self._chains, completed=draw.chain, phase=phase)

    def _end_task(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1, phase="done")
            self._progress.stop_task(self._task)
