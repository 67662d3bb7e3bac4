"""`explain_metric`: the table says what the metric is made of."""

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_pmala import (
    PMALA,
    Information,
    SamplerFigures,
    explain_metric,
    local_geometry,
    register_information,
)
from pymc_pmala.tools.compare import Comparison


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=3)
        pm.Normal("y", theta, 2.0, observed=[1.0, 2.0, 0.5])
        pm.Potential("soft", -0.01 * mu**4)
    return model


@pytest.fixture(scope="module")
def explanation(model):
    return explain_metric(model)


def test_every_factor_is_listed_with_its_distribution_and_path(explanation):
    listed = {f.name: (f.distribution, f.path) for f in explanation.factors}
    assert listed["tau"] == ("HalfCauchy", "closed form")
    assert listed["soft"] == ("Potential", "SoftAbs of its Hessian")
    assert len(listed) == 5


def test_shares_add_up_and_eigenvalues_are_those_of_the_metric(model, explanation):
    assert np.isclose(sum(f.share for f in explanation.factors), 1.0)
    eigenvalues = np.linalg.eigvalsh(local_geometry(model=model).metric)
    assert np.isclose(explanation.smallest, eigenvalues[0])
    assert np.isclose(explanation.largest, eigenvalues[-1])
    assert explanation.dimension == 5


def test_rank_is_the_number_of_directions_that_a_factor_informs(explanation):
    ranks = {f.name: f.rank for f in explanation.factors}
    assert ranks == {"mu": 1, "tau": 1, "theta": 4, "y": 3, "soft": 1}


def test_prints_as_text_and_as_html(explanation):
    for rendered in (str(explanation), explanation._repr_html_()):
        for word in ("theta", "HalfCauchy", "closed form", "gradients", "dimension 5"):
            assert word in rendered
        assert "Fisher metric" in rendered


def test_no_name_is_broken_in_a_table():
    figures = SamplerFigures(
        "SimplifiedMMALA",
        12345.0,
        12345.0,
        12345.6,
        1234.5,
        123.4,
        12.3,
        123.4,
        1.001,
        12345,
        123.4,
    )
    shown = str(Comparison([figures], "SimplifiedMMALA", "Use it.", {}))
    assert "SimplifiedMMALA" in shown


def test_the_cost_is_told_by_what_is_computed(explanation):
    """A metric so small is taken without structure: a direction for each coordinate."""
    assert explanation.directions == 5
    assert "along 5 directions" in str(explanation)


def test_the_local_geometry_prints_with_the_names_of_its_coordinates(model):
    geometry = local_geometry(model=model)
    assert geometry.labels == ("mu", "tau_log__", "theta[0]", "theta[1]", "theta[2]")
    shown = repr(geometry)
    assert all(label in shown for label in geometry.labels)
    assert f"{geometry.gradient[3]:.4g}" in shown
    assert pickle.loads(pickle.dumps(geometry)).labels == geometry.labels
    # The row and the column of tau carry its name, and its number stands where they cross.
    heading, *rows = shown.partition("metric\n")[2].splitlines()
    assert tuple(heading.split()) == geometry.labels
    [row] = [line.split() for line in rows if line.startswith("tau_log__")]
    assert float(row[1 + geometry.labels.index("tau_log__")]) == pytest.approx(
        geometry.metric[1, 1], rel=1e-3
    )


def test_the_geometry_can_be_read_by_the_names_of_the_coordinates():
    with pm.Model():
        mu = pm.Normal("mu", 0, 2)
        theta = pm.Normal("theta", mu, 0.5, shape=2)
        pm.Normal("y", theta, 1.0, observed=[1.0, 3.0])
        found = local_geometry({"mu": 1.0, "theta": np.array([1.0, 2.0])}).to_xarray()
    metric = found["metric"]
    # Normal(μ, 0.5) has information 4 about θ - μ, and the prior of μ has 1/4.
    assert metric.sel(coordinate="mu", other_coordinate="mu") == pytest.approx(8.25)
    assert metric.sel(coordinate="mu", other_coordinate="theta[1]") == pytest.approx(-4.0)
    # -4 (θ - μ) + (y - θ) for the second θ.
    assert found["gradient"].sel(coordinate="theta[1]") == pytest.approx(-3.0)


def test_discrete_variables_are_left_out_by_vars():
    with pm.Model() as model:
        pm.Normal("x", pm.Poisson("k", 2.0), 1.0)
    for tool in (lambda: explain_metric(model), lambda: local_geometry(model=model)):
        with pytest.raises(ValueError, match=r"\['k'\].*`vars=\[a, b\]`"):
            tool()
    assert explain_metric(model, vars=[model["x"]]).dimension == 1


def test_negative_information_is_told():
    with pm.Model() as model:
        mu = pm.Normal("mu", sigma=0.1)
        y = pm.CustomDist("y", mu, logp=lambda value, mu: -((value - mu) ** 2), observed=1.0)

    @register_information(type(y.owner.op))
    def rule(factor):
        [mu] = factor.parameters
        return [Information(mu, -pt.exp(mu))]

    assert "information of y is negative" in str(explain_metric(model))


def test_a_notebook_shows_the_table_once(explanation, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "theta" in repr(explanation)


def test_a_point_elsewhere_changes_the_shares(model, explanation):
    elsewhere = explain_metric(model, point={"tau_log__": np.array(-3.0)})
    shares = {f.name: f.share for f in elsewhere.factors}
    assert shares["theta"] > {f.name: f.share for f in explanation.factors}["theta"]


def test_a_model_with_a_loop_can_be_sampled_after_it_is_explained():
    with pm.Model() as model:
        rate = pm.HalfNormal("rate")
        path = pytensor.scan(
            lambda size, rate: size + rate * size * (1 - size),
            outputs_info=[pt.constant(0.1, dtype="float64")],
            non_sequences=[rate],
            n_steps=4,
            return_updates=False,
        )
        pm.Normal("y", path, 0.1, observed=[0.2, 0.3, 0.5, 0.6])
    shares = explain_metric(model).factors
    assert sum(f.share for f in shares) == pytest.approx(1.0)
    PMALA(model=model, compile_kwargs={"mode": "FAST_COMPILE"}).step(model.initial_point())
