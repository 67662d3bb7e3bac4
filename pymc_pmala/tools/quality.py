"""Quality of draws: effective sample sizes, moments with their errors, agreement of chains."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm

__all__ = [
    "ENOUGH",
    "LARGEST_RHAT",
    "LEAST_MOVES",
    "TAILS",
    "TOLERANCE",
    "Draws",
    "comparable",
    "effective_sizes",
    "estimates",
    "free_draws",
    "largest_rhat",
    "least_moves",
    "moments",
]

Draws = dict[str, np.ndarray]
"""Draws of variables by name, each of shape (chain, draw, …)."""

ENOUGH = 400
"""Number of effective draws needed for a reliable summary, by ArviZ's rule of thumb."""
TOLERANCE = 5.0
"""Difference of two estimates, in standard errors, that is not explained by chance."""
LEAST_MOVES = 0.05
"""Fraction of moves below which a chain counts as stuck, whatever its effective sample size."""
LARGEST_RHAT = 1.05
TAILS = (0.05, 0.95)


def free_draws(idata: Any, model: pm.Model) -> Draws:
    """Draws of the model's free variables."""
    return {v.name: np.asarray(idata.posterior[v.name].values) for v in model.free_RVs}


def comparable(draws: Draws, model: pm.Model) -> Draws:
    """Replace positive variables, whose sd may not exist, by their logarithms."""
    transforms = {rv.name: model.rvs_to_transforms[rv] for rv in model.free_RVs}
    positive = {
        name for name, transform in transforms.items() if getattr(transform, "name", None) == "log"
    }
    return {name: np.log(x) if name in positive else x for name, x in draws.items()}


def effective_sizes(draws: Draws) -> tuple[float, float]:
    """Bulk and tail effective sample sizes, the minimum over the elements of all variables."""
    bulk = min(pm.stats.ess(x, method="bulk") for x in _elements(draws))
    tail = min(pm.stats.ess(x, method="tail", prob=TAILS) for x in _elements(draws))
    return float(bulk), float(tail)


def largest_rhat(draws: Draws) -> float:
    """Largest r-hat over all elements; NaN with one chain."""
    return max(float(pm.stats.rhat(x)) for x in _elements(draws))


def least_moves(draws: Draws) -> float:
    """Fraction of transitions that change a variable, the minimum over chains."""
    return min(_moves(values) for values in draws.values())


def estimates(draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Mean, sd and the quantiles of `TAILS` of all elements, and their standard errors.

    Both of shape (4, number of elements).
    """
    found = np.array([(*_moments(x), *_quantiles(x)) for x in _elements(draws)]).T
    return found[::2], found[1::2]


def moments(draws: Draws) -> dict[str, dict]:
    """Mean and sd of each variable, element by element, with their standard errors."""
    result = {}
    for name, values in draws.items():
        elements = np.array([_moments(x) for x in _elements({name: values})])
        table = elements.T.reshape(4, *values.shape[2:])
        names = ("mean", "mean_error", "sd", "sd_error")
        result[name] = dict(zip(names, table.tolist(), strict=True))
    return result


def _elements(draws: Draws) -> Iterator[np.ndarray]:
    for values in draws.values():
        flat = values.reshape(*values.shape[:2], -1)
        yield from np.moveaxis(flat, 2, 0)


def _moves(values: np.ndarray) -> float:
    changed = np.diff(values.reshape(*values.shape[:2], -1), axis=1) != 0
    return float(changed.any(axis=2).mean(axis=1).min())


def _moments(x: np.ndarray) -> tuple[float, float, float, float]:
    mean, sd = x.mean(), x.std()
    if sd == 0:
        return mean, 0.0, 0.0, 0.0
    squares = (x - mean) ** 2
    # The error of the sd follows from that of the variance by the delta method.
    sd_error = squares.std() / np.sqrt(pm.stats.ess(squares, method="mean")) / (2 * sd)
    return mean, sd / np.sqrt(pm.stats.ess(x, method="mean")), sd, sd_error


def _quantiles(x: np.ndarray) -> list[float]:
    """Quantiles and their standard errors, from those of the fraction of draws below each."""
    if np.ptp(x) == 0:
        return [x.flat[0], 0.0] * len(TAILS)
    found = []
    for p in TAILS:
        value = np.quantile(x, p)
        below = (x <= value).astype(float)
        error = below.std() / np.sqrt(pm.stats.ess(below, method="mean")) if below.std() else 0.0
        low, high = np.quantile(x, np.clip([p - error, p + error], 0.0, 1.0))
        found += [value, 0.5 * (high - low)]
    return found
