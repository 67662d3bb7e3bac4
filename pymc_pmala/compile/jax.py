"""Support for JAX mode: Ops that JAX calls back, and results as NumPy arrays.

Imported only if a user asks for ``compile_kwargs={"mode": "JAX"}``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import ancestors
from pytensor.link.jax.dispatch import jax_funcify

__all__ = ["ToNumpy", "register_callbacks"]


class ToNumpy:
    """A function whose results are converted from JAX arrays to NumPy arrays.

    PyMC passes points on to functions of other backends, and writes into them.

    Parameters
    ----------
    function : callable
        Returns a list of JAX arrays.
    """

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """Call the function."""
        return [np.array(result) for result in self.function(*arguments)]


def register_callbacks(outputs: Sequence[Variable]) -> None:
    """Let JAX call ``Op.perform`` for the Ops in a graph that ask for it.

    An Op asks for it with the class attribute ``calls_back_in_jax = True``. It must have one
    output, of the shape and type of its last input.
    """
    ops = {variable.owner.op for variable in ancestors(outputs) if variable.owner is not None}
    for op in ops:
        kind = type(op)
        if isinstance(op, HasInnerGraph):
            register_callbacks(op.inner_outputs)
        elif getattr(kind, "calls_back_in_jax", False) and kind not in jax_funcify.registry:
            jax_funcify.register(kind, _funcify_callback)


def _funcify_callback(op: Op, node: Apply, **kwargs: Any) -> Callable:
    def run(*inputs: np.ndarray) -> np.ndarray:
        outputs: list[list[Any]] = [[None]]
        op.perform(node, [np.asarray(value) for value in inputs], outputs)
        return outputs[0][0]

    def callback(*inputs: Any) -> Any:
        last = inputs[-1]
        return jax.pure_callback(run, jax.ShapeDtypeStruct(last.shape, last.dtype), *inputs)

    return callback
