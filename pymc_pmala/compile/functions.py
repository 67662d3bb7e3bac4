"""Compile graphs with PyMC's `compile` and with rewrites and linkers of our own."""

from collections.abc import Callable, Sequence
from typing import Any

import pymc as pm
from pymc.pytensorf import compile as pymc_compile
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.link.jax.linker import JAXLinker
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_pmala.compile.linkers import own_linker
from pymc_pmala.compile.rewrites import blocks, loops, ranges, shapes, sums, switches
from pymc_pmala.stack_traces import no_stack_traces

__all__ = ["compile_graph"]

_INTERPRETED = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")

_REWRITES = tuple(part.REWRITE for part in (blocks, loops, ranges, shapes, switches, sums))

# If indexing is batched over copies of its index, as in a marginalised model, this rewrite and one
# of pytensor's for DimShuffle undo each other forever.
_ENDLESS = ("local_blockwise_alloc_inputs",)


@no_stack_traces()
def compile_graph(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    model: pm.Model,
    mode: Mode | str | None = None,
    **compile_kwargs: Any,
) -> Callable:
    """Compile a function in the context of a model, with PyMC's rewrites.

    The function does not check the types of its arguments.

    Parameters
    ----------
    inputs, outputs : sequence of Variable
        Unused inputs are allowed: the metric of a Gaussian does not depend on the point.
    model : pm.Model
        Its ``check_bounds`` is respected.
    mode : Mode or str, optional
        pytensor's default if omitted. A linker that is not one of pytensor's own is kept.
        ``"interpreted"`` is for graphs that are evaluated once and not worth compiling.
    **compile_kwargs
        Passed to PyMC's `compile`.

    Returns
    -------
    callable
        Takes and returns NumPy arrays.
    """
    if mode == "interpreted":
        mode = _INTERPRETED
    given = get_mode(mode)
    linker = own_linker(given.linker) or given.linker
    rewrites = given.provided_optimizer.including(*_REWRITES)
    if _has_batched_gather(outputs):
        rewrites = rewrites.excluding(*_ENDLESS)
    by_jax = isinstance(linker, JAXLinker)
    if by_jax:
        from pymc_pmala.compile.jax import ToNumpy, register_callbacks

        register_callbacks(outputs)
    options = {"on_unused_input": "ignore"} | compile_kwargs
    with model:
        function = pymc_compile(list(inputs), list(outputs), mode=Mode(linker, rewrites), **options)
    function.trust_input = True
    return ToNumpy(function) if by_jax else function


def _has_batched_gather(outputs: Sequence[Variable]) -> bool:
    return any(
        isinstance(variable.owner.op, Blockwise)
        and isinstance(variable.owner.op.core_op, AdvancedSubtensor)
        for variable in ancestors(outputs)
        if variable.owner is not None
    )
