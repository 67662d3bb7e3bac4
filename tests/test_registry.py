"""Rules are found again where they belong, and refused where they never could be."""

import numpy as np
import pymc as pm
import pytest
from pytensor.tensor.random.basic import LaplaceRV

from pymc_pmala import Information, explain_metric, local_geometry, register_information
from pymc_pmala.information import registry


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
    """A registry of this test's own."""
    monkeypatch.setattr(registry, "_custom_entries", {})


def custom(**functions):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist("y", mu, **functions, observed=[0.3, 1.2])
    return model


def by_density():
    def logp(value, mu):
        return -2.0 * (value - mu) ** 2

    return custom(logp=logp)


def by_distribution():
    def dist(mu, size):
        return pm.Normal.dist(mu, 0.5, size=size) + 0.0

    return custom(dist=dist)


def rule(factor):
    [mu] = factor.parameters
    return [Information(mu, 4.0)]


def path_of_y(model):
    return {f.name: f.path for f in explain_metric(model).factors}["y"]


@pytest.mark.parametrize("build", [by_density, by_distribution])
def test_a_custom_distribution_built_again_keeps_its_rule(build):
    register_information(type(build()["y"].owner.op), path="mine")(rule)
    assert path_of_y(build()) == "mine"
    np.testing.assert_allclose(local_geometry(model=build()).metric, [[9.0]], rtol=1e-9)


def test_another_custom_distribution_of_the_same_name_has_no_rule_of_it():
    register_information(type(by_density()["y"].owner.op), path="mine")(rule)
    assert path_of_y(by_distribution()) != "mine"
    assert path_of_y(custom(logp=lambda value, mu: -((value - mu) ** 4))) != "mine"


def test_a_distribution_stands_for_its_random_variable():
    with pm.Model() as model:
        pm.Laplace("x", 0.0, 1.0)
    before = registry._entry.dispatch(LaplaceRV)
    try:
        register_information(pm.Laplace, path="mine")(lambda f: [Information(f.value, 1.0)])
        assert explain_metric(model).factors[0].path == "mine"
    finally:
        registry._entry.register(LaplaceRV)(before)


@pytest.mark.parametrize("given", [pm.CustomDist, pm.HurdlePoisson, "Laplace", float, pm.Model])
def test_what_no_factor_can_match_is_refused(given):
    with pytest.raises(TypeError, match=r"type\(rv\.owner\.op\)"):
        register_information(given)
    with pytest.raises(TypeError, match="which distribution"):
        register_information()


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (None, TypeError, "'faulty'.*'y'.*list of `Information`.*None"),
        (Information(np.ones(1), 1.0), TypeError, "'faulty'.*'y'.*list of"),
        ([Information(np.ones(1), -2.0)], ValueError, "'faulty'.*'y'.*negative weight, -2"),
    ],
)
def test_what_a_rule_returns_is_checked_with_its_name_and_the_variables(returned, error, message):
    def faulty(factor):
        return returned

    model = by_density()
    register_information(type(model["y"].owner.op))(faulty)
    with pytest.raises(error, match=message):
        explain_metric(model)
