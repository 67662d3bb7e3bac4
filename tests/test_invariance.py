"""Every sampler leaves the posterior invariant, and the same tests catch broken kernels."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.compilation import INTERPRETED
from pymc_pmala.factorization import Dense
from pymc_pmala.geometry import geometry_function
from pymc_pmala.proposal import INTEGRATORS

DATA = np.array([1.4, -0.2, 2.9, 0.7])


def mean_and_scale():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", mu, sigma, observed=DATA)
    return model


def bent():
    with pm.Model() as model:
        x = pm.StudentT("x", nu=5, mu=0.3, sigma=1)
        pm.Poisson("y", pt.softplus(x), observed=[0, 2, 1])
    return model


def bent_metric(model, x):
    scale = 1 + 0.5 * pt.tanh(x)
    return pt.diag(scale) + 0.2 * pt.outer(x, x) / (1 + (x**2).sum())


METRICS = {"fisher": "fisher", "softabs": "softabs", "callable": bent_metric}
# Drift correction of each method, from the paper's own quantities.
CORRECTIONS = {
    PMALA: lambda g: g.gamma,
    MMALA: lambda g: g.omega,
    SimplifiedMMALA: lambda g: np.zeros_like(g.gamma),
}
MODE = {"compile_kwargs": {"mode": INTERPRETED}}


def independent_log_q(geometry, correction, integrator, h, x, y):
    """Log-density of proposing y from x, written as in the paper and in DESIGN §4."""
    inverse = np.linalg.inv(geometry.metric)
    if integrator == "euler":
        mean = x + 0.5 * h * inverse @ geometry.gradient + h * correction
        covariance = h * inverse
    else:
        rho = np.exp(-h / 2)
        mean = x + (1 - rho) * (inverse @ geometry.gradient + 2 * correction)
        covariance = (1 - rho**2) * inverse
    residual = y - mean
    quadratic = residual @ np.linalg.solve(covariance, residual)
    return -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * covariance)[1])


def imbalance(step, function, correction, integrator, h, pairs):
    """Largest departure from detailed balance, in log units, over pairs of points."""
    scales = tuple(np.asarray(s) for s in INTEGRATORS[integrator].scales(h))
    worst = 0.0
    for x, y in pairs:
        step._forget_point()
        here = step._state_at(x)
        factor = here.factor[0]
        drift = np.linalg.solve(factor @ factor.T, here.force)
        noise = factor.T @ (y - x - scales[0] * drift) / scales[1]
        proposed, _, log_ratio = step._call(here, noise, scales)
        if not np.allclose(proposed.x, y, atol=1e-9):
            return np.inf  # the kernel does not draw what it should
        at_x, at_y = function(x), function(y)
        forward = at_x.logp + independent_log_q(at_x, correction(at_x), integrator, h, x, y)
        backward = at_y.logp + independent_log_q(at_y, correction(at_y), integrator, h, y, x)
        flow = forward + min(0.0, log_ratio)
        counterflow = backward + min(0.0, -log_ratio)
        worst = max(worst, abs(flow - counterflow))
    return worst


def grid_pairs(dimension):
    points = np.random.default_rng(4).uniform(-1.2, 1.2, size=(4, dimension))
    return [(a, b) for i, a in enumerate(points) for b in points[:i]]


@pytest.mark.parametrize("build", [bent, pytest.param(mean_and_scale, marks=pytest.mark.slow)])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", CORRECTIONS)
def test_detailed_balance(method, metric, build):
    model = build()
    point = model.initial_point()
    function = geometry_function(
        model, model.value_vars, point, METRICS[metric], MODE["compile_kwargs"]
    )
    for integrator in INTEGRATORS:
        step = method(metric=METRICS[metric], integrator=integrator, model=model, **MODE)
        pairs = grid_pairs(len(point))
        assert imbalance(step, function, CORRECTIONS[method], integrator, 0.7, pairs) < 1e-10


MUTANTS = {
    "log-determinant dropped": {"half_log_det": lambda self, factor: pt.constant(0.0)},
    "transposed Cholesky": {
        "solve_transposed": lambda self, factor, w: Dense.solve(self, factor, w),
    },
    "metric of the wrong factor": {
        "multiply_transposed": lambda self, factor, v: factor[0] @ v,
    },
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_detailed_balance_catches_broken_kernels(mutant, monkeypatch):
    for name, function in MUTANTS[mutant].items():
        monkeypatch.setattr(Dense, name, function)
    model = mean_and_scale()
    kind = "callable" if mutant != "log-determinant dropped" else "fisher"
    step = PMALA(metric=METRICS[kind], integrator="euler", model=model, **MODE)
    monkeypatch.undo()
    function = geometry_function(
        model, model.value_vars, model.initial_point(), METRICS[kind], MODE["compile_kwargs"]
    )
    assert imbalance(step, function, CORRECTIONS[PMALA], "euler", 0.7, grid_pairs(2)) > 1e-4


def test_detailed_balance_catches_a_drift_that_the_reverse_density_does_not_know():
    model = mean_and_scale()
    step = PMALA(metric=bent_metric, integrator="euler", model=model, **MODE)
    function = geometry_function(
        model, model.value_vars, model.initial_point(), bent_metric, MODE["compile_kwargs"]
    )
    wrong = CORRECTIONS[SimplifiedMMALA]
    assert imbalance(step, function, wrong, "euler", 0.7, grid_pairs(2)) > 1e-4


def truth(model):
    """First and second moments of a two-dimensional posterior by the trapezoidal rule."""
    logp = model.compile_logp()
    names = [v.name for v in model.value_vars]
    axes = np.linspace(-9, 11, 161), np.linspace(-3.5, 4.5, 121)
    values = np.array(
        [[logp({names[0]: np.array(a), names[1]: np.array(b)}) for b in axes[1]] for a in axes[0]]
    )
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    a, b = np.meshgrid(*axes, indexing="ij")
    return {n: (weights * f(a, b)).sum() for n, f in STATISTICS.items()}


STATISTICS = {
    "mu": lambda a, b: a,
    "log sigma": lambda a, b: b,
    "mu²": lambda a, b: a**2,
    "log sigma²": lambda a, b: b**2,
    "mu log sigma": lambda a, b: a * b,
}


def standard_error(values):
    return values.std() / np.sqrt(float(az.ess(values[None])))


def z_scores(step, model, expected, draws):
    """How many standard errors the moments of a long chain are from the truth."""
    step.set_rng(11)
    point = model.initial_point()
    chain = np.empty((draws, 2))
    for i in range(-500, draws):
        if i == 0:
            step.stop_tuning()
        point, _ = step.step(point)
        if i >= 0:
            chain[i] = [point[v.name] for v in model.value_vars]
    scores = {}
    for name, function in STATISTICS.items():
        values = function(chain[:, 0], chain[:, 1])
        scores[name] = (values.mean() - expected[name]) / standard_error(values)
    return scores


@pytest.fixture(scope="module")
def posterior():
    model = mean_and_scale()
    return model, truth(model)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("method", [PMALA, MMALA, SimplifiedMMALA, MALA])
def test_long_chains_have_the_moments_of_the_posterior(method, integrator, posterior):
    model, expected = posterior
    step = method(integrator=integrator, model=model)
    scores = z_scores(step, model, expected, 40_000)
    assert max(map(abs, scores.values())) < 4.5, scores


@pytest.mark.slow
def test_long_chains_of_a_broken_kernel_do_not(posterior, monkeypatch):
    model, expected = posterior
    monkeypatch.setattr(Dense, "half_log_det", lambda self, factor: pt.constant(0.0))
    step = PMALA(integrator="euler", model=model)
    monkeypatch.undo()
    scores = z_scores(step, model, expected, 40_000)
    assert max(map(abs, scores.values())) > 6, scores


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_with_a_constant_metric_all_methods_give_the_chain_of_mala(integrator):
    model = mean_and_scale()
    metric = np.array([[1.2, 0.4], [0.4, 3.0]])
    chains = []
    for method in (MALA, SimplifiedMMALA, MMALA, PMALA):
        step = method(metric=metric, integrator=integrator, model=model, rng=5, **MODE)
        point = model.initial_point()
        draws = []
        for _ in range(60):
            point, _ = step.step(point)
            draws.append([point["mu"], point["sigma_log__"]])
        chains.append(np.array(draws))
    for chain in chains[1:]:
        np.testing.assert_array_equal(chain, chains[0])
