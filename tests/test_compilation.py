"""How graphs become functions: with what linker, from which cache, and what if it cannot be."""

import importlib.util
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import config
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.link.numba.linker import NumbaLinker
from pytensor.link.vm import VMLinker

try:
    from pytensor.compile.debug.nanguardmode import NanGuardMode
except ImportError:
    # Goes with pytensor 2.
    from pytensor.compile.nanguardmode import NanGuardMode

from pymc_pmala import PMALA, local_geometry, version
from pymc_pmala.compat import IS_PYTENSOR_3
from pymc_pmala.compile import compile_graph
from pymc_pmala.compile.linkers import SWITCH, OneFunctionLinker, QuickLinker

by_numba = pytest.mark.skipif(not IS_PYTENSOR_3, reason="graphs of pytensor 2 are not written")


@pytest.mark.parametrize(
    ("name", "linker"),
    [pytest.param("numba", OneFunctionLinker, marks=by_numba), ("cvm", QuickLinker)],
)
def test_a_copy_is_linked_as_the_original_was(name, linker):
    x = pt.dvector("x")
    mode = Mode(linker=name, optimizer="fast_run")
    function = compile_graph([x], [pt.exp(x)], pm.Model(), mode=mode)
    copy = pickle.loads(pickle.dumps(function))
    value = np.array([0.0, 1.0])
    for one in (function, copy):
        assert isinstance(one.maker.linker, linker)
        np.testing.assert_allclose(one(value)[0], np.exp(value), rtol=1e-15)


@pytest.mark.skipif(not config.cxx, reason="there is no C compiler")
def test_flags_for_the_compiler_are_a_users_own_again_afterwards():
    x = pt.dvector("x")
    before = config.gcc__cxxflags
    compile_graph([x], [pt.exp(x) + 1.0], pm.Model(), mode=Mode("cvm", "fast_run"))
    assert config.gcc__cxxflags == before


class OwnNumba(NumbaLinker):
    pass


class OwnVM(VMLinker):
    pass


@pytest.mark.parametrize("linker", [OwnNumba(), OwnVM(use_cloop=True)], ids=["numba", "C"])
def test_a_linker_of_the_users_is_not_replaced(linker):
    x = pt.dvector("x")
    function = compile_graph([x], [pt.exp(x)], pm.Model(), mode=Mode(linker, "fast_run"))
    assert type(function.maker.linker) is type(linker)


def test_a_mode_of_the_users_keeps_its_linker():
    mode = NanGuardMode(nan_is_error=True, inf_is_error=False, big_is_error=False)
    x = pt.dvector("x")
    function = compile_graph([x], [pt.log(x)], pm.Model(), mode=mode)
    assert type(function.maker.linker) is type(mode.linker)
    with pytest.raises(AssertionError, match="NaN"):
        function(np.full(2, -1.0))


def test_options_of_a_linker_are_kept():
    called = []
    linker = VMLinker(
        allow_gc=not config.allow_gc,
        use_cloop=True,
        callback=lambda node, thunk, storage_map, compute_map: called.append(node),
    )
    x = pt.dvector("x")
    function = compile_graph([x], [pt.exp(x)], pm.Model(), mode=Mode(linker, "fast_run"))
    function(np.ones(2))
    assert called
    assert function.maker.linker.allow_gc is not config.allow_gc


def broken(fgraph):
    raise IndexError("list index out of range")


def untypable(fgraph):
    def function(x):
        return (x.no_such_attribute,)

    return function, None


def failing(fgraph):
    def function(x):
        raise ValueError("This was written wrongly.")

    return function, None


@by_numba
@pytest.mark.parametrize("write", [broken, untypable, failing])
def test_what_cannot_be_written_is_left_to_pytensor_with_one_warning(write, monkeypatch):
    monkeypatch.setattr("pymc_pmala.compile.numba.graph_function", write)
    x = pt.dvector("x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function = compile_graph([x], [pt.exp(x)], pm.Model(), mode="NUMBA")
        for _ in range(2):
            np.testing.assert_allclose(function(np.ones(3))[0], np.exp(np.ones(3)), rtol=1e-15)
    assert [f"report the model; {SWITCH}=0" in str(w.message) for w in caught] == [True]


@by_numba
@pytest.mark.slow
def test_products_and_triangular_systems_can_be_left_to_pytensor(monkeypatch):
    monkeypatch.setattr("pymc_pmala.compile.numba.graph_function", broken)
    m = pt.matrix("m", shape=(3, 3))
    solved = pt.linalg.solve_triangular(m, m @ m, lower=True)
    with pytest.warns(UserWarning, match="report the model"):
        function = compile_graph([m], [solved], pm.Model(), mode="NUMBA")
    value = np.tri(3) + np.eye(3)
    np.testing.assert_allclose(function(value)[0], value, rtol=1e-13)


@by_numba
def test_what_pytensor_refuses_as_well_is_an_error_without_a_warning():
    x, y = pt.dvectors("xy")
    function = compile_graph([x, y], [x + y], pm.Model(), mode="NUMBA")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"[Ss]hape|[Ll]ength|broadcast"):
            function(np.ones(2), np.ones(3))
    np.testing.assert_allclose(function(np.ones(3), np.ones(3))[0], 2.0)


@by_numba
def test_the_writer_can_be_turned_off(monkeypatch):
    monkeypatch.setattr("pymc_pmala.compile.numba.graph_function", broken)
    monkeypatch.setenv(SWITCH, "0")
    x = pt.dvector("x")
    function = compile_graph([x], [pt.exp(x)], pm.Model(), mode="NUMBA")
    np.testing.assert_allclose(function(np.ones(3))[0], np.exp(np.ones(3)), rtol=1e-15)


@by_numba
def test_nothing_is_cached_if_the_user_wants_no_cache():
    x = pt.dvector("x")
    with config.change_flags(numba__cache=False):
        function = compile_graph([x], [pt.exp(x) * 3.25], pm.Model(), mode="NUMBA")
        np.testing.assert_allclose(function(np.zeros(3))[0], 3.25)


@by_numba
def test_code_of_another_version_of_the_package_is_not_taken_from_the_cache(monkeypatch):
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
    from pytensor.link.numba.dispatch.basic import numba_funcify_and_cache_key

    from pymc_pmala.compile.numba import graph_function
    from pymc_pmala.factorization.banded import BandedLoop

    # Smaller products are written out.
    m = pt.dmatrix("m", shape=(40, 40))
    banded = BandedLoop("solve")(m, m).owner

    def keys():
        version.cache_version.cache_clear()
        function, written = graph_function(FunctionGraph([m], [m @ m]))
        called = [v.py_func for v in function.__globals__.values() if hasattr(v, "py_func")]
        [routine] = [CACHED_SRC_FUNCTIONS[f] for f in called]
        return {written, routine, numba_funcify_and_cache_key(banded.op, node=banded)[1]}

    before = keys()
    assert keys() == before
    monkeypatch.setattr(version, "__version__", "another")
    after = keys()
    monkeypatch.undo()
    version.cache_version.cache_clear()
    assert len(before) == 3
    assert not before & after


@by_numba
def test_cache_keys_depend_on_the_source_of_all_that_numba_compiles():
    package = Path(version.__file__).parent
    hashed = {path for pattern in version._COMPILED for path in package.glob(pattern)}
    assert {*(package / "compile" / "numba").rglob("*.py")} <= hashed
    compiling = {path for path in package.rglob("*.py") if "njit" in path.read_text()}
    # The source of the functions that these two compile is in their keys.
    others = {package / "compile" / "linkers.py", package / "kernel" / "loop.py"}
    assert compiling - others <= hashed


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_an_op_that_asks_for_it_is_called_back_by_jax():
    # In a process of its own: JAX's threads do not survive a fork.
    code = """
import numpy as np, pymc as pm, pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pymc_pmala.compile import compile_graph

class Reversed(Op):
    __props__ = ()
    calls_back_in_jax = True

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0][::-1].copy()

x = pt.dvector("x")
inner = OpFromGraph([x], [Reversed()(x) * 2.0])
function = compile_graph([x], [inner(x)], pm.Model(), mode="JAX")
[found] = function(np.array([1.0, 2.0, 3.0]))
assert type(found) is np.ndarray
np.testing.assert_array_equal(found, [6.0, 4.0, 2.0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_importing_the_package_leaves_warnings_as_they_are():
    code = (
        "import warnings, pymc; before = list(warnings.filters); import pymc_pmala; "
        "assert list(warnings.filters) == before, warnings.filters"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_stack_traces_are_kept_neither_on_graphs_nor_on_the_users_model(monkeypatch):
    functions = []

    def compile_and_keep(*arguments, **options):
        functions.append(compile_graph(*arguments, **options))
        return functions[-1]

    def traces():
        found = pytensor.graph.traversal.ancestors([*model.basic_RVs, *model.value_vars])
        return [len(getattr(v.tag, "trace", [])) for v in found]

    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        pm.Normal("y", pm.Normal("mu", 0.0, scale), 1.0, observed=[0.3, 1.0])
    before = traces()
    monkeypatch.setattr("pymc_pmala.kernel.kernel.compile_graph", compile_and_keep)
    PMALA(model=model)
    for _ in range(2):
        local_geometry(model=model)
    assert traces() == before
    [transition] = functions
    variables = transition.maker.fgraph.variables
    assert max(len(getattr(v.tag, "trace", [])) for v in variables) <= 1
