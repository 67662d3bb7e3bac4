"""Command-line demonstration: PMALA on the Challenger O-ring data.

Before the last launch of the Challenger, O-rings of space shuttle boosters had been damaged in 7
of 23 flights. Did the cold matter? A logistic regression of damage on air temperature (Dalal,
Fowlkes and Hoadley 1989, doi:10.1080/01621459.1989.10478858) estimates its effect, and predicts
the risk at 31 °F, the temperature on the morning of the last launch.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm

from pymc_pmala.step.step_methods import PMALA
from pymc_pmala.tools.plots import BLUE, CHAIN_COLOURS, GREY, ORANGE

__all__ = ["challenger_model", "main", "plot", "sample", "summary"]

TEMPERATURE = np.array(
    [66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58]
)
"""Air temperature in °F at the 23 launches before the last one, in order of date."""

DAMAGE = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1])
"""Whether any O-ring showed thermal distress."""

LAST_LAUNCH = 31
"""Air temperature in °F at the last launch of the Challenger."""

PARAMETERS = ("intercept", "slope")


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample the model, print the summary and save the figure."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        output = _writable_picture(options.output)
    except (OSError, ValueError) as error:
        parser.error(f"cannot write the picture to {options.output}: {error}")

    print("Challenger O-rings: damage ~ temperature, 23 launches, logistic regression, PMALA.")
    idata = sample(options.draws, options.chains, options.seed)
    seconds = idata.posterior.attrs["sampling_time"]
    print(summary(idata).to_string())
    print(f"Sampling took {seconds:.2f} s, including tuning.")
    plot(idata).savefig(output)
    print(f"Picture: {output}")
    return 0


def challenger_model() -> pm.Model:
    """Logistic regression of O-ring damage on standardised temperature."""
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 10)
        slope = pm.Normal("slope", 0, 10)
        logit = intercept + slope * _standardised(TEMPERATURE)
        pm.Bernoulli("damage", logit_p=logit, observed=DAMAGE)
    return model


def sample(draws: int, chains: int, seed: int | None) -> Any:
    """Sample the posterior of the model with PMALA, and return the draws as PyMC does."""
    with challenger_model():
        return pm.sample(draws, chains=chains, step=PMALA(), random_seed=seed)


def summary(idata: Any) -> Any:
    """ArviZ's summary with two additional columns: effective draws per second of sampling."""
    table = az.summary(idata)
    seconds = idata.posterior.attrs["sampling_time"]
    for kind in ("bulk", "tail"):
        ess = az.ess(idata, method=kind)
        table[f"ess_{kind}/s"] = [round(float(ess[name]) / seconds, 1) for name in table.index]
    return table


def plot(idata: Any) -> Any:
    """Plot the data with the posterior curves, and the marginal and trace of each parameter."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), dpi=150, layout="constrained")
    axes = figure.subplot_mosaic(
        [
            ["curve", "curve"],
            ["intercept", "intercept trace"],
            ["slope", "slope trace"],
        ],
        width_ratios=[1, 2],
        height_ratios=[2.4, 1, 1],
    )
    _plot_curve(axes["curve"], idata)
    for name in PARAMETERS:
        _plot_marginals(axes[name], name, idata)
        _plot_traces(axes[f"{name} trace"], idata.posterior[name].values)
    axes["intercept"].set_title("marginal posteriors, 95 % intervals", loc="left", fontsize=10)
    axes["intercept trace"].set_title("traces, one colour per chain", loc="left", fontsize=10)
    axes["slope trace"].set_xlabel("draw")
    for ax in axes.values():
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pymc_pmala",
        description="Fit a logistic regression to the Challenger O-ring data with PMALA, "
        "print the summary and plot the posterior.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("pmala-challenger.png"),
        help="file to save the figure in (default: %(default)s)",
    )
    parser.add_argument(
        "--draws", type=_positive, default=2000, help="draws per chain (default: %(default)s)"
    )
    parser.add_argument(
        "--chains", type=_positive, default=4, help="number of chains (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="random seed, for reproducible draws")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _writable_picture(path: Path) -> Path:
    """Check that a figure can be written to a path, and return the path with a suffix."""
    from matplotlib.backend_bases import FigureCanvasBase

    path = path if path.suffix else path.with_suffix(".png")
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise ValueError(f"{path.suffix} is not one of {', '.join(sorted(formats))}")
    existed = path.exists()
    with path.open("ab"):
        pass
    if not existed:
        path.unlink()
    return path


def _standardised(temperature: np.ndarray) -> np.ndarray:
    return (temperature - TEMPERATURE.mean()) / TEMPERATURE.std(ddof=1)


def _plot_curve(ax: Any, idata: Any) -> None:
    """Plot the posterior probability of damage against temperature, with the data."""
    grid = np.linspace(28, 84, 200)
    intercept, slope = (idata.posterior[name].values.reshape(-1, 1) for name in PARAMETERS)
    probability = _sigmoid(intercept + slope * _standardised(grid))
    for mass, alpha in ((95, 0.18), (50, 0.32)):
        low, high = np.percentile(probability, [50 - mass / 2, 50 + mass / 2], axis=0)
        ax.fill_between(
            grid, low, high, color=BLUE, alpha=alpha, lw=0, label=f"{mass} % credible band"
        )
    ax.plot(grid, np.median(probability, axis=0), color=BLUE, lw=2, label="posterior median")
    ax.plot(
        *_stacked(),
        "o",
        ms=6,
        mfc="white",
        mec=GREY,
        mew=1.3,
        label="launch, damaged (1) or not (0)",
    )
    at_last = _sigmoid(intercept + slope * _standardised(np.array([LAST_LAUNCH])))
    low, median, high = np.percentile(at_last, [2.5, 50, 97.5])
    ax.vlines(LAST_LAUNCH, low, high, color=ORANGE, lw=2)
    ax.plot(LAST_LAUNCH, median, "D", ms=7, color=ORANGE)
    ax.annotate(
        f"28 January 1986, {LAST_LAUNCH} °F:\nPr(damage) in [{low:.2f}, {high:.2f}]\n"
        "with probability 95 %",
        (LAST_LAUNCH, low),
        xytext=(LAST_LAUNCH, 0.32),
        color=ORANGE,
        linespacing=1.4,
        arrowprops={"arrowstyle": "-", "color": ORANGE, "lw": 0.8, "relpos": (0, 1)},
    )
    ax.set(
        xlim=(grid[0], grid[-1]),
        ylim=(-0.06, 1.12),
        xlabel="air temperature at launch (°F)",
        ylabel="probability of O-ring damage",
    )
    ax.set_title(
        "The Challenger's O-rings: logistic regression sampled with PMALA", loc="left", pad=12
    )
    ax.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.62))


def _stacked() -> tuple[np.ndarray, np.ndarray]:
    """Positions of the markers of the launches, with equal temperatures stacked."""
    seen: dict[tuple[int, int], int] = {}
    heights = []
    for temperature, damage in zip(TEMPERATURE.tolist(), DAMAGE.tolist(), strict=True):
        rank = seen.get((temperature, damage), 0)
        seen[temperature, damage] = rank + 1
        heights.append(damage + 0.035 * rank)
    return TEMPERATURE, np.array(heights)


def _plot_marginals(ax: Any, name: str, idata: Any) -> None:
    draws = idata.posterior[name].values.ravel()
    ax.hist(draws, bins=50, density=True, color=BLUE, alpha=0.35)
    low, mean, high = np.percentile(draws, 2.5), draws.mean(), np.percentile(draws, 97.5)
    ax.axvline(mean, color=BLUE, lw=1.5)
    ax.plot([low, high], [0, 0], color=BLUE, lw=4, solid_capstyle="butt", clip_on=False)
    ax.set(ylabel=name, yticks=[])


def _plot_traces(ax: Any, chains: np.ndarray) -> None:
    for i, chain in enumerate(chains):
        ax.plot(chain, lw=0.4, alpha=0.8, color=CHAIN_COLOURS[i % len(CHAIN_COLOURS)])
    ax.margins(x=0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))
