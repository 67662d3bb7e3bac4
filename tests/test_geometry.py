"""Γ, Ω and G against finite differences and hand-derived formulas."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_pmala import local_geometry
from pymc_pmala.model.target import make_target
from pymc_pmala.tools.local_geometry import geometry_function

rng = np.random.default_rng(20140)
X = np.column_stack([np.ones(30), rng.normal(size=(30, 2))])
COUNTS = rng.poisson(2.0, size=30)
BINARY = rng.integers(0, 2, size=30)
SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SCHOOLS_SD = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def logistic_regression():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=BINARY)
    return model


def canonical_poisson():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=3)
        pm.Poisson("y", pm.math.exp(X @ beta), observed=COUNTS)
    return model


def poisson_with_softplus_link():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=3)
        pm.Poisson("y", pt.softplus(X @ beta), observed=COUNTS)
    return model


def normal_with_unknown_mean_and_scale():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", mu, sigma, observed=X[:, 1])
    return model


def eight_schools():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, SCHOOLS_SD, observed=SCHOOLS)
    return model


def gaussian_process():
    distance = np.abs(np.subtract.outer(X[:6, 1], X[:6, 1]))
    with pm.Model() as model:
        length = pm.HalfNormal("length", 1)
        scale = pm.HalfNormal("scale", 1)
        mean = pm.Normal("mean", 0, 1)
        cov = scale**2 * pt.exp(-0.5 * (distance / length) ** 2) + 0.1 * np.eye(6)
        pm.MvNormal("y", mean * np.ones(6), cov=cov, observed=X[:6, 2])
    return model


def two_flat():
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=2)
    return model


def two_flat_directions():
    with pm.Model() as model:
        pm.Flat("x", shape=2)
        pm.Normal("y")
    return model


def warped_metric(model, x):
    off = 0.3 * pt.tanh(x[0] * x[1])
    return pt.stack([pt.stack([1 + x[1] ** 2, off]), pt.stack([off, 2 + pt.sin(x[0])])])


def example_of_the_paper(model, x):
    return pt.diag(pt.stack([pt.exp(0.7 * x[1]) + 1, 1.0]))


def potential_and_prior():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2, shape=2)
        pm.Potential("bend", -0.5 * (x[1] - x[0] ** 2) ** 2)
    return model


def separable():
    with pm.Model() as model:
        pm.StudentT("x", nu=4, mu=0.3, sigma=1, shape=3)
    return model


CASES = {
    "logistic regression": (logistic_regression, "fisher"),
    "Poisson, softplus link": (poisson_with_softplus_link, "fisher"),
    "Normal, mean and scale": (normal_with_unknown_mean_and_scale, "fisher"),
    "eight schools, centred": (eight_schools, "fisher"),
    "Gaussian process": (gaussian_process, "fisher"),
    "callable metric": (two_flat, warped_metric),
    "SoftAbs": (normal_with_unknown_mean_and_scale, "softabs"),
    "SoftAbs of a potential beside a prior": (potential_and_prior, "fisher"),
}


def compiled(build, metric):
    target = make_target(build())
    return geometry_function(target, metric, mode="interpreted"), target.dimension


def central_differences(function, x, step=1e-4):
    """Fourth-order central differences along every coordinate, stacked first."""
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    return np.array(
        [
            sum(w * function(x + k * step * e) for k, w in weights.items()) / step
            for e in np.eye(len(x))
        ]
    )


@pytest.mark.parametrize("case", CASES)
def test_gamma_and_omega_agree_with_finite_differences(case):
    function, size = compiled(*CASES[case])
    x = np.random.default_rng(1).normal(scale=0.4, size=size)
    geometry = function(x)
    derivative_of_inverse = central_differences(lambda q: np.linalg.inv(function(q).metric), x)
    derivative_of_log_det = central_differences(
        lambda q: np.linalg.slogdet(function(q).metric)[1], x
    )
    inverse = np.linalg.inv(geometry.metric)
    gamma = 0.5 * np.einsum("jij->i", derivative_of_inverse)
    omega = 2 * gamma + 0.5 * inverse @ derivative_of_log_det
    scale = np.abs(omega).max() + np.abs(gamma).max()
    np.testing.assert_allclose(geometry.gamma, gamma, rtol=1e-6, atol=1e-7 * scale)
    np.testing.assert_allclose(geometry.omega, omega, rtol=1e-6, atol=1e-7 * scale)
    assert scale > 1e-3  # or there was nothing to get wrong


@pytest.mark.parametrize("build", [logistic_regression, canonical_poisson])
def test_omega_equals_gamma_for_canonical_glms(build):
    function, size = compiled(build, "fisher")
    geometry = function(np.random.default_rng(2).normal(scale=0.3, size=size))
    np.testing.assert_allclose(geometry.omega, geometry.gamma, rtol=1e-10, atol=1e-14)


def test_example_of_the_paper_has_no_gamma_and_a_false_omega():
    function, _ = compiled(two_flat, example_of_the_paper)
    x = np.array([0.4, -0.9])
    f = np.exp(0.7 * x[1]) + 1
    geometry = function(x)
    np.testing.assert_allclose(geometry.gamma, [0, 0], atol=1e-14)
    # Ω₂ = f^(-1/2) (f^(1/2))' = f'/(2f): a drift that turns the invariant density into πf.
    np.testing.assert_allclose(geometry.omega, [0, 0.35 * np.exp(0.7 * x[1]) / f], atol=1e-12)


def test_logistic_metric_is_the_weighted_gram_matrix_plus_prior_precision():
    model = logistic_regression()
    beta = np.array([0.3, -1.2, 0.5])
    geometry = local_geometry({"beta": beta}, model=model)
    p = 1 / (1 + np.exp(-X @ beta))
    expected = X.T @ np.diag(p * (1 - p)) @ X + np.eye(3) / 100
    np.testing.assert_allclose(geometry.metric, expected, rtol=1e-10)


def test_logistic_geometry_is_finite_for_extreme_predictors():
    model = logistic_regression()
    beta = 40 * X[0] / (X[0] @ X[0])
    assert np.abs(X @ beta).max() >= 40 - 1e-9
    for point in (beta, 10 * beta, -20 * beta):
        geometry = local_geometry({"beta": point}, model=model)
        # Not the gradient: that of PyMC 5.28's own log-density is 0 × ∞ where p rounds to 1.
        parts = geometry.metric, geometry.gamma, geometry.omega
        assert all(np.all(np.isfinite(part)) for part in parts)


def test_gradient_and_log_density_are_those_of_the_model():
    model = eight_schools()
    point = model.initial_point()
    geometry = local_geometry(model=model)
    assert np.isclose(geometry.logp, model.compile_logp()(point))
    np.testing.assert_allclose(geometry.gradient, model.compile_dlogp()(point))


def test_constant_metric_has_no_drift_correction():
    geometry = local_geometry(model=two_flat(), metric=np.array([[2.0, 0.3], [0.3, 1.0]]))
    np.testing.assert_array_equal(geometry.gamma, 0)
    np.testing.assert_array_equal(geometry.omega, 0)


def test_geometry_of_some_variables_is_a_block_of_the_whole():
    model = eight_schools()
    whole = local_geometry(model=model)
    part = local_geometry(vars=[model["mu"], model["tau"]], model=model)
    np.testing.assert_allclose(part.metric, whole.metric[:2, :2])
    np.testing.assert_allclose(part.gradient, whole.gradient[:2])
    assert np.isclose(part.logp, whole.logp)


@pytest.mark.parametrize("point", [np.zeros(3), np.full(3, 0.7), np.array([0.3, 0.3, 2.0])])
def test_softabs_is_finite_and_right_for_equal_and_zero_eigenvalues(point):
    function, _ = compiled(separable, "softabs")
    geometry = function(point)
    derivative_of_inverse = central_differences(lambda q: np.linalg.inv(function(q).metric), point)
    gamma = 0.5 * np.einsum("jij->i", derivative_of_inverse)
    np.testing.assert_allclose(geometry.gamma, gamma, rtol=1e-6, atol=1e-8)
    flat = local_geometry(metric="softabs", model=two_flat_directions())
    assert all(np.all(np.isfinite(part)) for part in flat)


@pytest.mark.parametrize("shape", [(), 2])
def test_a_linear_potential_adds_a_force_and_only_the_floor_to_the_metric(shape):
    with pm.Model() as model:
        x = pm.Normal("x", shape=shape)
        pm.Potential("linear", 0.5 * x.sum())
    geometry = local_geometry(model=model)
    d = geometry.gradient.size
    np.testing.assert_allclose(geometry.gradient, 0.5)
    np.testing.assert_allclose(geometry.metric, 1.01 * np.eye(d))
    np.testing.assert_array_equal(geometry.gamma, 0)


def unidentified_sum():
    with pm.Model() as model:
        a, b = pm.Flat("a"), pm.Flat("b")
        pm.Flat("c")
        pm.Normal("y", a + b, 1, observed=X[:, 1])
    return model


def separable_data():
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=2)
        pm.Bernoulli("y", logit_p=X[:, :2] @ beta, observed=X[:, 1] > 0)
    return model


@pytest.mark.parametrize("build", [unidentified_sum, separable_data])
def test_metric_is_positive_definite_without_prior_information(build):
    function, size = compiled(build, "fisher")
    for scale in (0.0, 1.0, 100.0):
        geometry = function(scale * np.arange(1.0, size + 1))
        assert np.all(np.isfinite(np.linalg.cholesky(geometry.metric)))
        assert np.all(np.isfinite(geometry.gamma))


def test_unknown_names_and_wrong_shapes_in_the_point_are_refused():
    model = two_flat()
    with pytest.raises(ValueError, match="Unknown names"):
        local_geometry({"y": np.zeros(2)}, model=model)
    with pytest.raises(ValueError, match="has shape"):
        local_geometry({"x": np.zeros(3)}, model=model)


def test_a_point_of_the_wrong_shape_is_refused_where_only_the_coords_tell_the_shape():
    with pm.Model(coords={"group": range(3)}) as model:
        pm.Normal("x", dims="group")
    with pytest.raises(ValueError, match=r"'x' has shape \(4,\) in the point, but \(3,\)"):
        local_geometry({"x": np.zeros(4)}, model=model)
