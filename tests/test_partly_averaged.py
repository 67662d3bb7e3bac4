"""The metric between MALA's and PMALA's: information of data averaged, of the hierarchy local."""

import numpy as np
import pymc as pm
import pytest
from balance import proposals_at

from pymc_pmala import MALA, MMALA, PMALA, local_geometry
from pymc_pmala.factorization import Arrow
from pymc_pmala.model.target import make_target
from pymc_pmala.step.preconditioning import Learned, PartlyAveraged
from pymc_pmala.tools.local_geometry import geometry_function

MODE = {"compile_kwargs": {"mode": "interpreted"}}
GROUP = np.repeat(np.arange(6), 2)
COUNTS = np.random.default_rng(2).poisson(3, 12)
MISSING = np.array([0.3, np.nan, 1.0, -0.6, np.nan, 0.8])


# Every model with and without what is observed. Without, it has the latent factors alone.


def groups(observed):
    mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
    effect = pm.Normal("effect", mu, tau, shape=6)
    if observed:
        pm.Poisson("y", pm.math.exp(effect[GROUP]), observed=COUNTS)


def several_likelihoods(observed):
    """One parameter scales effects and data, and two kinds of data share the effects."""
    sigma = pm.HalfNormal("sigma", 1)
    effect = pm.Normal("effect", pm.Normal("mu"), sigma, shape=3)
    if observed:
        pm.Normal("y", effect, 2 * sigma, observed=[0.2, 1.0, -0.5])
        pm.Bernoulli("z", logit_p=effect.sum() + np.zeros(4), observed=[0, 1, 1, 0])


def potential(observed):
    effect = pm.Laplace("effect", 0, pm.HalfNormal("tau", 1), shape=3)
    if observed:
        pm.Potential("soft", -0.5 * ((effect - [0.5, 1.0, 2.0]) ** 2).sum())
        pm.Poisson("y", pm.math.exp(effect), observed=[1, 0, 4])


def missing_data(observed):
    """What is missing is a latent variable: here it is written as one."""
    mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
    effect = pm.Normal("effect", mu, tau, shape=6)
    gone = np.isnan(MISSING)
    if observed:
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Normal("y", effect, pm.math.exp(mu), observed=np.ma.masked_invalid(MISSING))
    else:
        pm.Normal("y_unobserved", effect[gone], pm.math.exp(mu), shape=int(gone.sum()))


def many_groups(observed):
    """A structure: an arrow."""
    mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
    effect = pm.Normal("effect", mu, tau, shape=40)
    if observed:
        pm.Poisson("y", pm.math.exp(effect), observed=np.arange(40) % 7)


BUILDS = [groups, several_likelihoods, potential, missing_data, many_groups]


def whole_and_latent(build):
    models = []
    for observed in (True, False):
        with pm.Model() as model:
            build(observed)
        models.append(model)
    names = [[v.name for v in model.value_vars] for model in models]
    assert names[0] == names[1]
    return models


def as_point(model, x):
    start, point = model.initial_point(), {}
    for v in model.value_vars:
        part, x = np.split(x, [start[v.name].size])
        point[v.name] = part.reshape(start[v.name].shape)
    return point


def information_of(model):
    """The information of all factors of a model as a function of x."""
    geometry = geometry_function(make_target(model), "fisher", mode="interpreted")
    return lambda x: geometry(x).metric


def observing(step):
    """A list of the points from which the step learns since its last start."""
    preconditioning, seen = step.chain.preconditioning, []
    learn, forget = preconditioning.learn, preconditioning.forget

    def observed(state, kernel):
        seen.append(state.x.copy())
        return learn(state, kernel)

    def forgotten():
        seen.clear()
        return forget()

    preconditioning.learn, preconditioning.forget = observed, forgotten
    return seen


def metric_at(step, x):
    """G by the covariance of proposals, s² G⁻¹."""
    found = proposals_at(step, x)
    return float(found.scales[1]) ** 2 * np.linalg.inv(found.root @ found.root.T)


@pytest.mark.parametrize("build", BUILDS)
def test_the_metric_is_the_mean_information_of_data_plus_that_of_the_hierarchy_here(build):
    whole, latent = whole_and_latent(build)
    step = PMALA(model=whole, metric="adapt", interweave=False, **MODE)
    assert isinstance(step.chain.preconditioning, PartlyAveraged)
    assert isinstance(step.kernel.factorization, Arrow) == (build is many_groups)
    seen = observing(step)
    step.set_rng(1)
    point = whole.initial_point()
    for _ in range(30):
        point, _ = step.step(point)
    step.stop_tuning()
    # The mean is used after each of the first eight points, and then after every eighth.
    count = len(seen) if len(seen) < 8 else len(seen) // 8 * 8
    weights = np.arange(1, count + 1)
    of_all, of_latent = information_of(whole), information_of(latent)
    pairs = [(of_all(x), of_latent(x)) for x in seen[:count]]
    mean = np.average([both - own for both, own in pairs], axis=0, weights=weights)
    assert np.abs(pairs[0][0] - pairs[0][1] - mean).max() > 1e-3 * np.abs(mean).max()
    for x in (seen[-1], seen[-1] + 0.3, step.kernel.start):
        expected = mean + of_latent(x)
        # The floor is some 1e-12 of the diagonal, in each of the two parts.
        np.testing.assert_allclose(
            metric_at(step, x), expected, rtol=1e-7, atol=1e-8 * np.abs(expected).max()
        )


def test_nothing_is_learned_after_tuning():
    whole, _ = whole_and_latent(groups)
    step = PMALA(model=whole, metric="adapt", **MODE)
    seen = observing(step)
    step.set_rng(1)
    point = whole.initial_point()
    for _ in range(20):
        point, _ = step.step(point)
    step.stop_tuning()
    constants = [part.copy() for part in step.chain.preconditioning.constants]
    count = len(seen)
    for _ in range(30):
        point, _ = step.step(point)
    assert len(seen) == count
    np.testing.assert_equal(list(step.chain.preconditioning.constants), constants)
    np.testing.assert_equal(list(step.chain.state_at(step.chain.block.end.x).averaged), constants)


def test_the_force_has_derivatives_of_the_local_part_only():
    """Γ = ½ ∂A with the mean held, by differences of the metric."""
    whole, _ = whole_and_latent(groups)
    step = PMALA(model=whole, metric="adapt", interweave=False, **MODE)
    step.set_rng(1)
    point = whole.initial_point()
    for _ in range(20):
        point, _ = step.step(point)
    step.stop_tuning()
    x = np.concatenate([np.ravel(point[v.name]) for v in step.vars])
    d, h = len(x), 1e-4
    slopes = [
        np.linalg.inv(metric_at(step, x + e)) - np.linalg.inv(metric_at(step, x - e))
        for e in h * np.eye(d)
    ]
    gamma = 0.5 * np.einsum("jij->i", slopes) / (2 * h)
    inverse = np.linalg.inv(metric_at(step, x))
    gradient = local_geometry(as_point(whole, x), model=whole).gradient
    found = proposals_at(step, x)
    drift = (found.mean - x) / float(found.scales[0])
    np.testing.assert_allclose(drift, inverse @ gradient + 2 * gamma, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", [PMALA, MMALA])
def test_information_that_is_the_same_everywhere_is_averaged_as_that_of_data(method):
    with pm.Model() as regression:
        beta = pm.Normal("beta", 0, 5, shape=2)
        pm.Poisson("y", pm.math.exp(beta[0] + beta[1] * np.arange(3)), observed=[1, 2, 5])
    step = method(model=regression, metric="adapt", **MODE)
    assert isinstance(step.chain.preconditioning, Learned)
    assert not step.kernel.varies
    whole, _ = whole_and_latent(groups)
    step = method(model=whole, metric="adapt", **MODE)
    assert isinstance(step.chain.preconditioning, PartlyAveraged)
    assert step.kernel.varies
    assert isinstance(MALA(model=whole, **MODE).chain.preconditioning, Learned)


def test_the_chains_of_mala_and_of_pmala_are_the_same_where_the_hierarchy_is_constant():
    """With no information that varies, the metric and the drift are those of MALA."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5, shape=2)
        pm.Poisson("y", pm.math.exp(beta[0] + beta[1] * np.arange(3)), observed=[1, 2, 5])
    paths = []
    for step in (MALA(model=model, **MODE), PMALA(model=model, metric="adapt", **MODE)):
        step.set_rng(4)
        point, path = model.initial_point(), []
        for _ in range(40):
            point, _ = step.step(point)
            path.append(point["beta"])
        paths.append(path)
    np.testing.assert_array_equal(*paths)
