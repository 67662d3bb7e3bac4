"""Any number of transitions in one call of compiled code."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from pytensor import config

from pymc_pmala.version import cache_version

__all__ = ["compiled_loop"]

_NAME = "transitions"

# A proposal is rejected if the ratio is not finite. Outside the support this is an ordinary
# rejection; elsewhere it is a divergence, because the geometry cannot be computed there.
_SOURCE = """
def transitions(address, noises, log_uniforms, a, s, x, logp, force, {factor}log_det{data}):
    acceptance, accepted, rejections, diverging = 0.0, 0, 0, 0
    source = destination = x
    for i in range(len(noises)):
        ratio, new_log_det, new_x, new_logp, new_force{outputs} = call_at(
            address, (noises[i], a, s, x, logp, force, {factor}{data_first})
        )
        log_ratio = ratio[()]
        if np.isfinite(log_ratio):
            acceptance += math.exp(min(0.0, log_ratio))
            if log_uniforms[i] < log_ratio:
                accepted += 1
                rejections = 0
                x, logp, force, log_det = new_x, new_logp, new_force, new_log_det[()]
{moves}
                continue
        elif not (log_ratio == -np.inf and new_logp[()] == -np.inf):
            diverging += 1
            if diverging == 1:
                source, destination = x, new_x
        rejections += 1
    done = acceptance, accepted, rejections, diverging, source, destination
    return done, (x, logp, force, {factor}log_det)
"""


def compiled_loop(
    function: Any, arguments: Sequence[np.ndarray], parts: int, varies: bool
) -> Callable | None:
    """Return the loop over a transition, or None if the transition is not compiled by numba.

    The loop calls the machine code of the transition by its address. The results are identical to
    the last bit, nothing is compiled twice, and models whose transitions have the same types share
    the loop in numba's cache.

    Parameters
    ----------
    function : pytensor function
        One transition; see `transition_graph`.
    arguments : sequence of ndarray
        Arguments of an earlier call, including the values of the shared variables.
    parts : int
        Number of parts of the metric's factor.
    varies : bool
        Whether the transition returns a factor.

    Returns
    -------
    callable or None
        Takes the noise and the logarithms of uniform numbers, one row for each transition; a, s; x,
        logp, force, the parts of the factor, log |G|; and the values of the shared variables of the
        function. Returns the fields of `Info` and the state.
    """
    jitted = getattr(getattr(function, "vm", None), "jit_fn", None)
    transition: Any = getattr(jitted, "chosen", jitted)
    if not hasattr(transition, "py_func"):
        return None
    # Numba takes a second to import, and PyMC 5 does not need it.
    import numba
    from pytensor.link.numba.cache import compile_numba_function_src
    from pytensor.link.numba.dispatch.basic import numba_njit

    from pymc_pmala.kernel.machine_code import address_of, call_at_signature

    compiled = transition.overloads.get(tuple(map(numba.typeof, arguments)))
    if compiled is None:
        return None
    factor = [f"factor_{i}" for i in range(parts)]
    outputs = [f"new_factor_{i}" for i in range(parts)] if varies else []
    data = [f"data_{i}" for i in range(len(arguments) - 6 - parts)]
    text = _SOURCE.format(
        factor="".join(f"{name}, " for name in factor),
        data="".join(f", {name}" for name in data),
        data_first=", ".join(data),
        outputs="".join(f", {name}" for name in outputs),
        moves="\n".join(
            f"                {old} = np.ascontiguousarray({new})"
            for old, new in zip(factor, outputs, strict=False)
        ),
    )
    key = None
    if config.numba__cache:
        key = sha256(f"{cache_version()} {compiled.signature} {text}".encode()).hexdigest()
    environment: dict[str, Any] = {
        "__name__": __name__,
        "np": np,
        "math": math,
        "call_at": call_at_signature(compiled.signature),
    }
    with config.change_flags(numba__fastmath=False):
        written = compile_numba_function_src(text, _NAME, environment, cache_key=key)
        loop = numba_njit(
            written, final_function=True, cache=key is not None, fastmath=False, error_model="numpy"
        )
    return partial(loop, address_of(compiled))
