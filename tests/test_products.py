"""Products compiled with numba are NumPy's, whatever the layout of the operands."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.compile.functions import compile_graph
from pymc_pmala.compile.numba.products import Product

pytestmark = pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")

LAYOUTS = {
    "plain": lambda x, y: x @ y,
    "transposed": lambda x, y: y.T @ x.T,
    "sliced": lambda x, y: x[::2, ::2] @ y[::2, ::2],
    "column": lambda x, y: x @ y[:, 1],
    "row": lambda x, y: x[2] @ y,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_those_of_numpy(layout):
    x, y = pt.dmatrix("x"), pt.dmatrix("y")
    product = LAYOUTS[layout]
    function = compile_graph([x, y], [product(x, y)], pm.Model(), mode="NUMBA")
    assert any(isinstance(node.op, Product) for node in function.maker.fgraph.apply_nodes)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, 7)), rng.normal(size=(7, 4))
    np.testing.assert_allclose(function(a, b)[0], product(a, b), rtol=1e-13, atol=1e-13)


def test_a_cached_product_with_a_vector_is_not_taken_for_one_of_matrices():
    x = pt.matrix("x", shape=(5, 7))
    others = [pt.matrix("column", shape=(7, 1)), pt.matrix("wide", shape=(7, 4))]
    rng = np.random.default_rng(1)
    values = [rng.normal(size=v.type.shape) for v in (x, *others)]
    for other, value in zip(others, values[1:], strict=True):
        function = compile_graph([x, other], [x @ other], pm.Model(), mode="NUMBA")
        np.testing.assert_allclose(function(values[0], value)[0], values[0] @ value, rtol=1e-13)


def test_products_of_other_types_are_left_to_pytensor():
    x, y = pt.lmatrix("x"), pt.dmatrix("y")
    function = compile_graph([x, y], [x @ y], pm.Model(), mode="NUMBA")
    a, b = np.arange(6).reshape(2, 3), np.ones((3, 2))
    np.testing.assert_allclose(function(a, b)[0], a @ b)
