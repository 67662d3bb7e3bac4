"""Ops that know their gradient and nothing else, as users wrap solvers and libraries."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.ode import DifferentialEquation
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_pmala import MALA, PMALA, SimplifiedMMALA, explain_metric, local_geometry

TIMES = np.linspace(0.0, 2.0, 6)
MODE = {"compile_kwargs": {"mode": "interpreted"}}


class Pullback(Op):
    """The product of a cotangent with the Jacobian of `Decay`."""

    def make_node(self, theta, cotangent):
        return Apply(self, [theta, cotangent], [pt.dvector()])

    def perform(self, node, inputs, outputs):
        (a, b), u = inputs
        decay = np.exp(-b * TIMES)
        outputs[0][0] = np.array([u @ decay, u @ (-a * TIMES * decay)])


class Decay(Op):
    """θ ↦ a exp(−b t), as if by a solver: a gradient, but no second derivative."""

    def make_node(self, theta):
        return Apply(self, [theta], [pt.tensor(dtype="float64", shape=(len(TIMES),))])

    def perform(self, node, inputs, outputs):
        a, b = inputs[0]
        outputs[0][0] = a * np.exp(-b * TIMES)

    def L_op(self, inputs, outputs, gradients):
        """Before pytensor 3."""
        return [Pullback()(inputs[0], gradients[0])]

    def pullback(self, inputs, outputs, cotangents):
        """Since pytensor 3."""
        return self.L_op(inputs, outputs, cotangents)


class LogLikelihood(Decay):
    """The log-likelihood itself as an Op, a scalar."""

    def make_node(self, theta):
        return Apply(self, [theta], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(-0.5 * np.sum((residuals(inputs[0])) ** 2) / 0.01)

    def L_op(self, inputs, outputs, gradients):
        """Before pytensor 3."""
        return [gradients[0] * LikelihoodGradient()(inputs[0])]


class LikelihoodGradient(Op):
    def make_node(self, theta):
        return Apply(self, [theta], [pt.dvector()])

    def perform(self, node, inputs, outputs):
        a, b = inputs[0]
        decay = np.exp(-b * TIMES)
        outputs[0][0] = (
            np.array([residuals(inputs[0]) @ decay, residuals(inputs[0]) @ (-a * TIMES * decay)])
            / 0.01
        )


def residuals(theta):
    return 1.5 * np.exp(-0.7 * TIMES) - theta[0] * np.exp(-theta[1] * TIMES)


def with_mean(mean):
    """A regression on a mean that is an Op, or the same written out."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 1.0, 1.0, shape=2)
        sigma = pm.HalfNormal("sigma", 0.3)
        pm.Normal("y", mean(theta), sigma, observed=1.5 * np.exp(-0.7 * TIMES))
    return model


def with_potential():
    with pm.Model() as model:
        theta = pm.Normal("theta", 1.0, 1.0, shape=2)
        pm.Potential("likelihood", LogLikelihood()(theta))
    return model


def written_out(theta):
    return theta[0] * pt.exp(-theta[1] * TIMES)


POINT = {"theta": np.array([1.3, 0.9]), "sigma_log__": np.array(-1.0)}


def test_geometry_through_an_opaque_mean_is_that_of_the_same_mean_written_out():
    opaque = local_geometry(POINT, model=with_mean(Decay()))
    plain = local_geometry(POINT, model=with_mean(written_out))
    np.testing.assert_allclose(opaque.gradient, plain.gradient, rtol=1e-8)
    np.testing.assert_allclose(opaque.metric, plain.metric, rtol=1e-8, atol=1e-8)
    for name in ("gamma", "omega"):
        np.testing.assert_allclose(
            getattr(opaque, name), getattr(plain, name), rtol=1e-4, atol=1e-6
        )


def test_an_opaque_log_likelihood_has_the_softabs_of_its_hessian_by_differences():
    with pm.Model() as written:
        theta = pm.Normal("theta", 1.0, 1.0, shape=2)
        gap = 1.5 * np.exp(-0.7 * TIMES) - written_out(theta)
        pm.Potential("likelihood", -0.5 * (gap**2).sum() / 0.01)
    point = {"theta": POINT["theta"]}
    opaque, plain = (local_geometry(point, model=m) for m in (with_potential(), written))
    np.testing.assert_allclose(opaque.metric, plain.metric, rtol=1e-4)
    np.testing.assert_allclose(opaque.gamma, plain.gamma, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("method", [PMALA, SimplifiedMMALA, MALA])
@pytest.mark.parametrize("build", [lambda: with_mean(Decay()), with_potential])
def test_chains_move_on_models_with_opaque_ops(build, method):
    model = build()
    step = method(model=model, rng=1, **MODE)
    point, accepted = model.initial_point(), 0.0
    for _ in range(40):
        point, [stats] = step.step(point)
        accepted += stats["accepted"]
        assert not stats["diverging"]
    assert accepted > 5


def test_differences_are_said_of_opaque_ops():
    assert "no second derivatives" in explain_metric(with_mean(Decay())).structure


@pytest.mark.filterwarnings("ignore:DifferentialEquation should implement:FutureWarning")
def test_metric_of_a_differential_equation_of_pymc_is_that_of_its_solution():
    times = np.linspace(0.5, 3.0, 6)
    solve = DifferentialEquation(
        func=lambda y, t, p: [-p[0] * y[0]], times=times, n_states=1, n_theta=1, t0=0
    )
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", 1.0)
        start = pm.Normal("start", 2.0, 1.0)
        mean = solve(y0=[start], theta=[rate])
        pm.Normal("y", mean, 0.1, observed=2 * np.exp(-0.8 * times)[:, None])
    rate, start = 0.7, 1.9
    point = {"rate_log__": np.array(np.log(rate)), "start": np.array(start)}
    decay = np.exp(-rate * times)
    jacobian = np.array([-rate * start * times * decay, decay])
    # Of the priors: 2 for the logarithm of a half-normal scale, 1 for the unit normal.
    expected = jacobian @ jacobian.T / 0.01 + np.diag([2.0, 1.0])
    np.testing.assert_allclose(local_geometry(point, model=model).metric, expected, rtol=1e-5)
