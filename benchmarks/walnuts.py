"""WALNUTS (package walnutpie) on PyMC models, through the functions that nutpie compiles.

walnutpie knows nothing of PyMC, but its callback ``(size, x, gradient, logp, data)`` has the
signature of nutpie's compiled log-density, so that no Python runs between the two.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

__all__ = ["WalnutsRun", "sample_walnuts"]

DOUBLES = ctypes.POINTER(ctypes.c_double)
# nutpie's function returns 64 bits, of which walnutpie reads the lower 32; all codes are small.
LOGP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, DOUBLES, DOUBLES, DOUBLES, ctypes.c_void_p)


class WalnutsRun(NamedTuple):
    """Draws by variable, and the seconds of set-up, tuning and sampling over all chains."""

    draws: dict[str, np.ndarray]
    setup: float
    tuning: float
    sampling: float


def sample_walnuts(
    model: pm.Model, options: dict[str, Any], now: Callable[[], float], jitter: bool
) -> WalnutsRun:
    """Sample with walnutpie's default settings, from the starting points of nutpie.

    The length of the warm-up is chosen by walnutpie, unless `options` has ``tune``. It tunes and
    samples in one call, whose time is divided in proportion to the number of iterations.
    """
    import nutpie
    import walnutpie

    start = now()
    compiled = nutpie.compile_pymc_model(model, jitter_rvs=None if jitter else set())
    setup = now() - start
    chains, seed = options["chains"], options["random_seed"]
    length = {"min_sampling_iter": options["draws"], "max_sampling_iter": options["draws"]}
    if "tune" in options:
        length |= {"min_warmup_iter": options["tune"], "max_warmup_iter": options["tune"]}
    start = now()
    found = walnutpie.walnuts_pyfunc(
        (LOGP(compiled.compiled_logp_func.address), _address(compiled)),
        inits=np.array([compiled.initial_point_func(seed + chain) for chain in range(chains)]),
        num_chains=chains,
        seed=seed,
        save_warmup=True,
        **length,
    )
    total = now() - start
    tuned = sum(len(chain.warmup.warmup_draws) for chain in found)
    share = tuned / (tuned + chains * options["draws"])
    draws = _expand(compiled, np.array(found), [rv.name for rv in model.free_RVs])
    return WalnutsRun(draws, setup, share * total, (1 - share) * total)


def _address(compiled: Any) -> ctypes.c_void_p:
    """Return the address of the data that nutpie's compiled functions take."""
    return ctypes.c_void_p(compiled.user_data.ctypes.data)


def _expand(compiled: Any, points: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
    """Return the variables at points of the unconstrained space, of shape (chain, draw, size)."""
    expand, data = compiled.compiled_expand_func.ctypes, _address(compiled)
    values = np.empty((*points.shape[:2], compiled.n_expanded))
    for index in np.ndindex(*points.shape[:2]):
        x = np.ascontiguousarray(points[index])
        status = expand(
            len(x), compiled.n_expanded, x.ctypes.data_as(DOUBLES),
            values[index].ctypes.data_as(DOUBLES), data,
        )  # fmt: skip
        if status:
            raise RuntimeError(f"nutpie's function of the variables returned {status}")
    every, slices, shapes = compiled.shape_info
    return {
        name: values[..., part].reshape(*points.shape[:2], *shape)
        for name, part, shape in zip(every, slices, shapes, strict=True)
        if name in names
    }
