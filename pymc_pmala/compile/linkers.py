"""Linkers for graphs of small arrays that are evaluated many times."""

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from pytensor import config
from pytensor.graph.fg import FunctionGraph
from pytensor.link.basic import Linker
from pytensor.link.numba.linker import NumbaLinker
from pytensor.link.vm import VMLinker

from pymc_pmala.compat import IS_PYTENSOR_3

__all__ = ["SWITCH", "OneFunctionLinker", "QuickLinker", "own_linker"]

SWITCH = "PMALA_NUMBA_WRITER"
"""Environment variable that turns the writer of numba functions off if it is set to 0."""


def own_linker(linker: Linker) -> Linker | None:
    """Return the linker that replaces one of pytensor's, or None if it is not to be replaced.

    Only pytensor's own classes are replaced. A linker that the user has subclassed is kept.

    Parameters
    ----------
    linker : Linker
        That of the mode in which a graph is to be compiled.
    """
    if type(linker) is NumbaLinker and IS_PYTENSOR_3:
        return OneFunctionLinker(allow_gc=linker.allow_gc, schedule=linker.schedule)
    if type(linker) is VMLinker and linker.use_cloop:
        return QuickLinker(
            allow_gc=linker.allow_gc,
            use_cloop=True,
            callback=linker.callback,
            callback_input=linker.callback_input,
            lazy=linker.lazy,
            schedule=linker.schedule,
            c_thunks=linker.c_thunks,
            allow_partial_eval=linker.allow_partial_eval,
        )
    return None


class OneFunctionLinker(NumbaLinker):
    """Numba linker that compiles the whole graph as one function, without fast maths.

    If that function cannot be written, or numba cannot compile it, pytensor's own functions for
    the same graph are used instead.
    """

    # The writer does itself what this rewrite prepares for pytensor's functions.
    incompatible_rewrites = (*NumbaLinker.incompatible_rewrites, "fuse_indexed_into_elemwise")

    def fgraph_convert(self, fgraph: FunctionGraph, **kwargs: Any) -> Any:
        """Write the graph as one function.

        Returns
        -------
        written : tuple or None
            The function and its cache key; None if it could not be written.
        convert : callable
            Makes pytensor's functions for the same graph.
        """
        # Imported here because numba takes a second to load, and PyMC 5 does not need it.
        from pymc_pmala.compile.numba import graph_function

        written = None
        if os.environ.get(SWITCH) != "0":
            try:
                with config.change_flags(numba__fastmath=False):
                    written = graph_function(fgraph)
            except Exception as error:
                _warn(error)
        return written, partial(super().fgraph_convert, fgraph, **kwargs)

    def jit_compile(self, converted: Any) -> Callable:
        """Return a function that numba compiles when it is first called."""
        from pytensor.link.numba.dispatch.basic import numba_njit

        from pymc_pmala.compile.numba import NJIT_OPTIONS

        written, convert = converted

        def by_pytensor() -> Callable:
            with config.change_flags(numba__fastmath=False):
                return super(OneFunctionLinker, self).jit_compile(convert())

        if written is None:
            return by_pytensor()
        function, key = written
        compiled = numba_njit(function, final_function=True, cache=key is not None, **NJIT_OPTIONS)
        return FirstOrSecond(compiled, by_pytensor)


class FirstOrSecond:
    """A function with a substitute that is used if the first call fails.

    Parameters
    ----------
    first : callable
        Numba compiles it when it is first called.
    make_second : callable
        Makes the substitute.
    """

    def __init__(self, first: Callable, make_second: Callable[[], Callable]):
        self.first = first
        self.make_second = make_second
        self.chosen: Callable | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function that works."""
        if self.chosen is not None:
            return self.chosen(*arguments)
        try:
            results = self.first(*arguments)
        except SystemError:
            # Raised by an interrupt within compiled code.
            raise
        except Exception as error:
            second = self.make_second()
            # If this raises, too, the arguments are at fault, and not the first function.
            results = second(*arguments)
            self.chosen = second
            _warn(error)
        else:
            self.chosen = self.first
        return results


def _warn(error: Exception) -> None:
    reason = (str(error).strip().splitlines() or [""])[0]
    warnings.warn(
        f"pymc_pmala could not compile a graph as one function ({type(error).__name__}: {reason}) "
        "and uses pytensor's numba functions instead. Results agree up to rounding, but "
        f"compilation takes longer. Please report the model; {SWITCH}=0 in the environment avoids "
        "the attempt.",
        stacklevel=2,
    )


class QuickLinker(VMLinker):
    """C linker without the compiler's most expensive optimisations.

    They take a quarter of the compile time and gain nothing: a transition spends its time in the
    BLAS and in libm. The flag is set whenever a graph is linked, so that a copy of a function is
    compiled in the same way.
    """

    def make_all(self, *args: Any, **kwargs: Any) -> Any:
        """Link with ``-O1``."""
        with config.change_flags(gcc__cxxflags=f"{config.gcc__cxxflags} -O1"):
            return super().make_all(*args, **kwargs)
