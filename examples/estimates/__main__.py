"""Measure the errors of posterior means with control variates, and draw a running mean."""

import argparse
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

# Before NumPy is imported, so that CPU times can be compared.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import nutpie
import pymc as pm
import xarray as xr

from benchmarks import data, models
from pymc_pmala import PMALA
from pymc_pmala.tools.control_variates import Series, control_means
from pymc_pmala.tools.estimates import (
    corrected_estimates,
    evaluated_series,
    variable_quantity,
)
from pymc_pmala.tools.plots import BLUE, GREY, ORANGE

DOCS = Path(__file__).parents[2] / "docs" / "_estimates"
CHAINS, DRAWS = 20, 500


def normal_regression(seed: int = 3) -> pm.Model:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(100, 4))
    y = x @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=100)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=4)
        sigma = pm.HalfNormal("sigma", 5)
        pm.Normal("y", x @ beta, sigma, observed=y)
    return model


def logistic(name: str) -> pm.Model:
    return models.logistic_regression(*data.load_logistic(name))


MODELS = {
    "pima": ("logistic regression, Pima", partial(logistic, "pima")),
    "heart": ("logistic regression, Heart", partial(logistic, "heart")),
    "german": ("logistic regression, German", partial(logistic, "german")),
    "normal": ("normal regression, unknown scale", normal_regression),
    "fhn": ("FitzHugh–Nagumo", lambda: models.fitzhugh_nagumo(*data.load_fitzhugh_nagumo())),
    "glmm": ("Poisson GLMM", models.poisson_glmm),
    "funnel": ("Neal's funnel", models.funnel),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.estimates", description=__doc__)
    parser.add_argument("models", nargs="*", help=f"some of {list(MODELS)}; all by default")
    parser.add_argument("--chains", type=int, default=CHAINS)
    parser.add_argument("--picture", action="store_true", help="draw the picture only")
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    DOCS.mkdir(exist_ok=True)
    if options.picture:
        draw_running_mean()
        return
    for name in options.models or MODELS:
        row = measure(*MODELS[name], options.chains)
        print(row, flush=True)
        (DOCS / f"{name}.txt").write_text(row + "\n", encoding="utf-8")
        write_table()


def write_table() -> None:
    """Join the rows of this and earlier runs."""
    rows = [p.read_text(encoding="utf-8") for n in MODELS if (p := DOCS / f"{n}.txt").exists()]
    (DOCS / "errors.md").write_text(HEAD + "".join(rows), encoding="utf-8")


HEAD = """\
| model | elements | error, relative to the plain mean: median | largest | error / mcse |
|---|---|---|---|---|
"""


def measure(title: str, build, chains: int) -> str:
    """Errors over short chains, relative to those of plain means, against a long reference.

    The zero-mean functions are compiled and evaluated once for all chains.
    """
    model = build()
    short = evaluated(model, posterior(model, DRAWS, chains, seed=1))
    tables = [control_means(*short.chain(i)) for i in range(chains)]
    truth = control_means(*evaluated(model, posterior(model, 10 * DRAWS, 4, seed=2))).mean
    error, plain, scaled = (
        np.sqrt(np.mean([column(t) ** 2 for t in tables], axis=0))
        for column in (
            lambda t: t.mean - truth,
            lambda t: t.mean_plain - truth,
            lambda t: (t.mean - truth) / t.mcse,
        )
    )
    ratio = error / plain
    overall = np.sqrt(np.mean(scaled**2))
    return (
        f"| {title} | {len(ratio)} | {np.median(ratio):.2g} | {ratio.max():.2g} | {overall:.2f} |"
    )


def evaluated(model: pm.Model, draws: xr.Dataset) -> Series:
    quantities = [variable_quantity(array, model) for array in draws.data_vars.values()]
    return evaluated_series(draws, model, quantities)[0]


def posterior(model: pm.Model, draws: int, chains: int, seed: int) -> xr.Dataset:
    """Draws of PMALA for the differential equation, whose start matters, else of nutpie."""
    if "c" in model.named_vars:
        options = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}
        with model:
            idata = pm.sample(
                draws, tune=300, chains=chains, step=PMALA(), random_seed=seed, **options
            )
    else:
        compiled = nutpie.compile_pymc_model(model)
        options = {"tune": 600, "seed": seed, "progress_bar": False, "cores": 1}
        idata = nutpie.sample(compiled, draws=draws, chains=chains, **options)
    group = idata.posterior
    return group.to_dataset() if isinstance(group, xr.DataTree) else group


def draw_running_mean() -> None:
    """Running means of one coefficient over the draws of nutpie, with and without correction."""
    model = logistic("pima")
    dataset = posterior(model, DRAWS, 1, seed=4)
    estimates = corrected_estimates(dataset, model, [variable_quantity(dataset["beta"], model)])
    element = 1
    count = np.arange(1, DRAWS + 1)
    _, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharex=True)
    series = {
        "mean of the draws": (dataset["beta"].values[0, :, element], ORANGE),
        "posterior_mean": (estimates.series[0, :, element], BLUE),
    }
    for ax in axes:
        for label, (values, colour) in series.items():
            ax.plot(count, np.cumsum(values) / count, color=colour, label=label)
        ax.axhline(estimates.mean[element], color=GREY, lw=1, zorder=0)
        ax.set_xlabel("draws")
    axes[0].set_ylabel("running mean of beta[1]")
    axes[0].legend()
    half = 20 * estimates.mcse[element]
    axes[1].set_ylim(estimates.mean[element] - half, estimates.mean[element] + half)
    axes[1].set_title("the same, enlarged", fontsize="medium")
    plt.savefig(DOCS / "running_mean.png", dpi=150)


if __name__ == "__main__":
    main()
