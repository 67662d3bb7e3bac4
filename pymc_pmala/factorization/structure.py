"""Which parameters the information of a model couples, and the resulting factorization."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import numpy as np
import pytensor
import pytensor.tensor as pt
import scipy
from pymc.vartypes import continuous_types
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import pushforward
from pymc_pmala.factorization.arrow import Arrow
from pymc_pmala.factorization.dense import Dense
from pymc_pmala.factorization.factorization import Factorization
from pymc_pmala.metric import (
    DifferencedFisherMetric,
    FisherMetric,
    FlooredMetric,
    Metric,
    SumMetric,
)

__all__ = ["find_factorization"]

# A string, because SciPy loads a submodule, and changes the warning filters, on its first use.
Pattern: TypeAlias = "scipy.sparse.csr_matrix"

# Below this dimension no factorization is faster than the dense one.
_SMALLEST = 16
# An arrow must be cheaper than the dense factorization by this factor to justify its longer graph.
_WORTHWHILE = 4.0
# Distances from the start at which the pattern is read, because a coupling may begin beyond a
# threshold, and whether a NaN there counts as a coupling: far away it rather indicates an overflow.
_PROBES = ((0.1, True), (1.0, False))
# Number of parameters whose tangents are held in memory together while the pattern is read.
_PROBED_AT_ONCE = 256

_INTERPRETED = Mode(linker="py", optimizer="fast_compile")


def find_factorization(
    metric: Metric, point: np.ndarray, others: Iterable[SharedVariable] = ()
) -> Factorization:
    """Return the cheapest factorization that fits a metric's pattern of zeros.

    The pattern is read from the tangents of the coordinates of the information at two points, one
    near ``point`` and one farther away. If it misses a coupling because this is zero at both
    points, columns of G that are read together overlap. The matrix that is factorised is then not
    G, but the symmetric matrix with the lower triangle of their sums. It is a deterministic
    function of x, so the sampler is exact, but it may not be positive definite everywhere;
    proposals where it is not are rejected.

    Parameters
    ----------
    metric : Metric
    point : ndarray
        A value of x.
    others : iterable of SharedVariable
        Parameters that are sampled by other step methods. Like those of ``point``, their initial
        values may hide a coupling, for example ρ = 0 in an autoregression.
    """
    dense = Dense(len(point))
    fisher = _fisher_part(metric)
    if len(point) < _SMALLEST or fisher is None:
        return dense
    arrow = _best_arrow(_coupling(fisher, point, others))
    return dense if arrow is None else arrow


def _fisher_part(metric: Metric) -> FisherMetric | None:
    """Return the metric as a sum of quadratic forms if it consists of nothing else."""
    if isinstance(metric, FlooredMetric):
        return _fisher_part(metric.metric)
    if isinstance(metric, SumMetric) and len(metric.terms) == 1:
        return _fisher_part(metric.terms[0])
    if isinstance(metric, FisherMetric) and not isinstance(metric, DifferencedFisherMetric):
        return metric
    return None


def _coupling(metric: FisherMetric, point: np.ndarray, others: Iterable[SharedVariable]) -> Pattern:
    """Boolean d × d matrix of the parameters that are coupled in an element of the information.

    They may be coupled by its coordinates or by its weight, because the blocks of an arrow must
    not be coupled in the derivative of the metric either.
    """
    dimension, dtype = len(point), metric.x.dtype
    other = metric.x.type("other")
    changes = pushforward(metric.cotangents, metric.x, other)
    directions = pt.matrix("directions", dtype=dtype, shape=(None, dimension))
    along = [t.ravel() for t in [*metric.tangents, *metric.cotangents]]
    along = batch(along, {metric.direction: directions})
    across = [
        pt.zeros_like(c) if d is None else d
        for c, d in zip(metric.cotangents, changes, strict=True)
    ]
    across = batch([d.ravel() for d in across], {other: directions})
    rng = np.random.default_rng(0)
    function = pytensor.function(
        [metric.x, metric.direction, directions],
        [*along, *across],
        givens=[
            (v, _moved(v.get_value(), 0.1, rng)) for v in others if v.dtype in continuous_types
        ],
        mode=_INTERPRETED,
        on_unused_input="ignore",
    )
    pattern = scipy.sparse.identity(dimension, dtype=bool, format="csr")
    for distance, unknown in _PROBES:
        moved = _moved(point.astype(dtype), distance, rng)
        weight = rng.standard_normal(dimension).astype(dtype)
        try:
            stacked = _nonzero_by_parameter(partial(function, moved, weight), moved, unknown)
        except ValueError:
            # The model is undefined there: a matrix without a factor, or a parameter out of range.
            if distance == _PROBES[0][0]:
                return scipy.sparse.csr_matrix(np.ones((dimension, dimension), bool))
            continue
        n = len(metric.tangents)
        for first, *more in zip(stacked[:n], stacked[n : 2 * n], stacked[2 * n :], strict=True):
            touched = sum((part for part in more if part.shape == first.shape), first)
            pattern = pattern + _meeting(touched)
    return pattern


def _nonzero_by_parameter(
    function: Callable[[np.ndarray], list[np.ndarray]], x: np.ndarray, unknown: bool
) -> list[Pattern]:
    """Which elements of the results of a function depend on each parameter."""
    parts = []
    for start in range(0, len(x), _PROBED_AT_ONCE):
        stop = min(start + _PROBED_AT_ONCE, len(x))
        values = function(np.eye(stop - start, len(x), start, dtype=x.dtype))
        parts.append([_nonzero(value, stop - start, unknown) for value in values])
    return [scipy.sparse.vstack(of_one, format="csr") for of_one in zip(*parts, strict=True)]


def _moved(value: np.ndarray, distance: float, rng: np.random.Generator) -> np.ndarray:
    return (value + distance * rng.standard_normal(value.shape)).astype(value.dtype)


def _meeting(touched: Pattern) -> Pattern:
    """Which pairs of rows have a non-zero element in the same column."""
    if touched.nnz > 0.05 * np.prod(touched.shape):
        full = touched.toarray().astype(np.float32)
        return scipy.sparse.csr_matrix(full @ full.T > 0)
    return touched @ touched.T


def _nonzero(array: np.ndarray, probes: int, unknown: bool) -> Pattern:
    """Non-zero elements by parameter; an array without this axis depends on no parameter."""
    if array.ndim < 2:
        return scipy.sparse.csr_matrix((probes, 1), dtype=bool)
    return scipy.sparse.csr_matrix(np.nan_to_num(array, nan=float(unknown)) != 0)


def _best_arrow(coupling: Pattern) -> Factorization | None:
    """Return the cheapest arrow, with the most coupled parameters as the border."""
    dimension = coupling.shape[0]
    degrees = np.diff(coupling.indptr)
    best: Callable[[], Factorization] | None = None
    least = dimension**3 / _WORTHWHILE
    for threshold in np.unique(degrees):
        border = np.flatnonzero(degrees > threshold)
        inner = np.flatnonzero(degrees <= threshold)
        body = coupling[inner][:, inner]
        groups = _blocks(body, inner)
        cost = len(border) ** 3 + sum(
            group.shape[0] * group.shape[1] * (group.shape[1] + len(border)) ** 2
            for group in groups
        )
        if len(groups) <= 3 and cost < least:
            best, least = partial(Arrow, groups, border), cost
        order, bandwidth = _band(body)
        width = 2 * bandwidth + 1
        cost = len(border) ** 3 + len(inner) * width * (width + len(border)) ** 2
        if cost < least:
            best, least = partial(_banded_arrow, inner[order], bandwidth, border), cost
    return None if best is None else best()


def _banded_arrow(body: np.ndarray, bandwidth: int, border: np.ndarray) -> Factorization:
    # Imported only when needed: numba takes a second to load, and few models have a band.
    from pymc_pmala.factorization.banded import BandedArrow

    return BandedArrow(body, bandwidth, border)


def _band(body: Pattern) -> tuple[np.ndarray, int]:
    """Return an order of the parameters with a narrow band, and its half-width."""
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(body, symmetric_mode=True)
    ordered = body[order][:, order].tocoo()
    return order, int(np.abs(ordered.row - ordered.col).max())


def _blocks(body: Pattern, inner: np.ndarray) -> list[np.ndarray]:
    """Connected components of ``inner``, as one array for each block size."""
    _, labels = scipy.sparse.csgraph.connected_components(body, directed=False)
    by_size = defaultdict(list)
    for label in range(labels.max() + 1):
        block = inner[labels == label]
        by_size[len(block)].append(block)
    return [np.array(blocks) for _, blocks in sorted(by_size.items())]
