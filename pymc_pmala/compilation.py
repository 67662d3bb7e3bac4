"""How graphs become functions: PyMC's compile, set up for small arrays and many calls."""

from collections.abc import Callable, Sequence
from typing import Any

import pymc as pm
from pymc.pytensorf import compile as pymc_compile
from pytensor import config
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.link.jax.linker import JAXLinker
from pytensor.link.numba.linker import NumbaLinker
from pytensor.link.vm import VMLinker

from pymc_pmala import scans, sums, switches

__all__ = ["INTERPRETED", "compile_graph"]

INTERPRETED = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")
"""For what is evaluated once: one evaluation is not worth a compiler's time."""


class OneFunctionLinker(NumbaLinker):
    """Numba with one function for the whole graph, and without fast maths.

    Fast maths adds up in an order that depends on what the compile cache holds: a chain resumed
    tomorrow, or by another process, would differ from today's in its last digits.
    """

    # What pytensor fuses for its own numba functions is fused where the one is written.
    incompatible_rewrites = (*NumbaLinker.incompatible_rewrites, "fuse_indexed_into_elemwise")

    def fgraph_convert(self, fgraph: FunctionGraph, **kwargs: Any) -> Any:
        """The graph as a Python function, with the key of its compiled form."""
        from pymc_pmala.numba_backend import graph_function

        with config.change_flags(numba__fastmath=False):
            return graph_function(fgraph)

    def jit_compile(self, fn_and_cache: Any) -> Callable:
        """Compile it, when it is called for the first time."""
        from pytensor.link.numba.dispatch.basic import numba_njit

        function, key = fn_and_cache
        # Division by zero gives infinity, as everywhere in pytensor.
        return numba_njit(
            function,
            fastmath=False,
            final_function=True,
            cache=key is not None,
            error_model="numpy",
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
    if isinstance(chosen.linker, NumbaLinker):
        from pymc_pmala import products, solves

        chosen = Mode(OneFunctionLinker(), chosen.provided_optimizer)
        chosen = chosen.including(products.REWRITE, solves.REWRITE)
    elif isinstance(chosen.linker, VMLinker) and chosen.linker.use_cloop:
        chosen = Mode(QuickLinker(use_cloop=True), chosen.provided_optimizer)
    by_jax = isinstance(chosen.linker, JAXLinker)
    if by_jax:
        from pymc_pmala.jax_backend import ToNumpy
    options = {"on_unused_input": "ignore"} | compile_kwargs
    with model:
        function = pymc_compile(list(inputs), list(outputs), mode=chosen, **options)
    function.trust_input = True
    return ToNumpy(function) if by_jax else function
