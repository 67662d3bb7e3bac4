"""Pictures: what is drawn is where the mathematics says, and something is drawn at all."""

import io
import itertools
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_pmala import PMALA, local_geometry, plot_metric, plot_tuning
from pymc_pmala.tools.plots import BLUE, ORANGE


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"group": ["low", "high"]}) as model:
        pm.Bernoulli("k", 0.5)
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 2)
        theta = pm.Normal("theta", mu, tau, dims="group")
        pm.Normal("y", theta, 1.0, observed=[0.5, 2.0])
        pm.Dirichlet("w", np.ones(3))
    return model


@pytest.fixture(scope="module")
def idata(model):
    """Draws from the prior, in the shape of a chain's."""
    draws = pm.draw(model.free_RVs, 60, random_seed=1)
    dims = [
        ("chain", "draw", *(model.named_vars_to_dims.get(v.name) or ())) for v in model.free_RVs
    ]
    return SimpleNamespace(
        posterior=xr.Dataset(
            {
                rv.name: ((*d, *(f"{rv.name}_dim_{i}" for i in range(len(d), x.ndim + 1))), x[None])
                for rv, d, x in zip(model.free_RVs, dims, draws, strict=True)
            },
            coords={"group": ["low", "high"], "w_dim_2": np.arange(3)},
        )
    )


KEPT = {
    "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False,
    "compute_convergence_checks": False, "discard_tuned_samples": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def tuned():
    """A chain with its tuning, as the installed PyMC and ArviZ return it."""
    with pm.Model():
        pm.Normal("x", shape=2)
        return pm.sample(
            60, tune=40, step=PMALA(compile_kwargs={"mode": "interpreted"}), chains=2, cores=1,
            random_seed=1, progressbar=False, compute_convergence_checks=False,
            discard_tuned_samples=False,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def pixels_of(ax, colour):
    """Share of a rendered picture's pixels that are about of a colour."""
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="rgba", dpi=60)
    image = np.frombuffer(buffer.getvalue(), dtype=np.uint8).reshape(-1, 4)[:, :3]
    wanted = 255 * np.array(plt.matplotlib.colors.to_rgb(colour))
    return float((np.abs(image - wanted).max(axis=1) < 90).mean())


def contours(ax):
    """Outlines of the ellipses: closed lines."""
    lines = [line.get_xydata() for line in ax.lines]
    return [xy for xy in lines if len(xy) > 2 and np.allclose(xy[0], xy[-1])]


def test_ellipses_are_those_of_the_local_metric(model, idata):
    ax = plot_metric(idata, ("mu", "theta[high]"), ellipses=5, model=model)
    found = contours(ax)
    assert len(found) == 5
    draw = idata.posterior.isel(chain=0, draw=0)
    point = {
        "mu": draw["mu"].values,
        "tau_log__": np.log(draw["tau"].values),
        "theta": draw["theta"].values,
    }
    continuous = [model["mu"], model["tau"], model["theta"]]
    g = local_geometry(point, vars=continuous, model=model).metric
    covariance = np.linalg.inv(g)[np.ix_([0, 3], [0, 3])]
    away = found[0] - [point["mu"], point["theta"][1]]
    squares = np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away)
    np.testing.assert_allclose(squares, 0.25, rtol=1e-6)


def test_ellipses_of_a_positive_variable_are_bent_into_its_support(model, idata):
    ax = plot_metric(idata, ("mu", "tau"), ellipses=8, metric="identity", model=model)
    for contour, tau in zip(contours(ax), ax.lines[-1].get_ydata(), strict=True):
        top, bottom = contour[:, 1].max(), contour[:, 1].min()
        np.testing.assert_allclose([top, bottom], tau * np.exp([0.5, -0.5]), rtol=1e-2)


def test_the_picture_shows_ellipses_and_draws_on_the_axes_given(model, idata):
    _, given = plt.subplots()
    with model:
        ax = plot_metric(idata, ("theta[low]", "theta[high]"), ax=given)
    assert ax is given
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("theta[low]", "theta[high]")
    assert pixels_of(ax, BLUE) > 0.001
    assert pixels_of(ax, ORANGE) > 0.0005
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["posterior", "local metric, half a standard deviation", "its draws"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("mu",), "two scalars"),
        (("mu", "nu"), "not a free variable"),
        (("mu", "theta"), "not a scalar"),
        (("mu", "theta[middle]"), "is not one of"),
        (("mu", "w[0]"), "not sampled element by element"),
        (("mu", "k"), "discrete"),
    ],
)
def test_variables_without_an_ellipse_are_refused(model, idata, names, message):
    with pytest.raises(ValueError, match=message):
        plot_metric(idata, names, model=model)


def test_tuning_is_drawn_for_every_chain_up_to_the_last_draw(tuned):
    steps, acceptance = plot_tuning(tuned)
    lines = [line for line in steps.lines if len(line.get_xdata()) == 100]
    assert len(lines) == 2
    for chain, line in enumerate(lines):
        statistics = (tuned.warmup_sample_stats, tuned.sample_stats)
        expected = np.concatenate([s["step_size"].values[chain] for s in statistics])
        np.testing.assert_array_equal(line.get_ydata(), expected)
    rates = acceptance.lines[0].get_ydata()
    assert np.all((rates >= 0) & (rates <= 1))
    assert pixels_of(steps, BLUE) > 0.001


def test_tuning_has_a_legend_of_chains_and_the_steps_limits():
    with pm.Model():
        pm.Normal("x")
        step = PMALA(compile_kwargs={"mode": "interpreted"}, target_accept=0.7)
        idata = pm.sample(20, tune=20, step=step, **KEPT)
    steps, acceptance = plot_tuning(idata, step=step)
    labels = [text.get_text() for text in steps.get_legend().get_texts()]
    assert labels == ["chain 0", "chain 1", "largest"]
    assert any(np.allclose(line.get_ydata(), 0.7) for line in acceptance.lines)
    # No tick's label lies over another's.
    steps.figure.canvas.draw()
    low, high = steps.get_ylim()
    ticks = [t for t in steps.yaxis.get_ticklabels() if low <= t.get_position()[1] <= high]
    boxes = [tick.get_window_extent() for tick in ticks if tick.get_text()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_tuning_beside_nuts_is_drawn_with_both_acceptance_rates():
    with pm.Model():
        x, w = pm.Normal("x"), pm.Normal("w")
        mine = PMALA([x], compile_kwargs={"mode": "interpreted"})
        idata = pm.sample(30, tune=20, step=[mine, pm.NUTS([w])], **KEPT)
    # Of PMALA on a Normal with its own precision, all are accepted.
    rates = idata.sample_stats["acceptance_rate"].values
    assert rates.shape == (2, 30, 2)
    np.testing.assert_allclose(rates[..., 0], 1.0, atol=1e-9)
    assert (rates[..., 1] < 0.999).any()
    steps, acceptance = plot_tuning(idata)
    assert len([line for line in steps.lines if len(line.get_xdata()) == 50]) == 4
    assert len([line for line in acceptance.lines if line.get_marker() == "."]) == 4


def test_tuning_that_was_not_kept_is_asked_for(tuned):
    with pytest.raises(ValueError, match="discard_tuned_samples=False"):
        plot_tuning(SimpleNamespace(sample_stats=tuned.sample_stats))


def test_draws_as_pymc_returns_them_can_be_drawn(tuned):
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    ax = plot_metric(tuned, ("x[0]", "x[1]"), model=model, ellipses=4)
    assert len(contours(ax)) == 4
