"""Models that people write start, move, fit into memory and run compiled as interpreted."""

from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import pytest
from people import HOLE, LIMIT, PEOPLE, censored, putts
from pymc.testing import fast_unstable_sampling_mode
from scipy import stats
from transitions import (
    BY_C,
    assert_a_chain_moves,
    assert_transitions_agree,
    make_step,
    memory_bound,
)

from pymc_pmala import PMALA

pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
    # In numbers that overflow on the way, as in NUTS.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
# In CI; the weekly run has the others, too.
QUICK = {"quartic_potential"} if BY_C else {n for n, person in PEOPLE.items() if person.quick}
# A product of a hundred probabilities loses digits, and so does a covariance of 150 points with a
# condition of some 7e7: the last bit of the start alone changes the acceptance by 1.3e-9.
TOLERANCE = {"marginalised_changepoint": 1e-7, "gp_latent_150": 1e-7}
UNSTABLE = {"only_a_potential", "quartic_potential", "truncated_prior", "shift_under_log"}


def people(slow):
    """All of them, some in CI."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(n, marks=pytest.mark.slow if n in slow else pytest.mark.long)
            for n in PEOPLE
        ],
    )


@people(QUICK)
def test_a_chain_starts_and_agrees_with_the_interpreter(name):
    with memory_bound(2.0):
        model = PEOPLE[name].build()
        step = assert_transitions_agree(model, tolerance=TOLERANCE.get(name, 1e-9), far=True)
        assert_a_chain_moves(step, model)


@people(UNSTABLE)
def test_a_chain_moves_in_the_unstable_mode(name):
    model = PEOPLE[name].build()
    assert_a_chain_moves(make_step(model, fast_unstable_sampling_mode), model)


# ---- Once stuck: the posterior against quadrature ------------------------------------------


def on_a_grid(log_density, *ranges, size=400):
    """The points of a grid and their posterior probabilities."""
    axes = np.meshgrid(*[np.linspace(*limits, size) for limits in ranges], indexing="ij")
    values = log_density(*axes)
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    # The mass at the edges tells whether the grid is wide enough.
    assert weights[[0, -1]].sum() + weights[:, [0, -1]].sum() < 1e-8
    return axes, weights


def agrees(draws, function, axes, weights):
    """The mean and the sd of the draws are within five Monte Carlo errors of those on the grid."""
    mean = (weights * function(*axes)).sum()
    sd = np.sqrt((weights * (function(*axes) - mean) ** 2).sum())
    effective = float(az.ess(draws, method="mean"))
    squares = float(az.ess((draws - mean) ** 2, method="mean"))
    assert min(effective, squares) > 200
    assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(effective)
    assert abs(draws.var() / sd**2 - 1) < 5 * ((draws - mean) ** 2).std() / sd**2 / np.sqrt(squares)


def sample(name, draws=1000):
    with PEOPLE[name].build():
        options = {"chains": 2, "cores": 1, "progressbar": False, "random_seed": 1}
        posterior = pm.sample(draws, step=PMALA(), **options).posterior
    return {name: np.asarray(values) for name, values in posterior.items()}


def golf_log_density(log_angle, log_distance, most):
    angle_sd, distance_sd = np.exp(log_angle)[..., None], np.exp(log_distance)[..., None]
    feet, tries, holed = putts(most)
    width = (feet + 1) * distance_sd
    p = 2 * stats.norm.cdf(np.arcsin(HOLE / feet) / angle_sd) - 1
    p = p * (stats.norm.cdf(2 / width) - stats.norm.cdf(-1 / width))
    prior = stats.halfnorm.logpdf(angle_sd) + stats.halfnorm.logpdf(distance_sd)
    likelihood = stats.binom.logpmf(holed, tries, p).sum(axis=-1)
    return likelihood + prior[..., 0] + log_angle + log_distance


@pytest.mark.parametrize(
    ("name", "most", "width"),
    [
        pytest.param("golf_by_angle_and_distance", 1500, 0.8, marks=pytest.mark.slow),
        pytest.param("golf_of_professionals", 45_000, 0.15, marks=pytest.mark.slow),
    ],
)
def test_golf_putting_is_sampled(name, most, width):
    draws = sample(name)
    ranges = [(centre - width, centre + width) for centre in (-4.02, -2.5)]
    axes, weights = on_a_grid(partial(golf_log_density, most=most), *ranges, size=200)
    agrees(np.log(draws["sigma_angle"]), lambda a, d: a, axes, weights)
    agrees(np.log(draws["sigma_distance"]), lambda a, d: d, axes, weights)


def censored_log_density(mu, log_sigma):
    """What is imputed has been integrated out."""
    sigma = np.exp(log_sigma)
    below, above = censored()
    likelihood = stats.norm.logpdf(below, mu[..., None], sigma[..., None]).sum(axis=-1)
    likelihood = likelihood + above * stats.norm.logsf(LIMIT, mu, sigma)
    prior = stats.norm.logpdf(mu, 0, 2) + stats.halfnorm.logpdf(sigma, 0, 2) + log_sigma
    return likelihood + prior


def mean_beyond(mu, log_sigma):
    z = (LIMIT - mu) / np.exp(log_sigma)
    return mu + np.exp(log_sigma + stats.norm.logpdf(z) - stats.norm.logsf(z))


@pytest.mark.slow
def test_values_imputed_beyond_a_limit_are_sampled():
    draws = sample("imputed_beyond_a_limit", draws=4000)
    axes, weights = on_a_grid(censored_log_density, (-0.2, 1.2), (-0.4, 0.8), size=150)
    agrees(draws["mu"], lambda mu, s: mu, axes, weights)
    agrees(np.log(draws["sigma"]), lambda mu, s: s, axes, weights)
    mean = (weights * mean_beyond(*axes)).sum()
    one = draws["beyond"][..., 0]
    assert abs(one.mean() - mean) < 5 * one.std() / np.sqrt(float(az.ess(one, method="mean")))
