"""Which sampler for this model? The answer by measurement."""

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
    """Samplers compared on one model; prints as a table, the fastest first.

    Attributes
    ----------
    samplers : list of SamplerFigures
        Sorted by their seconds to 400 effective draws; those in trouble last.
    recommended : str or None
        Name of the sampler to use; None if no draws can be relied on.
    reason : str
        Why, in a sentence.
    idata : dict
        What each sampler returned, by name, for ArviZ.
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
        """Draw effective draws a second, and where the time to 400 of them goes.

        Parameters
        ----------
        axes : sequence of two matplotlib axes, optional
            Where to draw; a new figure by default.

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
    """Run samplers on a model, and say which one suits it.

    Every sampler runs with the settings that it has by default, one after the other, its
    chains in sequence in this process. Discrete variables get the step methods that PyMC
    assigns to them. What the model has compiled earlier is taken from the cache, as it would
    be in another run.

    Parameters
    ----------
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    steps : sequence of str or class, or mapping of str to str or callable, optional
        Which of ``"PMALA"``, ``"SimplifiedMMALA"``, ``"MMALA"``, ``"MALA"``, ``"NUTS"`` and
        ``"nutpie"`` to run; by default all that can sample the model and are installed. Classes
        of step methods, ``[PMALA, pm.Slice]``, sample all continuous variables. A
        mapping gives them names of your own, and takes functions that make a step, or a list
        of steps: ``{"Euler": lambda: PMALA(integrator="euler"), "NUTS": "NUTS"}``.
    draws : int, optional
        Draws of each chain, 1000 by default.
    seconds : float, optional
        Instead of `draws`: how long each sampler draws, after compiling and tuning. A sampler's
        first chain gets its share of the time, the others make as many draws.
    tune : int, optional
        Tuning steps of each chain; each sampler's own by default.
    chains : int, default 4
        Chains of each sampler.
    random_seed : int, optional
        Seed of every run.
    progressbar : bool, default True
        Whether to show how far the comparison has got.

    Returns
    -------
    Comparison
        Prints as a table in a terminal and in a notebook; ``.plot()`` draws it. After Ctrl-C,
        with the samplers that had been measured until then.

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
        raise ValueError("Give draws or seconds, not both: one of them ends a chain.")
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
                # PyMC ends one chain on Ctrl-C, and has begun the next.
                raise KeyboardInterrupt
            watch.see(draw)

        for name, sampler in chosen.items():
            watch.start(name)
            per_chain = None if seconds is None else seconds / chains
            try:
                run: TimedRun | str = _run(sampler, model, options, per_chain, see)
            except Exception as error:
                # One sampler that cannot sample the model does not end the comparison.
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
        reason = f"Interrupted before {', '.join(left)} had been measured. {reason}"
    runs = {name: run.idata for name, run in found.items() if isinstance(run, TimedRun)}
    return Comparison(figures, recommended, reason, runs)


# ---- Running -----------------------------------------------------------------------------

Sampler = str | Callable[[], Any]


def _choose(
    steps: Sequence[str | type] | Mapping[str, Sampler] | None, model: pm.Model
) -> dict[str, Sampler]:
    """Samplers by the names that the table gives them."""
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
            "names to functions that make a step."
        )
    if "nutpie" in chosen.values() and not has_nutpie:
        raise ImportError("nutpie is not installed: `pip install nutpie`, or leave it out.")
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
        # A class of step methods, as `pm.sample` would make it.
        return timed_sample(model, lambda: sampler(model.continuous_value_vars), options, clock)
    return timed_sample(model, sampler, options, clock)


@contextmanager
def _noticed_interrupt() -> Iterator[threading.Event]:
    """Notice Ctrl-C, which PyMC takes for the end of one chain and does not tell."""
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
    """Keep PyMC's messages about each run from breaking into the progress bar."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Watch:
    """The progress bar: a line for each sampler."""

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
        """Begin the line of the next sampler."""
        self._end_task()
        self._task = self._progress.add_task(name, total=None, phase="compiling and sampling")

    def see(self, draw: Any) -> None:
        """Show a draw; now and then, for a bar is not to take longer than the draws."""
        if draw.draw_idx % 50:
            return
        doing = "tuning" if draw.tuning else "sampling"
        phase = f"{doing} chain {draw.chain + 1} of {self._chains}, draw {draw.draw_idx}"
        self._progress.update(self._task, total=self._chains, completed=draw.chain, phase=phase)

    def _end_task(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1, phase="done")
            self._progress.stop_task(self._task)
