r"""Triangular factors G = LLᵀ of arrow-shaped metrics, as expressions.

In many models, groups of parameters are coupled only through a few shared parameters. If the
groups are ordered first, the metric has the shape of an arrow,

.. math:: G = \begin{pmatrix} D & E \\ E^T & F \end{pmatrix}, \qquad
          L = \begin{pmatrix} L_D & 0 \\ W^T & L_F \end{pmatrix}, \qquad
          W = L_D^{-1} E,

with D block-diagonal, and its factor has no fill-in. Independent groups form an arrow
without a border; a diagonal matrix is an arrow with blocks of one element.
"""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.factorization.factorization import Factorization, solve_lower

__all__ = ["Arrow"]

# Small blocks are factorised entry by entry, with each operation applied to all blocks at once,
# which needs no loop over blocks in any linker. For larger blocks, a call to LAPACK each is
# worthwhile.
_UNROLLED = 6


class Arrow(Factorization):
    """Blocks that are coupled only through a border.

    Because the blocks are not coupled with each other, products with G are needed only in one
    direction for each position in a block, summed over the blocks, and in one direction for each
    border variable.

    Parameters
    ----------
    groups : sequence of ndarray of shape (number of blocks, size of a block)
        Positions in x of the variables of the blocks; one array for each block size.
    border : ndarray
        Positions of the variables that may be coupled with all others.
    """

    def __init__(self, groups: Sequence[np.ndarray], border: np.ndarray):
        self.groups = list(groups)
        self.border = np.asarray(border, dtype=int)
        self.order = np.concatenate([*[g.ravel() for g in self.groups], self.border])
        self.dimension = len(self.order)
        self._restore = np.argsort(self.order)
        self._largest = max(g.shape[1] for g in self.groups)

    def __str__(self) -> str:
        blocks = " and ".join(f"{g.shape[0]} blocks of {g.shape[1]}" for g in self.groups)
        return f"{blocks}, {len(self.border)} shared by all" if len(self.border) else blocks

    @property
    def seeds(self) -> np.ndarray:
        """One direction for each position in a block and for each border variable."""
        seeds = np.zeros((self._largest + len(self.border), self.dimension))
        for group in self.groups:
            for place in range(group.shape[1]):
                seeds[place, group[:, place]] = 1.0
        seeds[self._largest + np.arange(len(self.border)), self.border] = 1.0
        return seeds

    def pieces(self, products: TensorVariable) -> list[TensorVariable]:
        """Parts D and E of each group, and F."""
        pieces = []
        within, across = products[: self._largest], products[self._largest :]
        for group in self.groups:
            size = group.shape[1]
            pieces.append(within[:size][:, group].transpose(1, 2, 0))
            pieces.append(across[:, group].transpose(1, 2, 0))
        return [*pieces, across[:, self.border]]

    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Parts L_D and W of each group, and L_F."""
        *blocks, corner = pieces
        parts = []
        width = len(self.border)
        for group, (diagonal, edge) in zip(self.groups, _pairs(blocks), strict=True):
            lower = _cholesky_of_blocks(diagonal)
            coupled = _solve_blocks(lower, edge) if width else edge
            parts += [lower, coupled]
            if width:
                flat = coupled.reshape((group.size, width))
                corner = corner - flat.T @ flat
        return [*parts, pt.linalg.cholesky(corner, lower=True) if width else corner]

    def gram(self, pieces: Sequence[TensorVariable], rows: TensorVariable) -> TensorVariable:
        """Sum over the blocks, with the border and its couplings."""
        *blocks, corner = pieces
        edge = rows[:, self.border]
        total = edge @ corner @ edge.T
        for group, (diagonal, coupling) in zip(self.groups, _pairs(blocks), strict=True):
            part = rows[:, group]
            flat = part.reshape((-1, group.size))
            within = (diagonal * part[:, :, None, :]).sum(axis=-1)
            total = total + within.reshape((-1, group.size)) @ flat.T
            if len(self.border):
                across = flat @ coupling.reshape((group.size, -1)) @ edge.T
                total = total + across + across.T
        return total

    def identity(self) -> list[np.ndarray]:
        """Identity matrices for the blocks and the corner, and zero coupling."""
        parts = []
        for group in self.groups:
            blocks, size = group.shape
            parts.append(np.tile(np.eye(size), (blocks, 1, 1)))
            parts.append(np.zeros((blocks, size, len(self.border))))
        return [*parts, np.eye(len(self.border))]

    def solve(self, factor: Sequence[TensorVariable], vector: TensorVariable) -> TensorVariable:
        """Solve for the blocks first, then for the border."""
        *blocks, corner = factor
        rest = vector[self.border]
        whitened = []
        for group, (lower, coupled) in zip(self.groups, _pairs(blocks), strict=True):
            part = _solve_blocks(lower, vector[group][..., None])[..., 0]
            rest = rest - (coupled * part[..., None]).sum(axis=(0, 1))
            whitened.append(part.ravel())
        return pt.concatenate([*whitened, self._solve_corner(corner, rest)])

    def solve_transposed(
        self, factor: Sequence[TensorVariable], whitened: TensorVariable
    ) -> TensorVariable:
        """Solve for the border first, then for the blocks."""
        *blocks, corner = factor
        edge = self._solve_corner(corner, whitened[self._border_start :], trans="T")
        solved = []
        for part, (lower, coupled) in zip(self._split(whitened), _pairs(blocks), strict=True):
            part = part - (coupled * edge).sum(axis=-1)
            solved.append(_solve_blocks(lower, part[..., None], transposed=True)[..., 0].ravel())
        return pt.concatenate([*solved, edge])[self._restore]

    def multiply_transposed(
        self, factor: Sequence[TensorVariable], vector: TensorVariable
    ) -> TensorVariable:
        """Return L_Dᵀ v + W v_border and L_Fᵀ v_border."""
        *blocks, corner = factor
        edge = vector[self.border]
        products = [
            ((lower * vector[group][..., None]).sum(axis=1) + (coupled * edge).sum(-1)).ravel()
            for group, (lower, coupled) in zip(self.groups, _pairs(blocks), strict=True)
        ]
        return pt.concatenate([*products, (corner * edge[:, None]).sum(axis=0)])

    def half_log_det(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Sum of the logarithms of all diagonals."""
        *blocks, corner = factor
        diagonals = [pt.diagonal(lower, axis1=-2, axis2=-1) for lower, _ in _pairs(blocks)]
        if len(self.border):
            diagonals.append(pt.diagonal(corner))
        return pt.add(*[pt.log(diagonal).sum() for diagonal in diagonals])

    def diagonals(self, factor: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Diagonals of the blocks and the corner; rows of the corner extend into W."""
        *blocks, corner = factor
        squares = corner**2
        pivots, sums = [squares.diagonal()], [squares.sum(axis=1)]
        for lower, coupled in reversed(_pairs(blocks)):
            squares = lower**2
            pivots.insert(0, squares.diagonal(axis1=-2, axis2=-1).ravel())
            sums.insert(0, squares.sum(axis=-1).ravel())
            sums[-1] = sums[-1] + (coupled**2).sum(axis=(0, 1))
        return np.concatenate(pivots), np.concatenate(sums)

    def rows(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Rows of L⁻¹; the rows of uncoupled blocks are summed over the blocks."""
        *blocks, corner = factor
        width = len(self.border)
        within, across = [], []
        for group, (lower, coupled) in zip(self.groups, _pairs(blocks), strict=True):
            number, size = group.shape
            unit = pt.constant(np.tile(np.eye(size, dtype=lower.dtype), (number, 1, 1)))
            inverse = _solve_blocks(lower, unit)
            flat = inverse.transpose(1, 0, 2).reshape((size, number * size))
            within.append(pt.pad(flat, ((0, self._largest - size), (0, 0))))
            if width:
                edge = (coupled[..., :, :, None] * inverse[..., :, None, :]).sum(axis=1)
                across.append(edge.transpose(1, 0, 2).reshape((width, number * size)))
        top = pt.concatenate([*within, pt.zeros((self._largest, width))], axis=1)
        if not width:
            return top[:, self._restore]
        corner_inverse = solve_lower(corner, pt.eye(width), b_ndim=2)
        left = -corner_inverse @ pt.concatenate(across, axis=1)
        bottom = pt.concatenate([left, corner_inverse], axis=1)
        return pt.concatenate([top, bottom])[:, self._restore]

    @property
    def _border_start(self) -> int:
        return self.dimension - len(self.border)

    def _split(self, whitened: TensorVariable) -> list[TensorVariable]:
        """The blocks of a whitened vector."""
        parts, start = [], 0
        for group in self.groups:
            parts.append(whitened[start : start + group.size].reshape(group.shape))
            start += group.size
        return parts

    def _solve_corner(
        self, corner: TensorVariable, right: TensorVariable, trans: str | int = 0
    ) -> TensorVariable:
        return solve_lower(corner, right, b_ndim=1, trans=trans) if len(self.border) else right


def _pairs(parts: Sequence[TensorVariable]) -> list[tuple[TensorVariable, TensorVariable]]:
    return list(zip(parts[::2], parts[1::2], strict=True))


def _cholesky_of_blocks(blocks: TensorVariable) -> TensorVariable:
    """Cholesky factors of a stack of symmetric matrices."""
    size = blocks.type.shape[-1]
    if size > _UNROLLED:
        return pt.linalg.cholesky(blocks, lower=True)
    lower: list[list[TensorVariable]] = []
    for i in range(size):
        row: list[TensorVariable] = []
        for j in range(i + 1):
            above = lower[j] if j < i else row
            rest = blocks[:, i, j] - sum((row[k] * above[k] for k in range(j)), pt.constant(0.0))
            row.append(pt.sqrt(rest) if i == j else rest / above[j])
        lower.append(row)
    zero = pt.zeros_like(lower[0][0])
    rows = [pt.stack([*row, *[zero] * (size - len(row))], axis=-1) for row in lower]
    return pt.stack(rows, axis=1)


def _solve_blocks(
    lower: TensorVariable, right: TensorVariable, transposed: bool = False
) -> TensorVariable:
    """Solve for L⁻¹ B or L⁻ᵀ B, with stacks of triangular L and of B (…, size, columns)."""
    size = lower.type.shape[-1]
    if size > _UNROLLED:
        return solve_lower(lower, right, b_ndim=2, trans="T" if transposed else 0)
    solved: dict[int, TensorVariable] = {}
    for i in reversed(range(size)) if transposed else range(size):
        rest = right[:, i]
        for k, known in solved.items():
            entry = lower[:, k, i] if transposed else lower[:, i, k]
            rest = rest - entry[:, None] * known
        solved[i] = rest / lower[:, i, i][:, None]
    return pt.stack([solved[i] for i in range(size)], axis=1)
