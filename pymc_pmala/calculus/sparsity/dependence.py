"""Which parameters the elements of an array depend on, and the algebra of such dependence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy

__all__ = ["Dependence", "Sets", "arranged", "known", "on_each", "on_nothing"]

# A string, because SciPy loads a submodule, and changes the warning filters, on its first use.
Sets: TypeAlias = "scipy.sparse.csr_matrix"
Matrix: TypeAlias = "np.ndarray | scipy.sparse.csr_matrix"

# A table with more entries than this is replaced by the union of its sets. It would be slow to
# work with, and a metric with so many couplings has no structure worth the search.
_MOST_ENTRIES = 5_000_000
# Number of elements of a matrix that are copied at once.
_AT_ONCE = 250_000


@dataclass(frozen=True)
class Dependence:
    """Sets of parameters, one for each element of an array.

    Elements that depend on the same parameters share a set, so a regression with a million rows
    needs one set and ten thousand groups need ten thousand sets of a few parameters.

    Attributes
    ----------
    index : ndarray of int
        The number of the set of each element. Set 0 says that the element is zero.
    sets : csr_matrix of bool
        The sets, as rows over the parameters. Row 0 is empty.
    """

    index: np.ndarray
    sets: Sets

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.index.shape

    @property
    def T(self) -> "Dependence":
        """The dependence of the transposed array."""
        return Dependence(self.index.T, self.sets)

    def __getitem__(self, key: Any) -> "Dependence":
        return Dependence(self.index[key], self.sets)

    def reindexed(self, index: np.ndarray) -> "Dependence":
        """Return the dependence of an array whose elements are elements of this one."""
        return Dependence(np.asarray(index, dtype=np.int64), self.sets)

    def broadcast_to(self, shape: Sequence[int]) -> "Dependence":
        """Return the dependence of the array broadcast to a shape."""
        return self.reindexed(np.broadcast_to(self.index, shape))

    def nowhere_zero(self) -> "Dependence":
        """Return the dependence of a function of the array that need not vanish where it does."""
        if self.sets.shape[0] > 1 and self.index.all():
            return self
        # A second empty row, for elements that depend on nothing and are not known to be zero.
        empty = scipy.sparse.csr_matrix((1, self.sets.shape[1]), dtype=bool)
        sets = scipy.sparse.vstack([self.sets, empty], format="csr")
        index = np.where(self.index == 0, self.sets.shape[0], self.index)
        return _merged(index, sets)

    def plus(self, other: "Dependence") -> "Dependence":
        """Return the dependence of a sum: zero where both terms are."""
        return self._paired(other, lambda a, b: (a == 0) & (b == 0))

    def times(self, other: "Dependence") -> "Dependence":
        """Return the dependence of a product: zero where one of the factors is."""
        return self._paired(other, lambda a, b: (a == 0) | (b == 0))

    def _paired(
        self, other: "Dependence", vanishes: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> "Dependence":
        a, b = np.broadcast_arrays(self.index, other.index)
        if np.array_equal(a, b):
            if self.sets is other.sets:
                return self.reindexed(a)
            # Found without a sort, which takes most of the time otherwise.
            index = a
            of_a = of_b = np.arange(min(self.sets.shape[0], other.sets.shape[0]))
        else:
            pairs, index = np.unique(a * other.sets.shape[0] + b, return_inverse=True)
            of_a, of_b = np.divmod(pairs, other.sets.shape[0])
            index = index.reshape(a.shape)
        zero = vanishes(of_a, of_b)
        of_a, of_b = of_a[~zero], of_b[~zero]
        number = np.where(zero, 0, np.cumsum(~zero))
        entries = np.diff(self.sets.indptr)[of_a].sum() + np.diff(other.sets.indptr)[of_b].sum()
        if entries > _MOST_ENTRIES:
            present = self.sets[np.unique(of_a)], other.sets[np.unique(of_b)]
            return _at_most(number[index], *present)
        return _merged(number[index], _with_zero(self.sets[of_a] + other.sets[of_b]))

    def over(self, axes: Sequence[int] | None = None) -> "Dependence":
        """Return the dependence of a sum over some axes, or over all of them."""
        axes = tuple(range(self.index.ndim)) if axes is None else tuple(axes)
        kept = [axis for axis in range(self.index.ndim) if axis not in axes]
        shape = tuple(self.shape[axis] for axis in kept)
        rows = self.index.transpose(*kept, *axes).reshape(int(np.prod(shape)), -1)
        starts = np.arange(rows.shape[0] + 1) * rows.shape[1]
        return self.united(rows.ravel(), starts, shape)

    def united(self, numbers: np.ndarray, starts: np.ndarray, shape: Sequence[int]) -> "Dependence":
        """Return unions of the sets of given numbers, each range between ``starts`` being one."""
        ones = np.ones(len(numbers), dtype=bool)
        size = len(starts) - 1, self.sets.shape[0]
        groups = scipy.sparse.csr_matrix((ones, numbers, starts), shape=size)
        groups.sum_duplicates()
        # What is zero contributes nothing, and what has no other term is zero.
        groups.data[groups.indices == 0] = False
        groups.eliminate_zeros()
        index, groups = _distinct(groups)
        zero = np.diff(groups.indptr) == 0
        groups = groups[~zero]
        number = np.where(zero, 0, np.cumsum(~zero))[index].reshape(tuple(shape))
        if (groups @ np.diff(self.sets.indptr)).sum() > 4 * _MOST_ENTRIES:
            return _at_most(number, self.sets)
        return _merged(number, _with_zero(groups @ self.sets))

    def along(self, axis: int) -> "Dependence":
        """Return the dependence of cumulative sums along an axis."""
        length = self.shape[axis]
        rows = np.moveaxis(self.index, axis, -1)
        if length * self.index.size > 2 * _MOST_ENTRIES:
            whole = self.over([axis])
            return whole.reindexed(np.broadcast_to(np.expand_dims(whole.index, axis), self.shape))
        before = np.concatenate([np.arange(n) for n in range(1, length + 1)] or [np.arange(0)])
        lengths = np.tile(np.arange(1, length + 1), rows.size // max(length, 1))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        found = self.united(rows[..., before.astype(int)].ravel(), starts, rows.shape)
        return found.reindexed(np.moveaxis(found.index, -1, axis))

    def multiplied_by(self, matrix: Matrix) -> "Dependence":
        """Return the dependence of a constant matrix times this array, a vector or a matrix."""
        index, rows = _distinct_rows(matrix)
        columns = self.index.reshape(self.shape[0], -1)
        numbers = columns[rows.indices].T.ravel()
        starts = np.concatenate([[0], np.cumsum(np.tile(np.diff(rows.indptr), columns.shape[1]))])
        found = self.united(numbers, starts, (columns.shape[1], rows.shape[0]))
        return found.reindexed(found.index.T[index].reshape(len(index), *self.shape[1:]))


def on_each(dimension: int) -> Dependence:
    """Return the dependence of the vector of all parameters."""
    identity = scipy.sparse.identity(dimension, dtype=bool, format="csr")
    return Dependence(np.arange(1, dimension + 1), _with_zero(identity))


def on_nothing(shape: Sequence[int], dimension: int) -> Dependence:
    """Return the dependence of an array of unknown values that depend on no parameter."""
    sets = scipy.sparse.csr_matrix((2, dimension), dtype=bool)
    return Dependence(np.broadcast_to(np.int64(1), tuple(shape)), sets)


def known(value: np.ndarray, dimension: int) -> Dependence:
    """Return the dependence of an array of known values."""
    nothing = on_nothing(np.shape(value), dimension)
    return nothing.reindexed(np.asarray(value) != 0)


def arranged(
    parts: Sequence[Dependence], arrange: Callable[..., Sequence[np.ndarray]]
) -> list[Dependence]:
    """Return the dependence of arrays whose elements are elements of some others.

    ``arrange`` does to the numbers of their sets what is done to the arrays.
    """
    if len(parts) == 1:
        return [parts[0].reindexed(index) for index in arrange(parts[0].index)]
    sets = _with_zero(scipy.sparse.vstack([part.sets[1:] for part in parts], format="csr"))
    before = np.cumsum([0, *[part.sets.shape[0] - 1 for part in parts[:-1]]])
    numbers = [
        np.where(part.index == 0, 0, part.index + start)
        for part, start in zip(parts, before, strict=True)
    ]
    return [_merged(np.asarray(index, dtype=np.int64), sets) for index in arrange(*numbers)]


def _with_zero(sets: Sets) -> Sets:
    zero = scipy.sparse.csr_matrix((1, sets.shape[1]), dtype=bool)
    return scipy.sparse.vstack([zero, sets], format="csr")


def _merged(index: np.ndarray, sets: Sets) -> Dependence:
    """Give equal sets the same number, and forget those that no element has."""
    used = np.zeros(sets.shape[0], dtype=bool)
    used[0] = True
    used[index] = True
    if not used.all():
        index, sets = (np.cumsum(used) - 1)[index], sets[used]
    if sets.nnz > _MOST_ENTRIES:
        return _at_most(index, sets)
    number, others = _distinct(sets[1:])
    return Dependence(np.concatenate([[0], number + 1])[index], _with_zero(others))


def _at_most(index: np.ndarray, *tables: Sets) -> Dependence:
    """Replace every set but that of the zeros by the union of all sets in some tables."""
    whole = sum(table.astype(np.int64).sum(axis=0) for table in tables)
    sets = _with_zero(scipy.sparse.csr_matrix(np.asarray(whole) > 0))
    return Dependence((index != 0).astype(np.int64), sets)


def _distinct(rows: Sets) -> tuple[np.ndarray, Sets]:
    """Return the number of each row among the distinct ones, and these."""
    sums = np.concatenate([[np.uint64(0)], np.cumsum(_labels(rows.shape[1])[rows.indices])])
    _, first, number = np.unique(
        sums[rows.indptr[1:]] - sums[rows.indptr[:-1]], return_index=True, return_inverse=True
    )
    return number, rows[first]


def _distinct_rows(matrix: Matrix) -> tuple[np.ndarray, Sets]:
    """Return the number of each row among the distinct patterns of zeros, and these."""
    if scipy.sparse.issparse(matrix):
        return _distinct(scipy.sparse.csr_matrix(matrix != 0))
    labels = _labels(matrix.shape[1])
    step = max(1, _AT_ONCE // max(1, matrix.shape[1]))
    sums = [(matrix[start : start + step] != 0) @ labels for start in range(0, len(matrix), step)]
    _, first, number = np.unique(
        np.concatenate(sums or [labels[:0]]), return_index=True, return_inverse=True
    )
    return number, scipy.sparse.csr_matrix(matrix[first] != 0)


def _labels(count: int) -> np.ndarray:
    """Random labels: two different sets have the same sum with a probability of 2⁻⁶⁴."""
    return np.random.default_rng(0).integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)
