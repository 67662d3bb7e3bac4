"""One picture for each model: its posterior from two samplers side by side."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

# What to plot: the variable, its label, and the label of its elements.
SHOWN = {
    "eight_schools": ("theta", "effect of coaching", "school"),
    "baseball": ("ability", "chance of a hit", "player"),
    "golf": ("chance", "chance of holing the putt", "feet"),
    "outliers": ("slope", "slope", ""),
    "two_groups": ("difference", "difference of the mean IQs", ""),
    "rugby": ("attack", "strength in attack", ""),
}
COLOURS = {"PMALA": "#0072b2", "NUTS": "#d55e00"}


def draw(name: str, draws: dict[str, Any], path: Any) -> None:
    """Plot the posterior of a model by sampler: intervals of a vector, histograms of a scalar."""
    variable, label, elements = SHOWN[name]
    figure, ax = plt.subplots(figsize=(6, 3), layout="constrained", dpi=100)
    for i, (sampler, colour) in enumerate(COLOURS.items()):
        values = draws[sampler].posterior[variable]
        if values.ndim == 2:
            bins = np.linspace(*np.quantile(values, [0.001, 0.999]), 40)
            style = {"histtype": "step", "lw": 2} if i else {"alpha": 0.4}
            ax.hist(values.values.ravel(), bins, density=True, color=colour, label=sampler, **style)
            continue
        flat = values.values.reshape(-1, values.shape[2])
        low, middle, high = np.quantile(flat, [0.05, 0.5, 0.95], axis=0)
        places = np.arange(flat.shape[1])
        error = [middle - low, high - middle]
        ax.errorbar(
            places + 0.3 * i - 0.15, middle, error, fmt="o", ms=4, color=colour, label=sampler
        )
        names = values[values.dims[2]].values
        shown = names + 2 if name == "golf" else names
        ax.set_xticks(places, shown)
    if values.ndim == 2:
        ax.set(xlabel=label, yticks=[])
    else:
        ax.set(ylabel=label, xlabel=elements)
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.1)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)
