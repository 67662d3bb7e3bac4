"""Which parameters a model's information couples, and the factorization that follows."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.vartypes import continuous_types
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from scipy.sparse import csr_matrix, identity, vstack
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from pymc_pmala.differentiation import batch, pushforward
from pymc_pmala.factorization import Arrow, Dense, Factorization
from pymc_pmala.metrics import (
    DifferencedFisherMetric,
    FisherMetric,
    FlooredMetric,
    Metric,
    SumMetric,
)

__all__ = ["find_factorization"]

# Below this dimension one dense factorization is as fast as any.
_SMALLEST = 16
# An arrow must save this factor over the dense factorization to be worth its longer graph.
_WORTHWHILE = 4.0
# Parameters whose tangents are held in memory together while the pattern is read.
_PROBED_AT_ONCE = 256

_INTERPRETED = Mode(linker="py", optimizer="fast_compile")


def find_factorization(
    metric: Metric, point: np.ndarray, others: Iterable[SharedVariable] = ()
) -> Factorization:
    """The cheapest factorization that fits a metric's pattern of zeros.

    The pattern is read off the tangents of the information's coordinates at two points
    near ``point``. Should it miss a coupling that is zero at both, the metric is still a
    deterministic, positive-definite function of x, and the sampler exact.

    Parameters
    ----------
    metric : Metric
    point : ndarray
        A value of x.
    others : iterable of SharedVariable
        Parameters that other step methods sample. Their values at the start, an
        autoregression's ρ = 0 for example, are no more telling than those of ``point``.
    """
    dense = Dense(len(point))
    fisher = _fisher_part(metric)
    if len(point) < _SMALLEST or fisher is None:
        return dense
    arrow = _best_arrow(_coupling(fisher, point, others))
    return dense if arrow is None else arrow


def _fisher_part(metric: Metric) -> FisherMetric | None:
    """The metric's sum of forms, if it consists of nothing else."""
    if isinstance(metric, FlooredMetric):
        return _fisher_part(metric.metric)
    if isinstance(metric, SumMetric) and len(metric.terms) == 1:
        return _fisher_part(metric.terms[0])
    if isinstance(metric, FisherMetric) and not isinstance(metric, DifferencedFisherMetric):
        return metric
    return None


def _coupling(
    metric: FisherMetric, point: np.ndarray, others: Iterable[SharedVariable]
) -> csr_matrix:
    """Boolean d × d matrix: which pairs of parameters meet in an element of the information.

    Either in its coordinates, or in its weight: the blocks of an arrow must not see each
    other in the derivative of the metric either.
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
        givens=[(v, _near(v.get_value(), rng)) for v in others if v.dtype in continuous_types],
        mode=_INTERPRETED,
        on_unused_input="ignore",
    )
    pattern = identity(dimension, dtype=bool, format="csr")
    for _ in range(2):
        near = _near(point.astype(dtype), rng)
        weight = rng.standard_normal(dimension).astype(dtype)
        parts = []
        for start in range(0, dimension, _PROBED_AT_ONCE):
            stop = min(start + _PROBED_AT_ONCE, dimension)
            probes = np.eye(stop - start, dimension, start, dtype=dtype)
            values = function(near, weight, probes)
            parts.append([_nonzero(value, stop - start) for value in values])
        stacked = [vstack(of_one, format="csr") for of_one in zip(*parts, strict=True)]
        n = len(metric.tangents)
        for first, *others in zip(stacked[:n], stacked[n : 2 * n], stacked[2 * n :], strict=True):
            touched = sum((part for part in others if part.shape == first.shape), first)
            pattern = pattern + _meeting(touched)
    return pattern


def _near(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (value + 0.1 * rng.standard_normal(value.shape)).astype(value.dtype)


def _meeting(touched: csr_matrix) -> csr_matrix:
    """Which rows have an element in the same place."""
    if touched.nnz > 0.05 * np.prod(touched.shape):
        full = touched.toarray().astype(np.float32)
        return csr_matrix(full @ full.T > 0)
    return touched @ touched.T


def _nonzero(array: np.ndarray, probes: int) -> csr_matrix:
    """Where an array is not zero, by parameter; one without that axis depends on none."""
    if array.ndim < 2:
        return csr_matrix((probes, 1), dtype=bool)
    return csr_matrix(np.nan_to_num(array, nan=1.0) != 0)


def _best_arrow(coupling: csr_matrix) -> Factorization | None:
    """The arrow of least cost, taking the most coupled parameters for the border."""
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
    # Imported when needed: numba takes a second to load, and few models have a band.
    from pymc_pmala.banded import BandedArrow

    return BandedArrow(body, bandwidth, border)


def _band(body: csr_matrix) -> tuple[np.ndarray, int]:
    """An order of parameters that brings the coupled ones together, and how near it does."""
    order = reverse_cuthill_mckee(body, symmetric_mode=True)
    ordered = body[order][:, order].tocoo()
    return order, int(np.abs(ordered.row - ordered.col).max())


def _blocks(body: csr_matrix, inner: np.ndarray) -> list[np.ndarray]:
    """Connected parameters among ``inner``, as one array for each size of block."""
    _, labels = connected_components(body, directed=False)
    by_size = defaultdict(list)
    for label in range(labels.max() + 1):
        block = inner[labels == label]
        by_size[len(block)].append(block)
    return [np.array(blocks) for _, blocks in sorted(by_size.items())]
