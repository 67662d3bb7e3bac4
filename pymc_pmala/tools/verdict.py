"""What the draws of several samplers are worth, and which sampler is recommended."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
from pymc.vartypes import continuous_types

from pymc_pmala.tools.quality import (
    ENOUGH,
    LARGEST_RHAT,
    LEAST_MOVES,
    TAILS,
    TOLERANCE,
    Draws,
    comparable,
    effective_sizes,
    estimates,
    free_draws,
    largest_rhat,
    least_moves,
)
from pymc_pmala.tools.timing import TimedRun

__all__ = ["SamplerFigures", "number", "recommend", "sampler_figures", "three_figures"]

# What `pm.sample` takes of itself: recommended unless another is clearly faster.
DEFAULTS = ("NUTS", "nutpie")
CLEARLY = 1.25


class SamplerFigures(NamedTuple):
    """What was measured of one sampler.

    Attributes
    ----------
    name : str
        The sampler.
    bulk_ess, tail_ess : float
        Effective sample sizes, each the least over all elements of the free variables.
    ess_per_second : float
        The smaller of the two by second of sampling.
    seconds_to_enough : float
        Seconds from the model to 400 effective draws: compiling, tuning and sampling.
    compile_seconds, tuning_seconds, sampling_seconds : float
        Time of each phase, all chains together. Compiling is everything before the first
        draw.
    rhat : float
        The largest; NaN with one chain.
    divergences : int
        Divergent draws.
    disagreement : float
        How far its means, sds, 5 % and 95 % quantiles are from other samplers', in Monte Carlo
        standard errors: the largest over elements, the median over samplers whose chains agree
        with each other. The Langevin samplers, which share a metric, are held against NUTS and
        nutpie where these have run. Positive variables count by their logarithms. NaN without
        another sampler.
    trouble : str or None
        Why its draws cannot be relied on.
    """

    name: str
    bulk_ess: float = math.nan
    tail_ess: float = math.nan
    ess_per_second: float = math.nan
    seconds_to_enough: float = math.nan
    compile_seconds: float = math.nan
    tuning_seconds: float = math.nan
    sampling_seconds: float = math.nan
    rhat: float = math.nan
    divergences: int = 0
    disagreement: float = math.nan
    trouble: str | None = None


def sampler_figures(
    found: dict[str, TimedRun | str], model: pm.Model, chains: int
) -> list[SamplerFigures]:
    """Figures of each sampler, the fastest first and those in trouble last."""
    continuous = [v.name for v in model.free_RVs if v.dtype in continuous_types]
    figures, known = [], {}
    for name, run in found.items():
        if isinstance(run, str):
            figures.append(SamplerFigures(name, trouble=run))
            continue
        draws = free_draws(run.idata, model)
        figures.append(_measure(name, run, draws, continuous, chains))
        known[name] = estimates(comparable(draws, model))
    sound = [f.name for f in figures if f.trouble is None]
    judged = [_judge(f, known, sound) if f.name in known else f for f in figures]
    return sorted(judged, key=lambda f: (f.trouble is not None, f.seconds_to_enough))


def _measure(
    name: str, run: TimedRun, draws: Draws, continuous: list[str], chains: int
) -> SamplerFigures:
    """What a sampler's own draws say."""
    bulk, tail = effective_sizes(draws)
    rate = min(bulk, tail) / run.sampling
    rhat = largest_rhat(draws)
    moves = least_moves({name: draws[name] for name in continuous}) if continuous else 1.0
    trouble = None
    kept = next(iter(draws.values())).shape[0]
    if kept < chains:
        trouble = f"{chains - kept} of its {chains} chains were too slow to be counted"
    elif moves < LEAST_MOVES:
        trouble = f"a chain moved in {100 * moves:.1f} % of its transitions only"
    elif rhat > LARGEST_RHAT:
        trouble = f"its chains disagree, r-hat is {rhat:.2f}"
    diverging = run.idata.sample_stats.get("diverging")
    return SamplerFigures(
        name=name,
        bulk_ess=bulk,
        tail_ess=tail,
        ess_per_second=rate,
        seconds_to_enough=run.setup + run.tuning + ENOUGH / rate,
        compile_seconds=run.setup,
        tuning_seconds=run.tuning,
        sampling_seconds=run.sampling,
        rhat=rhat,
        divergences=0 if diverging is None else int(diverging.sum()),
        trouble=trouble,
    )


Estimates = tuple[np.ndarray, np.ndarray]
"""Of each quantity (rows) and element, and their standard errors."""
QUANTITIES = ("means", "sds", *(f"{p:.0%} quantiles" for p in TAILS))


def _judge(
    figures: SamplerFigures, known: dict[str, Estimates], sound: Sequence[str]
) -> SamplerFigures:
    """With what the other samplers say, those that are sound by themselves."""
    defaults = [name for name in sound if name in DEFAULTS and name != figures.name]
    others = [name for name in sound if name not in DEFAULTS and name != figures.name]
    # The Langevin samplers share a metric, and may be wrong together.
    groups = [defaults, others] if figures.name in DEFAULTS else [defaults or others]
    found = [_median([_distance(known[figures.name], known[n]) for n in g]) for g in groups if g]
    if not found:
        return figures
    disagreement, quantity = min(found)
    trouble = figures.trouble
    if trouble is None and disagreement > TOLERANCE:
        trouble = f"its {quantity} are {disagreement:.1f} standard errors from the other samplers'"
    return figures._replace(disagreement=disagreement, trouble=trouble)


def _median(distances: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The lower of two: of three samplers the one that differs from both is the odd one out."""
    return sorted(distances)[(len(distances) - 1) // 2]


def _distance(a: Estimates, b: Estimates) -> tuple[float, str]:
    """The largest difference of two samplers' estimates, in standard errors, and of what."""
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.abs(a[0] - b[0]) / np.hypot(a[1], b[1])
    # 0/0: a variable that is constant in both.
    largest = np.max(np.nan_to_num(away, nan=0.0, posinf=np.inf), axis=1)
    return float(np.max(largest)), QUANTITIES[int(np.argmax(largest))]


def recommend(figures: Sequence[SamplerFigures]) -> tuple[str | None, str]:
    """The sampler with the least time to enough draws; a default if it is nearly as fast."""
    sound = [f for f in figures if f.trouble is None and math.isfinite(f.seconds_to_enough)]
    if not sound:
        return None, "No sampler can be recommended: the draws of none can be relied on."
    best, *others = sound
    chosen = best
    time_of_best = f"{ENOUGH} effective draws in {three_figures(best.seconds_to_enough)} s"
    reason = f"Use {best.name}: it gives {time_of_best}, compiling and tuning included"
    if others:
        ratio = others[0].seconds_to_enough / best.seconds_to_enough
        reason += f"; {others[0].name}, the next best, takes {ratio:.2g} times as long"
    defaults = [f for f in others if f.name in DEFAULTS]
    if best.name not in DEFAULTS and defaults:
        ratio = defaults[0].seconds_to_enough / best.seconds_to_enough
        if ratio < CLEARLY:
            chosen = defaults[0]
            reason = (
                f"Stay with {chosen.name}: {best.name} is faster, with {time_of_best}, "
                f"but only by {ratio - 1:.0%}"
            )
    long_run = max(sound, key=lambda f: f.ess_per_second)
    if long_run.ess_per_second > CLEARLY * chosen.ess_per_second:
        reason += (
            f". For a long run use {long_run.name}, which has "
            f"{three_figures(long_run.ess_per_second)} effective draws a second, not "
            f"{three_figures(chosen.ess_per_second)}"
        )
    return chosen.name, reason + "."


def number(value: float, form: str) -> str:
    """Format a number, or a dash if there is none."""
    return "–" if math.isnan(value) else f"{value:{form}}"


def three_figures(value: float) -> str:
    """Format a number with three figures, or as a whole number if it is larger than that."""
    return number(value, ".0f" if value >= 100 else ".3g")
