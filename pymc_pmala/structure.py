"""Which parameters a model's information couples, and the factorization that follows."""

from collections import defaultdict

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from pymc_pmala.differentiation import batch, pushforward
from pymc_pmala.factorization import Arrow, Dense, Factorization
from pymc_pmala.metrics import FisherMetric, FlooredMetric, LoopFisherMetric, Metric, SumMetric

__all__ = ["find_factorization"]

# Below this dimension one dense factorization is as fast as any.
_SMALLEST = 16
# An arrow must save this factor over the dense factorization to be worth its longer graph.
_WORTHWHILE = 4.0

_INTERPRETED = Mode(linker="py", optimizer="fast_compile")


def find_factorization(metric: Metric, point: np.ndarray) -> Factorization:
    """The cheapest factorization that fits a metric's pattern of zeros.

    The pattern is read off the tangents of the information's coordinates at two points
    near ``point``. Should it miss a coupling that is zero at both, the metric is still a
    deterministic, positive-definite function of x, and the sampler exact.
    """
    dense = Dense(len(point))
    fisher = _fisher_part(metric)
    if len(point) < _SMALLEST or fisher is None:
        return dense
    arrow = _best_arrow(_coupling(fisher, point))
    return dense if arrow is None else arrow


def _fisher_part(metric: Metric) -> FisherMetric | None:
    """The metric's sum of forms, if it consists of nothing else."""
    if isinstance(metric, FlooredMetric):
        return _fisher_part(metric.metric)
    if isinstance(metric, SumMetric) and len(metric.terms) == 1:
        return _fisher_part(metric.terms[0])
    if isinstance(metric, FisherMetric) and not isinstance(metric, LoopFisherMetric):
        return metric
    return None


def _coupling(metric: FisherMetric, point: np.ndarray) -> np.ndarray:
    """Boolean d × d matrix: which pairs of parameters meet in an element of the information.

    Either in its coordinates, or in its weight: the blocks of an arrow must not see each
    other in the derivative of the metric either.
    """
    dimension, dtype = len(point), metric.x.dtype
    other = metric.x.type("other")
    changes = pushforward(metric.cotangents, metric.x, other)
    identity = pt.constant(np.eye(dimension, dtype=dtype))
    along = [t.ravel() for t in [*metric.tangents, *metric.cotangents]]
    along = batch(along, {metric.direction: identity})
    across = [
        pt.zeros_like(c) if d is None else d
        for c, d in zip(metric.cotangents, changes, strict=True)
    ]
    across = batch([d.ravel() for d in across], {other: identity})
    function = pytensor.function(
        [metric.x, metric.direction],
        [*along, *across],
        mode=_INTERPRETED,
        on_unused_input="ignore",
    )
    rng = np.random.default_rng(0)
    pattern = np.eye(dimension, dtype=bool)
    for _ in range(2):
        near = (point + 0.1 * rng.standard_normal(dimension)).astype(dtype)
        values = function(near, rng.standard_normal(dimension).astype(dtype))
        n = len(metric.tangents)
        for parts in zip(values[:n], values[n : 2 * n], values[2 * n :], strict=True):
            first, *others = (_nonzero(part, dimension) for part in parts)
            touched = sum(others, first).astype(bool).astype(np.float32)
            pattern |= touched @ touched.T > 0
    return pattern


def _nonzero(array: np.ndarray, dimension: int) -> np.ndarray:
    """Where an array is not zero, by parameter; one without that axis depends on none."""
    if array.ndim < 2:
        return np.zeros((dimension, 1), dtype=bool)
    return np.nan_to_num(array, nan=1.0) != 0


def _best_arrow(coupling: np.ndarray) -> Arrow | None:
    """The arrow of least cost, taking the most coupled parameters for the border."""
    dimension = len(coupling)
    degrees = coupling.sum(axis=1)
    best, least = None, dimension**3 / _WORTHWHILE
    for threshold in np.unique(degrees):
        border = np.flatnonzero(degrees > threshold)
        inner = np.flatnonzero(degrees <= threshold)
        groups = _blocks(coupling, inner)
        cost = len(border) ** 3 + sum(
            group.shape[0] * group.shape[1] * (group.shape[1] + len(border)) ** 2
            for group in groups
        )
        if len(groups) <= 3 and cost < least:
            best, least = Arrow(groups, border), cost
    return best


def _blocks(coupling: np.ndarray, inner: np.ndarray) -> list[np.ndarray]:
    """Connected parameters among ``inner``, as one array for each size of block."""
    graph = csr_matrix(coupling[np.ix_(inner, inner)])
    _, labels = connected_components(graph, directed=False)
    by_size = defaultdict(list)
    for label in range(labels.max() + 1):
        block = inner[labels == label]
        by_size[len(block)].append(block)
    return [np.array(blocks) for _, blocks in sorted(by_size.items())]
