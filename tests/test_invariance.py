"""Every sampler leaves the posterior invariant, and the same tests catch broken kernels.

Two tests that do not know how a kernel works, only what it does. *Detailed balance*: the
proposal's density is read off the points that the compiled transition proposes at chosen
noise, so that π(x) q(x, y) α(x, y) can be compared with its reverse to rounding. *Parameters
and data together*: where data are drawn given the parameters between transitions, the
parameters stay distributed as the prior.
"""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from balance import imbalance, largest_z_score, proposals_at, walk
from pytensor.gradient import grad
from pytensor.graph.replace import graph_replace

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.kernel.integrators import INTEGRATORS
from pymc_pmala.kernel.transition import transition_graph
from pymc_pmala.model.target import make_target
from pymc_pmala.tools.local_geometry import geometry_function

MODE = {"compile_kwargs": {"mode": "interpreted"}}


def bent():
    with pm.Model() as model:
        x = pm.StudentT("x", nu=5, mu=0.3, sigma=1)
        pm.Poisson("y", pt.softplus(x), observed=[0, 2, 1])
    return model


def mean_and_scale():
    with pm.Model() as model:
        data = pm.Data("data", [1.4, -0.2, 2.9, 0.7])
        mu = pm.Normal("mu", 0, 1)
        sigma = pm.LogNormal("sigma", 0, 0.5)
        pm.Normal("y", mu, sigma, observed=data)
    return model


# Models in one and two dimensions, and a grid that covers the bulk of their posterior.
GRIDS = {
    bent: [np.linspace(-2.5, 3.0, 8)],
    mean_and_scale: [np.linspace(-0.6, 2.6, 4), np.linspace(0.0, 1.4, 3)],
}


def bent_metric(model, x):
    return pt.diag(pt.exp(-1.5 * pt.tanh(x[::-1] + x))) + pt.outer(x, x) / (1 + (x**2).sum())


VARYING = {"fisher": "fisher", "softabs": "softabs", "callable": bent_metric}
# Drift correction of each method, from the paper's own quantities.
CORRECTIONS = {
    PMALA: lambda g: g.gamma,
    MMALA: lambda g: g.omega,
    SimplifiedMMALA: lambda g: np.zeros_like(g.gamma),
}
SAMPLERS = [(method, metric) for method in CORRECTIONS for metric in VARYING]
CONSTANT = [(MALA, "adapt"), (MALA, "identity")]


def integrate_by(name, step):
    """Another integrator for a step that is compiled: nothing of it is."""
    step.chain.options = replace(step.chain.options, integrator=INTEGRATORS[name])


# ---- Detailed balance -------------------------------------------------------------------


@pytest.mark.parametrize("build", [bent, pytest.param(mean_and_scale, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("method", "metric"), [*SAMPLERS, *CONSTANT])
def test_transitions_are_in_detailed_balance(method, metric, build):
    model = build()
    step = method(metric=VARYING.get(metric, metric), model=model, **MODE)
    for name in INTEGRATORS:
        integrate_by(name, step)
        assert imbalance(step, model, GRIDS[build]) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("method", "metric"), SAMPLERS)
def test_proposals_are_those_of_the_paper(method, metric):
    """And of DESIGN's exponential integrator: mean and covariance, from the local geometry."""
    model, x = mean_and_scale(), np.array([0.6, 0.3])
    geometry = geometry_function(make_target(model), VARYING[metric], **MODE["compile_kwargs"])(x)
    inverse = np.linalg.inv(geometry.metric)
    drift = inverse @ geometry.gradient + 2 * CORRECTIONS[method](geometry)
    h = 0.7
    rho = np.exp(-h / 2)
    expected = {"euler": (h / 2, h), "exponential": (1 - rho, 1 - rho**2)}
    step = method(metric=VARYING[metric], step_size=h, model=model, **MODE)
    for name, (a, variance) in expected.items():
        integrate_by(name, step)
        found = proposals_at(step, x)
        np.testing.assert_allclose(found.mean, x + a * drift, rtol=1e-9)
        np.testing.assert_allclose(found.root @ found.root.T, variance * inverse, rtol=1e-9)


# ---- Kernels with one fault each ----------------------------------------------------------


def without_log_determinant(geometry):
    inputs, [log_ratio, *rest] = transition_graph(geometry)
    here, there = inputs[-1], rest[-2]
    return inputs, [log_ratio - there + here, *rest]


def with_the_metric_of_the_wrong_end(geometry):
    inputs, [log_ratio, *rest] = transition_graph(geometry)
    here, there = inputs[6:], rest[3:-1]
    return inputs, [*graph_replace([log_ratio], dict(zip(there, here, strict=True))), *rest]


def without_gamma_in_the_reverse_density(geometry):
    inputs, [log_ratio, *rest] = transition_graph(geometry)
    proposal, logp, force, *_ = rest
    return inputs, [*graph_replace([log_ratio], {force: grad(logp, proposal)}), *rest]


def solve_without_transposing(self, factor, whitened):
    return self.solve(factor, whitened)


def solve_with_jitter(self, factor, whitened):
    jitter = 1e-8 * pt.eye(self.dimension)
    drawing = pt.linalg.cholesky(factor[0] @ factor[0].T + jitter)
    return pt.linalg.solve_triangular(drawing.T, whitened, lower=False, b_ndim=1)


TRANSITION = "pymc_pmala.kernel.kernel.transition_graph"
SOLVE = "pymc_pmala.factorization.Dense.solve_transposed"
FAULTS = {
    "log-determinant dropped": (TRANSITION, without_log_determinant),
    "metric of the wrong end": (TRANSITION, with_the_metric_of_the_wrong_end),
    "Γ missing in the reverse density": (TRANSITION, without_gamma_in_the_reverse_density),
    "transposed Cholesky": (SOLVE, solve_without_transposing),
    "jitter only when drawing": (SOLVE, solve_with_jitter),
    "adaptation not frozen": ("pymc_pmala.step.langevin.Langevin.stop_tuning", lambda self: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_detailed_balance_catches(fault, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    model = mean_and_scale()
    step = PMALA(metric=bent_metric, model=model, **MODE)
    # The smallest, a jitter of 1e-8, is far more than a hundred times what is allowed.
    assert imbalance(step, model, GRIDS[mean_and_scale]) > 1e-10


# ---- Parameters and data together -----------------------------------------------------------


# What is known of the prior of mu and sigma, each with its expectation.
MOMENTS = {
    "mu": (lambda mu, sigma: mu, 0.0),
    "mu²": (lambda mu, sigma: mu**2, 1.0),
    "sigma": (lambda mu, sigma: sigma, np.exp(1 / 8)),
    "sigma²": (lambda mu, sigma: sigma**2, np.exp(1 / 2)),
    "mu sigma": (lambda mu, sigma: mu * sigma, 0.0),
    "log sigma": (lambda mu, sigma: np.log(sigma), 0.0),
    "(log sigma)²": (lambda mu, sigma: np.log(sigma) ** 2, 1 / 4),
}


def z_score(step, model, transitions):
    def parameters(point):
        return float(point["mu"]), np.exp(float(point["sigma_log__"]))

    def data(rng, mu, sigma):
        return rng.normal(mu, sigma, size=4)

    return largest_z_score(step, model, parameters, data, MOMENTS, transitions)


SHORT, LONG = 30_000, 120_000


@pytest.mark.parametrize(
    ("method", "metric", "transitions"),
    [
        *[pytest.param(m, "fisher", SHORT, marks=pytest.mark.slow) for m in CORRECTIONS],
        pytest.param(MALA, "adapt", SHORT, marks=pytest.mark.slow),
        *[pytest.param(*s, LONG, marks=pytest.mark.long) for s in [*SAMPLERS, *CONSTANT]],
    ],
)
def test_parameters_stay_distributed_as_the_prior_when_data_follow(method, metric, transitions):
    model = mean_and_scale()
    step = method(metric=VARYING.get(metric, metric), model=model)
    for name in INTEGRATORS:
        integrate_by(name, step)
        assert z_score(step, model, transitions) < 4.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        "log-determinant dropped",
        "metric of the wrong end",
        "Γ missing in the reverse density",
    ],
)
def test_the_prior_is_lost_with(fault, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    model = mean_and_scale()
    step = PMALA(metric=bent_metric, integrator="euler", model=model)
    assert z_score(step, model, SHORT) > 6


def test_with_a_constant_metric_all_methods_give_the_chain_of_mala():
    model = mean_and_scale()
    metric = np.array([[1.2, 0.4], [0.4, 3.0]])
    for integrator in INTEGRATORS:
        chains = []
        for method in (MALA, SimplifiedMMALA, MMALA, PMALA):
            step = method(metric=metric, integrator=integrator, model=model, rng=5, **MODE)
            path = walk(step, model.initial_point(), 60)
            chains.append([[point["mu"], point["sigma_log__"]] for point in path])
        for chain in chains[1:]:
            np.testing.assert_array_equal(chain, chains[0])
