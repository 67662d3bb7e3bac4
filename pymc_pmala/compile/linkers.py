"""Which linker compiles a graph: pytensor's, set up for small arrays and many calls."""

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

__all__ = ["SWITCH", "OneFunctionLinker", "own_linker"]

SWITCH = "PMALA_NUMBA_WRITER"
"""Environment variable that turns the writing of numba functions off, if it is 0."""


def own_linker(linker: Linker) -> Linker | None:
    """A linker of ours in the place of one of pytensor's; None for a linker of the user's."""
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
    """Numba with one function for the whole graph, and without fast maths.

    Fast maths adds up in an order that depends on what the compile cache holds: a chain resumed
    tomorrow, or by another process, would differ from today's in its last digits.

    Where no such function can be written, or numba cannot compile what is written, pytensor's
    own functions for the same graph take its place.
    """

    # What pytensor fuses for its own numba functions is fused where the one is written.
    incompatible_rewrites = (*NumbaLinker.incompatible_rewrites, "fuse_indexed_into_elemwise")

    def fgraph_convert(self, fgraph: FunctionGraph, **kwargs: Any) -> Any:
        """The graph as a function that is written, if it can be, and what makes pytensor's."""
        # Numba takes a second to load, and PyMC 5 does without it.
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
        """Compile it, when it is called for the first time."""
        from pytensor.link.numba.dispatch.basic import numba_njit

        written, convert = converted

        def by_pytensor() -> Callable:
            with config.change_flags(numba__fastmath=False):
                return super(OneFunctionLinker, self).jit_compile(convert())

        if written is None:
            return by_pytensor()
        function, key = written
        # Division by zero gives infinity, as everywhere in pytensor.
        compiled = numba_njit(
            function,
            fastmath=False,
            final_function=True,
            cache=key is not None,
            error_model="numpy",
        )
        return FirstOrSecond(compiled, by_pytensor)


class FirstOrSecond:
    """A function, or another one if it fails when it is called for the first time.

    Parameters
    ----------
    first : callable
        Numba compiles it at its first call.
    make_second : callable
        Makes the other function.
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
            # An interrupt within compiled code.
            raise
        except Exception as error:
            second = self.make_second()
            # What pytensor refuses, too, is no fault of what was written.
            results = second(*arguments)
            self.chosen = second
            _warn(error)
        else:
            self.chosen = self.first
        return results


def _warn(error: Exception) -> None:
    reason = (str(error).strip().splitlines() or [""])[0]
    warnings.warn(
        f"pymc_pmala could not compile a graph in its own way ({type(error).__name__}: {reason}), "
        "and pytensor's numba functions are used instead. Nothing is lost but time to compile. "
        f"Please report the model; {SWITCH}=0 in the environment avoids the attempt.",
        stacklevel=2,
    )


class QuickLinker(VMLinker):
    """C without the compiler's costliest optimisations, also where a copy is compiled anew.

    They take a quarter of the compiler's time and save none: what a transition does is done in the
    BLAS and in the functions of libm.
    """

    def make_all(self, *args: Any, **kwargs: Any) -> Any:
        """As the C linker, with the flags that its compiler reads here."""
        with config.change_flags(gcc__cxxflags=f"{config.gcc__cxxflags} -O1"):
            return super().make_all(*args, **kwargs)
