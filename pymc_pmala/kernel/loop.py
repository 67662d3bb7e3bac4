"""Any number of transitions in one call of compiled code."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np
from pytensor import config

from pymc_pmala.version import cache_version

__all__ = ["compiled_loop"]

_NAME = "transitions"
# pytensor's settings are global, and chains in threads compile their loops at the same time.
_settings = Lock()

# A proposal is rejected if the ratio is not finite. Outside the support this is an ordinary
# rejection; elsewhere it is a divergence, because the geometry cannot be computed there.
_SOURCE = """
def transitions(
    address, per_draw, every, xs, numbers, sources, destinations, normals, log_uniforms, a, s,
    {hyper_inputs}x, logp, force, {factor}{hyper}log_det, {constants}
):
    hyper = 0
    for draw in range(len(xs)):
        acceptance, accepted, rejections, diverging, hyper_acceptance = 0.0, 0, 0, 0, 0.0
        for i in range(draw * per_draw, (draw + 1) * per_draw):
            if len(normals):
                ratio, new_x, new_logp, new_force{new} = call_at(
                    address, (normals[i], a, s, x, logp, force, {factor}{main_kind}{arguments})
                )
                log_ratio = ratio[()]
                rejections += 1
                if np.isfinite(log_ratio):
                    acceptance += math.exp(min(0.0, log_ratio))
                    if log_uniforms[i] < log_ratio:
                        accepted += 1
                        rejections = 0
                        x, logp, force = new_x, new_logp, new_force
{moves}
                elif not (log_ratio == -np.inf and new_logp[()] == -np.inf):
                    diverging += 1
                    if diverging == 1:
                        for k in range(len(x)):
                            sources[draw, k], destinations[draw, k] = x[k], new_x[k]
{hyper_move}
        for k in range(len(x)):
            xs[draw, k] = x[k]
        numbers[draw, 0], numbers[draw, 1] = logp[()], log_det
        numbers[draw, 2], numbers[draw, 3] = acceptance, accepted
        numbers[draw, 4], numbers[draw, 5] = rejections, diverging
        numbers[draw, 6] = hyper_acceptance
    return x, logp, force, {factor}{hyper}log_det
"""

_HYPER_MOVE = """
            if len(hyper_normals) and (i + 1) % every == 0:
                ratio, new_x, new_logp, new_force{new} = call_at(
                    address,
                    (no_noise, hyper_a, hyper_s, x, logp, force, {factor}{hyper_kind}{arguments}),
                )
                log_ratio = ratio[()]
                if np.isfinite(log_ratio):
                    hyper_acceptance += math.exp(min(0.0, log_ratio))
                    if hyper_log_uniforms[hyper] < log_ratio:
                        x, logp, force = new_x, new_logp, new_force
{moves}
                hyper += 1
"""

_HYPER_INPUTS = (
    "hyper_normals, hyper_log_uniforms, hyper_a, hyper_s, no_noise, no_hyper_noise, main, other, "
)


def compiled_loop(
    function: Any,
    arguments: Sequence[np.ndarray],
    factor: int,
    averaged: int,
    hyper: int,
    varies: bool,
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
    factor, averaged, hyper : int
        Number of parts of the metric's factor, of the averaged information, and of the geometry
        of the interweaving moves.
    varies : bool
        Whether the transition returns a factor.

    Returns
    -------
    callable or None
        Takes the number of transitions per draw, after how many of them an interweaving move
        follows, the arrays of a `Record` to fill, and then what `Kernel.draws` hands over. Returns
        the state.
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
    results = list(compiled.signature.return_type)
    in_order = [getattr(kind, "layout", "C") == "C" for kind in results[4:]]
    text = _source(len(arguments), factor, averaged, hyper, varies, in_order)
    key = None
    if config.numba__cache:
        key = sha256(f"{cache_version()} {compiled.signature} {text}".encode()).hexdigest()
    environment: dict[str, Any] = {
        "__name__": __name__,
        "np": np,
        "math": math,
        "call_at": call_at_signature(compiled.signature),
    }
    with _settings, config.change_flags(numba__fastmath=False):
        written = compile_numba_function_src(text, _NAME, environment, cache_key=key)
        loop = numba_njit(
            written, final_function=True, cache=key is not None, fastmath=False, error_model="numpy"
        )
    return partial(loop, address_of(compiled))


def _source(
    arguments: int, factor: int, averaged: int, hyper: int, varies: bool, in_order: Sequence[bool]
) -> str:
    """Return the source code of the loop for given numbers of parts.

    ``in_order`` says which of the results of the transition, after the force, are in C order.
    """
    parts = _names("factor", factor)
    hyper_parts = _names("hyper", hyper)
    averages = _names("averaged", averaged)
    before = 6 + factor + varies + averaged + (2 + hyper if hyper else 0)
    data = _names("data", arguments - before)
    of_metric = ["half_log_det"] if varies else []
    changing = [*parts, *of_metric, "log_det"] if varies else []
    changing += hyper_parts
    pieces = {
        "factor": _joined([*parts, *of_metric]),
        "hyper": _joined(hyper_parts),
        "constants": _joined([*averages, *data]),
        "new": "".join(f", new_{name}" for name in changing),
        "moves": "\n".join(
            f"                        {_move(name, is_c)}"
            for name, is_c in zip(changing, in_order, strict=True)
        ),
        "hyper_inputs": _HYPER_INPUTS if hyper else "",
    }
    kinds = {"main_kind": "", "hyper_kind": ""}
    if hyper:
        kinds["main_kind"] = f"{_joined(averages)}main, no_hyper_noise, "
        kinds["hyper_kind"] = f"{_joined(averages)}other, hyper_normals[hyper], "
        pieces["arguments"] = _joined([*hyper_parts, *data])
    else:
        pieces["arguments"] = _joined([*averages, *data])
    move = _HYPER_MOVE.format(**pieces, **kinds) if hyper else ""
    return _SOURCE.format(**pieces, **kinds, hyper_move=move)


def _names(stem: str, count: int) -> list[str]:
    return [f"{stem}_{i}" for i in range(count)]


def _move(name: str, in_order: bool) -> str:
    if name == "log_det":
        return "log_det = new_log_det[()]"
    # Cholesky factors may be in Fortran order, which is another type for numba.
    return f"{name} = new_{name}" if in_order else f"{name} = np.ascontiguousarray(new_{name})"


def _joined(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names)
