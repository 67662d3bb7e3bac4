"""Structure found in a model: the right arrow, and the same geometry as without it."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.pytensorf import make_shared_replacements

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.compilation import INTERPRETED
from pymc_pmala.factorization import Arrow, Dense
from pymc_pmala.geometry import symbolic_geometry
from pymc_pmala.information import ravel_model
from pymc_pmala.metrics import build_metric
from pymc_pmala.structure import find_factorization

rng = np.random.default_rng(11)
GROUPS = np.repeat(np.arange(20), 3)
Z = rng.normal(size=60)
Y = rng.normal(size=60)


def varying_intercepts():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        slope = pm.Normal("slope", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        a = pm.Normal("a", mu, tau, shape=20)
        pm.Normal("y", a[GROUPS] + slope * Z, sigma, observed=Y)
    return model


def independent_groups():
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2, shape=10)
        slope = pm.Normal("slope", 0, 2, shape=10)
        scale = pm.HalfNormal("scale", 1, shape=10)
        group = GROUPS[:30]
        pm.Normal("y", level[group] + slope[group] * Z[:30], scale[group], observed=Y[:30])
    return model


def independent_parameters():
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1, shape=20)
        pm.Poisson("y", rate[GROUPS], observed=np.arange(60) % 5)
    return model


def regression():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=18)
        pm.Bernoulli("y", logit_p=rng.normal(size=(40, 18)) @ beta, observed=np.arange(40) % 2)
    return model


def factorizations(model):
    point = model.initial_point()
    raveled = ravel_model(
        model, model.value_vars, point, make_shared_replacements(point, model.value_vars, model)
    )
    metric = build_metric("fisher", model, raveled)
    x = np.concatenate([np.ravel(point[v.name]) for v in model.value_vars])
    return raveled, metric, find_factorization(metric, x), x


@pytest.mark.parametrize(
    ("build", "shapes", "border"),
    [
        (varying_intercepts, [(20, 1)], 4),
        (independent_groups, [(10, 3)], 0),
        (independent_parameters, [(20, 1)], 0),
    ],
)
def test_groups_and_border_are_found_from_the_graph(build, shapes, border):
    *_, factorization, _ = factorizations(build())
    assert isinstance(factorization, Arrow)
    assert [group.shape for group in factorization.groups] == shapes
    assert len(factorization.border) == border


def test_a_dense_model_keeps_the_dense_factorization():
    *_, factorization, _ = factorizations(regression())
    assert isinstance(factorization, Dense)


@pytest.mark.parametrize("method", [PMALA, MALA])
@pytest.mark.parametrize("build", [varying_intercepts, independent_groups, independent_parameters])
def test_structured_models_are_sampled(build, method):
    model = build()
    step = method(model=model, compile_kwargs={"mode": INTERPRETED}, rng=1)
    assert isinstance(step._factorization, Arrow)
    point, accepted = model.initial_point(), 0.0
    for _ in range(30):
        point, [stats] = step.step(point)
        accepted += stats["accepted"]
        assert not stats["diverging"]
    assert accepted > 5
    assert np.isclose(stats["model_logp"], model.compile_logp(mode=INTERPRETED)(point))


@pytest.mark.parametrize("method", [PMALA, MMALA, SimplifiedMMALA, MALA])
def test_a_metric_that_turns_out_constant_is_no_special_case(method):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2)
        pm.Normal("y", mu.sum(), 1.0, observed=[0.3, 1.1])
    step = method(model=model, compile_kwargs={"mode": INTERPRETED}, rng=1)
    point = model.initial_point()
    for _ in range(10):
        point, [stats] = step.step(point)
    # The exponential integrator is exact here.
    assert np.isclose(stats["acceptance_rate"], 1.0)


@pytest.mark.parametrize("drift", ["gamma", "omega"])
@pytest.mark.parametrize("build", [varying_intercepts, independent_groups])
def test_force_and_determinant_do_not_depend_on_the_factorization(build, drift):
    raveled, metric, arrow, x = factorizations(build())
    outputs = []
    for factorization in (Dense(len(x)), arrow):
        geometry = symbolic_geometry(raveled, metric, factorization, drift)
        outputs += [geometry.force, factorization.half_log_det(geometry.factor)]
    function = pytensor.function([raveled.x], outputs, mode=INTERPRETED)
    force, half_log_det, same_force, same_half_log_det = function(x + 0.3 * rng.normal(size=len(x)))
    np.testing.assert_allclose(same_force, force, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(same_half_log_det, half_log_det)
