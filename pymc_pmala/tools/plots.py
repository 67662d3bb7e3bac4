"""Plots of the metric along a chain, of tuning, and of a comparison of samplers."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection, RaveledVars

from pymc_pmala.arguments import check_count, check_draws, check_metric, context_model, shown
from pymc_pmala.compile import compile_graph
from pymc_pmala.metric import MetricChoice
from pymc_pmala.step.langevin import Langevin
from pymc_pmala.tools.quality import ENOUGH
from pymc_pmala.tools.trajectory import metric_along, unconstrained_points

__all__ = ["plot_comparison", "plot_metric", "plot_tuning"]

BLUE = "#0072b2"
ORANGE = "#d55e00"
GREY = "#555555"
CHAIN_COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#cc79a7")

STYLES = ("-", "--", ":", "-.")
"""Line styles of the step methods of a compound step."""

_ELLIPSE = np.linspace(0.0, 2.0 * np.pi, 73)
_CLOUD = 3000


def plot_metric(
    idata: Any,
    var_names: Sequence[str],
    *,
    metric: MetricChoice = "fisher",
    ellipses: int = 30,
    model: pm.Model | None = None,
    ax: Any = None,
) -> Any:
    r"""Plot the local metric along a chain on top of the posterior of two variables.

    Each ellipse belongs to one draw :math:`x` of the first chain. It is the contour at half a
    standard deviation of :math:`N(x, G(x)^{-1})`, which determines the scale and orientation of
    the proposals of a position-dependent sampler at that point. If all ellipses look alike, a
    constant metric is sufficient. For variables that PyMC samples on another scale, such as the
    log scale, the ellipses are distorted by the transform.

    Parameters
    ----------
    idata : InferenceData or DataTree
        Draws of the model.
    var_names : sequence of two str
        Two scalars: variables, or elements such as ``"theta[0]"`` or ``"theta[Choate]"``.
    metric : {"fisher", "softabs", "identity"}, array or callable, default "fisher"
        The metric, as for `PMALA`.
    ellipses : int, default 30
        Number of ellipses, at draws spaced evenly over the chain.
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    ax : matplotlib axes, optional
        Axes to plot on; a new figure by default.

    Returns
    -------
    matplotlib axes
    """
    check_draws(idata, "posterior")
    _check_names(var_names)
    check_metric(metric)
    check_count("ellipses", ellipses)
    model = context_model(model)
    _check_axes("ax", ax, 1)
    pair = [_element(idata.posterior, name, model) for name in var_names]
    sizes = idata.posterior.sizes
    count = min(ellipses, sizes["draw"])
    where = [(0, i) for i in np.linspace(0, sizes["draw"] - 1, count).round().astype(int)]
    contours = _contours(unconstrained_points(idata, model, where), pair, model, metric)

    ax = _new_axes(1, 1, (6, 5)) if ax is None else ax
    cloud = [_draws(idata.posterior, part).ravel() for part in pair]
    thin = max(1, len(cloud[0]) // _CLOUD)
    ax.plot(
        *(values[::thin] for values in cloud), ".", color=GREY, ms=3, alpha=0.3, mew=0, zorder=0,
        label="posterior",
    )  # fmt: skip
    for i, contour in enumerate(contours):
        ax.fill(*contour, color=BLUE, alpha=0.12, lw=0)
        label = None if i else "local metric, half a standard deviation"
        ax.plot(*contour, color=BLUE, lw=1, alpha=0.8, label=label)
    chain = [_draws(idata.posterior, part)[tuple(np.transpose(where))] for part in pair]
    ax.plot(*chain, "o", color=ORANGE, ms=3, mew=0, label="its draws")
    ax.set(xlabel=var_names[0], ylabel=var_names[1])
    ax.legend(
        frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2,
        fontsize="small", columnspacing=1.0,
    )  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_tuning(idata: Any, *, step: Any = None, axes: Sequence[Any] | None = None) -> Any:
    """Plot step size and acceptance rate during tuning and sampling.

    In a compound step, the style of a line tells the step methods apart, in their order.

    Parameters
    ----------
    idata : InferenceData or DataTree
        Draws including tuning: ``pm.sample(..., discard_tuned_samples=False)``.
    step : Langevin step method, optional
        The step method that made the draws. Its target acceptance rate and its largest step size
        are plotted as dotted lines.
    axes : sequence of two matplotlib axes, optional
        Axes to plot on; a new figure by default.

    Returns
    -------
    ndarray of two matplotlib axes
        Step size, acceptance rate.
    """
    check_draws(idata, "sample_stats")
    if step is not None and not isinstance(step, Langevin):
        raise TypeError(f"step must be a step method of this package, but is {shown(step)}.")
    _check_axes("axes", axes, 2)
    if not hasattr(idata, "warmup_sample_stats"):
        raise ValueError(
            "The tuning draws are missing. Keep them with "
            "`pm.sample(..., discard_tuned_samples=False)`."
        )
    from matplotlib.ticker import LogLocator, NullFormatter

    tuned = idata.warmup_sample_stats.sizes["draw"]
    both = _new_axes(2, 1, (8, 5)) if axes is None else np.asarray(axes)
    steps, acceptance = both
    # About as many averages as the eye can distinguish.
    width = max(1, (tuned + idata.sample_stats.sizes["draw"]) // 40)
    step_sizes, rates = _through(idata, "step_size"), _through(idata, "acceptance_rate")
    chains = idata.sample_stats["chain"].values.tolist()
    for i, chain in enumerate(chains):
        colour = CHAIN_COLOURS[i % len(CHAIN_COLOURS)]
        # In a compound step, each statistic has one row for every step method that has it.
        for j, step_size in enumerate(step_sizes[i]):
            label = f"chain {chain}" if j == 0 else None
            steps.plot(step_size, color=colour, lw=1, ls=STYLES[j % len(STYLES)], label=label)
        for j, rate in enumerate(rates[i]):
            centres, means = _window_means(rate, tuned, width)
            style = STYLES[j % len(STYLES)]
            acceptance.plot(centres, means, color=colour, lw=1, ls=style, marker=".", ms=4)
    steps.set(ylabel="step size", yscale="log")
    steps.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    steps.yaxis.set_major_formatter("{x:g}")
    steps.yaxis.set_minor_formatter(NullFormatter())
    acceptance.set(ylabel=f"acceptance rate\nmeans of {width} draws", ylim=(0, 1), xlabel="draw")
    if step is not None:
        largest = step.chain.step_size_adaptation.largest
        steps.axhline(largest, color=GREY, lw=1, ls=":", label="largest")
        acceptance.axhline(step.target_accept, color=GREY, lw=1, ls=":")
        acceptance.annotate(
            "target", (1, step.target_accept), xycoords=("axes fraction", "data"), xytext=(-2, -4),
            textcoords="offset points", color=GREY, ha="right", va="top",
        )  # fmt: skip
    for ax in both:
        ax.axvline(tuned - 0.5, color=GREY, lw=1, ls="--")
        ax.margins(x=0.01)
        ax.spines[["top", "right"]].set_visible(False)
    steps.legend(
        frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=6, fontsize="small",
        borderaxespad=0.2,
    )  # fmt: skip
    acceptance.annotate(
        "end of tuning", (tuned, 0), xytext=(4, 4), textcoords="offset points", color=GREY
    )  # fmt: skip
    return both


def plot_comparison(
    samplers: Sequence[Any], recommended: str | None, axes: Sequence[Any] | None
) -> Any:
    """Bar plots of effective draws per second and of the time to 400 effective draws."""
    from matplotlib.patches import Patch

    measured = [f for f in samplers if np.isfinite(f.seconds_to_enough)]
    size = (10, 0.8 + 0.5 * len(measured))
    both = _new_axes(1, 2, size) if axes is None else np.asarray(axes)
    rates, times = both
    places = np.arange(len(measured))[::-1]
    strength = [1.0 if f.trouble is None else 0.25 for f in measured]
    colours = list(zip([BLUE] * len(measured), strength, strict=True))
    rates.barh(places, [f.ess_per_second for f in measured], color=colours)
    rates.set(xlabel="effective draws per second of sampling")
    if min(strength) < 1:
        rates.set_title("pale: unreliable draws", loc="left", fontsize="small")
    left = np.zeros(len(measured))
    sampling = [ENOUGH / f.ess_per_second for f in measured]
    phases = {
        "tuning": ([f.tuning_seconds for f in measured], "#56b4e9"),
        "sampling": (sampling, BLUE),
        "set-up, not ranked": ([f.setup_seconds for f in measured], "#bbbbbb"),
    }
    keys = []
    for label, (seconds, colour) in phases.items():
        colours = list(zip([colour] * len(measured), strength, strict=True))
        times.barh(places, seconds, left=left, color=colours)
        keys.append(Patch(color=colour, label=label))
        left += seconds
    times.set(xlabel=f"seconds to {ENOUGH} effective draws")
    times.legend(
        handles=keys, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3,
        fontsize="small", borderaxespad=0.2,
    )  # fmt: skip
    for ax, names in ((rates, [f.name for f in measured]), (times, [""] * len(measured))):
        ax.set_yticks(places, names)
        ax.spines[["top", "right"]].set_visible(False)
    for tick, f in zip(rates.get_yticklabels(), measured, strict=True):
        tick.set_fontweight("bold" if f.name == recommended else "normal")
    return both


def _check_names(names: Any) -> None:
    is_list = isinstance(names, Sequence) and not isinstance(names, str | bytes)
    if not is_list or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"var_names must name two scalars, but is {shown(names)}.")


def _check_axes(name: str, axes: Any, number: int) -> None:
    """Check the axes that a user wants to plot on."""
    if axes is None:
        return
    flat = np.ravel(np.asarray(axes, dtype=object))
    if len(flat) != number or not all(hasattr(ax, "plot") for ax in flat):
        wanted = "matplotlib axes" if number == 1 else f"{number} matplotlib axes"
        raise TypeError(f"{name} must be {wanted}, but is {shown(axes)}.")


def _new_axes(rows: int, columns: int, size: tuple[float, float]) -> Any:
    import matplotlib.pyplot as plt

    sharex = rows > 1
    return plt.subplots(rows, columns, figsize=size, sharex=sharex, layout="constrained")[1]


# ---- Variables by their names in ArviZ ---------------------------------------------------


class _Element(NamedTuple):
    """One scalar of a model: a variable and the position of an element in it."""

    rv: Any
    place: tuple[int, ...]


def _element(posterior: Any, label: str, model: pm.Model) -> _Element:
    """Return the scalar with a label such as ``theta[0]``."""
    name, inside = re.fullmatch(r"([^\[]*)(?:\[(.*)\])?", label, flags=re.DOTALL).groups()  # type: ignore[union-attr]
    free = {rv.name: rv for rv in model.free_RVs}
    if name not in free:
        raise ValueError(f"{name!r} is not a free variable of the model: {sorted(free)}.")
    rv = free[name]
    dims = posterior[name].dims[2:]
    tokens = [token.strip() for token in inside.split(",")] if inside else []
    if len(tokens) != len(dims):
        raise ValueError(
            f"{label!r} is not a scalar: specify an element of {name!r}, which has {len(dims)} "
            f"dimensions, for example '{name}[{', '.join('0' * len(dims))}]'."
        )
    if not _is_elementwise(rv, model):
        raise ValueError(f"{name!r} is not sampled element by element, so it has no ellipse.")
    places = [
        _place(posterior[name][dim].values, token) for dim, token in zip(dims, tokens, strict=True)
    ]
    return _Element(rv, tuple(places))


def _is_elementwise(rv: Any, model: pm.Model) -> bool:
    """Whether each element has its own transform, with a Jacobian for each element."""
    transform, value = model.rvs_to_transforms[rv], model.rvs_to_values[rv]
    if transform is None:
        return True
    return transform.log_jac_det(value, *rv.owner.inputs).ndim == rv.ndim


def _place(labels: np.ndarray, token: str) -> int:
    found = [i for i, label in enumerate(labels) if str(label) == token]
    if not found:
        raise ValueError(f"{token!r} is not one of {[str(label) for label in labels]}.")
    return found[0]


def _draws(posterior: Any, element: _Element) -> np.ndarray:
    return posterior[element.rv.name].values[(..., *element.place)]


# ---- Ellipses ----------------------------------------------------------------------------


def _contours(
    points: Sequence[dict[str, np.ndarray]],
    pair: Sequence[_Element],
    model: pm.Model,
    metric: MetricChoice,
) -> list[np.ndarray]:
    """Contours on the natural scale of the variables, a 2 × n array for each point."""
    natural = model.replace_rvs_by_values([part.rv for part in pair])
    backward = compile_graph(
        model.value_vars,
        [value[part.place] for value, part in zip(natural, pair, strict=True)],
        model,
        mode="interpreted",
    )
    contours = []
    for point, (x, g) in zip(points, metric_along(points, model, metric), strict=True):
        places = [_position(x, part, model) for part in pair]
        covariance = np.linalg.inv(g)[np.ix_(places, places)]
        circle = 0.5 * np.array([np.cos(_ELLIPSE), np.sin(_ELLIPSE)])
        offsets = np.linalg.cholesky(covariance) @ circle
        contours.append(
            np.transpose([backward(*_moved(point, x, places, step, model)) for step in offsets.T])
        )
    return contours


def _position(x: RaveledVars, element: _Element, model: pm.Model) -> int:
    """Position of a scalar in the raveled vector."""
    name, before = model.rvs_to_values[element.rv].name, 0
    for variable, shape, size, *_ in x.point_map_info:
        if variable == name:
            return before + int(np.ravel_multi_index(element.place, shape) if shape else 0)
        before += size
    raise ValueError(f"{element.rv.name!r} is discrete, so it has no metric.")


def _moved(
    point: dict[str, np.ndarray],
    x: RaveledVars,
    places: Sequence[int],
    step: np.ndarray,
    model: pm.Model,
) -> list[np.ndarray]:
    """Values of all value variables, with two elements of the raveled vector moved."""
    moved = x.data.copy()
    moved[list(places)] += step
    there = point | DictToArrayBijection.rmap(RaveledVars(moved, x.point_map_info))
    return [np.asarray(there[v.name], dtype=v.dtype) for v in model.value_vars]


# ---- Statistics --------------------------------------------------------------------------


def _through(idata: Any, name: str) -> np.ndarray:
    """Return a statistic during tuning and sampling, by chain, step method and draw."""
    parts = []
    for group in (idata.warmup_sample_stats, idata.sample_stats):
        values = group[name].values
        parts.append(np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 1))
    return np.concatenate(parts, axis=2)


def _window_means(values: np.ndarray, tuned: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Means over windows that do not extend across the end of tuning."""
    centres, means = [], []
    for first, last in ((0, tuned), (tuned, len(values))):
        for start in range(first, last, width):
            stop = min(start + width, last)
            # The mean of a last window much shorter than the others would be noisy.
            if stop - start >= width / 2:
                centres.append((start + stop - 1) / 2)
                means.append(values[start:stop].mean())
    return np.array(centres), np.array(means)
