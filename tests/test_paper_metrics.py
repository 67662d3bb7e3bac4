"""G from the graph equals the expected information that the paper's authors derived by hand."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from examples.paper.fitzhugh_nagumo import fisher_information
from pymc_pmala import explain_metric, local_geometry

STEPS, SPACING = 12, 0.4


def slopes(v, r, a, b, c):
    return c * (v - v**3 / 3 + r), -(v - a + b * r) / c


def runge_kutta(v, r, a, b, c):
    """One classical step of FitzHugh–Nagumo; for numbers and for expressions."""
    h = SPACING
    k1 = slopes(v, r, a, b, c)
    k2 = slopes(v + h / 2 * k1[0], r + h / 2 * k1[1], a, b, c)
    k3 = slopes(v + h / 2 * k2[0], r + h / 2 * k2[1], a, b, c)
    k4 = slopes(v + h * k3[0], r + h * k3[1], a, b, c)
    return tuple(y + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i, y in enumerate((v, r)))


def solution(theta):
    states = [(-1.0, 1.0)]
    for _ in range(STEPS):
        states.append(runge_kutta(*states[-1], *theta))
    return np.array(states[1:]).T.ravel()


def fitzhugh_nagumo():
    with pm.Model() as model:
        a, b, c = (pm.Exponential(name, 1 / 3, transform=None) for name in "abc")
        start = [pt.constant(value, dtype="float64") for value in (-1.0, 1.0)]
        states = pytensor.scan(
            runge_kutta,
            outputs_info=start,
            non_sequences=[a, b, c],
            n_steps=STEPS,
            return_updates=False,
        )
        pm.Normal("y", pt.stack(states), 0.5, observed=np.zeros((2, STEPS)))
    return model


@pytest.mark.slow
def test_metric_of_fitzhugh_nagumo_is_the_gram_matrix_of_the_sensitivities():
    theta = np.array([0.2, 0.3, 2.5])
    geometry = local_geometry(dict(zip("abc", theta, strict=True)), model=fitzhugh_nagumo())
    step = 1e-4
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    sensitivities = np.array(
        [
            sum(w * solution(theta + k * step * e) for k, w in weights.items()) / step
            for e in np.eye(3)
        ]
    )
    likelihood = sensitivities @ sensitivities.T / 0.25
    # Each prior adds the information of log θ, which is one, in the coordinate θ, but in its tail
    # no less than the mean of that and of the square of its slope.
    expected = likelihood + np.diag(np.sqrt(theta**-2.0 + 1 / 9) / theta)
    np.testing.assert_allclose(geometry.metric, expected, rtol=1e-8)


@pytest.mark.slow
def test_a_metric_of_ones_own_may_run_through_the_loop():
    point = {"a": 0.2, "b": 0.3, "c": 2.5}

    def metric(model, x):
        return fisher_information(model, x) + pt.diag(pt.sqrt(x**-2.0 + 1 / 9) / x)

    mine = local_geometry(point, metric=metric, model=fitzhugh_nagumo())
    fisher = local_geometry(point, model=fitzhugh_nagumo())
    for name in ("metric", "gamma", "omega"):
        np.testing.assert_allclose(getattr(mine, name), getattr(fisher, name), rtol=1e-6)


def test_metric_of_stochastic_volatility_is_that_of_girolami_and_calderhead():
    length = 15
    lag = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    with pm.Model() as model:
        beta = pm.Exponential("beta", 1.0)
        sigma = pm.HalfNormal("sigma", 1.0)
        alpha = pm.Flat("alpha")
        phi = pt.tanh(alpha)
        x = pm.MvNormal("x", np.zeros(length), cov=sigma**2 / (1 - phi**2) * phi**lag)
        pm.Normal("y", 0, beta * pt.exp(x / 2), observed=np.ones(length))
    point = {
        "beta_log__": np.array(np.log(0.65)),
        "sigma_log__": np.array(np.log(0.15)),
        "alpha": np.array(np.arctanh(0.9)),
        "x": np.linspace(-1, 1, length),
    }
    names = [model["beta"], model["sigma"], model["alpha"]]
    metric = local_geometry(point, vars=names, model=model).metric
    fisher = np.array(
        [
            [2 * length, 0, 0],
            [0, 2 * length, 2 * 0.9],
            [0, 2 * 0.9, 2 * 0.81 + (length - 1) * (1 - 0.81)],
        ]
    )
    np.testing.assert_allclose(metric, fisher + np.diag([1.0, 2.0, 0.0]), rtol=1e-8, atol=1e-8)


def test_loops_are_differentiated_forward_and_that_is_said():
    assert "differences" in explain_metric(fitzhugh_nagumo()).structure
