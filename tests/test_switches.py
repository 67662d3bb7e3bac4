"""A function that both branches of a switch call is called once, and no number changes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise

from pymc_pmala.compile import compile_graph

CONDITION, X, Y = pt.bvector("condition"), pt.dvector("x"), pt.dvector("y")


def interpreted(*outputs):
    """Compile without fusion, so that calls can be counted."""
    return compile_graph([CONDITION, X, Y], outputs, pm.Model(), mode="interpreted")


def calls(function):
    nodes = function.maker.fgraph.apply_nodes
    ops = [node.op.scalar_op for node in nodes if isinstance(node.op, Elemwise)]
    return sum(isinstance(op, Softplus) for op in ops)


def test_a_bernoulli_computes_one_softplus_for_each_observation():
    logp = pm.logp(pm.Bernoulli.dist(logit_p=X), CONDITION)
    function = interpreted(logp)
    assert calls(function) == 1
    y, x = np.array([0, 1, 0, 1], dtype="int8"), np.array([-40.0, -2.0, 3.0, 800.0])
    expected = -np.logaddexp(0.0, np.where(y, -x, x))
    np.testing.assert_allclose(function(y, x, x)[0], expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([pt.switch(CONDITION, pt.softplus(X), pt.exp(Y))], 1),
        # A scalar's is computed once, not for each element.
        ([pt.switch(CONDITION, pt.softplus(X), pt.softplus(X[0]))], 2),
        # One branch is needed elsewhere.
        ([pt.switch(CONDITION, pt.softplus(X), pt.softplus(Y)), pt.softplus(X)], 2),
    ],
    ids=["two functions", "a scalar", "needed elsewhere"],
)
def test_a_switch_that_would_save_nothing_is_left_alone(outputs, expected):
    assert calls(interpreted(*outputs)) == expected
