"""Posterior means with control variates agree with known means, and their errors are honest."""

from types import SimpleNamespace

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.distributions.transforms import ordered
from pytensor.compile.mode import get_mode
from scipy import stats

from pymc_pmala import posterior_expectation, posterior_mean
from pymc_pmala.metric import build_metric
from pymc_pmala.model.target import make_target
from pymc_pmala.tools.control_variates import control_means
from pymc_pmala.tools.estimates import evaluated_series, variable_quantity
from pymc_pmala.tools.generator import Generator, is_smooth


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    """Interpret the graphs: compiling them would take longer than these few draws."""
    monkeypatch.setattr(
        "pymc_pmala.compile.functions.get_mode", lambda mode: get_mode(mode or "FAST_COMPILE")
    )


COLUMNS = ["mean", "mcse", "mean_plain", "mcse_plain", "gain", "note"]


def exact_draws(model, draws=500, seed=1):
    """Independent draws of a model without data, whose posterior is the prior."""
    with model:
        prior = pm.sample_prior_predictive(draws, random_seed=seed).prior
    dataset = prior.to_dataset() if isinstance(prior, xr.DataTree) else prior
    return SimpleNamespace(posterior=dataset)


def in_errors(table, truth):
    return np.abs(table["mean"] - truth) / table["mcse"]


@pytest.fixture(scope="module")
def many_supports():
    """A model of independent variables with different supports, and its exact draws."""
    with pm.Model() as model:
        pm.Normal("normal", 3.0, 2.0, shape=2)
        pm.Gamma("gamma", 4.0, 2.0)
        pm.Beta("beta", 2.0, 6.0)
        pm.Dirichlet("weights", np.array([2.0, 3.0, 4.0]))
        length = pm.Uniform("length", 1.0, 2.0)
        pm.Uniform("part", 0.0, length)
    return model, exact_draws(model)


TRUTH = {
    "normal[0]": 3.0,
    "normal[1]": 3.0,
    "gamma": 2.0,
    "beta": 0.25,
    "weights[0]": 2 / 9,
    "weights[1]": 3 / 9,
    "weights[2]": 4 / 9,
    "length": 1.5,
    "part": 0.75,
}


def test_means_of_variables_with_any_support(many_supports):
    model, idata = many_supports
    table = posterior_mean(idata, model=model)
    assert list(table.columns) == COLUMNS
    truth = np.array([TRUTH[label] for label in table.index])
    # Differences of the derivatives are accurate to about this.
    assert (np.abs(table["mean"] - truth) < 5 * table["mcse"] + 1e-7).all()
    assert (table["gain"] > 20).all()
    assert (table["note"] == "").all()


def test_expectations_of_functions(many_supports):
    model, idata = many_supports
    symbolic = posterior_expectation(idata, lambda normal: normal[0] * normal[1], model=model)
    assert abs(symbolic.loc["f", "mean"] - 9.0) < 5 * symbolic.loc["f", "mcse"]
    assert symbolic.loc["f", "gain"] > 100
    expression = posterior_expectation(idata, model["gamma"] ** 2, model=model)
    assert abs(expression["mean"].iloc[0] - 5.0) < 5 * expression["mcse"].iloc[0]
    assert expression["gain"].iloc[0] > 20


def test_a_function_that_takes_only_numbers_has_a_gain_as_well(many_supports):
    model, idata = many_supports

    def larger(normal):
        return float(normal[0]) + max(float(v) for v in normal)

    table = posterior_expectation(idata, larger, model=model)
    assert list(table.index) == ["larger"]
    truth = 6.0 + 2.0 / np.sqrt(np.pi)
    assert in_errors(table, truth).iloc[0] < 4
    assert table["gain"].iloc[0] > 2


def test_what_is_not_in_the_posterior_is_refused(many_supports):
    model, idata = many_supports
    with pytest.raises(ValueError, match=r"var_names must be some of .* but is 'alpha'"):
        posterior_mean(idata, model=model, var_names="alpha")
    with pytest.raises(ValueError, match=r"f must be a function of .* are \['alpha'\]"):
        posterior_expectation(idata, lambda alpha: alpha, model=model)
    partial = SimpleNamespace(posterior=idata.posterior.drop_vars("gamma"))
    with pytest.raises(ValueError, match=r"no draws of \['gamma'\]"):
        posterior_mean(partial, model=model)
    with pm.Model(), pytest.raises(ValueError, match="depends on others"):
        posterior_expectation(idata, 2 * pm.Normal("alpha"), model=model)
    with pytest.raises(TypeError, match=r"idata must be the result of `pm.sample`"):
        posterior_mean(SimpleNamespace(), model=model)


@pytest.mark.parametrize("metric", ["fisher", "softabs", "identity"])
def test_the_generator_has_mean_zero_by_quadrature(metric):
    with pm.Model() as model:
        scale = pm.Gamma("scale", 3.0, 1.0)
        pm.Normal("y", 0.0, scale, observed=[0.5, -1.5])
    target = make_target(model)
    functions = target.express([scale, pt.log(scale) ** 2])
    generator = Generator(target, build_metric(metric, target), functions, {})
    generator.set_constant(np.array([[0.3]]))
    grid = np.linspace(-5.0, 4.0, 901)
    found = [generator(np.array([x]), 0) for x in grid]
    density = np.exp([f.logp for f in found])
    for name in ("moving", "fixed", "drift", "slope"):
        values = np.array([getattr(f, name) for f in found]) * density[:, None]
        np.testing.assert_allclose(values.sum(axis=0) / np.abs(values).sum(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "smooth"),
    [
        (lambda v: pt.exp(v[0]) / (1.0 + v[1] ** 2), True),
        (lambda v: pt.special.softmax(v), True),
        (lambda v: pt.abs(v), False),
        (lambda v: pt.maximum(v[0], v[1]), False),
        (lambda v: v.max(), False),
        (lambda v: pt.switch(v[0] > 0.1, v[0], 2.0 * v[1]), False),
        (lambda v: pt.sort(v), False),
        (lambda v: (v > 0.0).astype("float64").mean(), False),
    ],
)
def test_functions_with_kinks_have_no_generator(function, smooth):
    x = pt.vector("x", shape=(3,), dtype="float64")
    assert is_smooth(function(x), x) == smooth


def test_a_linear_model_has_exact_means():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 2))
    y = x @ [1.0, -1.0] + rng.normal(size=40)
    with pm.Model() as model:
        pm.Normal("y", x @ pm.Normal("slope", 0.0, 1.0, shape=2), 1.0, observed=y)
    precision = np.eye(2) + x.T @ x
    exact = np.linalg.solve(precision, x.T @ y)
    draws = rng.multivariate_normal(exact, np.linalg.inv(precision), size=(2, 50))
    idata = SimpleNamespace(
        posterior=xr.Dataset({"slope": (("chain", "draw", "slope_dim_0"), draws)})
    )
    table = posterior_mean(idata, model=model)
    np.testing.assert_allclose(table["mean"], exact, rtol=1e-6)
    assert (table["gain"] > 1e9).all()


def test_a_density_that_does_not_vanish_at_a_boundary_is_found():
    with pm.Model() as model:
        pm.Exponential("bare", 1.0, default_transform=None)
        pm.Normal("free")
        cut = pm.Normal("cut")
        pm.Potential("limit", pt.switch(cut > 0.5, 0.0, -np.inf))
        pm.Gamma("positive", 4.0, 1.0)
    rng = np.random.default_rng(3)
    draws = {
        "bare": rng.exponential(size=(1, 400)),
        "free": rng.normal(size=(1, 400)),
        "cut": stats.truncnorm(0.5, np.inf).rvs(size=(1, 400), random_state=rng),
        "positive": rng.gamma(4.0, size=(1, 400)),
    }
    dataset = xr.Dataset({name: (("chain", "draw"), v) for name, v in draws.items()})
    table = posterior_mean(SimpleNamespace(posterior=dataset), model=model)
    assert table.loc["bare", "note"] == "bounded, without a transform"
    assert table.loc["cut", "note"] == "the density has a jump or a boundary"
    for name in ("bare", "cut"):
        assert table.loc[name, "mean"] == table.loc[name, "mean_plain"]
        assert table.loc[name, "gain"] == 1.0
    assert (table.loc[["free", "positive"], "gain"] > 100).all()
    assert in_errors(table.loc[["positive"]], 4.0).iloc[0] < 5


def test_a_jump_of_the_density_is_found():
    with pm.Model() as model:
        place = pm.Normal("place")
        pm.Potential("step", pt.switch(place > 0.3, 0.0, 1.0))
    rng = np.random.default_rng(4)
    proposed = rng.normal(size=4000)
    kept = proposed[rng.random(4000) < np.where(proposed > 0.3, np.exp(-1.0), 1.0)][:1000]
    dataset = xr.Dataset({"place": (("chain", "draw"), kept[None])})
    table = posterior_mean(SimpleNamespace(posterior=dataset), model=model)
    assert table.loc["place", "note"] == "the density has a jump or a boundary"
    assert table.loc["place", "mean"] == kept.mean()


def test_a_mean_that_does_not_exist_is_left_alone():
    with pm.Model() as model:
        pm.HalfCauchy("heavy", 1.0)
        pm.Cauchy("both", 0.0, 1.0)
    table = posterior_mean(exact_draws(model), model=model)
    np.testing.assert_array_equal(table["mean"], table["mean_plain"])
    assert (table["note"] != "").all()


def test_discrete_variables_are_held_at_their_draws():
    with pm.Model() as model:
        group = pm.Bernoulli("group", 0.3)
        pm.Normal("x", 4.0 * group, 1.0)
    table = posterior_mean(exact_draws(model, 1000), model=model)
    assert table.loc["group", "note"] == "discrete"
    # Given the group, the mean of x is known: only the variance of the group's mean is left.
    expected = (1.0 + 16 * 0.21) / (16 * 0.21)
    assert table.loc["x", "gain"] == pytest.approx(expected, rel=0.25)
    np.testing.assert_allclose(table.loc["x", "mean"], 4 * table.loc["group", "mean"], atol=0.02)


@pytest.mark.parametrize("draws", [1, 3, 8, 20])
def test_few_draws(draws):
    with pm.Model() as model:
        pm.Gamma("x", 2.0, 1.0)
    table = posterior_mean(exact_draws(model, draws), model=model)
    if draws < 4:
        assert table.loc["x", "mean"] == table.loc["x", "mean_plain"]
        assert table.loc["x", "note"] == "too few draws"
    else:
        assert abs(table.loc["x", "mean"] - 2.0) < 6 * table.loc["x", "mcse"]


def test_changed_data_are_noticed():
    with pm.Model() as model:
        x = pm.Data("x", np.ones(3))
        slope = pm.Normal("slope")
        pm.Deterministic("line", slope * x)
    idata = exact_draws(model, 60)
    with model:
        pm.set_data({"x": np.full(3, 2.0)})
    with pytest.warns(UserWarning, match=r"draws of \['line'\] are not the values"):
        posterior_mean(idata, model=model)


def test_the_draws_of_pm_sample_with_the_labels_of_arviz():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(30, 3))
    with pm.Model(coords={"predictor": ["a", "b", "c"], "side": ["left", "right"]}):
        slope = pm.Normal("slope", dims=("predictor", "side"))
        scale = pm.HalfNormal("scale")
        pm.Deterministic("ratio", slope[0, 0] / scale)
        pm.Normal("y", x @ slope, scale, observed=rng.normal(size=(30, 2)))
        idata = pm.sample(
            200, tune=300, chains=2, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        table = posterior_mean(idata)
        subset = posterior_mean(idata, var_names=["scale", "ratio"])
    summary = az.summary(idata, round_to="none")
    assert list(table.index) == list(summary.index)
    np.testing.assert_allclose(table["mean_plain"], summary["mean"].astype(float), rtol=1e-6)
    np.testing.assert_allclose(table["mcse_plain"], summary["mcse_mean"].astype(float), rtol=0.02)
    assert (table["gain"] > 10).all()
    assert list(subset.index) == ["scale", "ratio"]
    assert "<table" in table._repr_html_()


def test_ordered_and_covariance_variables():
    with pm.Model() as model:
        pm.Normal("order", 0.0, 1.0, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
    idata = exact_draws(model, 400)
    idata.posterior["order"].values.sort(axis=-1)
    table = posterior_mean(idata, model=model, var_names=["order", "root_stds"])
    largest = 1.5 / np.sqrt(np.pi)
    truth = np.array([-largest, 0.0, largest, 1.0, 1.0])
    assert (np.abs(table["mean"] - truth) < 5 * table["mcse"] + 1e-6).all()
    assert (table["gain"] > 10).all()


def test_no_fit_to_draws_that_miss_the_tails():
    rng = np.random.default_rng(7)
    notes = []
    for x in (rng.normal(size=400), stats.truncnorm(-1.5, 1.5).rvs(400, random_state=rng)):
        functions = np.column_stack([x, x**2 - 1.0])
        draws = 10.0 * x + np.cos(3.0 * x)
        notes += control_means(draws[None, :, None], [], [functions[None]]).notes
    assert notes == ["", "no gain"]


@pytest.mark.slow
def test_errors_are_honest_over_many_short_chains():
    """Errors of autocorrelated chains with known means, in units of their mcse."""
    with pm.Model() as model:
        first, second = pm.Gamma("first", 3.0, 1.0), pm.Beta("second", 2.0, 3.0)
        third = pm.Normal("third", 1.0, 1.0)
        pm.Deterministic("product", first * second)
        pm.Deterministic("size", pt.abs(third - 1.0))
        pm.Deterministic("power", pt.exp(0.5 * third))
    chains, length, correlation = 60, 200, 0.5
    rng = np.random.default_rng(6)
    z = rng.normal(size=(chains, length, 3))
    for t in range(1, length):
        z[:, t] = correlation * z[:, t - 1] + np.sqrt(1 - correlation**2) * z[:, t]
    u = stats.norm.cdf(z)
    draws = {
        "first": stats.gamma(3.0).ppf(u[..., 0]),
        "second": stats.beta(2.0, 3.0).ppf(u[..., 1]),
        "third": 1.0 + z[..., 2],
    }
    draws["product"] = draws["first"] * draws["second"]
    draws["size"] = np.abs(z[..., 2])
    draws["power"] = np.exp(0.5 * draws["third"])
    truth = np.array([3.0, 0.4, 1.0, 1.2, np.sqrt(2 / np.pi), np.exp(0.625)])
    dataset = xr.Dataset({name: (("chain", "draw"), v) for name, v in draws.items()})
    quantities = [variable_quantity(dataset[name], model) for name in draws]
    series, _ = evaluated_series(dataset, model, quantities)
    estimates = [control_means(*series.chain(i)) for i in range(chains)]
    error = np.array([e.mean for e in estimates]) - truth
    plain = np.array([e.mean_plain for e in estimates]) - truth
    scaled = error / np.array([e.mcse for e in estimates])
    # The mean of `third` is exact.
    estimated = [0, 1, 3, 4, 5]
    rms = np.sqrt((scaled**2).mean(axis=0))[estimated]
    assert (rms > 0.6).all()
    assert (rms < 1.4).all()
    # On the safe side: the errors of fitted estimates allow for tails that were missed.
    assert 0.75 < np.sqrt((rms**2).mean()) < 1.25
    # The generator of `size` ignores its kink; the functions of second degree are left.
    assert (np.abs(error).mean(axis=0) < 0.6 * np.abs(plain).mean(axis=0)).all()
    assert np.abs(error[:, 2]).max() < 1e-6
