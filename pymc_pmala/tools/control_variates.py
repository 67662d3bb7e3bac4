r"""Means of correlated draws with control variates: functions whose mean is known to be zero.

For a function f with draws :math:`f_t` and zero-mean functions with draws :math:`\psi_t`, the
series :math:`e_t = f_t - \beta\cdot\psi_t` has the mean of f for every β that does not depend on
the draw t, and a smaller variance for a good one.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
import scipy

__all__ = ["Estimates", "Series", "control_means", "mean_error"]

# Blocks of consecutive draws: the coefficients that are applied in one are fitted on the others.
_BLOCKS = 10
# With fewer draws, no coefficients are fitted.
_FEWEST = 50
# Ridge penalties for standardised functions, as fractions of the number of draws.
_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# An estimate must have a smaller error than a simpler one by this factor to be preferred to it.
_CLEARLY = 0.9
# The means of zero-mean functions may be this much further from zero than expected. The errors of
# fitted estimates grow in proportion beyond; found by simulation.
_BY_CHANCE = 1.4
# A difference of a mean of zero from zero, in standard errors, that is not explained by chance.
_TOLERANCE = 5.0
# Pareto shape of the tails above which there is no variance.
_HEAVIEST = 0.5
# Tails do not matter if the error is less than this fraction of that of the plain mean.
_NEGLIGIBLE = 0.25
# Relative accuracy of derivatives, some of which are finite differences.
_ROUNDING = 1e-8
# A series with a smaller relative standard deviation is constant up to rounding.
_CONSTANT = 1e-13
# Columns that are fitted together, to limit the memory.
_CHUNK = 64


class Series(NamedTuple):
    """Draws of functions and of zero-mean functions.

    Attributes
    ----------
    draws : ndarray of shape (chain, draw, m)
        Draws of the functions of interest.
    corrected : sequence of ndarray of shape (chain, draw, m)
        Draws plus zero-mean functions with fixed coefficients.
    families : sequence of ndarray of shape (chain, draw, p)
        Draws of zero-mean functions, in families that are tried one after the other.
    """

    draws: np.ndarray
    corrected: Sequence[np.ndarray]
    families: Sequence[np.ndarray]

    def chain(self, number: int) -> "Series":
        """One of the chains."""
        one = slice(number, number + 1)
        return Series(
            self.draws[one], [s[one] for s in self.corrected], [f[one] for f in self.families]
        )


class Estimates(NamedTuple):
    """Means of functions, with and without control variates.

    Attributes
    ----------
    mean, mcse : ndarray of shape (m,)
        The better of the two estimates, and its Monte Carlo standard error.
    mean_plain, mcse_plain : ndarray of shape (m,)
        Means of the draws, and their standard errors.
    series : ndarray of shape (chain, draw, m)
        The series whose means are ``mean``.
    notes : list of str
        Why an estimate is the mean of the draws; empty where it is not.
    """

    mean: np.ndarray
    mcse: np.ndarray
    mean_plain: np.ndarray
    mcse_plain: np.ndarray
    series: np.ndarray
    notes: list[str]


def control_means(
    draws: np.ndarray, corrected: Sequence[np.ndarray], families: Sequence[np.ndarray]
) -> Estimates:
    """Means of functions by the best of several control variates, or of none.

    The candidates are the draws, the corrected draws, and both minus a combination of the zero-mean
    functions, fitted by ridge regression. The coefficients of the regression that are applied to a
    block of draws come from the other blocks, so they do not overfit and leave no bias, and the
    penalty is the one with the least variance in the blocks that were left out. The candidate
    with the smallest standard error is chosen, unless a simpler one is nearly as good. The
    arguments are those of `Series`.
    """
    chains, length, count = draws.shape
    found = [_Candidates(series, 0.0, np.ones(count)) for series in corrected]
    for family in families if chains * length >= _FEWEST else ():
        found += _cross_fitted([*corrected, draws], family)
    plain = np.moveaxis(draws, 2, 0)
    candidates = [
        [
            (c.series[:, :, i], _corrected_error(c.series[:, :, i], c.time, c.scales[i]))
            for c in found
        ]
        for i in range(count)
    ]
    errors = np.array([mean_error(series) for series in plain])
    chosen = [_choose(*given) for given in zip(plain, errors, candidates, strict=True)]
    return Estimates(
        mean=np.array([choice.series.mean() for choice in chosen]),
        mcse=np.array([choice.error for choice in chosen]),
        mean_plain=np.array([series.mean() for series in plain]),
        mcse_plain=errors,
        series=np.stack([choice.series for choice in chosen], axis=2),
        notes=[choice.note for choice in chosen],
    )


def mean_error(series: np.ndarray) -> float:
    """Monte Carlo standard error of the mean of chains, of shape (chain, draw)."""
    sd = series.std(ddof=1) if series.size > 1 else np.nan
    if sd <= _CONSTANT * np.abs(series).max():
        return 0.0
    if not sd > 0 or series.shape[1] < 4:
        return np.nan
    return float(sd / np.sqrt(pm.stats.ess(series, method="mean")))


class _Candidates(NamedTuple):
    """Series of all functions, a bound on their autocorrelation time, and factors for their errors.

    Where nothing is fitted there is nothing to add: the bound is 0 and the factors are 1.
    """

    series: np.ndarray
    time: float
    scales: np.ndarray


def _corrected_error(series: np.ndarray, time: float, scale: float) -> float:
    r"""Standard error of the mean of a corrected series, on the safe side.

    What remains after a good correction is far from normal. With skewness γ and n effective draws,
    the variance of the mean divided by its estimated error is about
    :math:`1 + (2 + \frac74 \gamma^2)/n` (Hall 1992), and the error is multiplied by its square
    root. The share of the most extreme draw in the mean is added in quadrature, for heavy tails.
    The autocorrelation time is at least ``time``, and the error is widened by ``scale``.
    """
    if not np.isfinite(series).all():
        return np.inf
    error = mean_error(series)
    if not error > 0:
        return error
    away, sd = series - series.mean(), series.std()
    skewness, effective = ((away / sd) ** 3).mean(), (sd / error) ** 2
    error = max(scale * error, sd * np.sqrt(time / series.size))
    widened = np.sqrt(1.0 + (2.0 + 1.75 * skewness**2) / effective) * error
    return float(np.hypot(widened, np.abs(away).max() / series.size))


class _Choice(NamedTuple):
    series: np.ndarray
    error: float
    note: str


def _choose(
    plain: np.ndarray, error: float, candidates: Sequence[tuple[np.ndarray, float]]
) -> _Choice:
    """Return the best candidate, of series with errors, or the plain series and why."""
    if not error > 0:
        few = "too few draws" if np.isfinite(plain).all() else "not finite"
        return _Choice(plain, error, "constant" if error == 0 else few)
    best, least = plain, error
    rounding = _ROUNDING * plain.std()
    for series, found in candidates:
        if max(found, rounding) < _CLEARLY * least:
            best, least = series, max(found, rounding)
    if best is plain:
        return _Choice(plain, error, "no gain")
    correction = best - plain
    away = abs(correction.mean()) / mean_error(correction)
    if away > _TOLERANCE:
        note = f"the correction is {away:.1f} standard errors from its mean of zero"
        return _Choice(plain, error, note)
    if least > _NEGLIGIBLE * error and _tail_shape(best) > _HEAVIEST:
        return _Choice(plain, error, "heavy tails")
    return _Choice(best, least, "")


def _cross_fitted(bases: Sequence[np.ndarray], functions: np.ndarray) -> list[_Candidates]:
    """Subtract combinations of zero-mean functions, fitted on the other blocks of draws."""
    shape, n = bases[0].shape, bases[0].shape[0] * bases[0].shape[1]
    psi = functions.reshape(n, -1)
    sds = psi.std(axis=0)
    psi = psi / np.where(sds > 0, sds, 1.0)
    y = np.concatenate([base.reshape(n, -1) for base in bases], axis=1)
    parts = [_residuals(y[:, i : i + _CHUNK], psi) for i in range(0, y.shape[1], _CHUNK)]
    joined, penalties = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    time = _autocorrelation_time(psi)
    scales = np.maximum(_distance_from_zero(psi) / (time * _BY_CHANCE), 1.0)[penalties]
    series = [part.reshape(shape) for part in np.split(joined, len(bases), axis=1)]
    return [
        _Candidates(s, time, f) for s, f in zip(series, np.split(scales, len(bases)), strict=True)
    ]


def _residuals(y: np.ndarray, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of y minus ψβ, and the number of the penalty with the least variance for each."""
    n = len(y)
    found = np.empty((len(_PENALTIES), *y.shape))
    gram = psi.T @ psi if psi.shape[1] < n else None
    for block in np.array_split(np.arange(n), _BLOCKS):
        others = np.delete(np.arange(n), block)
        without = None if gram is None else gram - psi[block].T @ psi[block]
        for i, coefficients in enumerate(_ridge(y[others], psi[others], without)):
            found[i, block] = y[block] - psi[block] @ coefficients
    best = found.var(axis=1).argmin(axis=0)
    return np.take_along_axis(found, best[None, None, :], axis=0)[0], best


def _autocorrelation_time(psi: np.ndarray) -> float:
    """Mean autocorrelation time of the columns, at least 1, from means of blocks.

    What remains after a correction is large in the tails, where a chain stays for as long as the
    functions show, even if the rest looks independent.
    """
    means = np.array([block.mean(axis=0) for block in np.array_split(psi, 2 * _BLOCKS)])
    return max(1.0, float((len(psi) * means.var(axis=0, ddof=1) / len(means)).mean()))


def _distance_from_zero(psi: np.ndarray) -> np.ndarray:
    r"""Squared distance of the means of functions from zero, relative to that of independent draws.

    Coefficients are wrong in a tail that the draws have missed. The corrected draws do not show it,
    but the means of the functions do. Regress 1 on the functions, with a ridge penalty and
    hat matrix H. If the functions had random signs, :math:`R^2 = 1^T H 1 / n` would have the
    expectation :math:`t = \operatorname{tr} H / n`. Hotelling's statistic, returned for each
    penalty, is :math:`R^2 (1 - t) / (t (1 - R^2))`, about 1.
    """
    n, p = psi.shape
    if not psi.any():
        return np.ones(len(_PENALTIES))
    dual = p >= n
    values, vectors = np.linalg.eigh((psi @ psi.T if dual else psi.T @ psi) / n)
    values = np.maximum(values, np.finfo(float).eps * values.max())
    # Squared projections of the vector of ones on the left singular vectors of psi, over n.
    shares = vectors.sum(axis=0) ** 2 / n if dual else (psi.mean(axis=0) @ vectors) ** 2 / values
    kept = values / (values + np.array(_PENALTIES)[:, None])
    explained, expected = kept @ shares, kept.sum(axis=1) / n
    return explained * (1.0 - expected) / (expected * (1.0 - explained))


def _ridge(y: np.ndarray, psi: np.ndarray, gram: np.ndarray | None) -> Iterator[np.ndarray]:
    """Coefficients for each penalty, from ψᵀψ or, with few draws, from ψψᵀ."""
    n, p = psi.shape
    centre = psi.mean(axis=0)
    right = y - y.mean(axis=0)
    if gram is None:
        psi = psi - centre
        gram = psi @ psi.T
    else:
        gram = gram - n * np.outer(centre, centre)
        right = psi.T @ right
    for penalty in _PENALTIES:
        regular = gram + penalty * n * np.eye(len(gram))
        solution = scipy.linalg.solve(regular, right, assume_a="pos", check_finite=False)
        yield solution if len(gram) == p else psi.T @ solution


def _tail_shape(series: np.ndarray) -> float:
    """Shape of the generalised Pareto distribution of the largest distances from the median.

    The estimator is that of Zhang & Stephens (2009), with the number of draws in the tail and the
    weak prior around 0.5 of Pareto-smoothed importance sampling.
    """
    away = np.sort(np.abs(series - np.median(series)), axis=None)
    tail = int(min(0.2 * away.size, 3.0 * np.sqrt(away.size)))
    excess = away[-tail:] - away[-tail - 1] if tail >= 10 else np.zeros(10)
    quartile = excess[tail // 4]
    if not quartile > 0:
        return 0.0
    count = 30 + int(np.sqrt(tail))
    rates = 1.0 - np.sqrt(count / (np.arange(count) + 0.5))
    rates = rates / (3.0 * quartile) + 1.0 / excess[-1]
    shapes = np.log1p(-rates[:, None] * excess).mean(axis=1)
    likelihood = tail * (np.log(-rates / shapes) - shapes - 1.0)
    weights = np.exp(likelihood - likelihood.max())
    shape = np.log1p(-(rates @ weights) / weights.sum() * excess).mean()
    return float((tail * shape + 5.0) / (tail + 10.0))
