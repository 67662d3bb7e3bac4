"""Graphs written out as one numba function: the numbers of pytensor's interpreter."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.tensor.subtensor import IncSubtensor

from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.compile.linkers import OneFunctionLinker
from pymc_pmala.compile.numba import graph_function

pytestmark = pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")

NUMBA = Mode(OneFunctionLinker(), "fast_run")
INTERPRETED = Mode("py", "fast_run")

RNG = np.random.default_rng(0)
X = RNG.normal(size=7)
M = RNG.normal(size=(4, 7))
T = RNG.normal(size=(3, 4, 7))
K = np.array([3, 0, 3, 1])


def agree(inputs, outputs, values, **options):
    """Both give the same numbers, twice: what one call leaves behind must not reach the next."""
    by_numba = pytensor.function(inputs, outputs, mode=NUMBA, **options)
    interpreted = pytensor.function(inputs, outputs, mode=INTERPRETED, **options)
    expected = interpreted(*[v.copy() for v in values])
    for _ in range(2):
        arguments = [v.copy() for v in values]
        found = by_numba(*arguments)
        for given_value, argument in zip(values, arguments, strict=True):
            np.testing.assert_array_equal(argument, given_value)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            precision = float(np.finfo(b.dtype).eps) if b.dtype.kind == "f" else 0.0
            np.testing.assert_allclose(a, b, rtol=5e3 * precision, atol=1e5 * precision)


def variables(known):
    shape = (lambda array: array.shape) if known else (lambda array: (None,) * array.ndim)
    return [
        pt.tensor(name, dtype="float64", shape=shape(a))
        for name, a in zip("xmt", (X, M, T), strict=True)
    ]


EXPRESSIONS = {
    "broadcast": lambda x, m, t: [m * x + t, pt.exp(x)[None] - m],
    "several outputs of one pass": lambda x, m, t: [pt.sin(m), pt.sin(m).sum(0), pt.cos(m).sum()],
    "sums over each axis": lambda x, m, t: [t.sum(axis=a) for a in (0, 1, 2, (0, 1), (0, 2), None)],
    "sums of passes": lambda x, m, t: [
        (t * x).sum(axis=a) for a in (0, 1, 2, (1, 2), (0, 2), None)
    ],
    "no sum but a maximum": lambda x, m, t: [t.max(axis=1), t.prod(axis=0), (t > 0).all(axis=0)],
    "running sums": lambda x, m, t: [pt.cumsum(x), pt.cumprod(x), pt.cumsum(pt.arange(1, 7)) - 1],
    "running sums along an axis": lambda x, m, t: [
        pt.cumsum(m, axis=0),
        pt.cumsum(m * 2, axis=1),
        pt.cumprod(t, axis=1),
    ],
    "parts": lambda x, m, t: pt.split(pt.exp(m), [1, 2, M.shape[1] - 3], axis=1),
    "questions": lambda x, m, t: [
        pt.isnan(pt.log(m)),
        pt.isinf(pt.log(pt.abs(m)) / 0.0),
        ~(m > 0),
        pt.invert(pt.argmax(x)),
    ],
    "signs": lambda x, m, t: [pt.sign(m), pt.sign(pt.round(x * 3).astype("int64"))],
    "products of a batch": lambda x, m, t: [
        pt.exp(t) @ t.transpose(0, 2, 1),
        t.transpose(2, 1, 0) @ t.transpose(2, 0, 1),
        (pt.alloc(1.0, 3, 20, 30) * x[0]) @ pt.alloc(2.0, 3, 30, 20),
    ],
    "transposes": lambda x, m, t: [pt.exp(t.transpose(2, 0, 1)), m.T @ m, m.T + 1.0],
    "axes put in and taken out": lambda x, m, t: [
        x[None, :, None] * 2,
        x[:1, None].squeeze((0, 1)) + m,
    ],
    "slices": lambda x, m, t: [
        m[1:3, 2:] * 2,
        x[::-1] + 1,
        x[5:1:-2] * x[:2],
        m[-1] + x,
        t[1, 2, 3] * x,
    ],
    "slices from and to": lambda x, m, t: [x[1:] - x[:-1], m[1:-1, 2:] + 1, x[:3] * 2, x[2:100]],
    "slices of nothing": lambda x, m, t: [
        x[9:] * 2,
        x[:-9].sum(),
        m[4:],
        x[:0][np.array([], int)],
        m[:-9] @ x,
    ],
    "lengths that are checked": lambda x, m, t: [pt.specify_shape(x, (7,))[::2] * 2],
    "slices taken to a product": lambda x, m, t: [m[1:, 2:5] @ m[1:, :3].T, m[:, 1] @ m],
    "joins": lambda x, m, t: [pt.concatenate([x, m[0], [1.0]]), pt.stack([x, m[1]], axis=1)],
    "joins of matrices": lambda x, m, t: [
        pt.concatenate([m, 2 * m[:2]]),
        pt.concatenate([m, m], 1),
    ],
    "elements by position": lambda x, m, t: [
        x[K] * 2,
        m[K].sum(),
        m[:, K] + 1,
        x[K[:, None]] * 1.0,
    ],
    "elements by pairs of positions": lambda x, m, t: [m[K, K] * 2, t[:, K, K[::-1]].sum(0)],
    "elements by positions of few bits": lambda x, m, t: [
        pt.concatenate([x] * 50)[K.astype("uint8")] * 2
    ],
    "elements by negative positions": lambda x, m, t: [x[K - 4] * 2],
    "writing slices": lambda x, m, t: [
        pt.set_subtensor(x[1:3], 0.0),
        pt.inc_subtensor(m[:, 1], 1.0),
        pt.set_subtensor(m[1], x),
    ],
    "writing positions": lambda x, m, t: [
        pt.inc_subtensor(x[K], m[:, 0]),
        pt.inc_subtensor(m[K], x),
    ],
    "a value and what is written over it": lambda x, m, t: [
        (pt.exp(m)[K] * 2),
        pt.set_subtensor(pt.exp(m)[1:], 0.0),
        pt.exp(m).sum(),
    ],
    "diagonals": lambda x, m, t: [pt.diagonal(m[:, :4]) * 2, pt.diagonal(t, axis1=1, axis2=2) + 1],
    "shapes": lambda x, m, t: [
        m.reshape((7, 4)) + 1,
        m.reshape((2, 2, 7)).sum(1),
        t.reshape((-1,)),
    ],
    "numbers of elements": lambda x, m, t: [m.shape[0] * x, pt.stack([m.shape[1], 2]) + 1],
    "allocation": lambda x, m, t: [pt.full((3, 7), x) + 1, pt.zeros((2, 2)), pt.alloc(x[0], 4)],
    "choices": lambda x, m, t: [
        pt.switch(m > 0, m, -m),
        pt.switch(x > 0, 1, x),
        pt.eq(m, 0) | (m > 1),
    ],
    "smaller and larger": lambda x, m, t: [
        pt.minimum(m, x),
        pt.maximum(x, 0.5),
        pt.minimum(pt.switch(x > 0, x, np.nan), 0.0),
        pt.maximum(0.0, pt.switch(x > 0, x, np.nan)),
        (x > 0) & (x < 1) | (x < -1),
    ],
    "truth values as numbers": lambda x, m, t: [
        (x > 0).sum(),
        (x > 0) * x,
        (x > 0).astype("int8") + 1,
    ],
    "integers": lambda x, m, t: [pt.arange(7) // 2 + x.argmax(), pt.cast(x * 3, "int64") % 2],
    "division by zero": lambda x, m, t: [1.0 / (x - x), pt.log(x - x), x.sum() / (x[0] - x[0])],
    "special functions": lambda x, m, t: [
        pt.gammaln(x**2),
        pt.sigmoid(m),
        pt.softplus(m),
        pt.erf(x),
        x**3,
    ],
    "constants that are no numbers": lambda x, m, t: [
        pt.switch(x > 0, x, np.inf),
        x * np.nan,
        x - np.inf,
    ],
    "matrices": lambda x, m, t: [
        pt.linalg.cholesky(m @ m.T + pt.eye(4)),
        pt.linalg.cholesky(-m @ m.T),
        pt.linalg.inv(m @ m.T),
    ],
    "a matrix that is too large to be written out": lambda x, m, t: [
        pt.linalg.cholesky(pt.eye(40) + pt.alloc(0.1, 40, 40))
    ],
    "outputs that are inputs": lambda x, m, t: [x, m.T, t[1], x[2]],
}


@pytest.mark.parametrize("known", [True, False], ids=["known shapes", "open shapes"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_has_the_numbers_of_the_interpreter(name, known):
    inputs = variables(known)
    agree(inputs, EXPRESSIONS[name](*inputs), [X, M, T], on_unused_input="ignore")


def test_a_graph_within_a_graph_is_written_out_for_each_of_its_uses():
    a = pt.vector("a", shape=(7,))
    inner = OpFromGraph([a], [pt.exp(a) * 2, a[::-1]])
    x = pt.vector("x", shape=(7,))
    first, second = inner(x)
    third, _ = inner(second + first)
    agree([x], [first, second, third, pt.set_subtensor(second[1:], 0.0)], [X])


def test_what_a_graph_within_a_graph_returns_outlives_what_it_was_given():
    a = pt.matrix("a", shape=M.shape)
    rows = a[1:3]
    inner = OpFromGraph([a], [rows, rows @ rows.T])
    m = pt.matrix("m", shape=M.shape)
    given_to_it = pt.exp(m)
    first, second = inner(given_to_it)
    agree([m], [2.0 * first, second, pt.set_subtensor(given_to_it[1:], 0.0)], [M])


def scan(function, steps=None, **options):
    return pytensor.scan(function, n_steps=steps, return_updates=False, **options)


LOOPS = {
    "states": lambda x, m: [scan(lambda s: pt.tanh(s) + 0.1, 5, outputs_info=[x])],
    "the last state": lambda x, m: [scan(lambda s: pt.tanh(s) + 0.1, 5, outputs_info=[x])[-1]],
    "a number": lambda x, m: [
        scan(lambda e, s: 0.5 * s + e, sequences=[x], outputs_info=[m[0, 0]])
    ],
    "rows": lambda x, m: [scan(lambda row: row.sum() * row, sequences=[m])],
    "states that need each other": lambda x, m: scan(
        lambda a, b: [b + 0.1, 0.9 * a], 6, outputs_info=[x, 2 * x]
    ),
    "the last of states that need each other": lambda x, m: [
        s[-1] for s in scan(lambda a, b: [b + 0.1, 0.9 * a], 6, outputs_info=[x, 2 * x])
    ],
    "two steps back": lambda x, m: [
        scan(lambda b, a: 0.5 * a - 0.2 * b, 6, outputs_info=[{"initial": m[:2], "taps": [-2, -1]}])
    ],
    "what is constant": lambda x, m: [
        scan(
            lambda row, s, w: s + row * w, sequences=[m], outputs_info=[x], non_sequences=[x[::-1]]
        )
    ],
    "a product in each step": lambda x, m: [
        scan(lambda s, w: w @ s, 4, outputs_info=[x], non_sequences=[m.T @ m / 9])
    ],
    "a loop in a loop": lambda x, m: [
        scan(lambda row: scan(lambda s: 0.5 * s + row, 3, outputs_info=[row])[-1], sequences=[m])
    ],
    "states and results": lambda x, m: scan(
        lambda row, s: [s * 0.5 + row, (s * row).sum()], sequences=[m], outputs_info=[x, None]
    ),
    "the gradient of a loop": lambda x, m: [
        pt.grad(scan(lambda s: pt.tanh(s) + 0.1, 5, outputs_info=[x])[-1].sum(), x)
    ],
}


@pytest.mark.parametrize("known", [True, False], ids=["known shapes", "open shapes"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_has_the_numbers_of_the_interpreter(name, known):
    x, m, _ = variables(known)
    agree([x, m], LOOPS[name](x, m), [X, M], on_unused_input="ignore")


def test_data_of_another_length_are_refused_and_not_read_beyond_their_end():
    x, y = pt.vectors("xy")
    function = pytensor.function([x, y], [(x * y).sum(), x + y], mode=NUMBA)
    function(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="do not match"):
        function(np.ones(3), np.ones(4))


def test_functions_of_the_same_text_know_the_strides_of_their_own_types():
    for columns in (3, 4):
        m = pt.matrix("m", shape=(2, columns))
        values = np.arange(2.0 * columns).reshape(2, columns)
        agree([m], [pt.exp(m[0, 1]) + m[1, 2]], [values])


def test_an_input_may_be_known_better_than_the_output_of_its_node():
    """Rewrites replace inputs by others of a narrower type, and leave the output as it was."""
    x, wide = pt.vector("x", shape=(1,)), pt.vector("wide")
    outer = pt.exp(wide) + 1.0
    fgraph = FunctionGraph([x, wide], [outer.sum(), outer], clone=False)
    fgraph.replace(wide, x, import_missing=True)
    function, _ = graph_function(fgraph)
    total, elements = numba_njit(function, final_function=True)(np.ones(1), np.ones(5))
    np.testing.assert_allclose(elements, [1.0 + np.e])
    np.testing.assert_allclose(total, 1.0 + np.e)


def test_a_constant_is_never_overwritten():
    x = pt.vector("x", shape=(3,))
    node = pt.set_subtensor(pt.constant(np.zeros(3))[:2], x[:2]).owner
    op = IncSubtensor(node.op.idx_list, inplace=True, set_instead_of_inc=True)
    written = op(*node.inputs)
    function, _ = graph_function(FunctionGraph([x], [written]))
    compiled = numba_njit(function, final_function=True)
    for value in (1.0, 2.0):
        np.testing.assert_array_equal(compiled(np.full(3, value))[0], [value, value, 0.0])


def test_32_bits_stay_32_bits():
    x = pt.vector("x", dtype="float32", shape=(7,))
    agree(
        [x],
        [pt.exp(x) * 2, x.sum(), pt.log1p(x**2)[::2]],
        [X.astype("float32")],
        allow_input_downcast=True,
    )


def test_everything_that_is_elementwise_is_in_one_function():
    x, m, _ = variables(True)
    outputs = [(pt.exp(m) * x).sum(0), pt.log1p(x**2)[1:], m[1:, ::2].sum()]
    fgraph = FunctionGraph([x, m], outputs)
    NUMBA.optimizer.rewrite(fgraph)
    function, key = graph_function(fgraph)
    assert key is not None
    called = [name for name, value in function.__globals__.items() if hasattr(value, "py_func")]
    assert not called


def test_equal_graphs_share_their_compiled_form_and_others_do_not():
    def key(factor):
        x = pt.vector("x", shape=(3,))
        return graph_function(FunctionGraph([x], [x * factor]))[1]

    assert key(2.0) == key(2.0) != key(3.0)
    assert key(np.arange(3.0)) == key(np.arange(3.0)) != key(np.ones(3))


STEPS = {
    "exp": lambda a: pt.exp(-(a**2)),
    "reverse": lambda a: a[::-1],
    "rows": lambda a: a[1:],
    "transpose": lambda a: a.T,
    "centre": lambda a: a - a.mean(axis=0, keepdims=True),
    "pick": lambda a: a[np.arange(a.type.shape[0]) // 2],
    "write": lambda a: pt.set_subtensor(a[0], a[-1] * 2),
    "add": lambda a: pt.inc_subtensor(a[:, 0], 1.0),
    "join": lambda a: pt.concatenate([a, 2.0 * a[:1]]),
    "flat": lambda a: a.reshape((1, -1)),
    "gram": lambda a: a @ a.T,
    "choose": lambda a: pt.switch(a > 0.3, a, a.sum()),
}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(list(STEPS)), min_size=2, max_size=7))
def test_compositions_have_the_numbers_of_the_interpreter(names):
    """Every intermediate result is an output, too, and none may be lost to the next step."""
    m = pt.tensor("m", dtype="float64", shape=M.shape)
    results = [m]
    for name in names:
        if results[-1].type.shape[0] > 1 or name in ("exp", "transpose", "choose"):
            results.append(STEPS[name](results[-1]))
    agree([m], [results[-1], *[r.sum() for r in results]], [M])


def test_the_solution_for_a_constant_may_be_written_into():
    """Numba types it as read-only where pytensor's own function solves: more than 32 unknowns."""
    lower = pt.matrix("lower", shape=(40, 40))
    solution = pt.linalg.solve_triangular(lower, np.arange(40.0), lower=True, b_ndim=1)
    outputs = [pt.set_subtensor(solution[3:9], lower[0, :6])]
    agree([lower], outputs, [np.tril(RNG.normal(size=(40, 40))) + 9 * np.eye(40)])
