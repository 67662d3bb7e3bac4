"""Forward derivatives of many Ops against finite differences, and of linear graphs for none."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from modes import INTERPRETED
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import UnaryScalarOp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise

from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import gradient, pushforward
from pymc_pmala.information.patterns import operation

rng = np.random.default_rng(3)
M = rng.normal(size=(3, 3))
S = M @ M.T + np.eye(3)

GRAPHS = {
    "elementwise": lambda x: pt.exp(x[:3]) * pt.sin(x[3:]) + x[0],
    "dot": lambda x: M @ x[:3] + x[3:],
    "join": lambda x: pt.concatenate([x[:2] ** 2, pt.ones(2), x[4:]]),
    "stack": lambda x: pt.stack([x[0] * x[1], 2.0, pt.exp(x[2])]),
    "set_subtensor": lambda x: pt.set_subtensor(pt.zeros(4)[1:3], x[:2] ** 3),
    "inc_subtensor": lambda x: pt.inc_subtensor(x[2:5], pt.exp(x[:3])),
    "advanced indexing": lambda x: (x**2)[np.array([0, 0, 3, 5])],
    "set advanced": lambda x: pt.set_subtensor(pt.ones(5)[np.array([4, 1])], x[:2] * x[2]),
    "reductions": lambda x: pt.stack([(x**2).sum(), pt.logsumexp(x), x.max()]),
    "softmax": lambda x: pt.special.softmax(x**2, axis=0),
    "log_softmax": lambda x: pt.special.log_softmax(x**2, axis=0),
    "product of elements": lambda x: pt.prod(x[:4].reshape((2, 2)), axis=1),
    "gradient of a product of elements": lambda x: pt.grad(pt.prod(x**2), x),
    "product with a zero": lambda x: pt.prod(pt.concatenate([x[:3] - 0.7, x[3:]])),
    "product with two zeros": lambda x: pt.prod(x[:3] - np.array([0.7, -0.3, 0.0])),
    "rounded to an integer": lambda x: pt.floor(x).astype("int64").sum() * x,
    "compared": lambda x: (x > 0).sum() * x**2,
    "product": lambda x: pt.prod(x[:3], no_zeros_in_input=True) * x[3:],
    "cumsum": lambda x: pt.cumsum(x**2),
    "cumprod": lambda x: pt.cumprod(x),
    "sort": lambda x: pt.sort(x) ** 2,
    "pad": lambda x: pt.pad(x**2, (1, 2)),
    "diag": lambda x: pt.diag(x[:3] ** 2) @ x[3:],
    "switch": lambda x: pt.switch(x > 0, x**2, pt.exp(x)),
    "matmul": lambda x: (x[:4].reshape((2, 2)) @ x[2:].reshape((2, 2))).ravel(),
    "matrix inverse": lambda x: pt.linalg.inv(S * pt.exp(x[0]) + pt.diag(x[1:4] ** 2)).ravel(),
    "determinant": lambda x: pt.linalg.slogdet(S + pt.diag(x[1:4] ** 2))[1],
    "cholesky": lambda x: pt.linalg.cholesky(S + pt.diag(x[:3] ** 2)).ravel(),
    "triangular solve": lambda x: pt.linalg.solve_triangular(
        pt.linalg.cholesky(S + pt.diag(x[:3] ** 2)), x[3:], lower=True
    ),
    "kron": lambda x: pt.linalg.kron(x[:2][None] ** 2, x[2:4][None]).ravel(),
    "clip": lambda x: pt.clip(x, -0.5, 0.5) * x,
    "gammaln": lambda x: pt.gammaln(pt.exp(x)) + pt.erf(x),
    "split": lambda x: pt.mul(*pt.split(x**2, splits_size=[3, 3], n_splits=2)),
    "repeat": lambda x: pt.repeat(x**2, 2),
    "tile": lambda x: pt.tile(x**2, 2),
    "diff": lambda x: pt.diff(x**2),
    "broadcast": lambda x: pt.broadcast_to(x[:1] ** 2, (4,)) * x[1:5],
    "tril": lambda x: pt.tril(x[:4].reshape((2, 2)) ** 2).ravel(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_pushforward_agrees_with_finite_differences(name):
    x, direction = pt.vector("x", shape=(6,)), pt.vector("l", shape=(6,))
    graph = GRAPHS[name](x)
    [tangent] = pushforward([graph], x, direction)
    [batched] = batch([tangent], {direction: pt.constant(np.eye(6))})
    function = pytensor.function([x], [graph, batched], mode=INTERPRETED)
    point = np.array([0.7, -0.3, 0.9, 1.1, -0.8, 0.2])
    step = 1e-5
    for j, (row, e) in enumerate(zip(function(point)[1], np.eye(6), strict=True)):
        expected = (function(point + step * e)[0] - function(point - step * e)[0]) / (2 * step)
        np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-8, err_msg=f"{name}, {j}")


@pytest.mark.parametrize("name", ["dot", "join", "advanced indexing", "broadcast", "pad"])
def test_derivative_of_a_linear_graph_does_not_mention_the_point(name):
    linear = {
        "dot": lambda x: M @ x[:3] + x[3:],
        "join": lambda x: pt.concatenate([x[:2], pt.ones(2), x[4:]]),
        "advanced indexing": lambda x: 2 * x[np.array([0, 0, 3])] - 1,
        "broadcast": lambda x: pt.broadcast_to(x[:1], (4,)),
        "pad": lambda x: pt.pad(x, (1, 2)),
    }
    x, direction = pt.vector("x", shape=(6,)), pt.vector("l", shape=(6,))
    [tangent] = pushforward([linear[name](x)], x, direction)
    assert pushforward([tangent], x, direction) == [None]


def test_no_path_gives_no_derivative():
    x, y, direction = pt.vector("x"), pt.vector("y"), pt.vector("l")
    assert pushforward([y**2], x, direction) == [None]


def test_gradient_by_slices_agrees_with_the_whole_gradient():
    x = pt.vector("x", shape=(7,))
    cost = (x[1:3] ** 2).sum() + pt.exp(x[3:6]).sum() * x[1:3].sum()
    by_slices, whole = gradient(cost, x), pt.grad(cost, x)
    function = pytensor.function([x], [by_slices, whole], mode=INTERPRETED)
    np.testing.assert_allclose(*function(rng.normal(size=7)))


class Mul(UnaryScalarOp):
    """A user's Op, by chance of the name of one of pytensor's: x³."""

    def impl(self, x):
        return x**3

    def grad(self, inputs, output_gradients):
        return [3.0 * inputs[0] ** 2 * output_gradients[0]]

    def pullback(self, inputs, outputs, cotangents):
        return self.grad(inputs, cotangents)


def test_an_op_is_known_by_its_type_and_not_by_its_name():
    x, direction = pt.vector("x"), pt.vector("l")
    cubed = Elemwise(Mul(scalar.upgrade_to_float, name="cubed"))(x)
    [tangent] = pushforward([cubed], x, direction)
    function = pytensor.function([x, direction], tangent, mode=INTERPRETED)
    np.testing.assert_allclose(function(np.array([2.0]), np.array([1.0])), [12.0])
    assert operation(cubed)[0] is None


class Broken(Op):
    """An Op whose forward derivative has a bug."""

    itypes = otypes = (pt.dvector,)

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]

    def R_op(self, inputs, eval_points):
        raise AttributeError("a bug")

    def pushforward(self, inputs, outputs, tangents):
        raise AttributeError("a bug")


def test_a_bug_in_a_derivative_is_seen():
    x, direction = pt.vector("x"), pt.vector("l")
    with pytest.raises(AttributeError, match="a bug"):
        pushforward([Broken()(x)], x, direction)


def test_shapes_are_not_batched():
    """Numba cannot index by copies of a bound, which `vectorize_graph` would make."""
    x, many = pt.vector("x"), pt.matrix("many")
    half = x.shape[0] // 2
    graph = pt.exp(x)[:half] * pt.exp(2 * x)[half:]
    [batched] = batch([graph], {x: many})
    assert not any(
        isinstance(v.owner.op, Blockwise) for v in ancestors([batched]) if v.owner is not None
    )
    values = np.random.default_rng(0).normal(size=(3, 4))
    expected = [np.exp(v)[:2] * np.exp(2 * v)[2:] for v in values]
    np.testing.assert_allclose(batched.eval({many: values}, mode=INTERPRETED), expected)
