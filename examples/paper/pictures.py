"""The figures of the page on the paper in the documentation."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from matplotlib.patches import Ellipse

from benchmarks.data import LOGISTIC_SETS, load_logistic
from benchmarks.models import logistic_regression
from examples.paper import example
from examples.paper.chains import Results, Settings
from pymc_pmala import MALA
from pymc_pmala.model.target import make_target
from pymc_pmala.tools.local_geometry import geometry_function

__all__ = ["DRAWN", "nothing"]


def nothing(folder: Path, settings: Settings, results: dict[str, Results]) -> None:
    """Do nothing, for experiments without a figure."""


def _example(folder: Path, settings: Settings, results: dict[str, Results]) -> None:
    example.draw(folder / "example.png")


def _logistic(folder: Path, settings: Settings, results: dict[str, Results]) -> None:
    _effective_sizes(folder / "effective_sizes.png", results)
    _ellipses(folder / "ellipses.png", settings)


def _effective_sizes(path: Path, results: dict[str, Results]) -> None:
    """Plot the smallest effective size of every chain, by method and data set."""
    sets = [name for name in LOGISTIC_SETS if any(f"/{name}/" in key for key in results)]
    methods = list(dict.fromkeys(key.split("/")[-1] for key in results))
    figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
    for m, method in enumerate(methods):
        axis.plot([], [], ".", color=f"C{m}", label=method)
        for s, name in enumerate(sets):
            result = results.get(f"logistic/{name}/{method}")
            if result is None:
                continue
            place = s + 0.8 * (m / max(len(methods) - 1, 1) - 0.5)
            share = result.sizes.min(axis=1) / result.draws
            axis.plot(np.full(len(share), place), share, ".", color=f"C{m}", alpha=0.5)
    axis.set_yscale("log")
    axis.set_xticks(range(len(sets)), sets)
    axis.set_ylabel("smallest ESS per draw")
    axis.legend(frameon=False, fontsize="small", ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _ellipses(path: Path, settings: Settings, first: int = 1, second: int = 3) -> None:
    """Plot unit balls of the metric in two coefficients over the posterior of Ripley's data."""
    model = logistic_regression(*load_logistic("ripley", settings.data))
    quiet = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1}
    with model:
        idata = pm.sample(2000, tune=500, chains=1, cores=1, step=MALA(), **quiet)
    draws = idata.posterior["beta"].values[0]
    figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
    axis.plot(draws[:, first], draws[:, second], ".", color="0.8", markersize=2)
    geometry = geometry_function(make_target(model), "fisher", mode="interpreted")
    for draw in draws[:: len(draws) // 12]:
        covariance = np.linalg.inv(geometry(draw).metric)[np.ix_([first, second], [first, second])]
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        width, height = 2 * np.sqrt(values[1]), 2 * np.sqrt(values[0])
        centre = draw[[first, second]]
        axis.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, color="C0"))
    axis.set(xlabel=f"coefficient {first}", ylabel=f"coefficient {second}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


DRAWN: dict[str, Callable[[Path, Settings, dict[str, Results]], None]] = {
    "logistic": _logistic,
    "example": _example,
}
