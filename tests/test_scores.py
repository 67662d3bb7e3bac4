"""The expected information of likelihoods, against the mean outer product of simulated scores."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from modes import INTERPRETED
from scipy import linalg

from pymc_pmala import local_geometry

N_SIMULATED = 40_000
LIMITS = np.array([0.4, 0.9, 1.7])


@dataclass(frozen=True)
class Case:
    """A likelihood of a few rows, with real parameters.

    ``dist`` takes parameters of shape (..., 1) and returns a random variable of shape (..., rows).
    A ``bound`` is what the complete data tell, of which part is lost.
    """

    dist: Callable
    theta: tuple[float, ...]
    bound: bool = False


def normal(a, b):
    return pm.Normal.dist(a, pt.exp(b))


def spread(parameter, rows=3):
    """The same parameter for all rows."""
    return parameter * np.ones(rows)


def normal_probabilities(a, b, edges):
    below = 0.5 * pt.erfc(-(edges - a) / pt.exp(b) / np.sqrt(2.0))
    shape = [*below.shape[:-1], 1]
    return pt.diff(pt.concatenate([pt.zeros(shape), below, pt.ones(shape)], axis=-1), axis=-1)


CASES = {
    "censored_on_both_sides": Case(
        lambda a, b: pm.Censored.dist(normal(a, b), lower=-0.6, upper=0.9), (0.2, 0.1)
    ),
    "censored_above": Case(
        lambda a, b: pm.Censored.dist(normal(a, b), lower=None, upper=0.5), (0.2, 0.1)
    ),
    "censored_below": Case(
        lambda a, b: pm.Censored.dist(normal(a, b), lower=0.5, upper=None), (0.2, 0.1)
    ),
    "censored_above_by_rows": Case(
        lambda a, b: pm.Censored.dist(normal(spread(a), b), lower=None, upper=LIMITS), (0.2, 0.1)
    ),
    "censored_by_broadcast_limits": Case(
        lambda a, b: pm.Censored.dist(normal(a, b), lower=-0.5, upper=LIMITS), (0.2, 0.1)
    ),
    "censored_below_by_rows": Case(
        lambda a, b: pm.Censored.dist(normal(spread(a), b), lower=-LIMITS, upper=None), (0.2, 0.1)
    ),
    "censored_nearly_always": Case(
        lambda a, b: pm.Censored.dist(normal(a, b), lower=None, upper=-1.5), (0.2, 0.1)
    ),
    "censored_weibull": Case(
        lambda a, b: pm.Censored.dist(
            pm.Weibull.dist(pt.exp(spread(a)), pt.exp(b)), lower=None, upper=LIMITS
        ),
        (0.4, 0.1),
    ),
    "censored_exponential": Case(
        lambda a: pm.Censored.dist(pm.Exponential.dist(pt.exp(spread(a))), lower=0.2, upper=LIMITS),
        (0.3,),
    ),
    "censored_student_t": Case(
        lambda a, b: pm.Censored.dist(
            pm.StudentT.dist(nu=4, mu=spread(a), sigma=pt.exp(b)), lower=-1.0, upper=LIMITS
        ),
        (0.3, -0.2),
        bound=True,
    ),
    "censored_poisson": Case(
        lambda a: pm.Censored.dist(pm.Poisson.dist(pt.exp(spread(a))), lower=None, upper=[1, 2, 4]),
        (0.6,),
        bound=True,
    ),
    "truncated_normal": Case(
        lambda a, b: pm.TruncatedNormal.dist(spread(a), pt.exp(b), lower=-0.5, upper=LIMITS),
        (0.2, 0.1),
    ),
    "truncated_gamma": Case(
        lambda a: pm.Truncated.dist(pm.Gamma.dist(1.6, pt.exp(spread(a))), lower=0.2, upper=3.0),
        (0.3,),
        bound=True,
    ),
    "truncated_poisson": Case(
        lambda a: pm.Truncated.dist(pm.Poisson.dist(pt.exp(spread(a))), lower=1), (0.3,)
    ),
    "multinomial_by_softmax": Case(
        lambda a, b: pm.Multinomial.dist(
            n=7, p=pm.math.softmax(pt.concatenate([pt.zeros_like(a), a, b], axis=-1), axis=-1)
        ),
        (0.4, -0.8),
    ),
    "multinomial_of_bins": Case(
        lambda a, b: pm.Multinomial.dist(
            n=9, p=normal_probabilities(a, b, np.array([-1.5, -0.5, 0.2, 0.9, 2.0]))
        ),
        (0.2, 0.1),
    ),
    "multinomial_with_bins_hardly_hit": Case(
        lambda a, b: pm.Multinomial.dist(
            n=9, p=normal_probabilities(a, b, np.array([-9.0, -1.0, 0.5, 2.0, 9.0]))
        ),
        (0.2, 0.1),
    ),
    "categorical": Case(
        lambda a, b: pm.Categorical.dist(
            p=pm.math.softmax(pt.concatenate([pt.zeros_like(a), a, b], axis=-1), axis=-1)
        )[..., None],
        (0.4, -0.8),
    ),
    "normal_mixture": Case(
        lambda a, b, c: pm.NormalMixture.dist(
            w=pt.stack([pm.math.sigmoid(a), 1 - pm.math.sigmoid(a)], axis=-1),
            mu=pt.stack([b, 1.5 * pt.ones_like(b)], axis=-1),
            sigma=pt.stack([pt.exp(c), 0.7 * pt.ones_like(c)], axis=-1),
        ),
        (0.3, -0.8, 0.1),
        bound=True,
    ),
    "poisson_mixture": Case(
        lambda a, b: pm.Mixture.dist(
            w=[0.3, 0.7], comp_dists=[pm.Poisson.dist(pt.exp(a)), pm.Poisson.dist(pt.exp(b))]
        ),
        (0.1, 1.5),
        bound=True,
    ),
    "mixture_of_families": Case(
        lambda a, b: pm.Mixture.dist(
            w=[0.3, 0.7],
            comp_dists=[
                pm.Normal.dist(a, pt.exp(b)),
                pm.StudentT.dist(nu=3, mu=0, sigma=2 + 0 * a),
            ],
        ),
        (0.4, -0.3),
        bound=True,
    ),
    "zero_inflated_poisson": Case(
        lambda a, b: pm.ZeroInflatedPoisson.dist(pm.math.sigmoid(a), pt.exp(b)), (0.4, 0.6)
    ),
    "hurdle_gamma": Case(
        lambda a, b: pm.HurdleGamma.dist(pm.math.sigmoid(a), alpha=pt.exp(b), beta=1.3), (0.4, 0.6)
    ),
}


def simulated_information(case):
    """The mean of s sᵀ over simulated data, and its standard error."""
    parameters = [pt.tensor(f"theta_{i}", shape=(None, 1)) for i in range(len(case.theta))]
    values = [np.full((N_SIMULATED, 1), theta) for theta in case.theta]
    rv = case.dist(*parameters)
    draw = pm.compile(parameters, rv, random_seed=1, mode=INTERPRETED)
    data = pt.constant(draw(*values))
    log_density = pm.logp(rv, data).sum()
    scores = pytensor.function(parameters, pytensor.grad(log_density, parameters), mode=INTERPRETED)
    s = np.hstack(scores(*values))
    products = s[:, :, None] * s[:, None, :]
    return products.mean(axis=0), products.std(axis=0) / np.sqrt(N_SIMULATED)


def metric(case, seed=2):
    with pm.Model() as model:
        parameters = [pm.Flat(f"theta_{i}", shape=1) for i in range(len(case.theta))]
        rv = case.dist(*parameters)
        given = dict(zip(parameters, [np.array([t]) for t in case.theta], strict=True))
        data = pm.draw(pytensor.graph.clone_replace(rv, given), random_seed=seed)
    with pm.Model() as model:
        parameters = [pm.Flat(f"theta_{i}", shape=1) for i in range(len(case.theta))]
        model.register_rv(case.dist(*parameters), "y", observed=data)
    point = {f"theta_{i}": np.array([t]) for i, t in enumerate(case.theta)}
    return local_geometry(point, model=model).metric


FAST = {"censored_above", "censored_by_broadcast_limits", "multinomial_of_bins"}
# Simulated by rejection, or with a metric by quadrature: a minute.
LONG = {"truncated_poisson", "normal_mixture"}


def marks(name):
    return [] if name in FAST else [pytest.mark.long if name in LONG else pytest.mark.slow]


@pytest.mark.parametrize("name", [pytest.param(n, marks=marks(n)) for n in CASES])
def test_information_is_the_mean_outer_product_of_scores(name):
    case = CASES[name]
    expected, error = simulated_information(case)
    found = metric(case)
    message = f"found {found}, simulated {expected} with standard errors {error}"
    if case.bound:
        shares = linalg.eigh(expected, found, eigvals_only=True)
        assert 0.05 < shares.min() <= shares.max() < 1.05, message
    else:
        assert (abs(found - expected) < 5 * error + 1e-6).all(), message
