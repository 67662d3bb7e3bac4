"""Interweaving moves and partly averaged metrics leave the posterior invariant; mutants do not.

The tests are those of `test_invariance`. A move of hyperparameters φ with the standardised effects
held is in balance in the coordinates (φ, what is held), which are written out by hand here.
"""

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from balance import imbalance, largest_z_score, log_density, tuned, walk

from pymc_pmala import PMALA
from pymc_pmala.interweaving import Interweaving
from pymc_pmala.kernel.kernel import Noise
from pymc_pmala.step.chain import Chain
from pymc_pmala.step.preconditioning import PartlyAveraged

MODE = {"compile_kwargs": {"mode": "interpreted"}}
Y = [1.3, -0.4]


class Form(NamedTuple):
    """A way to write a hierarchy of two effects.

    Attributes
    ----------
    build : callable
    effects : callable
        What the model samples, given μ, τ and what the move holds.
    sign : float
        The log-Jacobian ∂x/∂y is this times 2 log τ.
    """

    build: object
    effects: object
    sign: float


def centred():
    with pm.Model() as model:
        data = pm.Data("data", Y)
        mu, tau = pm.Normal("mu", 0, 1), pm.LogNormal("tau", 0, 0.5)
        pm.Normal("y", pm.Normal("theta", mu, tau, shape=2), 1.0, observed=data)
    return model


def non_centred():
    with pm.Model() as model:
        data = pm.Data("data", Y)
        mu, tau = pm.Normal("mu", 0, 1), pm.LogNormal("tau", 0, 0.5)
        pm.Normal("y", mu + tau * pm.Normal("z", shape=2), 1.0, observed=data)
    return model


FORMS = {
    "centred": Form(centred, lambda mu, tau, z: mu + tau * z, 1.0),
    "non-centred": Form(non_centred, lambda mu, tau, theta: (theta - mu) / tau, -1.0),
}
PHI = [np.array(phi) for phi in product(np.linspace(-1.0, 1.5, 4), np.linspace(-0.8, 0.6, 3))]
HELD = [np.array([0.3, -1.1]), np.array([1.2, 0.8])]
# Points of the main transitions: mu, log tau, and the two effects.
GRID = [np.linspace(-0.8, 1.2, 2), np.linspace(-0.6, 0.5, 3), [-0.5, 1.1], [0.2, 0.9]]


# ---- Detailed balance -------------------------------------------------------------------------


def hyper_imbalance(step, model, form):
    """Largest imbalance of the flows of interweaving moves, or error of where they land.

    As `imbalance`, in the coordinates y = (φ, what is held), with density π_x |∂x/∂y|.
    """
    step, point = tuned(step, model)
    chain, logp = step.chain, log_density(step, model)

    def at(phi, held):
        return np.concatenate([phi, form.effects(phi[0], np.exp(phi[1]), held)])

    def flow(phi, other, held):
        chain.forget_point()
        state = chain.state_at(at(phi, held))
        scales = chain.scales(chain.hyper_step_size.averaged)

        def propose(noise):
            return step.kernel.propose_hyper(state, noise, scales)

        mean, *columns = (propose(z)[0].x[:2] for z in (np.zeros(2), *np.eye(2)))
        root = np.transpose(columns) - mean[:, None]
        noise = np.linalg.solve(root, other - mean)
        proposed, log_ratio = propose(noise)
        log_q = -0.5 * (noise @ noise) - np.linalg.slogdet(root * np.sqrt(2 * np.pi))[1]
        density = logp(state.x) + form.sign * 2.0 * phi[1]
        missed = np.abs(proposed.x - at(other, held)).max()
        return density + log_q + min(0.0, log_ratio), missed

    ways = [(*pair, held) for pair in combinations(PHI, 2) for held in HELD]
    there, missed = np.transpose([flow(*way) for way in ways])
    walk(step, point, 10)
    back, missed_back = np.transpose([flow(b, a, held) for a, b, held in ways])
    uneven = np.abs(np.expm1(there - back)) / np.maximum(1.0, np.abs(there))
    return max(uneven.max(), 0.01 * missed.max(), 0.01 * missed_back.max())


@pytest.mark.parametrize("metric", ["fisher", "adapt"])
@pytest.mark.parametrize("form", FORMS)
def test_interweaving_moves_are_in_detailed_balance(form, metric):
    model = FORMS[form].build()
    step = PMALA(model=model, interweave=True, metric=metric, **MODE)
    assert step.kernel.hyper_dimension == 2
    assert hyper_imbalance(step, model, FORMS[form]) < 1e-12


def test_transitions_between_interweaving_moves_are_in_detailed_balance():
    model = centred()
    step = PMALA(model=model, interweave=True, metric="adapt", **MODE)
    assert isinstance(step.chain.preconditioning, PartlyAveraged)
    assert imbalance(step, model, GRID) < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_a_move_brings_the_geometry_of_its_end(form):
    """What the next move of either kind starts from is what a chain started there has."""
    model = FORMS[form].build()
    step, point = tuned(PMALA(model=model, interweave=True, metric="adapt", **MODE), model)
    kernel, chain = step.kernel, step.chain
    state = chain.state_at(np.concatenate([np.ravel(point[v.name]) for v in step.vars]))
    rng = np.random.default_rng(1)
    moves = (kernel.propose, 4), (kernel.propose_hyper, 2)
    for move, size in [*moves, *moves]:
        state, _ = move(state, rng.normal(size=size), chain.scales(0.4))
        again = kernel.init(state.x, chain.preconditioning.constants)
        for part, expected in zip(state, again, strict=True):
            np.testing.assert_equal(part, expected)


@pytest.mark.parametrize("metric", ["fisher", "adapt"])
def test_one_call_makes_the_moves_of_many(metric):
    """Transitions and interweaving moves in turn, by the compiled loop and one by one."""
    model = centred()
    step, _ = tuned(PMALA(model=model, interweave=True, metric=metric), model)
    kernel, chain = step.kernel, step.chain
    start = state = chain.state_at(np.array([0.1, 0.2, 0.9, -0.3]))
    scales, hyper_scales = chain.scales(1.5), chain.scales(6.0)
    rng = np.random.default_rng(4)
    main = Noise(rng.normal(size=(24, 4)), np.log(rng.random(24)))
    hyper = Noise(rng.normal(size=(12, 2)), np.log(rng.random(12)))
    end, record = kernel.draws(start, 4, main, scales, 2, hyper, hyper_scales)
    hyper_acceptance, moved = np.zeros(6), 0
    for i in range(24):
        proposed, ratio = kernel.propose(state, main.normals[i], scales)
        state = proposed if main.log_uniforms[i] < ratio else state
        if i % 2:
            proposed, ratio = kernel.propose_hyper(state, hyper.normals[i // 2], hyper_scales)
            hyper_acceptance[i // 4] += np.exp(min(0.0, ratio))
            moved += hyper.log_uniforms[i // 2] < ratio
            state = proposed if hyper.log_uniforms[i // 2] < ratio else state
        if i % 4 == 3:
            np.testing.assert_array_equal(record.x[i // 4], state.x)
    assert 0 < moved < 12
    np.testing.assert_allclose(record.numbers[:, 6], hyper_acceptance, rtol=1e-14)
    for part, expected in zip(end, state, strict=True):
        np.testing.assert_equal(part, expected)


# ---- Kernels with one fault each ---------------------------------------------------------------

log_jacobian, carry, draw = Interweaving.log_jacobian, Interweaving.carry, Chain.draw


def without_jacobian(self, x):
    return 0.0 * log_jacobian(self, x)


def with_the_new_scale_where_it_grows(self, x, phi):
    """Residuals standardised by the scale by which they are restored: effects stay."""
    stay = pt.set_subtensor(x[self.positions], phi)
    return pt.switch(phi[1] > x[1], stay, carry(self, x, phi))


def learning_on(self, x, rng, ahead):
    self.preconditioning.learn(self.state_at(x), self.kernel)
    return draw(self, x, rng, ahead)


INTERWEAVING = "pymc_pmala.interweaving.Interweaving"
FAULTS = {
    "Jacobian of the move left out": (f"{INTERWEAVING}.log_jacobian", without_jacobian),
    "the new scale in one direction": (f"{INTERWEAVING}.carry", with_the_new_scale_where_it_grows),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", FORMS)
def test_detailed_balance_of_moves_catches(fault, form, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    model = FORMS[form].build()
    step = PMALA(model=model, interweave=True, metric="fisher", **MODE)
    assert hyper_imbalance(step, model, FORMS[form]) > 1e-3


def test_detailed_balance_catches_information_averaged_after_tuning(monkeypatch):
    # Information that varies: that of a Poisson, not of a Normal.
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 1), pm.LogNormal("tau", 0, 0.5)
        theta = pm.Normal("theta", mu, tau, shape=2)
        pm.Poisson("y", pm.math.exp(theta), observed=[3, 0])
    step = PMALA(model=model, metric="adapt", **MODE)
    # Every draw by a call of its own, so that the mutant learns from each of them.
    step._may_run_ahead = False
    assert imbalance(step, model, GRID) < 1e-12
    monkeypatch.setattr("pymc_pmala.step.chain.Chain.draw", learning_on)
    assert imbalance(step, model, GRID) > 1e-6


# ---- Parameters and data together --------------------------------------------------------------

# With log τ ~ N(0, 1/4): E τ² = e^{1/2} and E τ² log τ = e^{1/2} / 2.
MOMENTS = {
    "mu": (lambda mu, t, a, b: mu, 0.0),
    "mu²": (lambda mu, t, a, b: mu**2, 1.0),
    "log tau": (lambda mu, t, a, b: t, 0.0),
    "(log tau)²": (lambda mu, t, a, b: t**2, 1 / 4),
    "tau²": (lambda mu, t, a, b: np.exp(2 * t), np.exp(1 / 2)),
    "theta": (lambda mu, t, a, b: a + b, 0.0),
    "theta²": (lambda mu, t, a, b: a**2 + b**2, 2 * (1 + np.exp(1 / 2))),
    "mu theta": (lambda mu, t, a, b: mu * a, 1.0),
    "residual²": (lambda mu, t, a, b: (a - mu) ** 2, np.exp(1 / 2)),
    "residual² log tau": (lambda mu, t, a, b: (b - mu) ** 2 * t, np.exp(1 / 2) / 2),
    "residuals": (lambda mu, t, a, b: (a - mu) * (b - mu), 0.0),
}


def z_score(step, model, form, draws):
    def parameters(point):
        mu, log_tau = float(point["mu"]), float(point["tau_log__"])
        if form == "centred":
            return mu, log_tau, *point["theta"]
        return mu, log_tau, *(mu + np.exp(log_tau) * point["z"])

    def data(rng, mu, log_tau, *theta):
        return rng.normal(theta, 1.0)

    return largest_z_score(step, model, parameters, data, MOMENTS, draws)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("metric", ["fisher", "adapt"])
def test_parameters_stay_distributed_as_the_prior_when_data_follow(form, metric):
    model = FORMS[form].build()
    step = PMALA(model=model, interweave=True, metric=metric)
    assert z_score(step, model, form, 30_000) < 4.5
    assert step.chain.every > 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_prior_is_lost_with(fault, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    model = centred()
    step = PMALA(model=model, interweave=True, metric="adapt", thin=1)
    assert z_score(step, model, "centred", 30_000) > 6
