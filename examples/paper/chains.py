"""Replicated chains of a sampler, measured as in the paper and stored in a file."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from examples.paper.effective_size import effective_size
from pymc_pmala.tools.timing import sampling_share

__all__ = ["NUTPIE", "NUTS", "Case", "Results", "Settings", "run"]

NUTS, NUTPIE = "pm.NUTS", "nutpie"

Chain = tuple[Mapping[str, np.ndarray], float, Mapping[str, list[float]]]
"""Draws by name, their CPU time, and means of the statistics."""
Sampler = Callable[[int], Chain]
"""Draws a chain with a given seed."""


@dataclass(frozen=True)
class Settings:
    """The user's settings.

    Attributes
    ----------
    data : str or None
        Folder of CSV files.
    quick : bool
        Whether to run the short version.
    folder : Path
        Folder of the results.
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
        Name of the case and of the file with its results.
    build : callable
        Returns the model, and its step methods, `NUTS` or `NUTPIE`.
    quantities : callable
        Maps the draws of a chain, given by name, to an array of shape (draws, quantities).
    burn_in, draws : int
        Number of tuning draws and of recorded draws.
    start : mapping
        Initial values; those of the model for variables that are not listed.
    names : tuple of str, optional
        Variables whose draws are stored; all of them by default.
    enough : int
        Maximum number of replicates of this case.
    jitter : bool
        Whether nutpie starts at a random point near the start, as is necessary where a
        derivative is zero.
    """

    name: str
    build: Callable[[], tuple[pm.Model, Any]]
    quantities: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    burn_in: int
    draws: int
    start: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    enough: int = 1000
    jitter: bool = False


@dataclass(frozen=True)
class Results:
    """Results of the replicates of a case, with one row for each.

    Attributes
    ----------
    sizes, means, sds : ndarray of shape (replicates, quantities)
        Effective sample sizes by the estimator of the paper, and moments.
    seconds : ndarray of shape (replicates,)
        CPU time of the recorded draws.
    acceptance, step_size : ndarray of shape (replicates, steps)
        Mean acceptance probability and mean step size of each step method.
    draws : int
        Number of recorded draws of a chain.
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
        """Number of chains."""
        return len(self.seconds)


def run(
    cases: Sequence[Case], replicates: int, folder: Path, advance: Callable[[], None]
) -> dict[str, Results]:
    """Return the results of cases by name; chains that are not in their files are drawn now.

    The methods take turns, chain by chain, so that other load on the machine affects all of them
    alike and their times can be compared. `advance` is called after every chain. Cases without
    results are omitted.
    """
    paths = {case.name: folder / f"{case.name}.json" for case in cases}
    done = {
        name: json.loads(path.read_text()) if path.is_file() else [] for name, path in paths.items()
    }
    samplers: dict[str, Sampler] = {}
    for seed in range(1, replicates + 1):
        for case in cases:
            if seed > case.enough:
                continue
            chains, path = done[case.name], paths[case.name]
            if len(chains) < seed:
                if case.name not in samplers:
                    samplers[case.name] = _sampler(case)
                chains.append(_measure(case, *samplers[case.name](seed)))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(chains))
            advance()
    return {name: _results(case, done[name]) for case in cases if done[name := case.name]}


def _results(case: Case, chains: list[dict[str, Any]]) -> Results:
    columns = {key: np.array([chain[key] for chain in chains]) for key in chains[0]}
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
    """Callback of `pm.sample` that measures the CPU time of the recorded draws."""

    def __init__(self) -> None:
        self.started = self.ended = 0.0

    def __call__(self, trace, draw) -> None:
        self.ended = time.process_time()
        if draw.tuning:
            self.started = self.ended


def _sampler(case: Case) -> Sampler:
    model, method = case.build()
    return _nutpie(case, model) if method == NUTPIE else _pymc(case, model, method)


def _pymc(case: Case, model: pm.Model, method: Any) -> Sampler:
    # Without jitter: chains start at the same point as those of the paper, in the same mode.
    nuts = {"nuts_sampler": "pymc", "init": "adapt_diag"}
    how = nuts if method == NUTS else {"step": method}

    def sample(seed: int) -> Chain:
        clock = _Clock()
        with model:
            idata = pm.sample(
                draws=case.draws,
                tune=case.burn_in,
                chains=1,
                cores=1,
                random_seed=[seed],
                initvals=dict(case.start),
                var_names=case.names,
                callback=clock,
                progressbar=False,
                compute_convergence_checks=False,
                **how,
            )
        # A compound step has one value for each of its step methods.
        stats = {
            name: np.atleast_1d(idata.sample_stats[of].values[0].mean(axis=0)).tolist()
            for name, of in [("acceptance", "acceptance_rate"), ("step_size", "step_size")]
        }
        return _draws(idata), clock.ended - clock.started, stats

    return sample


def _nutpie(case: Case, model: pm.Model) -> Sampler:
    import nutpie

    start = {model[name]: np.asarray(value) for name, value in case.start.items()}
    compiled = nutpie.compile_pymc_model(
        model, initial_points=start, jitter_rvs=None if case.jitter else set()
    )

    def sample(seed: int) -> Chain:
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
        return _draws(idata), sampling_share(idata) * seconds, stats

    return sample


def _draws(idata: Any) -> dict[str, np.ndarray]:
    posterior = idata.posterior
    return {str(name): posterior[name].values[0] for name in posterior.data_vars}
