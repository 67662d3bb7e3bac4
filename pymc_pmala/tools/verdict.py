"""Evaluation of the draws of several samplers, and the recommendation of one of them."""

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

# Defaults of `pm.sample`, which are recommended unless another sampler is clearly faster.
DEFAULTS = ("NUTS", "nutpie")
# Ratio of two times up to which they are a tie: effective sizes are not known better than this.
CLEARLY = 1.2
# Difference of two set-ups, in seconds, that a user would notice.
NOTICEABLE = 1.0


class SamplerFigures(NamedTuple):
    """Measurements of one sampler.

    Attributes
    ----------
    name : str
        Name of the sampler.
    bulk_ess, tail_ess : float
        Effective sample sizes, each the minimum over all elements of the free variables.
    ess_per_second : float
        The smaller of the two per second of sampling.
    seconds_to_enough : float
        Time of tuning and of 400 effective draws, without the set-up.
    setup_seconds : float
        Time of everything before the first draw, in a run whose code has been compiled before.
    first_setup_seconds : float
        The same, in the first run. It depends on what was in the cache of compiled code.
    tuning_seconds, sampling_seconds : float
        Time of each phase, summed over all chains.
    rhat : float
        Largest r-hat; NaN with one chain.
    divergences : int
        Number of divergent draws.
    disagreement : float
        Largest difference of the means, sds, 5 % and 95 % quantiles from those of the other
        samplers, in Monte Carlo standard errors: the maximum over elements and the median over
        the samplers whose chains agree with each other. The Langevin samplers, which share a
        metric, are compared with NUTS and nutpie if these were run. Positive variables are
        compared on the log scale. NaN if there is no other sampler.
    trouble : str or None
        Why the draws are not reliable; None if they are.
    """

    name: str
    bulk_ess: float = math.nan
    tail_ess: float = math.nan
    ess_per_second: float = math.nan
    seconds_to_enough: float = math.nan
    setup_seconds: float = math.nan
    first_setup_seconds: float = math.nan
    tuning_seconds: float = math.nan
    sampling_seconds: float = math.nan
    rhat: float = math.nan
    divergences: int = 0
    disagreement: float = math.nan
    trouble: str | None = None


def sampler_figures(
    found: dict[str, TimedRun | str], model: pm.Model, chains: int
) -> list[SamplerFigures]:
    """Measurements of each sampler, with the fastest first and unreliable ones last."""
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
    """Measurements of a sampler from its own draws."""
    bulk, tail = effective_sizes(draws)
    rate = min(bulk, tail) / run.sampling
    rhat = largest_rhat(draws)
    moves = least_moves({name: draws[name] for name in continuous}) if continuous else 1.0
    trouble = None
    kept = next(iter(draws.values())).shape[0]
    if kept < chains:
        trouble = f"{chains - kept} of its {chains} chains were too slow to be counted"
    elif moves < LEAST_MOVES:
        trouble = f"a chain moved in {100 * moves:.1f} % of its transitions"
    elif rhat > LARGEST_RHAT:
        trouble = f"its chains disagree, r-hat is {rhat:.2f}"
    diverging = run.idata.sample_stats.get("diverging")
    return SamplerFigures(
        name=name,
        bulk_ess=bulk,
        tail_ess=tail,
        ess_per_second=rate,
        seconds_to_enough=run.tuning + ENOUGH / rate,
        setup_seconds=run.setup,
        first_setup_seconds=run.first_setup,
        tuning_seconds=run.tuning,
        sampling_seconds=run.sampling,
        rhat=rhat,
        divergences=0 if diverging is None else int(diverging.sum()),
        trouble=trouble,
    )


Estimates = tuple[np.ndarray, np.ndarray]
"""Estimates of each quantity (rows) and element (columns), and their standard errors."""
QUANTITIES = ("means", "sds", *(f"{p:.0%} quantiles" for p in TAILS))


def _judge(
    figures: SamplerFigures, known: dict[str, Estimates], sound: Sequence[str]
) -> SamplerFigures:
    """Compare a sampler with the others, considering only those without trouble of their own."""
    defaults = [name for name in sound if name in DEFAULTS and name != figures.name]
    others = [name for name in sound if name not in DEFAULTS and name != figures.name]
    # The Langevin samplers share a metric, so they may all be wrong in the same way.
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
    """Lower median: of three samplers, only one that differs from both others is suspect."""
    return sorted(distances)[(len(distances) - 1) // 2]


def _distance(a: Estimates, b: Estimates) -> tuple[float, str]:
    """Largest difference of two samplers' estimates in standard errors, and its quantity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.abs(a[0] - b[0]) / np.hypot(a[1], b[1])
    # 0/0: the variable is constant in both.
    largest = np.max(np.nan_to_num(away, nan=0.0, posinf=np.inf), axis=1)
    return float(np.max(largest)), QUANTITIES[int(np.argmax(largest))]


def recommend(figures: Sequence[SamplerFigures]) -> tuple[str | None, str]:
    """Recommend the sampler with the least time of tuning and 400 effective draws.

    Of samplers that are equally fast, a default of PyMC is recommended if there is one.
    """
    sound = [f for f in figures if f.trouble is None and math.isfinite(f.seconds_to_enough)]
    if not sound:
        return None, "No sampler can be recommended: none of them produced reliable draws."
    best = sound[0]
    tied = [f for f in sound if f.seconds_to_enough < CLEARLY * best.seconds_to_enough]
    chosen = next((f for f in tied if f.name in DEFAULTS), best)
    reason = (
        f"{'Stay with' if chosen.name in DEFAULTS else 'Use'} {chosen.name}: tuning and {ENOUGH} "
        f"effective draws take {three_figures(chosen.seconds_to_enough)} s"
    )
    if others := [f.name for f in tied if f is not chosen]:
        reason += f". {_listed(others)} {'is' if len(others) == 1 else 'are'} as fast, within 20 %"
    if slower := sound[len(tied) :]:
        ratio = slower[0].seconds_to_enough / chosen.seconds_to_enough
        reason += f"; {slower[0].name}, the next best, takes {ratio:.2g} times as long"
    return chosen.name, f"{reason}{_for_a_long_run(chosen, sound)}{_for_one_run(chosen, sound)}."


def _for_a_long_run(chosen: SamplerFigures, sound: Sequence[SamplerFigures]) -> str:
    """Name a sampler that makes up for its tuning if many draws are needed."""
    best = max(sound, key=lambda f: f.ess_per_second)
    if best.ess_per_second < CLEARLY * chosen.ess_per_second:
        return ""
    return (
        f". For a long run use {best.name}, which has {three_figures(best.ess_per_second)} "
        f"effective draws per second instead of {three_figures(chosen.ess_per_second)}"
    )


def _for_one_run(chosen: SamplerFigures, sound: Sequence[SamplerFigures]) -> str:
    """Name a sampler that is done earlier because of its short set-up."""

    def total(f: SamplerFigures) -> float:
        return f.setup_seconds + f.seconds_to_enough

    best = min(sound, key=total)
    if not total(chosen) > max(CLEARLY * total(best), total(best) + NOTICEABLE):
        return ""
    return (
        f". With its set-up, {best.name} is the first to finish, after "
        f"{three_figures(total(best))} s instead of {three_figures(total(chosen))} s"
    )


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def number(value: float, form: str) -> str:
    """Format a number, with a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:{form}}"


def three_figures(value: float) -> str:
    """Format a number with three significant figures, or as an integer from 100 on."""
    return number(value, ".0f" if value >= 100 else ".3g")
