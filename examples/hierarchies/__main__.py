"""Sample a centred hierarchy and a funnel by PMALA, NUTS and nutpie, and compare with the truth."""

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

# One BLAS thread, so that times can be compared. This must be set before NumPy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import scipy.stats

from benchmarks import models
from pymc_pmala import PMALA
from pymc_pmala.tools.plots import BLUE, GREY, ORANGE

DOCS = Path(__file__).parents[2] / "docs" / "_hierarchies"
COLOURS = {"PMALA": BLUE, "NUTS": ORANGE, "nutpie": ORANGE}
TAIL = 0.1
# PyMC would warn of what the table shows.
QUIET = {
    "cores": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
    "random_seed": 1,
}


class Case(NamedTuple):
    """A model with the true marginal density of the logarithm of its scale.

    Attributes
    ----------
    title : str
    build : callable
        Returns the model.
    scale : callable
        The logarithm of the scale, from the posterior.
    effect : str
        The variable whose first element is plotted against it.
    label : str
        Label of the scale.
    limits, range : tuple of float
        Range of the effect and of the scale in the picture.
    grid, density : ndarray
        The true marginal density of the scale.
    """

    title: str
    build: Callable[[], pm.Model]
    scale: Callable[..., np.ndarray]
    effect: str
    label: str
    limits: tuple[float, float]
    range: tuple[float, float]
    grid: np.ndarray
    density: np.ndarray


def eight_schools_density(grid: np.ndarray) -> np.ndarray:
    r"""Return the posterior density of log τ, from the likelihood with θ and μ integrated out.

    Given τ, :math:`y \sim N(0, \mathrm{diag}(s^2 + \tau^2) + 5^2\, 1 1^T)`.
    """
    model = models.eight_schools()
    node = model["y"].owner
    y = model.rvs_to_values[model["y"]].eval()
    s = node.op.dist_params(node)[1].eval()
    log_density = np.empty_like(grid)
    for i, tau in enumerate(np.exp(grid)):
        cov = np.diag(s**2 + tau**2) + 25.0
        prior = scipy.stats.halfcauchy.logpdf(tau, scale=5.0) + np.log(tau)
        log_density[i] = scipy.stats.multivariate_normal.logpdf(y, np.zeros(8), cov) + prior
    density = np.exp(log_density - log_density.max())
    return density / np.trapezoid(density, grid)


def cases() -> dict[str, Case]:
    log_tau, v = np.linspace(-16, 5, 2000), np.linspace(-16, 16, 2000)
    return {
        "eight_schools": Case(
            "eight schools",
            models.eight_schools,
            lambda posterior: np.log(posterior["tau"].values),
            "theta",
            "log tau",
            (-22, 32),
            (-8, 5),
            log_tau,
            eight_schools_density(log_tau),
        ),
        "funnel": Case(
            "Neal's funnel",
            models.funnel,
            lambda posterior: posterior["v"].values,
            "x",
            "v",
            (-25, 25),
            (-12, 12),
            v,
            scipy.stats.norm.pdf(v, 0, 3),
        ),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.hierarchies", description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="draws per chain (2000)")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5, help="runs with different seeds (5)")
    parser.add_argument(
        "--docs", type=Path, nargs="?", const=DOCS, help="write table and pictures to this folder"
    )
    parser.add_argument("--switches", action="store_true", help="only the table of options")
    options = parser.parse_args(arguments)
    if options.switches:
        text = switches(options.draws, options.chains, options.runs)
        print(text)
        if options.docs:
            (options.docs / "switches.md").write_text(text, encoding="utf-8")
        return
    rows = [HEAD]
    for name, case in cases().items():
        model = case.build()
        runs = [
            sample(model, options.draws, options.chains, seed)
            for seed in range(1, options.runs + 1)
        ]
        rows += [row(case, name, [run[name] for run in runs]) for name in runs[0]]
        if options.docs:
            options.docs.mkdir(exist_ok=True)
            draw(case, runs[0])
            plt.savefig(options.docs / f"{name}.png", dpi=150)
    print("\n".join(rows))
    if options.docs:
        (options.docs / "table.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


def sample(model: pm.Model, draws: int, chains: int, seed: int) -> dict:
    """Return the runs of all samplers, with their default settings."""
    options = QUIET | {"draws": draws, "chains": chains, "random_seed": seed, "model": model}
    return {
        "NUTS": pm.sample(nuts_sampler="pymc", **options),
        "nutpie": pm.sample(nuts_sampler="nutpie", **options),
        "PMALA": pm.sample(step=PMALA(model=model), **options),
    }


HEAD = """\
| posterior | sampler | lowest 10 % | sd (true) | least ESS | \
diverging | steps |
|---|---|---:|---:|---:|---:|---:|"""


WRITTEN = {
    "eight schools": models.eight_schools,
    "Poisson, 30 groups × 10": models.poisson_glmm,
    "Poisson, 40 groups × 1": partial(models.poisson_glmm, groups=40, size=1),
}
SWITCHES: dict[str, dict] = {
    "default": {},
    "`interweave=False`": {"interweave": False},
    '`metric="fisher"`, `interweave=False`': {"metric": "fisher", "interweave": False},
}


def switches(draws: int, chains: int, runs: int) -> str:
    """Return a table of the least effective size per 1000 evaluations, by options of PMALA."""
    rows = ["| posterior | written | " + " | ".join(SWITCHES) + " |"]
    rows.append("|---|---|" + "---:|" * len(SWITCHES))
    for title, build in WRITTEN.items():
        for centred in (True, False):
            model = build(centred=centred)
            figures = [efficiencies(model, chosen, draws, chains, runs) for chosen in SWITCHES]
            form = "centred" if centred else "non-centred"
            rows.append(f"| {title} | {form} | " + " | ".join(figures) + " |")
    return "\n".join(rows) + "\n"


def efficiencies(model: pm.Model, chosen: str, draws: int, chains: int, runs: int) -> str:
    """Return the range over runs of the least effective size per 1000 evaluations."""
    step, found = PMALA(model=model, **SWITCHES[chosen]), []
    for seed in range(1, runs + 1):
        options = QUIET | {"draws": draws, "chains": chains, "random_seed": seed}
        idata = pm.sample(step=step, model=model, **options)
        spent = float(idata.sample_stats["n_steps"].sum())
        found.append(1000 * least_effective_size(idata) / spent)
    return spread(found, ".0f")


def moments(case: Case) -> tuple[float, float]:
    """Return the true lower 10 % quantile and the true sd."""
    mass = case.density / case.density.sum()
    mean = (case.grid * mass).sum()
    sd = np.sqrt(((case.grid - mean) ** 2 * mass).sum())
    lowest = np.interp(TAIL, np.cumsum(mass) - 0.5 * mass, case.grid)
    return float(lowest), float(sd)


def row(case: Case, sampler: str, runs: Sequence) -> str:
    """Return a row of the table: the range over the runs of each figure."""
    lowest, true_sd = moments(case)
    scales = [case.scale(idata.posterior) for idata in runs]
    below = spread([100 * (scale < lowest).mean() for scale in scales], ".1f")
    sds = spread([scale.std() for scale in scales], ".2f")
    sizes = spread([least_effective_size(idata) for idata in runs], ".0f")
    stats = [idata.sample_stats for idata in runs]
    divergences = spread([int(s["diverging"].sum()) for s in stats], ".0f")
    steps = spread([float(s["n_steps"].mean()) for s in stats], ".0f")
    return (
        f"| {case.title} | `{sampler}` | {below} | {sds} ({true_sd:.2f}) | {sizes} | "
        f"{divergences} | {steps} |"
    )


def spread(values: Sequence[float], form: str) -> str:
    """Return the smallest and the largest value."""
    low, high = (format(value, form) for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def least_effective_size(idata) -> float:
    """Return the least effective size of all variables, of bulk and tails."""
    return min(
        float(found[name].min())
        for found in (az.ess(idata, method=method) for method in ("bulk", "tail"))
        for name in found.data_vars
    )


def draw(case: Case, runs: dict) -> None:
    """Plot an effect against the scale, and the scale's histogram beside its true density."""
    shown = {name: runs[name] for name in ("NUTS", "PMALA")}
    _, axes = plt.subplots(
        1, 4, figsize=(10, 3.8), layout="constrained", sharey=True, width_ratios=[3, 1] * 2
    )
    bins = np.linspace(*case.range, 60)
    for (cloud, side), (name, idata) in zip(axes.reshape(2, 2), shown.items(), strict=True):
        scale = case.scale(idata.posterior).ravel()
        effect = idata.posterior[case.effect].values[..., 0].ravel()
        cloud.plot(effect, scale, ".", color=COLOURS[name], ms=2.5, alpha=0.4, mew=0)
        cloud.set(xlim=case.limits, xlabel=f"{case.effect}[0]", title=name)
        side.hist(
            scale, bins, density=True, orientation="horizontal", color=COLOURS[name], alpha=0.4
        )
        side.plot(case.density, case.grid, color=GREY, lw=1.5, label="true density")
        side.set(xticks=[], xlim=(0, 1.8 * case.density.max()))
    axes[0].set(ylabel=case.label, ylim=case.range)
    axes[3].legend(fontsize="small", loc="lower right", frameon=False)


if __name__ == "__main__":
    main()
