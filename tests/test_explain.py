"""`explain_metric`: the table says what the metric is made of."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_pmala import PMALA, explain_metric, local_geometry


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
