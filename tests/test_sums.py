"""Factors that a sum does not run over are taken out of it, and no number changes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.tensor.elemwise import Elemwise

from pymc_pmala.compile import compile_graph

X, Y = pt.dmatrix("x"), pt.dmatrix("y")
A, B = pt.dvector("a"), pt.dvector("b")
VALUES = [np.random.default_rng(1).normal(size=shape) for shape in ((5, 3), (5, 3), (3,), (3,))]


def interpreted(output):
    """Compile without fusion, so that passes can be counted."""
    return compile_graph([X, Y, A, B], [output], pm.Model(), mode="interpreted")


def passes(function):
    """Elementwise passes over whole matrices."""
    nodes = function.maker.fgraph.apply_nodes
    return sum(
        isinstance(node.op, Elemwise) and node.outputs[0].type.broadcastable == (False, False)
        for node in nodes
    )


def test_a_common_factor_is_multiplied_after_the_sum():
    function = interpreted((A * X * X - B * X * X).sum(axis=0))
    assert passes(function) == 1
    x, _, a, b = VALUES
    np.testing.assert_allclose(function(*VALUES)[0], (a - b) * (x**2).sum(axis=0), rtol=1e-13)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ((A * X + B * Y).sum(axis=0), lambda x, y, a, b: (a * x + b * y).sum(axis=0)),
        ((A * X + X).sum(axis=0), lambda x, y, a, b: (a * x + x).sum(axis=0)),
        ((A * X + B * X).sum(axis=1), lambda x, y, a, b: (a * x + b * x).sum(axis=1)),
        ((A * X + B * X).sum(), lambda x, y, a, b: (a * x + b * x).sum()),
        ((2.0 * X + B * X).sum(axis=0), lambda x, y, a, b: (2.0 * x + b * x).sum(axis=0)),
    ],
    ids=["two sums", "a bare term", "other axis", "all axes", "a number"],
)
def test_every_other_sum_keeps_its_value(output, expected):
    np.testing.assert_allclose(interpreted(output)(*VALUES)[0], expected(*VALUES), rtol=1e-12)
