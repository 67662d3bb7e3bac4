"""Likelihoods that run a loop: their metric is that of the same likelihood in plain NumPy."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scan.op import Scan
from scipy.special import expit, logsumexp

from pymc_pmala import PMALA, explain_metric, local_geometry
from pymc_pmala.compile import compile_graph

RNG = np.random.default_rng(1)
SERIES = np.convolve(RNG.normal(size=62), [1.0, 0.9, 0.5], mode="valid")
STATES = np.repeat([0, 1, 0, 1], 15)
OBSERVED = RNG.normal(loc=np.array([-1.0, 1.5])[STATES], scale=0.7)


class Case(NamedTuple):
    """A model with standard normal priors on a vector x, and its likelihood's information.

    `information` is the expected information at x or, where there is no rule for it, −∇²log p.
    """

    model: pm.Model
    information: Callable[[np.ndarray], np.ndarray]
    has_rule: bool


def slopes(function, x, step=1e-5):
    """Derivatives of a function of a vector, as rows, by central differences."""
    ways = step * np.eye(len(x))
    return np.array([(function(x + way) - function(x - way)) / (2 * step) for way in ways])


def moving_average() -> Case:
    """ARMA(1, 1): y_t ~ N(φ y_{t−1} + θ ε_{t−1}, σ²), ε_t what is left; x = (φ, θ, log σ)."""

    def means(x):
        found, error = [], 0.0
        for before, y in pairwise(SERIES):
            found.append(x[0] * before + x[1] * error)
            error = y - found[-1]
        return np.array(found)

    def information(x):
        jacobian = slopes(means, x)
        return np.exp(-2 * x[2]) * jacobian @ jacobian.T + np.diag([0, 0, 2 * len(SERIES) - 2])

    with pm.Model() as model:
        phi, theta, log_sigma = (pm.Normal(name) for name in ("phi", "theta", "log_sigma"))

        def step(before, y, error, phi, theta):
            mean = phi * before + theta * error
            return mean, y - mean

        mean, _ = pytensor.scan(
            step,
            sequences=[pt.constant(SERIES[:-1]), pt.constant(SERIES[1:])],
            outputs_info=[None, pt.constant(np.float64(0.0))],
            non_sequences=[phi, theta],
            return_updates=False,
        )
        pm.Normal("y", mean, pt.exp(log_sigma), observed=SERIES[1:])
    return Case(model, information, True)


def volatility() -> Case:
    """GARCH(1, 1): h_t = e^a + α y²_{t−1} + β h_{t−1}, y_t ~ N(0, h_t); logits of α and β."""

    def log_scales(x):
        found, variance = [], 1.0
        for before in SERIES[:-1]:
            variance = np.exp(x[0]) + expit(x[1]) * before**2 + expit(x[2]) * variance
            found.append(0.5 * np.log(variance))
        return np.array(found)

    def information(x):
        jacobian = slopes(log_scales, x)
        return 2.0 * jacobian @ jacobian.T

    with pm.Model() as model:
        level, shock, memory = (pm.Normal(name) for name in ("level", "shock", "memory"))

        def step(before, variance, level, shock, memory):
            return pt.exp(level) + pt.sigmoid(shock) * before**2 + pt.sigmoid(memory) * variance

        variance = pytensor.scan(
            step,
            sequences=[pt.constant(SERIES[:-1])],
            outputs_info=[pt.constant(np.float64(1.0))],
            non_sequences=[level, shock, memory],
            return_updates=False,
        )
        pm.Normal("y", 0.0, pt.sqrt(variance), observed=SERIES[1:])
    return Case(model, information, True)


def hidden_markov() -> Case:
    """Two states with means x₀ and x₁, noise of sd 0.7, both left with probability expit(x₂)."""

    def log_emissions(x):
        return -0.5 * ((OBSERVED[:, None] - x[:2]) / 0.7) ** 2

    def log_likelihood(x):
        leave = expit(x[2])
        log_moves = np.log([[1 - leave, leave], [leave, 1 - leave]])
        forward = log_emissions(x)[0] + np.log(0.5)
        for emission in log_emissions(x)[1:]:
            forward = logsumexp(forward[:, None] + log_moves, axis=0) + emission
        return logsumexp(forward)

    def information(x):
        return -slopes(lambda at: slopes(log_likelihood, at, 1e-4), x, 1e-4)

    with pm.Model() as model:
        first, second, logit = (pm.Normal(name) for name in ("first", "second", "logit"))
        emissions = -0.5 * ((OBSERVED[:, None] - pt.stack([first, second])) / 0.7) ** 2
        leave, stay = -pt.softplus(-logit), -pt.softplus(logit)
        log_moves = pt.stack([pt.stack([stay, leave]), pt.stack([leave, stay])])
        forward = pytensor.scan(
            lambda emission, before, moves: (
                pt.logsumexp(before[:, None] + moves, axis=0) + emission
            ),
            sequences=[emissions[1:]],
            outputs_info=[emissions[0] + np.log(0.5)],
            non_sequences=[log_moves],
            return_updates=False,
        )
        pm.Potential("y", pt.logsumexp(forward[-1]))
    return Case(model, information, False)


X = np.array([-0.9, 0.7, -0.8])


@pytest.fixture(
    params=[
        pytest.param(moving_average, id="ARMA"),
        pytest.param(volatility, id="GARCH"),
        # Twice differentiated by differences, it takes a minute to compile.
        pytest.param(hidden_markov, id="HMM", marks=pytest.mark.slow),
    ],
    scope="module",
)
def case(request):
    return request.param()


def test_metric_and_gamma_of_a_loop_are_those_of_its_likelihood(case):
    def inverse(x):
        return np.linalg.inv(case.information(x) + np.eye(3))

    point = dict(zip([v.name for v in case.model.value_vars], map(np.asarray, X), strict=True))
    found = local_geometry(point, model=case.model)
    expected = np.linalg.inv(inverse(X))
    # A Hessian is taken by differences, here as there.
    rtol = 1e-6 if case.has_rule else 1e-3
    np.testing.assert_allclose(found.metric, expected, atol=rtol * np.abs(expected).max())
    if case.has_rule:
        gamma = 0.5 * np.einsum("jij->i", slopes(inverse, X, 1e-3))
        np.testing.assert_allclose(found.gamma, gamma, atol=1e-4 * np.abs(gamma).max())


def test_differences_are_said_of_a_loop(case):
    assert "finite differences" in str(explain_metric(case.model))


def test_gradient_and_metric_run_one_loop(case, monkeypatch):
    """One at the point, one at the points beside it; none of two that were glued together."""
    if not case.has_rule:
        pytest.skip("the Hessian by differences has loops of its own")
    functions = []

    def compile_and_keep(*arguments, **options):
        functions.append(compile_graph(*arguments, **options))
        return functions[-1]

    monkeypatch.setattr("pymc_pmala.kernel.kernel.compile_graph", compile_and_keep)
    PMALA(model=case.model, metric="fisher")
    [transition] = functions
    loops = [n for n in transition.maker.fgraph.toposort() if isinstance(n.op, Scan)]
    assert len(loops) == 2
    assert not any("&" in str(loop.op) for loop in loops)


@pytest.mark.slow
def test_chains_move_on_a_loop(case):
    options = {"progressbar": False, "random_seed": 1, "compute_convergence_checks": False}
    with case.model:
        idata = pm.sample(300, tune=300, chains=1, cores=1, step=PMALA(), **options)
    assert 0.3 < float(idata.sample_stats["acceptance_rate"].mean()) < 1.0
    assert not idata.sample_stats["diverging"].values.any()
