"""Which parameters the information of a model couples, and the resulting factorization."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

import numpy as np
import scipy
from pytensor.compile.sharedvalue import SharedVariable

from pymc_pmala.calculus.sparsity import Sets, UnknownShape, find_dependence
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

# Below this dimension no factorization is faster than the dense one.
_SMALLEST = 16
# An arrow must be cheaper than the dense factorization by this factor to justify its longer graph.
_WORTHWHILE = 4.0
# Largest number of different block sizes: each has a graph of its own.
_MOST_SIZES = 3
# Number of borders that are tried before larger steps are made.
_ONE_BY_ONE = 50
# A set of s parameters that are all coupled costs at least 0.6 s³ operations in any arrow: if it
# is this part of all parameters, cubed, the arrow is not worthwhile.
_LEAST_SAVED = 1.0 / (0.6 * _WORTHWHILE)
# Number of couplings beyond which neither an arrow nor a dense factorization is feasible.
_MOST_COUPLINGS = 50_000_000


def find_factorization(metric: Metric, others: Iterable[SharedVariable] = ()) -> Factorization:
    """Return the cheapest factorization that fits a metric's pattern of zeros.

    The pattern is derived from the graph of the information. No element outside it is ever
    different from zero, at any point and for any values of ``others``. Data have their present
    values: after ``pm.set_data`` with another index or other dummy variables, columns of G that
    are read together may overlap. The matrix that is factorised is then not G, but it remains a
    deterministic function of x, so the sampler is exact.

    Parameters
    ----------
    metric : Metric
    others : iterable of SharedVariable
        Parameters that are sampled by other step methods.
    """
    dimension = metric.x.type.shape[0]
    dense = Dense(dimension)
    fisher = _fisher_part(metric)
    if dimension < _SMALLEST or fisher is None:
        return dense
    try:
        coupling = _coupling(fisher, others)
    except (UnknownShape, ValueError):
        # A ValueError comes from constants for which the model is undefined.
        return dense
    arrow = None if coupling is None else _best_arrow(coupling)
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


def _coupling(metric: FisherMetric, others: Iterable[SharedVariable]) -> "Sets | None":
    """Boolean d × d matrix of the parameters that are coupled in an element of the information.

    They may be coupled by its coordinates or by its weight, because the blocks of an arrow must
    not be coupled in the derivative of the metric either. None if so many are coupled that no
    arrow can be cheaper than a dense factorization.
    """
    dimension = metric.x.type.shape[0]
    found = find_dependence(
        [*metric.tangents, *metric.cotangents], [metric.x, metric.direction], others
    )
    n = len(metric.tangents)
    # An element whose tangent or cotangent is always zero contributes nothing.
    touched = [t.times(c).sets for t, c in zip(found[:n], found[n:], strict=True)]
    sets = scipy.sparse.vstack([scipy.sparse.identity(dimension, dtype=bool), *touched]).tocsr()
    sizes = np.diff(sets.indptr).astype(float)
    if sizes.max() ** 3 >= _LEAST_SAVED * dimension**3 or (sizes**2).sum() > _MOST_COUPLINGS:
        return None
    return (sets.T @ sets).tocsr()


def _best_arrow(coupling: Sets) -> Factorization | None:
    """Return the cheapest arrow.

    The parameters that are coupled with most others are moved to the border, then those coupled
    with most of what is left, and so on.
    """
    dimension = coupling.shape[0]
    best: Callable[[], Factorization] | None = None
    least = dimension**3 / _WORTHWHILE
    border, inner, body = np.arange(0), np.arange(dimension), coupling
    for attempt in count():
        width = len(border)
        groups = _blocks(body, inner)
        cost = width**3 + sum(
            group.shape[0] * group.shape[1] * (group.shape[1] + width) ** 2 for group in groups
        )
        if len(groups) <= _MOST_SIZES and cost < least:
            best, least = partial(Arrow, groups, np.sort(border)), cost
        order, bandwidth = _band(body)
        across = 2 * bandwidth + 1
        cost = width**3 + len(inner) * across * (across + width) ** 2
        if cost < least:
            best = partial(_banded_arrow, inner[order], bandwidth, np.sort(border))
            least = cost
        degrees = np.diff(body.indptr)
        # With hundreds of different degrees, those that are nearly the largest go together.
        most = degrees.max() * (1.0 if attempt < _ONE_BY_ONE else 0.9)
        rest = degrees < most
        border = np.concatenate([border, inner[~rest]])
        if not rest.any() or len(border) ** 3 >= least:
            break
        inner, body = inner[rest], body[rest][:, rest]
    return None if best is None else best()


def _banded_arrow(body: np.ndarray, bandwidth: int, border: np.ndarray) -> Factorization:
    # Imported only when needed: numba takes a second to load, and few models have a band.
    from pymc_pmala.factorization.banded import BandedArrow

    return BandedArrow(body, bandwidth, border)


def _band(body: Sets) -> tuple[np.ndarray, int]:
    """Return an order of the parameters with a narrow band, and its half-width."""
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(body, symmetric_mode=True)
    ordered = body[order][:, order].tocoo()
    return order, int(np.abs(ordered.row - ordered.col).max())


def _blocks(body: Sets, inner: np.ndarray) -> list[np.ndarray]:
    """Connected components of ``inner``, as one array for each block size."""
    _, labels = scipy.sparse.csgraph.connected_components(body, directed=False)
    sizes = np.bincount(labels)
    ordered = inner[np.lexsort((inner, labels, sizes[labels]))]
    counts = np.bincount(sizes)
    found, start = [], 0
    for size in np.flatnonzero(counts):
        stop = start + counts[size] * size
        found.append(ordered[start:stop].reshape(counts[size], size))
        start = stop
    return found
