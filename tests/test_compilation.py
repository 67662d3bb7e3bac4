"""What is compiled in a special way is so in copies, too: they are made in other processes."""

import pickle

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor import config
from pytensor.compile.mode import Mode

from pymc_pmala.compilation import OneFunctionLinker, QuickLinker, compile_graph


@pytest.mark.parametrize(("name", "linker"), [("numba", OneFunctionLinker), ("cvm", QuickLinker)])
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
