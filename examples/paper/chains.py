"""Replicated chains of one sampler, measured as in the paper and kept in a file as they come."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from examples.paper.effective_size import effective_size
from pymc_pmala.timing import sampling_share

__all__ = ["NUTPIE", "NUTS", "Case", "Results", "Settings", "run"]

NUTS, NUTPIE = "pm.NUTS", "nutpie"
# Chains that share one call of `pm.sample`: what an interruption can lose.
BATCH = 5


@dataclass(frozen=True)
class Settings:
    """What a user asked for.

    Attributes
    ----------
    data : str or None
        Folder of CSV files.
    quick : bool
        Whether to run a minute's version.
    folder : Path
        Where results are kept.
    """

    data: str | None
    quick: bool
    folder: Path


@dataclass(frozen=True)
class Case:
    """A sampler on a posterior.

    Attributes
    ----------
    name : str
        Also the name of the file of its results.
    build : callable
        The model, and the step methods to sample it with, or `NUTS`, or `NUTPIE`.
    quantities : callable
        From a chain's draws by name to an array of shape (draws, quantities).
    burn_in, draws : int
        Length of a chain.
    start : mapping
        Initial values; the model's own for what is not listed.
    names : tuple of str, optional
        Variables whose draws are kept; all by default.
    enough : int
        Replicates beyond which no more are run, however many are asked for.
    """

    name: str
    build: Callable[[], tuple[pm.Model, Any]]
    quantities: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    burn_in: int
    draws: int
    start: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    enough: int = 1000


@dataclass(frozen=True)
class Results:
    """What the replicates of a case gave, one row each.

    Attributes
    ----------
    sizes, means, sds : ndarray of shape (replicates, quantities)
        Effective sizes by the paper's estimator, and moments.
    seconds : ndarray of shape (replicates,)
        CPU time of the kept draws.
    acceptance, step_size : ndarray of shape (replicates, steps)
        Mean acceptance probability and step size of each of the step methods.
    draws : int
        Length of the kept chain.
    """

    sizes: np.ndarray
    means: np.ndarray
    sds: np.ndarray
    seconds: np.ndarray
    acceptance: np.ndarray
    step_size: np.ndarray
    draws: int

    @property
    def replicates(self) -> int:
        """How many chains."""
        return len(self.seconds)


def run(
    case: Case, replicates: int, folder: Path, advance: Callable[[int], None]
) -> Results | None:
    """Results of a case: from its file as far as they are there, the others now.

    `advance` is told of every number of chains that are done. None if there are no results
    and none are asked for.
    """
    path = folder / f"{case.name}.json"
    done = json.loads(path.read_text()) if path.is_file() else []
    advance(min(len(done), replicates))
    if len(done) < replicates:
        model, method = case.build()
        while len(done) < replicates:
            seeds = range(len(done) + 1, min(len(done) + BATCH, replicates) + 1)
            sample = _nutpie if method == NUTPIE else _pymc
            done += [_measure(case, *chain) for chain in sample(case, model, method, list(seeds))]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(done))
            advance(len(seeds))
    if not done:
        return None
    columns = {key: np.array([chain[key] for chain in done]) for key in done[0]}
    return Results(draws=case.draws, **columns)


def _measure(
    case: Case, draws: Mapping[str, np.ndarray], seconds: float, stats: Mapping[str, list[float]]
) -> dict[str, Any]:
    values = case.quantities(draws)
    return {
        "sizes": [effective_size(column) for column in values.T],
        "means": values.mean(axis=0).tolist(),
        "sds": values.std(axis=0).tolist(),
        "seconds": seconds,
        **stats,
    }


class _Clock:
    """Callback of `pm.sample`: the CPU time of each chain's kept draws."""

    def __init__(self) -> None:
        self.started: dict[int, float] = {}
        self.ended: dict[int, float] = {}

    def __call__(self, trace, draw) -> None:
        now = time.process_time()
        if draw.tuning:
            self.started[draw.chain] = now
        self.ended[draw.chain] = now


def _pymc(case: Case, model: pm.Model, method: Any, seeds: list[int]):
    clock = _Clock()
    with model:
        idata = pm.sample(
            draws=case.draws,
            tune=case.burn_in,
            chains=len(seeds),
            cores=1,
            random_seed=seeds,
            initvals=dict(case.start),
            var_names=case.names,
            callback=clock,
            progressbar=False,
            compute_convergence_checks=False,
            **({"nuts_sampler": "pymc"} if method == NUTS else {"step": method}),
        )
    for chain in range(len(seeds)):
        # A compound step has one value for each of its steps.
        stats = {
            name: np.atleast_1d(idata.sample_stats[of].values[chain].mean(axis=0)).tolist()
            for name, of in [("acceptance", "acceptance_rate"), ("step_size", "step_size")]
        }
        yield _chain(idata, chain), clock.ended[chain] - clock.started[chain], stats


def _nutpie(case: Case, model: pm.Model, method: str, seeds: list[int]):
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    for seed in seeds:
        start = time.process_time()
        idata = nutpie.sample(
            compiled,
            draws=case.draws,
            tune=case.burn_in,
            chains=1,
            cores=1,
            seed=seed,
            progress_bar=False,
            store_unconstrained=False,
        )
        seconds = time.process_time() - start
        stats = {
            "acceptance": [float(idata.sample_stats["mean_tree_accept"].mean())],
            "step_size": [float(idata.sample_stats["step_size"].mean())],
        }
        yield _chain(idata, 0), sampling_share(idata) * seconds, stats


def _chain(idata, chain: int) -> dict[str, np.ndarray]:
    posterior = idata.posterior
    return {str(name): posterior[name].values[chain] for name in posterior.data_vars}
