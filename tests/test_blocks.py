"""Products of large matrices, block by block, are those of the whole matrices."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_pmala.compile import compile_graph
from pymc_pmala.compile.blocked import BLOCK, BlockedProduct
from pymc_pmala.compile.rewrites import blocks

# Several blocks, the last one of them shorter.
M, N = 7, 3 * BLOCK // 7 + 5
RNG = np.random.default_rng(1)
A, B = RNG.normal(size=(M, N)), RNG.normal(size=(N, 4))
W, V, L = RNG.normal(size=N), RNG.normal(size=N), RNG.normal(size=(M, M))


@pytest.fixture(autouse=True)
def small_matrices_are_large(monkeypatch):
    monkeypatch.setattr(blocks, "_LARGE", M * N)


def variables(*values, dtype="float64"):
    return [pt.tensor(dtype=dtype, shape=v.shape) for v in values]


def evaluate(inputs, output, values):
    """Value of a compiled graph, and the names of the blocked products in it."""
    function = compile_graph(inputs, [output], pm.Model())
    names = [
        node.op.name
        for node in function.maker.fgraph.apply_nodes
        if isinstance(node.op, BlockedProduct)
    ]
    return function(*values)[0], names


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_product_with_weights(dtype):
    inputs = a, b, w, v = variables(A, B, W, V, dtype=dtype)
    values = [x.astype(dtype) for x in (A, B, W, V)]
    found, names = evaluate(inputs, pt.dot(a * w * v[None, :], b), values)
    assert names == ["scaled_product"]
    assert found.dtype == dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(found, (A * (W * V)) @ B, rtol=tolerance, atol=100 * tolerance)


@pytest.mark.parametrize("square", [pt.sqr, lambda x: x * x, lambda x: x**2])
def test_sums_of_squares_of_a_product(square):
    inputs = factor, a = variables(L, A)
    found, names = evaluate(inputs, square(factor @ a).sum(axis=0), [L, A])
    assert names == ["squared_lengths"]
    np.testing.assert_allclose(found, ((L @ A) ** 2).sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "build",
    [
        lambda factor, a, w: ((factor @ a) ** 2).sum(axis=1),
        lambda factor, a, w: ((factor @ a) ** 2).sum(),
        lambda factor, a, w: ((factor @ a) ** 3).sum(axis=0),
        lambda factor, a, w: pt.dot(a * a, w),
        lambda factor, a, w: pt.dot(pt.exp(a), w),
        lambda factor, a, w: pt.dot(a * pt.exp(a), w),
    ],
)
def test_other_products_are_left_alone(build):
    inputs = variables(L, A, W)
    found, names = evaluate(inputs, build(*inputs), [L, A, W])
    assert not names
    expected = build(*map(pt.constant, (L, A, W))).eval()
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_a_product_that_is_used_twice_is_computed_once():
    inputs = factor, a = variables(L, A)
    product = factor @ a
    _, names = evaluate(inputs, (product**2).sum(axis=0) + pt.exp(product)[0], [L, A])
    assert not names
