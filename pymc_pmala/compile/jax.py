"""What JAX mode needs: our loops inside JAX's graphs, and NumPy arrays out of its functions.

Imported only where a user asks for ``compile_kwargs={"mode": "JAX"}``.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.link.jax.dispatch import jax_funcify

from pymc_pmala.factorization.banded import BandedLoop

__all__ = ["ToNumpy"]


class ToNumpy:
    """A function whose results, arrays of JAX, are copied to arrays of NumPy.

    PyMC hands points on to functions of other backends, and writes into them.
    """

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """Call the function."""
        return [np.array(result) for result in self.function(*arguments)]


@jax_funcify.register(BandedLoop)
def _banded_loop(op: BandedLoop, node: Apply, **kwargs: Any) -> Callable:
    """Call back: the loop is compiled by numba, whoever calls it."""

    def run(*inputs: np.ndarray) -> np.ndarray:
        outputs: list[list[Any]] = [[None]]
        op.perform(node, [np.asarray(value) for value in inputs], outputs)
        return outputs[0][0]

    def banded_loop(*inputs: Any) -> Any:
        last = inputs[-1]
        return jax.pure_callback(run, jax.ShapeDtypeStruct(last.shape, last.dtype), *inputs)

    return banded_loop
