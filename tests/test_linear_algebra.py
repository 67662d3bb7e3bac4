"""Linear algebra in graphs written for numba: the numbers of NumPy and SciPy, in any layout."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scan.op import Scan
from pytensor.tensor.math import Dot
from scipy.linalg import solve_triangular

from pymc_pmala.compat import IS_PYTENSOR_3, SolveTriangular
from pymc_pmala.compile import compile_graph

pytestmark = pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")

SMALL, LARGE = 5, 60

LAYOUTS = {
    "plain": lambda x, y: x @ y,
    "transposed": lambda x, y: y.T @ x.T,
    "sliced": lambda x, y: x[::2, ::2] @ y[::2, ::2],
    "column": lambda x, y: x @ y[:, 1],
    "row": lambda x, y: x[2] @ y,
}


@pytest.fixture
def left_to_pytensor(monkeypatch):
    """Ops for which the writer has called pytensor's functions."""
    from pymc_pmala.compile.numba.source import Source

    ops = []
    function = Source.function

    def recorded(self, op, node):
        ops.append(op)
        return function(self, op, node)

    monkeypatch.setattr(Source, "function", recorded)
    return ops


def by_numba(inputs, outputs):
    return compile_graph(inputs, outputs, pm.Model(), mode="NUMBA")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_those_of_numpy(layout, dtype, left_to_pytensor):
    x, y = pt.matrix("x", dtype=dtype), pt.matrix("y", dtype=dtype)
    product = LAYOUTS[layout]
    function = by_numba([x, y], [product(x, y)])
    assert not any(isinstance(op, Dot) for op in left_to_pytensor)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, 7)).astype(dtype), rng.normal(size=(7, 4)).astype(dtype)
    found, tolerance = function(a, b)[0], 50 * np.finfo(dtype).eps
    assert found.dtype == dtype
    np.testing.assert_allclose(found, product(a, b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(40, 30), (None, None)], ids=["known", "open"])
def test_factors_with_gaps_may_be_overwritten(shape):
    x = pt.tensor("x", shape=shape, dtype="float64")
    changed = pt.set_subtensor(pt.exp(x)[2:4], 1.0)
    products = [x.T @ x, x @ x.T, changed.T @ x, changed @ changed[0]]
    function = by_numba([x], products)
    whole = np.random.default_rng(1).normal(size=(80, 90))
    value = whole[::2, ::3]
    other = np.exp(value)
    other[2:4] = 1.0
    truths = [value.T @ value, value @ value.T, other.T @ value, other @ other[0]]
    for given in (value, np.ascontiguousarray(value), np.asfortranarray(value)):
        for found, truth in zip(function(given), truths, strict=True):
            np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-12)


def test_products_of_matrices_of_unequal_lengths_are_refused():
    x, y = pt.dmatrix("x"), pt.dmatrix("y")
    function = by_numba([x, y], [x @ y])
    with pytest.raises(ValueError, match=r"[Ss]hape|[Ii]ncompatible|[Mm]ismatch|align"):
        function(np.ones((2, 3)), np.ones((4, 2)))


def test_a_cached_product_with_a_vector_is_not_taken_for_one_of_matrices():
    x = pt.matrix("x", shape=(5, 7))
    others = [pt.matrix("column", shape=(7, 1)), pt.matrix("wide", shape=(7, 4))]
    rng = np.random.default_rng(1)
    values = [rng.normal(size=v.type.shape) for v in (x, *others)]
    for other, value in zip(others, values[1:], strict=True):
        function = by_numba([x, other], [x @ other])
        np.testing.assert_allclose(function(values[0], value)[0], values[0] @ value, rtol=1e-13)


def test_products_of_other_types_are_left_to_pytensor(left_to_pytensor):
    x, y = pt.lmatrix("x"), pt.dmatrix("y")
    function = by_numba([x, y], [x @ y])
    assert [type(op) for op in left_to_pytensor] == [Dot]
    a, b = np.arange(6).reshape(2, 3), np.ones((3, 2))
    np.testing.assert_allclose(function(a, b)[0], a @ b)


def test_products_and_systems_in_a_loop_follow_the_same_rules(left_to_pytensor):
    a, x = pt.matrix("a", shape=(3, 3)), pt.vector("x", shape=(3,))

    def step(state, matrix):
        return pt.linalg.solve_triangular(matrix, matrix @ state, lower=True, b_ndim=1)

    states = pytensor.scan(
        step, outputs_info=[x], non_sequences=[a], n_steps=3, return_updates=False
    )
    function = by_numba([a, x], [states])
    assert not any(isinstance(op, Dot | SolveTriangular) for op in left_to_pytensor)
    matrix = np.random.default_rng(1).normal(size=(3, 3)) + 3.0 * np.eye(3)
    state = np.ones(3)
    for found in function(matrix, state)[0]:
        state = solve_triangular(matrix, matrix @ state, lower=True)
        np.testing.assert_allclose(found, state, rtol=1e-12)


def test_loops_that_are_left_to_pytensor_use_the_same_routines():
    from pymc_pmala.compile.numba.linear_algebra import with_routines

    a, x, n = pt.matrix("a", shape=(3, 3)), pt.vector("x", shape=(3,)), pt.lscalar("n")

    def step(state, matrix):
        return pt.linalg.solve_triangular(matrix, pt.tanh(matrix @ state), lower=True, b_ndim=1)

    states = pytensor.scan(
        step, outputs_info=[x], non_sequences=[a], n_steps=n, return_updates=False
    )
    function = by_numba([a, x, n], [states])
    [loop] = [v.op for v in function.maker.fgraph.apply_nodes if isinstance(v.op, Scan)]
    left = [type(node.op) for node in with_routines(loop).fgraph.apply_nodes]
    assert Dot not in left
    assert SolveTriangular not in left
    matrix = np.random.default_rng(1).normal(size=(3, 3)) + 3.0 * np.eye(3)
    state = np.ones(3)
    for found in function(matrix, state, np.array(4))[0]:
        state = solve_triangular(matrix, np.tanh(matrix @ state), lower=True)
        np.testing.assert_allclose(found, state, rtol=1e-12)


def solution(dimension, lower, transposed, columns):
    """The compiled solution of a random system, and SciPy's."""
    matrix = pt.matrix("matrix", shape=(dimension, dimension))
    shape = (dimension,) if columns is None else (dimension, columns)
    right = pt.tensor("right", shape=shape)
    operand = matrix.T if transposed else matrix
    solved = pt.linalg.solve_triangular(operand, right, lower=lower, b_ndim=len(shape))
    function = by_numba([matrix, right], [solved])
    rng = np.random.default_rng(1)
    a = rng.normal(size=(dimension, dimension)) + 3.0 * np.sqrt(dimension) * np.eye(dimension)
    b = rng.normal(size=shape)
    expected = solve_triangular(a.T if transposed else a, b, lower=lower)
    return function(a, b)[0], expected


@pytest.mark.parametrize("columns", [None, 1, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_small_systems_are_solved_by_substitution(lower, transposed, columns, left_to_pytensor):
    found, expected = solution(SMALL, lower, transposed, columns)
    assert not left_to_pytensor
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_large_systems_are_left_to_lapack(left_to_pytensor):
    found, expected = solution(LARGE, True, False, None)
    assert [type(op) for op in left_to_pytensor] == [SolveTriangular]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_right_hand_side_that_may_be_overwritten_is_still_read_by_others():
    matrix, x = pt.matrix("matrix", shape=(3, 3)), pt.vector("x", shape=(3,))
    right = pt.exp(x)
    solved = pt.linalg.solve_triangular(matrix, right, lower=True, b_ndim=1)
    function = by_numba([matrix, x], [solved, right[np.array([2, 0])] * 2.0, solved + right])
    a, value = np.tri(3) + np.eye(3), np.array([0.1, -0.4, 0.7])
    expected = solve_triangular(a, np.exp(value), lower=True)
    for _ in range(2):
        found = function(a, value)
        np.testing.assert_allclose(found[0], expected, rtol=1e-13)
        np.testing.assert_allclose(found[1], 2.0 * np.exp(value)[[2, 0]], rtol=1e-13)
        np.testing.assert_allclose(found[2], expected + np.exp(value), rtol=1e-13)


def test_right_hand_sides_of_another_length_are_refused():
    matrix, right = pt.matrix("matrix", shape=(3, 3)), pt.dvector("right")
    solved = pt.linalg.solve_triangular(matrix, right, lower=True, b_ndim=1)
    function = by_numba([matrix, right], [solved])
    with pytest.raises(ValueError, match=r"[Ss]hape|[Dd]imension"):
        function(np.eye(3), np.ones(4))


def test_the_solution_is_nan_if_the_factor_is():
    matrix, right = pt.matrix("matrix", shape=(2, 2)), pt.vector("right", shape=(2,))
    solved = pt.linalg.solve_triangular(matrix, right, lower=True, b_ndim=1)
    function = by_numba([matrix, right], [solved])
    assert np.all(np.isnan(function(np.full((2, 2), np.nan), np.ones(2))[0]))


def test_a_zero_on_the_diagonal_is_no_exception():
    matrix, right = pt.matrix("matrix", shape=(2, 2)), pt.vector("right", shape=(2,))
    solved = pt.linalg.solve_triangular(matrix, right, lower=True, b_ndim=1)
    found = by_numba([matrix, right], [solved])(np.zeros((2, 2)), np.ones(2))[0]
    assert not np.any(np.isfinite(found))


def test_routines_are_compiled_without_fast_maths():
    from pymc_pmala.compile.numba import linear_algebra

    routine = linear_algebra._compiled(linear_algebra._factorise)
    assert not routine.targetoptions["fastmath"]
