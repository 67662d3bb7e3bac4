"""Dependence found from a graph: that of its derivatives by differences, or more, never less."""

import tracemalloc

import numpy as np
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import pytest
import scipy.sparse
from modes import INTERPRETED
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import Assert

from pymc_pmala.calculus.sparsity import UnknownShape, find_dependence

RNG = np.random.default_rng(3)
SIZE = 8
DUMMIES = np.eye(4)[[0, 1, 2, 3, 3, 1, 0]]
MATRIX = RNG.normal(size=(3, 4))
HALF = np.array([0.0, 1.0, 0.0, 2.0])
BATCHES = np.array([np.diag([1.0, 2.0, 0.0]), np.ones((3, 3))])
SPARSE = scipy.sparse.random(5, 8, density=0.3, rng=np.random.default_rng(1), format="csr")
MASK = np.array([True, False, True, True, False, False, True, False])
POINTS = pytensor.shared(np.array([0, 2, 2, 5]), name="points")


class Opaque(Op):
    """An Op without rules: the running sum of the last axis of a matrix."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.cumsum(inputs[0], axis=-1)


def solved(x, solve):
    """Linear systems with the same matrix, one for each column."""
    matrix = np.array([[0.0, 1.0], [1.0, 0.0]]) + pt.exp(x[:1]) * np.array([[2.0, 0.3], [0.1, 2.0]])
    return solve(matrix, x[2:].reshape((2, 3)), b_ndim=2)


def added(x):
    """Several elements added to the same place."""
    return pt.inc_subtensor(pt.zeros(5)[[0, 0, 3, 0]], x[:4] ** 2)


# Graphs whose dependence is found exactly.
EXACT = {
    "Elemwise": lambda x: x[:4] * x[4:] + pt.exp(x[0]),
    "Elemwise broadcast": lambda x: x[:3, None] * x[None, 3:],
    "Elemwise times zeros": lambda x: HALF * x[:4] * x[4:] + x[0],
    "Elemwise zeros divided": lambda x: HALF / pt.exp(x[:4]),
    "Elemwise zeros beyond a function": lambda x: pt.exp(HALF * x[:4]) * x[4:],
    "Second": lambda x: pt.second(x[:4], x[4]),
    "Switch on data": lambda x: pt.switch(MASK, x, x[0]),
    "Switch on parameters": lambda x: pt.switch(x[:4] > 0, x[1:5], x[4:]),
    "Comparison": lambda x: pt.gt(x, 0).astype("float64") * x[0],
    "zeros_like": lambda x: pt.zeros_like(x) + x[3],
    "Shape": lambda x: x.shape[0] * x[:2] + x[2:6].size,
    "DimShuffle": lambda x: x.reshape((2, 4)).T[:, :, None],
    "Reshape": lambda x: x.reshape((2, 2, 2)).transpose(2, 0, 1).reshape((4, 2)) * x[0],
    "Reshape by its own shape": lambda x: x.reshape((2, 4)).reshape((x.shape[0], 1)),
    "Alloc": lambda x: pt.alloc(x[2], 3, 2),
    "Join": lambda x: pt.concatenate([x[3:], pt.ones(2), x[:1] ** 2]),
    "Join columns": lambda x: pt.concatenate([x[:4, None], x[4:, None], np.ones((4, 1))], axis=1),
    "MakeVector": lambda x: pt.stack([x[1], x[2] * x[3], pt.constant(1.0)]),
    "Split": lambda x: pt.split(x, [2, 3, 3])[1] + x[0],
    "Subtensor": lambda x: x[::-2],
    "Subtensor of a matrix": lambda x: x.reshape((2, 4))[1, 1:3],
    "AdvancedSubtensor1": lambda x: x[np.array([3, 3, 0, -1])],
    "AdvancedSubtensor": lambda x: x.reshape((2, 4))[:, [0, 2, 0]][[[1], [0]], [0, 2]],
    "Boolean mask": lambda x: x[MASK],
    "Index in data": lambda x: x[POINTS],
    "SetSubtensor": lambda x: pt.set_subtensor(x[2:5], x[5:] ** 2),
    "IncSubtensor": lambda x: pt.inc_subtensor(x[2:4], x[0] * x[6:]),
    "AdvancedSetSubtensor": lambda x: pt.set_subtensor(x[[1, 4]], x[7]),
    "AdvancedIncSubtensor1": added,
    "AdvancedIncSubtensor": lambda x: pt.inc_subtensor(
        x[:6].reshape((2, 3))[[0, 0, 1], [1, 1, 2]], x[5:]
    ),
    "Sum": lambda x: x.reshape((2, 4)).sum(axis=0),
    "Sum of all": lambda x: (x * MASK).sum(),
    "Sum of nothing": lambda x: x[:0].sum() + x[1],
    "Prod": lambda x: x.reshape((4, 2)).prod(axis=1),
    "CumOp": lambda x: pt.cumsum(x.reshape((2, 4)), axis=1),
    "CumOp of columns": lambda x: pt.cumsum(x.reshape((2, 4)), axis=0),
    "CumOp of products": lambda x: pt.cumprod(x),
    "Dot with dummies": lambda x: DUMMIES @ x[:4],
    "Dot from the left": lambda x: x[:4] @ DUMMIES.T,
    "Dot of matrices": lambda x: MATRIX @ (DUMMIES.T @ x[:7, None]),
    "Dot of vectors": lambda x: pt.dot(x[:4], HALF),
    "Dot of parameters": lambda x: x[:4].reshape((2, 2)) @ x[4:].reshape((2, 2)),
    "Batched product": lambda x: BATCHES @ x[:6].reshape((2, 3, 1)),
    "Batched product of parameters": lambda x: x[:4].reshape((2, 1, 2)) @ x[4:].reshape((2, 2, 1)),
    "Sparse product": lambda x: pytensor.sparse.structured_dot(
        pytensor.sparse.as_sparse_variable(SPARSE), x[:, None]
    ),
    "diag": lambda x: pt.diag(x[:3]) + 0.0,
    "ExtractDiag": lambda x: pt.diagonal(x[:4].reshape((2, 2))),
    "Repeat": lambda x: pt.repeat(x[:2], [2, 3]),
    "Repeat along an axis": lambda x: pt.repeat(x.reshape((2, 4)), 2, axis=1),
    "Softmax": lambda x: pt.special.softmax(x.reshape((2, 4)), axis=1),
    "LogSoftmax": lambda x: pt.special.log_softmax(x.reshape((2, 4)), axis=0),
    "logsumexp": lambda x: pt.logsumexp(x.reshape((2, 4)), axis=0),
    "Held": lambda x: disconnected_grad(x[:4]) * x[4:],
    "Solve": lambda x: solved(x, pt.linalg.solve),
    "Cholesky": lambda x: pt.linalg.cholesky(
        pt.stack([pt.stack([pt.exp(x[0]), 0.0]), pt.stack([0.0, pt.exp(x[1])])])
    ).sum(),
    "Cholesky in batches": lambda x: pt.linalg.cholesky(
        pt.exp(x[:2, None, None]) * np.eye(2) + 0.1 * pt.exp(-(x[2:4, None, None] ** 2))
    )[:, 1, 1],
    "Check": lambda x: Assert("positive")(x[:2], pt.all(pt.exp(x[2:]) > 0)),
    "specify_shape": lambda x: pt.specify_shape(x[POINTS[:3]], (3,)) ** 2,
}

# Graphs of which more dependence is found than there is.
CONSERVATIVE = {
    "Cancelled": lambda x: x - x + x[0],
    "Solve by a triangle": lambda x: solved(x, pt.linalg.solve_triangular),
    "Cholesky of a diagonal": lambda x: pt.linalg.cholesky(pt.diag(pt.exp(x[:3]))),
    "Inverse": lambda x: pt.linalg.inv(pt.diag(pt.exp(x[:3]))),
    "Sum with sparse data": lambda x: pytensor.sparse.add(
        pytensor.sparse.as_sparse_variable(SPARSE), pt.ones((5, 1)) * x
    ),
    "Sort": lambda x: pt.sort(x[:4]),
    "Opaque": lambda x: Opaque()(x.reshape((2, 4))) + x[0],
    "Index that depends on parameters": lambda x: x[pt.argmax(x[:3]) + pt.arange(2)],
}


def found(graph, x, **options):
    [dependence] = find_dependence([graph], [x], **options)
    return dependence.sets.toarray()[dependence.index.ravel()]


def measured(graph, x, step=1e-4):
    """Where derivatives by central differences are not zero, at one of some points."""
    function = pytensor.function([x], graph, mode=INTERPRETED, on_unused_input="ignore")
    total = 0.0
    for _ in range(4):
        at = RNG.normal(size=SIZE)
        total = total + np.array(
            [np.abs(function(at + way) - function(at - way)).ravel() for way in step * np.eye(SIZE)]
        )
    return total.T > 1e-10


@pytest.mark.parametrize("case", EXACT)
def test_dependence_is_that_of_the_derivatives(case):
    x = pt.vector("x", shape=(SIZE,))
    graph = EXACT[case](x)
    np.testing.assert_array_equal(found(graph, x), measured(graph, x))


@pytest.mark.parametrize("case", CONSERVATIVE)
def test_no_dependence_is_missed(case):
    x = pt.vector("x", shape=(SIZE,))
    graph = CONSERVATIVE[case](x)
    more, true = found(graph, x), measured(graph, x)
    assert more.shape == true.shape
    assert (more >= true).all()
    assert (more > true).any()


def random_graph(x, rng, steps=12):
    """A graph of random operations on vectors of parameters, with constants that have zeros."""
    pool = [x[:4], x[4:], pt.exp(0.3 * x[2:6])]

    def pick():
        return pool[rng.integers(len(pool))]

    sparse = rng.normal(size=(4, 4)) * (rng.random((4, 4)) < 0.4)
    operations = [
        lambda: pick() + pick(),
        lambda: pick() * pick(),
        lambda: pick() * (rng.random(4) < 0.5),
        lambda: pt.tanh(pick()) / (1.0 + pick() ** 2),
        lambda: pick()[rng.integers(0, 4, size=4)],
        lambda: sparse @ pick(),
        lambda: pick() @ sparse,
        lambda: pt.set_subtensor(pick()[rng.integers(4)], pick()[rng.integers(4)]),
        lambda: pt.inc_subtensor(pick()[rng.integers(0, 4, size=3)], pick()[:3]),
        lambda: pt.switch(rng.random(4) < 0.5, pick(), pick()),
        lambda: pt.concatenate([pick()[:1], pick()[1:]]),
        lambda: pt.outer(pick(), pick()).reshape((2, 2, 4)).sum(axis=(0, 1)),
        lambda: pt.cumsum(pick()) * 0.5,
        lambda: pick()[::-1],
    ]
    for _ in range(steps):
        pool.append(operations[rng.integers(len(operations))]())
    return pt.concatenate([pt.tanh(v) for v in pool[-3:]])


@pytest.mark.parametrize("seed", range(30))
def test_no_dependence_is_missed_in_random_graphs(seed):
    x = pt.vector("x", shape=(SIZE,))
    graph = random_graph(x, np.random.default_rng(seed))
    more, true = found(graph, x), measured(graph, x)
    assert (more >= true).all()
    # Little is found beyond it: what cancels, or is too small for a difference.
    assert (more > true).mean() < 0.5


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("is_right", [False, True])
def test_large_products_with_data_are_found_by_their_distinct_rows(is_right, columns, monkeypatch):
    monkeypatch.setattr("pymc_pmala.calculus.sparsity.products._MOST_TERMS", 0)
    x = pt.vector("x", shape=(SIZE,))
    rows = SPARSE.toarray()[[0, 1, 2, 0, 4, 3]]
    right = pt.stack([x ** (k + 1) for k in range(columns)], axis=1)
    graph = (right.T @ rows.T).T if is_right else pt.constant(rows) @ right
    np.testing.assert_array_equal(found(graph, x), measured(graph, x))


def test_values_that_may_change_are_not_taken_for_data():
    x = pt.vector("x", shape=(SIZE,))
    zero, group = pytensor.shared(np.zeros(2)), pytensor.shared(np.array([0, 1]))
    graph = x[:2] + zero * x[2:4]
    assert found(graph, x).sum() == 2
    assert found(graph, x, unknown=[zero]).sum() == 4
    graph = x[:3][group]
    assert found(graph, x).sum() == 2
    assert found(graph, x, unknown=[group]).sum() == 6


@pytest.mark.parametrize(
    "graph",
    [
        lambda x: x[pt.nonzero(x[:4] > 0)[0]],
        lambda x: pytensor.scan(
            lambda a, s: 0.5 * s + a,
            sequences=[x],
            outputs_info=[pt.zeros(())],
            return_updates=False,
        ),
    ],
    ids=["mask of parameters", "loop"],
)
def test_a_shape_that_only_an_evaluation_tells_is_an_error(graph):
    x = pt.vector("x", shape=(SIZE,))
    with pytest.raises(UnknownShape):
        found(graph(x), x)


def test_a_million_rows_take_one_set_and_no_matrix_of_them():
    x = pt.vector("x", shape=(20,))
    [dependence] = find_dependence([pt.exp(pt.ones((500_000, 20)) @ x + x[0])], [x])
    assert dependence.sets.shape == (2, 20)
    # Cumulated sums would need half of d² entries.
    x = pt.vector("x", shape=(20_000,))
    tracemalloc.start()
    [dependence] = find_dependence([pt.cumsum(x) * x], [x])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000**2 / 10
    assert dependence.sets[dependence.index[0]].nnz == 20_000
