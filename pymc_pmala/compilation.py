"""How graphs become functions: PyMC's compile, set up for small arrays and many calls."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pymc as pm
from pymc.pytensorf import compile as pymc_compile
from pytensor import config
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors
from pytensor.link.basic import Linker
from pytensor.link.jax.linker import JAXLinker
from pytensor.link.numba.linker import NumbaLinker
from pytensor.link.vm import VMLinker
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_pmala import scans, sums, switches
from pymc_pmala.compat import IS_PYTENSOR_3

__all__ = ["INTERPRETED", "SWITCH", "compile_graph", "no_stack_traces"]

# With a gather that is batched over copies of its index, as in a marginalised model, pytensor's
# rewrite of Blockwise and that of DimShuffle undo each other without end.
_ENDLESS = ("local_blockwise_alloc_inputs",)

INTERPRETED = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")
"""For what is evaluated once: one evaluation is not worth a compiler's time."""


SWITCH = "PMALA_NUMBA_WRITER"
"""Environment variable that turns the writing of numba functions off, if it is 0."""


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
        from pymc_pmala.numba_backend import graph_function

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


@contextmanager
def no_stack_traces() -> Iterator[None]:
    """Let pytensor not keep where variables were made; a context, or a decorator.

    It copies these lists from variable to variable when it rewrites, which can fill the memory:
    to be used wherever graphs are built or compiled.
    """
    with config.change_flags(traceback__limit=0):
        yield


@no_stack_traces()
def compile_graph(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    model: pm.Model,
    mode: Mode | str | None = None,
    **compile_kwargs: Any,
) -> Callable:
    """Compile in a model's context, with PyMC's rewrites; inputs are not checked at calls.

    Parameters
    ----------
    inputs, outputs : sequence of Variable
        Inputs need not all be used: a Gaussian's metric does not depend on the point.
    model : pm.Model
        Decides on ``check_bounds``.
    mode : Mode or str, optional
        pytensor's default if left out.
    **compile_kwargs
        Passed to pytensor.
    """
    chosen = get_mode(mode).including(scans.REWRITE, switches.REWRITE, sums.REWRITE)
    if _has_batched_gather(outputs):
        chosen = chosen.excluding(*_ENDLESS)
    linker = _own_linker(chosen.linker)
    if linker is not None:
        chosen = Mode(linker, chosen.provided_optimizer)
    if isinstance(linker, OneFunctionLinker):
        from pymc_pmala import products, solves

        chosen = chosen.including(products.REWRITE, solves.REWRITE)
    by_jax = isinstance(chosen.linker, JAXLinker)
    if by_jax:
        from pymc_pmala.jax_backend import ToNumpy
    options = {"on_unused_input": "ignore"} | compile_kwargs
    with model:
        function = pymc_compile(list(inputs), list(outputs), mode=chosen, **options)
    function.trust_input = True
    return ToNumpy(function) if by_jax else function


def _has_batched_gather(outputs: Sequence[Variable]) -> bool:
    return any(
        isinstance(variable.owner.op, Blockwise)
        and isinstance(variable.owner.op.core_op, AdvancedSubtensor)
        for variable in ancestors(outputs)
        if variable.owner is not None
    )


def _own_linker(linker: Linker) -> Linker | None:
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
