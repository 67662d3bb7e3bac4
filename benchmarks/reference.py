"""The true means and sds of a posterior, and a check of draws against them."""

import numpy as np
import pymc as pm

from pymc_pmala.tools.quality import (
    LARGEST_RHAT,
    LEAST_MOVES,
    TOLERANCE,
    largest_rhat,
    least_moves,
    moments,
)

__all__ = ["exact", "long_run", "why_void"]


def why_void(draws: dict[str, np.ndarray], truth: dict[str, dict]) -> str | None:
    """Return the reason why the effective sample size of draws is meaningless, or None.

    By ArviZ's formula, a chain that never moves has as many effective draws as draws. Hence each
    chain must move in at least one of twenty transitions, and the mean and sd of each variable
    must be within five Monte Carlo standard errors of the truth.
    """
    for name, values in draws.items():
        if not np.all(np.isfinite(values)):
            return f"{name} is not finite"
    moves = least_moves(draws)
    if moves < LEAST_MOVES:
        return f"a chain moved in {100 * moves:.1f} % of its transitions"
    found = moments({name: draws[name] for name in truth})
    worst, where = 0.0, ""
    for name, true in truth.items():
        for moment in ("mean", "sd"):
            error = np.hypot(found[name][f"{moment}_error"], true[f"{moment}_error"])
            away = np.abs(np.asarray(found[name][moment]) - true[moment]) / error
            if np.max(away) > worst:
                worst, where = float(np.max(away)), f"{moment} of {name}"
    return f"{where} is {worst:.1f} standard errors off" if worst > TOLERANCE else None


def exact(moments: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, dict]:
    """Return a summary without error from known means and sds."""
    return {
        name: {"mean": np.asarray(mean).tolist(), "sd": np.asarray(sd).tolist()}
        | {"mean_error": 0.0, "sd_error": 0.0}
        for name, (mean, sd) in moments.items()
    }


def long_run(model: pm.Model, names: list[str], draws: int, jitter: bool) -> dict[str, np.ndarray]:
    """Sample with small steps and check r-hat, using nutpie if it is installed, or PyMC's NUTS."""
    try:
        import nutpie
    except ImportError:
        with model:
            idata = pm.sample(
                draws=draws, chains=4, cores=1, target_accept=0.95, random_seed=0,
                nuts_sampler="pymc", init="auto" if jitter else "adapt_diag", progressbar=False,
            )  # fmt: skip
    else:
        idata = nutpie.sample(
            nutpie.compile_pymc_model(model, jitter_rvs=None if jitter else set()),
            draws=draws, tune=1000, chains=4, cores=1, target_accept=0.95, seed=0,
            progress_bar=False,
        )  # fmt: skip
    found = {name: np.asarray(idata.posterior[name].values) for name in names}
    worst = largest_rhat(found)
    if not worst < LARGEST_RHAT:
        raise RuntimeError(f"the chains of the reference disagree: r-hat is {worst:.2f}")
    return found
