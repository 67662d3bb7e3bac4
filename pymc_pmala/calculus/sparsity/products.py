"""Rules for sums, products of matrices, and linear algebra."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import scipy
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.scalar.basic import Add
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot
from pytensor.tensor.special import LogSoftmax, Softmax

from pymc_pmala.calculus.sparsity.dependence import Dependence
from pymc_pmala.calculus.sparsity.propagation import Value, as_dependence, output_shapes, rule
from pymc_pmala.compat import SolveBase

# Largest product whose terms are all written out. The others are treated row by row.
_MOST_TERMS = 1_000_000


@rule.register(CAReduce)
def _reduced(op: CAReduce, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    found = inputs[0].over(op.axis)
    return [found if isinstance(op.scalar_op, Add) else found.nowhere_zero()]


@rule.register(CumOp)
def _cumulated(op: CumOp, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    [x] = inputs
    if op.axis is None:
        x = Dependence(x.index.ravel(), x.sets)
    found = x.along(op.axis or 0)
    return [found if op.mode == "add" else found.nowhere_zero()]


@rule.register(Softmax)
@rule.register(LogSoftmax)
def _normalised(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    [x] = inputs
    return [x.plus(_spread(x, op.axis)).nowhere_zero()]


def _spread(x: Dependence, axes: Sequence[int] | int | None) -> Dependence:
    """Union over some axes, which are kept with length one."""
    ndim = x.index.ndim
    chosen = [axes] if isinstance(axes, int) else range(ndim) if axes is None else axes
    positive = tuple(axis % ndim for axis in chosen)
    total = x.over(positive)
    return total.reindexed(np.expand_dims(total.index, positive))


@rule.register(Dot)
def _product(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    """Product of matrices or vectors, batched over leading axes as by ``np.matmul``."""
    left, right = (v if isinstance(v, Dependence) else np.asarray(v) for v in inputs)
    # A vector is a row on the left and a column on the right.
    is_row, is_column = len(left.shape) == 1, len(right.shape) == 1
    left, right = left[None] if is_row else left, right[:, None] if is_column else right
    found = _matrix_product(left, right, dimension)
    found = found[..., 0, :] if is_row else found
    return [found[..., 0] if is_column else found]


def _matrix_product(left: Value, right: Value, dimension: int) -> Dependence:
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    terms = np.prod([*batch, *left.shape[-2:], right.shape[-1]], dtype=float)
    if terms > _MOST_TERMS and not isinstance(left, Dependence) and right.index.ndim == 2:
        return right.multiplied_by(left)
    if terms > _MOST_TERMS and not isinstance(right, Dependence) and left.index.ndim == 2:
        return left.T.multiplied_by(right.T).T
    left, right = as_dependence(left, dimension), as_dependence(right, dimension)
    if terms > _MOST_TERMS:
        return _spread(left, -1).plus(_spread(right, -2)).nowhere_zero()
    products = left[..., None].times(right[..., None, :, :])
    return products.over([products.index.ndim - 2])


@rule.register(Op)
def _sparse_product(op: Op, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    """Product with a sparse matrix of data, if it is one."""
    if any(scipy.sparse.issparse(value) for value in inputs):
        # Imported only when needed: it loads `scipy.sparse`, which changes the warning filters.
        from pytensor.sparse import math as sparse_math

        left, right = inputs[:2]
        if isinstance(op, sparse_math.StructuredDot | sparse_math.TrueDot | sparse_math.Dot):
            if scipy.sparse.issparse(left):
                return [right.multiplied_by(left)]
            return [left.T.multiplied_by(right.T).T]
    return rule.dispatch(object)(op, node, inputs, dimension)


@rule.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, inputs: Sequence[Value], dimension: int) -> list[Value]:
    """Everything in a batch depends on everything in it, unless the Op does better."""
    if isinstance(op.core_op, Dot):
        return _product(op.core_op, node, inputs, dimension)
    parts = [as_dependence(value, dimension) for value in inputs]
    shapes = output_shapes(node, inputs)
    if isinstance(op.core_op, SolveBase) and len(op.inputs_sig[-1]) == 2:
        # Each right-hand side has a solution of its own.
        *matrices, right = parts
        spread = [_spread(part, (-2, -1)) for part in matrices] + [_spread(right, -2)]
        return [reduce(Dependence.plus, spread).broadcast_to(shapes[0])]
    batches = [
        part.over(range(part.index.ndim - len(core), part.index.ndim))
        for part, core in zip(parts, op.inputs_sig, strict=True)
    ]
    whole = reduce(Dependence.plus, batches).nowhere_zero()
    return [
        whole[(..., *[None] * len(core))].broadcast_to(shape)
        for core, shape in zip(op.outputs_sig, shapes, strict=True)
    ]
