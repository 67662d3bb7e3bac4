"""True means and sds of a posterior, and whether draws agree with them."""

from collections.abc import Iterator

import arviz as az
import numpy as np
import pymc as pm

__all__ = ["comparable", "effective_sizes", "exact", "long_run", "summary", "why_void"]

TOLERANCE = 5.0
LEAST_MOVES = 0.05
LARGEST_RHAT = 1.05
TAILS = (0.05, 0.95)


def why_void(draws: dict[str, np.ndarray], truth: dict[str, dict]) -> str | None:
    """Why the effective sample size of these draws says nothing; None if it does.

    A chain that stays where it is has as many effective draws as draws, by ArviZ's formula.
    Hence each chain must move in at least one of twenty transitions, and the mean and sd of
    each variable must be within five Monte Carlo standard errors of the truth.
    """
    for name, values in draws.items():
        if not np.all(np.isfinite(values)):
            return f"{name} is not finite"
    moves = min(_moves(values) for values in draws.values())
    if moves < LEAST_MOVES:
        return f"a chain moved in {100 * moves:.1f} % of its transitions"
    found = summary({name: draws[name] for name in truth})
    worst, where = 0.0, ""
    for name, true in truth.items():
        for moment in ("mean", "sd"):
            error = np.hypot(found[name][f"{moment}_error"], true[f"{moment}_error"])
            away = np.abs(np.asarray(found[name][moment]) - true[moment]) / error
            if np.max(away) > worst:
                worst, where = float(np.max(away)), f"{moment} of {name}"
    return f"{where} is {worst:.1f} standard errors off" if worst > TOLERANCE else None


def effective_sizes(draws: dict[str, np.ndarray]) -> tuple[float, float]:
    """Bulk and tail effective sample size, the least over all variables' elements."""
    bulk = min(az.ess(x, method="bulk") for v in draws.values() for x in _elements(v))
    tail = min(az.ess(x, method="tail", prob=TAILS) for v in draws.values() for x in _elements(v))
    return float(bulk), float(tail)


def summary(draws: dict[str, np.ndarray]) -> dict[str, dict]:
    """Mean and sd of each variable, element by element, with their standard errors."""
    result = {}
    for name, values in draws.items():
        elements = np.array([_moments(x) for x in _elements(values)])
        table = elements.T.reshape(4, *values.shape[2:])
        names = ("mean", "mean_error", "sd", "sd_error")
        result[name] = dict(zip(names, table.tolist(), strict=True))
    return result


def exact(moments: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, dict]:
    """A summary without error, from known means and sds."""
    return {
        name: {"mean": np.asarray(mean).tolist(), "sd": np.asarray(sd).tolist()}
        | {"mean_error": 0.0, "sd_error": 0.0}
        for name, (mean, sd) in moments.items()
    }


def comparable(draws: dict[str, np.ndarray], model: pm.Model) -> dict[str, np.ndarray]:
    """The draws with logarithms of positive variables, whose sd may not exist."""
    transforms = {rv.name: model.rvs_to_transforms[rv] for rv in model.free_RVs}
    positive = {
        name for name, transform in transforms.items() if getattr(transform, "name", None) == "log"
    }
    return {name: np.log(x) if name in positive else x for name, x in draws.items()}


def long_run(model: pm.Model, names: list[str], draws: int) -> dict[str, np.ndarray]:
    """Draws by NUTS with small steps, from chains that agree: nutpie's if installed, or PyMC's."""
    try:
        import nutpie
    except ImportError:
        with model:
            idata = pm.sample(
                draws=draws, chains=4, cores=1, target_accept=0.95, random_seed=0,
                nuts_sampler="pymc", progressbar=False,
            )  # fmt: skip
    else:
        idata = nutpie.sample(
            nutpie.compile_pymc_model(model), draws=draws, tune=1000, chains=4, cores=1,
            target_accept=0.95, seed=0, progress_bar=False,
        )  # fmt: skip
    found = {name: np.asarray(idata.posterior[name].values) for name in names}
    worst = max(float(az.rhat(x)) for values in found.values() for x in _elements(values))
    if not worst < LARGEST_RHAT:
        raise RuntimeError(f"the chains of the reference disagree, R-hat is {worst:.2f}")
    return found


def _elements(values: np.ndarray) -> Iterator[np.ndarray]:
    flat = values.reshape(*values.shape[:2], -1)
    return (flat[:, :, i] for i in range(flat.shape[2]))


def _moves(values: np.ndarray) -> float:
    """Share of transitions that change the variable, in the chain where it is least."""
    changed = np.diff(values.reshape(*values.shape[:2], -1), axis=1) != 0
    return float(changed.any(axis=2).mean(axis=1).min())


def _moments(x: np.ndarray) -> tuple[float, float, float, float]:
    mean, sd = x.mean(), x.std()
    squares = (x - mean) ** 2
    # The sd's error is the variance's by the delta method.
    sd_error = squares.std() / np.sqrt(az.ess(squares, method="mean")) / (2 * sd)
    return mean, sd / np.sqrt(az.ess(x, method="mean")), sd, sd_error
