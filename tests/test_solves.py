"""Small triangular systems compiled with numba have SciPy's solutions, whatever their layout."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.linalg import solve_triangular

from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.compile.functions import compile_graph
from pymc_pmala.compile.numba.solves import Substitution

pytestmark = pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")

SMALL, LARGE = 5, 60


def solution(dimension, lower, transposed, columns):
    """The compiled solution of a random system beside SciPy's, and the function."""
    matrix = pt.matrix("matrix", shape=(dimension, dimension))
    shape = (dimension,) if columns is None else (dimension, columns)
    right = pt.tensor("right", shape=shape)
    operand = matrix.T if transposed else matrix
    solved = pt.linalg.solve_triangular(operand, right, lower=lower, b_ndim=len(shape))
    function = compile_graph([matrix, right], [solved], pm.Model(), mode="NUMBA")
    rng = np.random.default_rng(1)
    a = rng.normal(size=(dimension, dimension)) + 3.0 * np.sqrt(dimension) * np.eye(dimension)
    b = rng.normal(size=shape)
    expected = solve_triangular(a.T if transposed else a, b, lower=lower)
    return function(a, b)[0], expected, function


def substitutions(function):
    nodes = function.maker.fgraph.apply_nodes
    return sum(isinstance(node.op, Substitution) for node in nodes)


@pytest.mark.parametrize("columns", [None, 1, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_small_systems_are_solved_by_substitution(lower, transposed, columns):
    found, expected, function = solution(SMALL, lower, transposed, columns)
    assert substitutions(function) == 1
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_large_systems_are_left_to_the_blas():
    found, expected, function = solution(LARGE, True, False, None)
    assert substitutions(function) == 0
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_factor_that_is_not_a_number_gives_a_solution_that_is_none():
    matrix, right = pt.matrix("matrix", shape=(2, 2)), pt.vector("right", shape=(2,))
    solved = pt.linalg.solve_triangular(matrix, right, lower=True, b_ndim=1)
    function = compile_graph([matrix, right], [solved], pm.Model(), mode="NUMBA")
    assert np.all(np.isnan(function(np.full((2, 2), np.nan), np.ones(2))[0]))
