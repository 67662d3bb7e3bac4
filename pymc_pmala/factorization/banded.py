r"""Factors of banded metrics with a border, for sequences of latent variables.

The metric of a Markov chain of latent variables is a band matrix (tridiagonal for a random
walk). Together with the parameters that all latents share, it is an arrow whose body is that
band. The cost of the factorization, the solves and the derivative of G is then linear in the
length of the sequence.
"""

from collections.abc import Callable, Sequence

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.factorization.factorization import Factorization, solve_lower
from pymc_pmala.version import cache_version

__all__ = ["BandedArrow", "BandedLoop"]


class BandedArrow(Factorization):
    r"""A band of half-width b with a border.

    .. math:: G = \begin{pmatrix} D & E \\ E^T & F \end{pmatrix}, \qquad
              D_{ij} = 0 \text{ for } |i - j| > b .

    Products with G are needed along 2b + 1 directions for the body, each the sum of every
    (2b + 1)th coordinate, and along one direction for each border variable. A band is stored as
    an array of shape (number of columns, b + 1), whose element (j, k) is the element in row j + k
    of column j.

    Parameters
    ----------
    body : ndarray
        Positions in x of the variables of the band, in its order.
    bandwidth : int
        The half-width b.
    border : ndarray
        Positions of the variables that may be coupled with all others.
    """

    def __init__(self, body: np.ndarray, bandwidth: int, border: np.ndarray):
        self.body = np.asarray(body, dtype=int)
        self.bandwidth = bandwidth
        self.border = np.asarray(border, dtype=int)
        self.dimension = len(self.body) + len(self.border)
        self.order = np.concatenate([self.body, self.border])
        self._restore = np.argsort(self.order)
        self._colours = 2 * bandwidth + 1

    def __str__(self) -> str:
        band = f"a band of half-width {self.bandwidth} through {len(self.body)}"
        return f"{band}, {len(self.border)} shared by all" if len(self.border) else band

    @property
    def seeds(self) -> np.ndarray:
        """Sums of uncoupled coordinates, and one direction for each border variable."""
        seeds = np.zeros((self._colours + len(self.border), self.dimension))
        seeds[np.arange(len(self.body)) % self._colours, self.body] = 1.0
        seeds[self._colours + np.arange(len(self.border)), self.border] = 1.0
        return seeds

    def pieces(self, products: TensorVariable) -> list[TensorVariable]:
        """Lower band of D, and the parts E and F."""
        column = np.arange(len(self.body))[:, None]
        row = column + np.arange(self.bandwidth + 1)
        inside = (row < len(self.body)).astype(products.dtype)
        row = np.minimum(row, len(self.body) - 1)
        across = products[self._colours :]
        return [
            products[column % self._colours, self.body[row]] * inside,
            across[:, self.body].T,
            across[:, self.border],
        ]

    def factor(self, pieces: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Band of L_D, and the parts W = L_D⁻¹ E and L_F."""
        band, edge, corner = pieces
        lower = _cholesky(band)
        if not len(self.border):
            return [lower, edge, corner]
        coupled = _solve(lower, edge)
        return [lower, coupled, pt.linalg.cholesky(corner - coupled.T @ coupled, lower=True)]

    def gram(self, pieces: Sequence[TensorVariable], rows: TensorVariable) -> TensorVariable:
        """Sum over the diagonals of the band, with the border and its couplings."""
        band, coupling, corner = pieces
        body, edge = rows[:, self.body], rows[:, self.border]
        total = edge @ corner @ edge.T + (body * band[:, 0]) @ body.T
        across = body @ coupling @ edge.T
        for k in range(1, self.bandwidth + 1):
            across = across + (body[:, k:] * band[:-k, k]) @ body[:, :-k].T
        return total + across + across.T

    def identity(self) -> list[np.ndarray]:
        """Identity matrices for the band and the corner, and zero coupling."""
        band = np.zeros((len(self.body), self.bandwidth + 1))
        band[:, 0] = 1.0
        width = len(self.border)
        return [band, np.zeros((len(self.body), width)), np.eye(width)]

    def solve(self, factor: Sequence[TensorVariable], vector: TensorVariable) -> TensorVariable:
        """Solve for the body first, then for the border."""
        lower, coupled, corner = factor
        body = _solve(lower, vector[self.body][:, None])[:, 0]
        if not len(self.border):
            return body
        rest = vector[self.border] - coupled.T @ body
        return pt.concatenate([body, solve_lower(corner, rest, b_ndim=1)])

    def solve_transposed(
        self, factor: Sequence[TensorVariable], whitened: TensorVariable
    ) -> TensorVariable:
        """Solve for the border first, then for the body."""
        lower, coupled, corner = factor
        body = whitened[: len(self.body)]
        if not len(self.border):
            return _solve_transposed(lower, body[:, None])[self._restore, 0]
        edge = solve_lower(corner, whitened[len(self.body) :], b_ndim=1, trans="T")
        body = _solve_transposed(lower, (body - coupled @ edge)[:, None])[:, 0]
        return pt.concatenate([body, edge])[self._restore]

    def multiply_transposed(
        self, factor: Sequence[TensorVariable], vector: TensorVariable
    ) -> TensorVariable:
        """Return L_Dᵀ v + W v_border and L_Fᵀ v_border."""
        lower, coupled, corner = factor
        row = np.arange(len(self.body))[:, None] + np.arange(self.bandwidth + 1)
        # Beyond its end the band is zero, so the values it is multiplied by do not matter.
        row = np.minimum(row, len(self.body) - 1)
        body = (lower * vector[self.body[row]]).sum(axis=1)
        if not len(self.border):
            return body
        edge = vector[self.border]
        return pt.concatenate([body + coupled @ edge, corner.T @ edge])

    def half_log_det(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Sum of the logarithms of both diagonals."""
        lower, _, corner = factor
        body = pt.log(lower[:, 0]).sum()
        return body + pt.log(pt.diagonal(corner)).sum() if len(self.border) else body

    def diagonals(self, factor: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Diagonals of the band and the corner; rows of the corner extend into W."""
        lower, coupled, corner = (part**2 for part in factor)
        body = lower[:, 0].copy()
        for k in range(1, lower.shape[1]):
            body[k:] += lower[:-k, k]
        pivots = np.concatenate([lower[:, 0], corner.diagonal()])
        return pivots, np.concatenate([body, corner.sum(axis=1) + coupled.sum(axis=0)])

    def rows(self, factor: Sequence[TensorVariable]) -> TensorVariable:
        """Rows of L⁻¹ for the border, and b + 1 directions that give D⁻¹ on the band."""
        lower, coupled, corner = factor
        body = _directions(lower).T
        width = len(self.border)
        if not width:
            return body[:, self._restore]
        top = pt.concatenate([body, pt.zeros((self.bandwidth + 1, width), lower.dtype)], axis=1)
        corner_inverse = solve_lower(corner, pt.eye(width, dtype=lower.dtype), b_ndim=2)
        left = -corner_inverse @ _solve_transposed(lower, coupled).T
        bottom = pt.concatenate([left, corner_inverse], axis=1)
        return pt.concatenate([top, bottom])[:, self._restore]


def _compiled(function: Callable) -> Callable:
    # A division by zero gives an infinity, which leads to a rejection and not to an exception.
    return numba.njit(function, cache=True, error_model="numpy")


@_compiled
def _cholesky_loop(band):
    """Band of L from the band of G = LLᵀ; NaN if G is not positive definite."""
    size, width = band.shape
    lower = np.zeros_like(band)
    for j in range(size):
        for k in range(min(width, size - j)):
            rest = band[j, k]
            for m in range(1, min(width - k, j + 1)):
                rest -= lower[j - m, m] * lower[j - m, k + m]
            if k == 0:
                lower[j, 0] = np.sqrt(rest) if rest > 0 else np.nan
            else:
                lower[j, k] = rest / lower[j, 0]
    return lower


@_compiled
def _solve_loop(lower, right):
    """Solve for L⁻¹ B."""
    size, width = lower.shape
    solved = np.empty_like(right)
    for i in range(size):
        for c in range(right.shape[1]):
            rest = right[i, c]
            for k in range(1, min(width, i + 1)):
                rest -= lower[i - k, k] * solved[i - k, c]
            solved[i, c] = rest / lower[i, 0]
    return solved


@_compiled
def _solve_transposed_loop(lower, right):
    """Solve for L⁻ᵀ B."""
    size, width = lower.shape
    solved = np.empty_like(right)
    for i in range(size - 1, -1, -1):
        for c in range(right.shape[1]):
            rest = right[i, c]
            for k in range(1, min(width, size - i)):
                rest -= lower[i, k] * solved[i + k, c]
            solved[i, c] = rest / lower[i, 0]
    return solved


@_compiled
def _directions_loop(lower):
    """Vectors u_i of b + 1 elements with u_i · u_j = (LLᵀ)⁻¹_ij on the band, as rows.

    Lᵀu = w gives u_i from its b successors if w_i is a unit vector orthogonal to them, and in
    b + 1 dimensions such a vector exists. The successors are stored as the columns of QR, where
    the last column of Q is w_i. When the window moves on, rotations make R triangular again.
    """
    size, width = lower.shape
    frame = np.eye(width)
    window = np.zeros((width, width))
    directions = np.empty_like(lower)
    for i in range(size - 1, -1, -1):
        # Columns of the window: the successors from the farthest to the nearest, then u_i.
        for row in range(width):
            entry = 1.0 if row == width - 1 else 0.0
            for k in range(1, min(width, size - i)):
                entry -= lower[i, k] * window[row, width - 1 - k]
            window[row, width - 1] = entry / lower[i, 0]
        for row in range(width):
            total = 0.0
            for m in range(width):
                total += frame[row, m] * window[m, width - 1]
            directions[i, row] = total
        window[:, :-1] = window[:, 1:].copy()
        for m in range(width - 1):
            length = np.hypot(window[m, m], window[m + 1, m])
            if length == 0.0:
                continue
            cosine, sine = window[m, m] / length, window[m + 1, m] / length
            for column in range(width - 1):
                a, b = window[m, column], window[m + 1, column]
                window[m, column] = cosine * a + sine * b
                window[m + 1, column] = cosine * b - sine * a
            for row in range(width):
                a, b = frame[row, m], frame[row, m + 1]
                frame[row, m] = cosine * a + sine * b
                frame[row, m + 1] = cosine * b - sine * a
    return directions


_LOOPS = {
    "cholesky": _cholesky_loop,
    "solve": _solve_loop,
    "solve_transposed": _solve_transposed_loop,
    "directions": _directions_loop,
}


class BandedLoop(Op):
    """One of the loops above as an Op for all linkers; the output has the last input's type."""

    __props__ = ("name",)
    calls_back_in_jax = True

    def __init__(self, name: str):
        self.name = name

    def make_node(self, *inputs: Variable) -> Apply:
        """Apply the loop to a band and to right-hand sides given as columns."""
        return Apply(self, list(inputs), [inputs[-1].type()])

    def perform(self, node, inputs, outputs):
        """Run the loop."""
        outputs[0][0] = _LOOPS[self.name](*inputs)


@register_funcify_default_op_cache_key(BandedLoop)
def numba_banded_loop(op: BandedLoop, node: Apply, **kwargs) -> tuple[Callable, int]:
    """Return the loop itself, which numba has already compiled."""
    return _LOOPS[op.name], cache_version()


_cholesky = BandedLoop("cholesky")
_solve = BandedLoop("solve")
_solve_transposed = BandedLoop("solve_transposed")
_directions = BandedLoop("directions")
