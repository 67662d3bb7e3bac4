"""Models as people write them, of the sizes that they have; each was, or could be, a failure.

A crash, a refusal to start, a stuck chain or a build without end, and the relatives of these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import Interval, log, ordered
from scipy.special import erf, ndtr, ndtri

__all__ = ["PEOPLE", "Person"]


@dataclass(frozen=True)
class Person:
    """A model of somebody's.

    Attributes
    ----------
    build : callable
        Makes the model.
    quick : bool
        Whether it builds within seconds, so that CI can test it.
    """

    build: Callable[[], pm.Model]
    quick: bool


PEOPLE: dict[str, Person] = {}


def person(function=None, *, quick=False, coords=None):
    """Add a function that fills a model, or changes it, given a generator for its data."""
    if function is None:
        return partial(person, quick=quick, coords=coords)

    def build():
        with pm.Model(coords=coords) as model:
            changed = function(np.random.default_rng(sum(map(ord, function.__name__))))
        return changed or model

    PEOPLE[function.__name__] = Person(build, quick)
    return function


def normal_cdf(x):
    return 0.5 * pt.erfc(-x / np.sqrt(2.0))


# ---- A metric that was not finite where log-density and gradient are -----------------------


def gev_logp(value, mu, sigma, xi):
    """Generalised extreme values: −log σ − (1 + 1/ξ) log t − t^(−1/ξ), t = 1 + ξ(x − μ)/σ."""
    z = (value - mu) / sigma
    t = 1.0 + xi * z
    near_zero = -pt.log(sigma) - z - pt.exp(-z)
    safe = pt.switch(t > 0, t, 1.0)
    elsewhere = -pt.log(sigma) - (1 + 1 / xi) * pt.log(safe) - safe ** (-1 / xi)
    return pt.switch(pt.isclose(xi, 0), near_zero, pt.switch(t > 0, elsewhere, -np.inf))


@person
def extreme_values(rng):
    mu, sigma = pm.Normal("mu", 3.8, 0.2), pm.HalfNormal("sigma", 0.3)
    # At zero, where the law is Gumbel's, the gradient of this density is not a number.
    xi = pm.TruncatedNormal("xi", 0, 0.2, lower=-0.6, upper=0.6, initval=-0.1)
    y = 3.87 - 0.2 * np.log(-np.log(rng.random(65)))
    pm.CustomDist("y", mu, sigma, xi, logp=gev_logp, observed=y)


@person
def extreme_values_of_pymc_extras(rng):
    extras = pytest.importorskip("pymc_extras")
    mu, sigma = pm.Normal("mu", 3.8, 0.2), pm.HalfNormal("sigma", 0.3)
    # At zero, where the law is Gumbel's, the gradient of this density is not a number.
    xi = pm.TruncatedNormal("xi", 0, 0.2, lower=-0.6, upper=0.6, initval=-0.1)
    y = 3.87 - 0.2 * np.log(-np.log(rng.random(65)))
    extras.GenExtreme("y", mu=mu, sigma=sigma, xi=xi, observed=y)


@person
def binned_data(rng):
    edges = np.linspace(-4.0, 3.0, 15)
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    below = pt.exp(pm.logcdf(pm.Normal.dist(mu, sigma), edges))
    p = pt.concatenate([[0.0], below, [1.0]])
    counts = np.histogram(rng.normal(-2, 0.8, 1500), [-np.inf, *edges, np.inf])[0]
    pm.Multinomial("counts", n=1500, p=p[1:] - p[:-1], observed=counts)


@person
def binned_data_with_empty_tails(rng):
    """At the start most bins have a probability of zero to the last digit, and no count."""
    edges = np.linspace(-4.0, 40.0, 15)
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    below = pt.concatenate([[0.0], pt.exp(pm.logcdf(pm.Normal.dist(mu, sigma), edges)), [1.0]])
    counts = np.histogram(rng.normal(-2, 0.8, 1500), [-np.inf, *edges, np.inf])[0]
    pm.Multinomial("counts", n=1500, p=pt.diff(below), observed=counts)


def survival(rng, frailty):
    """Piecewise-exponential: a Poisson count for each subject and interval, many of no length."""
    subjects, intervals, length = 44, 50, 3.0
    time, treated = rng.exponential(60.0, subjects).clip(2, 140), rng.integers(0, 2, subjects)
    event = rng.random(subjects) < 0.6
    start = np.arange(intervals) * length
    exposure = (time[:, None] - start).clip(0, length)
    deaths = event[:, None] & (exposure > 0) & (exposure < length)
    rates = pm.Gamma("rates", 0.1, 0.1, shape=intervals)
    beta = pm.Normal("beta", 0, 2)
    risk = pt.exp(beta * treated)
    if frailty:
        shape = pm.Exponential("shape", 0.5)
        risk = risk * pm.Gamma("frailty", shape, shape, shape=subjects)
    pm.Poisson("deaths", exposure * pt.outer(risk, rates), observed=deaths.astype(int))


@person
def piecewise_exponential_survival(rng):
    survival(rng, frailty=False)


@person
def piecewise_exponential_frailty(rng):
    survival(rng, frailty=True)


@person(quick=True)
def zero_exposure_by_offset(rng):
    """Poisson with an offset of log 0."""
    exposure = np.array([0.0, 1.0, 2.0, 0.0, 5.0, 3.0, 4.0, 0.0])
    eta = pm.Normal("a") + pm.Normal("b") * np.linspace(-1, 1, 8)
    with np.errstate(divide="ignore"):
        offset = np.log(exposure)
    pm.Poisson("y", pt.exp(eta + offset), observed=rng.poisson(exposure))


@person
def zero_exposure_in_a_container(rng):
    exposure = np.array([0.0, 1.0, 2.0, 0.0, 5.0, 3.0, 4.0, 0.0])
    length = pm.Data("exposure", exposure)
    rates = pm.Gamma("rates", 0.01, 0.01, shape=8)
    effect = pm.GaussianRandomWalk("effect", init_dist=pm.Normal.dist(), shape=8)
    mu = length * pt.outer(pt.exp(effect[:2]), rates)
    pm.Poisson("y", mu, observed=rng.poisson(exposure, (2, 8)))


@person(quick=True)
def zero_trials(rng):
    n = np.array([0, 4, 10, 0, 7, 1, 12, 0, 3, 9])
    p = pm.math.sigmoid(pm.Normal("a") + pm.Normal("b") * np.linspace(-1, 1, 10))
    pm.Binomial("y", n=n, p=p, observed=rng.binomial(n, 0.4))
    rho = pm.Gamma("rho", 2, 0.5)
    pm.BetaBinomial("z", alpha=p * rho, beta=(1 - p) * rho, n=n, observed=rng.binomial(n, 0.4))


@person(quick=True)
def zero_shape_of_a_gamma(rng):
    """Waiting times of several events; where exposure is zero, hardly any."""
    exposure = np.array([0.0, 1.0, 2.0, 0.0, 5.0, 3.0, 4.0])
    rate = pt.exp(pm.Normal("a") + pm.Normal("b") * np.linspace(-1, 1, 7))
    y = rng.gamma(exposure + 1.0) + 0.01
    pm.Gamma("y", alpha=1.0 + exposure * rate, beta=1.0, observed=y)
    # A rate of exactly nothing in some rows, which are left out by a weight.
    weights = (exposure > 0).astype(float)
    logp = pm.logp(pm.Exponential.dist(pt.switch(exposure > 0, exposure * rate, 1.0)), y)
    pm.Potential("z", (weights * logp).sum())


@person
def stick_breaking(rng):
    """A Dirichlet process cut at 30 components, most of them empty."""
    y = np.concatenate([rng.normal(-1.5, 0.3, 120), rng.normal(1.0, 0.5, 150)])
    alpha = pm.Gamma("alpha", 1.0, 1.0)
    parts = pm.Beta("parts", 1.0, alpha, shape=30)
    left = pt.concatenate([[1.0], pt.cumprod(1 - parts)[:-1]])
    tau = pm.Gamma("tau", 1.0, 1.0, shape=30)
    scale = pm.Uniform("scale", 0, 5)
    mu = pm.Normal("mu", 0, tau=scale * tau, shape=30)
    pm.NormalMixture("y", parts * left, mu, tau=scale * tau, observed=y)


# ---- Stuck where NUTS is at ease -----------------------------------------------------------


def putts(most):
    """Feet, tries and how many were holed, as if by spreads of 0.018 in angle and 0.08 in force."""
    feet = np.linspace(0.5, 60.0, 31)
    tries = np.round(most * np.exp(-feet / 10)) + 50
    angle = 2 * ndtr(np.arcsin(HOLE / feet) / 0.018) - 1
    force = ndtr(2 / (feet + 1) / 0.08) - ndtr(-1 / (feet + 1) / 0.08)
    return feet, tries.astype(int), np.round(tries * angle * force).astype(int)


HOLE = (4.25 - 1.68) / 24  # in feet, between the radii of hole and ball


def golf(distance, most):
    feet, tries, holed = putts(most)
    sigma = pm.HalfNormal("sigma_angle")
    p = 2 * normal_cdf(np.arcsin(HOLE / feet) / sigma) - 1
    if distance:
        width = (feet + 1) * pm.HalfNormal("sigma_distance")
        p = p * (normal_cdf(2 / width) - normal_cdf(-1 / width))
    pm.Binomial("holed", n=tries, p=p, observed=holed)


@person(quick=True)
def golf_by_angle(rng):
    golf(distance=False, most=1500)


@person(quick=True)
def golf_by_angle_and_distance(rng):
    golf(distance=True, most=1500)


@person
def golf_of_professionals(rng):
    golf(distance=True, most=45_000)


LIMIT = 1.0


def censored():
    """What is below the limit, and how many are above, of 400 values of Normal(0.4, 1.2)."""
    y = 0.4 + 1.2 * ndtri((np.arange(400) + 0.5) / 400)
    return y[y < LIMIT], int((y >= LIMIT).sum())


@person
def imputed_beyond_a_limit(rng):
    """Censored values as free variables above the limit."""
    below, n = censored()
    mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 2)
    start = np.full(n, LIMIT + 1.0)
    pm.Normal("beyond", mu, sigma, shape=n, transform=Interval(LIMIT, None), initval=start)
    pm.Normal("y", mu, sigma, observed=below)


@person
def imputed_below_and_above(rng):
    y = rng.normal(0.4, 1.2, 150)
    low, high = int((y < -LIMIT).sum()), int((y > LIMIT).sum())
    mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 2)
    for name, n, limits, end in (
        ("below", low, Interval(None, -LIMIT), -LIMIT - 1),
        ("above", high, Interval(LIMIT, None), LIMIT + 1),
    ):
        pm.Normal(name, mu, sigma, shape=n, transform=limits, initval=np.full(n, end))
    pm.Normal("y", mu, sigma, observed=y[abs(y) <= LIMIT])


@person(quick=True)
def shift_under_log(rng):
    """A shift of reaction times, positive by a transform of the user's."""
    y = 0.3 + rng.lognormal(-1.0, 0.5, 120)
    shift = pm.Normal("shift", 0.2, 0.2, transform=Interval(0.0, float(y.min())), initval=0.1)
    scale = pm.Normal("scale", 0.5, 0.5, transform=log, initval=0.5)
    base = pm.LogNormal.dist(pm.Normal("mu", -1, 1), scale)
    pm.Potential("y", pm.logp(base, y - shift).sum())


# ---- Crashes of the numba writer, and of what is no plain random variable ------------------


@person
def hsgp(rng):
    x = np.linspace(0, 10, 100)[:, None]
    cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.Matern52(1, ls=pm.InverseGamma("ls", 3, 4))
    f = pm.gp.HSGP(m=[20], c=1.5, cov_func=cov).prior("f", X=x)
    pm.Normal("y", f, pm.HalfNormal("sigma"), observed=np.sin(x[:, 0]) + 0.3 * rng.normal(size=100))


@person
def hsgp_in_two_dimensions_counts(rng):
    x = rng.uniform(-1, 1, (80, 2))
    cov = pm.Exponential("eta", 1) ** 2 * pm.gp.cov.ExpQuad(
        2, ls=pm.LogNormal("ls", 0, 0.5, shape=2)
    )
    f = pm.gp.HSGP(m=[5, 5], L=[1.5, 1.5], cov_func=cov).prior("f", X=x)
    alpha = pm.Exponential("alpha", 1)
    pm.NegativeBinomial("y", mu=pt.exp(f), alpha=alpha, observed=rng.poisson(np.exp(x[:, 0])))


def slopes(rng):
    cafes, visits = 20, 10
    cafe = np.repeat(np.arange(cafes), visits)
    afternoon = np.tile([0.0, 1.0], cafes * visits // 2)
    effects = rng.multivariate_normal([3.5, -1.0], [[1.0, -0.35], [-0.35, 0.25]], size=cafes)
    wait = effects[cafe, 0] + effects[cafe, 1] * afternoon + 0.5 * rng.normal(size=len(cafe))
    sd = pm.Exponential.dist(1.0, shape=2)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
    mean = pm.Normal("mean", [3.0, 0.0], 2.0, shape=2)
    return cafe, afternoon, wait, chol, mean


@person
def varying_slopes_centred(rng):
    cafe, afternoon, wait, chol, mean = slopes(rng)
    effect = pm.MvNormal("effect", mean, chol=chol, shape=(20, 2))
    mu = effect[cafe, 0] + effect[cafe, 1] * afternoon
    pm.Normal("wait", mu, pm.Exponential("sigma", 1), observed=wait)


@person
def varying_slopes_non_centred(rng):
    cafe, afternoon, wait, chol, mean = slopes(rng)
    raw = pm.Normal("raw", shape=(2, 20))
    effect = pm.Deterministic("effect", mean[:, None] + chol @ raw)
    mu = effect[0, cafe] + effect[1, cafe] * afternoon
    pm.Normal("wait", mu, pm.Exponential("sigma", 1), observed=wait)


@person
def factor_model(rng):
    n, k, d = 200, 3, 10
    truth = rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.5 * rng.normal(size=(n, d))
    free = pm.Normal("free", shape=k * d - k * (k + 1) // 2)
    diagonal = pm.HalfNormal("diagonal", 2, shape=k)
    loadings = pt.zeros((d, k))
    rows, columns = np.tril_indices(d, -1, k)
    loadings = pt.set_subtensor(loadings[rows, columns], free)
    loadings = pt.set_subtensor(loadings[np.arange(k), np.arange(k)], diagonal)
    scores = pm.Normal("scores", shape=(n, k))
    pm.Normal("y", scores @ loadings.T, pm.HalfNormal("psi", shape=d), observed=truth)


@person
def factor_model_marginal(rng):
    n, k, d = 200, 2, 8
    y = rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.5 * rng.normal(size=(n, d))
    rows, columns = np.tril_indices(d, 0, k)
    loadings = pt.set_subtensor(pt.zeros((d, k))[rows, columns], pm.Normal("w", shape=len(rows)))
    psi = pm.HalfNormal("psi", shape=d)
    pm.MvNormal("y", np.zeros(d), cov=loadings @ loadings.T + pt.diag(psi**2), observed=y)


@person
def copula(rng):
    """Exponential and Gumbel marginals, joined by a Gaussian copula."""
    z = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=200)
    u = 0.5 * (1 + erf(z / np.sqrt(2)))
    a, b = -np.log1p(-u[:, 0]) / 0.7, 1.0 - 0.5 * np.log(-np.log(u[:, 1]))
    rate, loc, scale = pm.HalfNormal("rate"), pm.Normal("loc"), pm.HalfNormal("scale")
    first, second = pm.Exponential.dist(rate), pm.Gumbel.dist(loc, scale)
    pm.Potential("first", pm.logp(first, a).sum())
    pm.Potential("second", pm.logp(second, b).sum())
    uniform = pt.stack([pt.exp(pm.logcdf(first, a)), pt.exp(pm.logcdf(second, b))], axis=1)
    normal = np.sqrt(2.0) * pt.erfinv(2 * pt.clip(uniform, 1e-9, 1 - 1e-9) - 1)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
    joint = pm.logp(pm.MvNormal.dist(np.zeros(2), chol=chol), normal)
    pm.Potential("copula", (joint + 0.5 * (normal**2).sum(axis=1)).sum())


@person
def copula_of_given_scores(rng):
    """The second of two stages: scores as data, a correlation matrix by LKJ."""
    z = rng.multivariate_normal([0, 0, 0], np.eye(3) * 0.5 + 0.5, size=150)
    sd = pm.Exponential.dist(1.0, shape=3)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=sd)
    pm.MvNormal("z", pm.Normal("mu", shape=3), chol=chol, observed=z)


@person
def correlated_random_walk(rng):
    n, d = 40, 3
    chol, _, _ = pm.LKJCholeskyCov("chol", n=d, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=d))
    z = pm.Normal("z", shape=(n, d))
    level = pm.Deterministic("level", pt.cumsum(z @ chol.T, axis=0))
    y = np.cumsum(0.3 * rng.normal(size=(n, d)), axis=0) + 0.2 * rng.normal(size=(n, d))
    pm.Normal("y", level, pm.HalfNormal("sigma"), observed=y)


@person
def correlated_regression_by_random_walk(rng):
    """Intercept and slope that drift together, in blocks of time."""
    n, blocks = 200, 20
    block, x = np.repeat(np.arange(blocks), n // blocks), rng.normal(size=n)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(3.0, shape=2))
    walk = pm.GaussianRandomWalk("z", sigma=1.0, init_dist=pm.Normal.dist(), shape=(2, blocks))
    path = pt.cumsum(pm.Normal("steps", shape=(blocks, 2)) @ chol.T, axis=0)
    mu = path[block, 0] + walk[0, block] + (path[block, 1] + walk[1, block]) * x
    pm.Normal("y", mu, pm.HalfNormal("sigma"), observed=0.5 * x + 0.3 * rng.normal(size=n))


@person
def marginalised_mixture(rng):
    """pymc-extras sums a discrete variable out; its factor is no plain random variable."""
    extras = pytest.importorskip("pymc_extras")
    y = np.concatenate([rng.normal(-1, 0.5, 30), rng.normal(2, 0.5, 20)])
    mu = pm.Normal("mu", [-1.0, 1.0], 1.0, shape=2)
    which = pm.Bernoulli("which", pm.Beta("p", 2, 2), shape=50)
    pm.Normal("y", mu[which], pm.HalfNormal("sigma"), observed=y)
    return extras.marginalize(pm.modelcontext(None), ["which"])


@person
def marginalised_changepoint(rng):
    extras = pytest.importorskip("pymc_extras")
    y = np.concatenate([rng.poisson(3, 40), rng.poisson(1, 60)])
    k = pm.DiscreteUniform("k", 0, 99)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    pm.Poisson("y", pt.switch(np.arange(100) < k, early, late), observed=y)
    return extras.marginalize(pm.modelcontext(None), ["k"])


# ---- Too slow to wait for ------------------------------------------------------------------


@person
def log_gaussian_cox_process(rng):
    x = np.linspace(0, 100, 127)[:, None]
    counts = rng.poisson(np.exp(1.0 + np.sin(x[:, 0] / 15)))
    rho, sd = pm.Gamma("rho", 5, 0.4), pm.HalfNormal("sd")
    gp = pm.gp.Latent(cov_func=sd**2 * pm.gp.cov.Matern52(1, ls=rho))
    pm.Poisson("y", pt.exp(1.0 + gp.prior("f", X=x)), observed=counts)


@person
def imputation_of_a_matrix(rng):
    """Three variables, jointly normal, 160 of 900 values missing."""
    y = rng.multivariate_normal([0, 1, 2], np.eye(3) * 0.6 + 0.4, size=300)
    rows = rng.choice(300, 160, replace=False)
    y[rows, rng.integers(0, 3, 160)] = np.nan
    sd = pm.Exponential.dist(1.0, shape=3)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=sd)
    mu = pm.Normal("mu", 0, 2, shape=3)
    missing = pm.Normal("missing", 1, 3, shape=160)
    whole = pt.set_subtensor(pt.as_tensor(np.nan_to_num(y))[np.isnan(y)], missing)
    pm.Potential("y", pm.logp(pm.MvNormal.dist(mu, chol=chol), whole).sum())


@person
def structural_equations(rng):
    """Confirmatory factor analysis of 283 answers to 15 questions, five latent variables."""
    n, k, items = 283, 5, 3
    factors = rng.normal(size=(n, k)) + 0.6 * rng.normal(size=(n, 1))
    y = np.repeat(factors, items, axis=1) * 0.8 + 0.5 * rng.normal(size=(n, k * items))
    chol, _, _ = pm.LKJCholeskyCov("chol", n=k, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=k))
    latent = pm.MvNormal("latent", np.zeros(k), chol=chol, shape=(n, k))
    loading = pm.Normal("loading", 1.0, 0.5, shape=k * (items - 1))
    ones = pt.concatenate([pt.ones((k, 1)), loading.reshape((k, items - 1))], axis=1)
    mean = (latent[:, :, None] * ones[None]).reshape((n, k * items))
    mean = mean + pm.Normal("intercept", shape=k * items)
    pm.Normal("y", mean, pm.InverseGamma("psi", 5, 5, shape=k * items), observed=y)


def sinh_arcsinh_logp(value, mu, sigma, epsilon, delta):
    """z = sinh(δ arcsinh((x − μ)/σ) − ε) is standard normal."""
    x = (value - mu) / sigma
    inner = delta * pt.arcsinh(x) - epsilon
    jacobian = pt.log(delta) + pt.log(pt.cosh(inner)) - 0.5 * pt.log1p(x**2) - pt.log(sigma)
    return jacobian - 0.5 * pt.sinh(inner) ** 2 - 0.5 * np.log(2 * np.pi)


@person
def custom_regression_of_four_parameters(rng):
    """Location, scale, skewness and tails, each with its own regression."""
    n = 150
    x = np.linspace(-1, 1, n)
    a, b = pm.Normal("a", 0, 1, shape=4), pm.Normal("b", 0, 0.5, shape=4)
    eta = a[:, None] + b[:, None] * x
    y = 0.5 * x + np.exp(0.3 * x) * rng.normal(size=n)
    parameters = eta[0], pt.exp(eta[1]), eta[2], pt.exp(eta[3])
    pm.CustomDist("y", *parameters, logp=sinh_arcsinh_logp, observed=y)


@person
def gp_marginal_with_uneven_noise(rng):
    n = 60
    x = np.linspace(0, 1, n)
    noise = pt.exp(pm.Normal("log_noise", -1, 1) + pm.Normal("trend") * x)
    ls, eta = pm.InverseGamma("ls", 5, 1), pm.Gamma("eta", 2, 1)
    cov = eta**2 * pm.gp.cov.ExpQuad(1, ls=ls)
    gp = pm.gp.Marginal(cov_func=cov)
    y = np.sin(6 * x) + (0.1 + 0.4 * x) * rng.normal(size=n)
    gp.marginal_likelihood("y", X=x[:, None], y=y, sigma=noise)


@person
def item_response(rng):
    """Two-parameter logistic: 60 people, 20 questions."""
    people, items = 60, 20
    ability = pm.Normal("ability", shape=people)
    discrimination = pm.LogNormal("discrimination", 0, 0.5, shape=items)
    difficulty = pm.Normal("difficulty", pm.Normal("mean"), pm.HalfNormal("sd"), shape=items)
    eta = discrimination * (ability[:, None] - difficulty)
    y = rng.random((people, items)) < 1 / (1 + np.exp(-rng.normal(size=(people, 1))))
    pm.Bernoulli("y", logit_p=eta, observed=y.astype(int))


@person
def gp_latent_50(rng):
    x = np.linspace(0, 10, 50)[:, None]
    ls, eta = pm.Gamma("ls", 2, 1), pm.HalfNormal("eta", 2)
    gp = pm.gp.Latent(cov_func=eta**2 * pm.gp.cov.Matern52(1, ls))
    f = gp.prior("f", X=x)
    y = np.sin(x[:, 0]) + 0.3 * rng.standard_t(4, 50)
    nu = 1 + pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", mu=f, sigma=pm.HalfNormal("sigma"), nu=nu, observed=y)


@person
def gp_latent_150(rng):
    x = np.linspace(0, 10, 150)[:, None]
    gp = pm.gp.Latent(
        cov_func=pm.HalfNormal("eta") ** 2 * pm.gp.cov.ExpQuad(1, pm.Gamma("ls", 2, 1))
    )
    y = rng.random(150) < 1 / (1 + np.exp(-2 * np.sin(x[:, 0])))
    pm.Bernoulli("y", logit_p=gp.prior("f", X=x), observed=y.astype(int))


@person
def gp_marginal_500(rng):
    x = np.linspace(0, 10, 500)[:, None]
    gp = pm.gp.Marginal(
        cov_func=pm.HalfNormal("eta") ** 2 * pm.gp.cov.ExpQuad(1, pm.Gamma("ls", 2, 1))
    )
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=500)
    gp.marginal_likelihood("y", X=x, y=y, sigma=pm.HalfNormal("sigma"))


# ---- Potentials and truncated priors, also in the unstable mode ----------------------------


@person(quick=True)
def only_a_potential(rng):
    x = pm.Flat("x", shape=2)
    pm.Potential("logp", -0.5 * (x**2).sum() - 0.3 * x[0] * x[1])


@person(quick=True)
def quartic_potential(rng):
    x = pm.Normal("x", 0, 2)
    pm.Potential("well", -((x**2 - 1) ** 2))


@person(quick=True)
def truncated_prior(rng):
    mu = pm.Truncated("mu", pm.Normal.dist(0, 1), lower=0.0)
    nu = pm.Truncated("nu", pm.Gamma.dist(2, 0.1), lower=1.0, upper=50.0)
    pm.StudentT("y", nu=nu, mu=mu, sigma=1, observed=rng.normal(0.5, 1, 40))


# ---- Probabilities that underflow, supports that depend on parameters ----------------------


@person(quick=True)
def separated_classes(rng):
    """A regressor in thousands: sigmoid is 0 or 1 to the last digit in most rows."""
    x = np.concatenate([rng.normal(-800, 50, 30), rng.normal(900, 60, 30)])
    p = pm.math.sigmoid(pm.Normal("a", 0, 5) + pm.Normal("b", 0, 1, initval=0.5) * x)
    pm.Bernoulli("y", p, observed=(x > 0).astype(int))


@person
def probit_that_underflows(rng):
    x = np.linspace(-60, 60, 41)
    p = pm.math.invprobit(pm.Normal("a", 0, 3) + pm.Normal("b", 1, 1) * x)
    pm.Binomial("y", n=5, p=p, observed=5 * (x > 0))


@person(quick=True)
def softmax_that_underflows(rng):
    x = rng.normal(size=(50, 4)) * [1, 30, 300, 1000]
    start = rng.normal(size=(4, 3))
    b = pm.Normal("b", 0, 1, shape=(4, 3), initval=start)
    y = np.argmax(x @ start, axis=1)
    pm.Categorical("y", p=pm.math.softmax(x @ b, axis=1), observed=y)


@person
def mixture_far_apart(rng):
    """Components whose densities at the data are zero to the last digit."""
    y = np.concatenate([rng.normal(-500, 1, 20), rng.normal(500, 1, 20)])
    mu = pm.Normal("mu", 0, 500, shape=2, transform=ordered, initval=[-400.0, 400.0])
    pm.NormalMixture("y", pm.Dirichlet("w", [2.0, 2.0]), mu, pm.HalfNormal("s", 5), observed=y)


@person(quick=True)
def uniform_up_to_theta(rng):
    theta = pm.Pareto("theta", 1.5, 1.0, initval=12.0)
    pm.Uniform("y", 0, theta, observed=rng.uniform(0, 10, 30))


@person(quick=True)
def pareto_with_random_least(rng):
    m = pm.HalfNormal("m", 2, initval=0.5)
    pm.Pareto("y", alpha=pm.LogNormal("alpha"), m=m, observed=1.0 + rng.pareto(3, 40))


@person
def shifted_wald(rng):
    y = 0.25 + rng.wald(0.4, 1.5, 100)
    alpha = pm.HalfNormal("alpha", 0.3, initval=0.1)
    pm.Wald("y", mu=pm.HalfNormal("mu"), lam=pm.HalfNormal("lam", 3), alpha=alpha, observed=y)


@person
def triangular_with_random_ends(rng):
    lower = pm.Normal("lower", -2, 1, initval=-3.0)
    upper = lower + pm.HalfNormal("width", 5, initval=8.0)
    c = lower + pm.Beta("share", 2, 2) * (upper - lower)
    pm.Triangular("y", lower=lower, c=c, upper=upper, observed=rng.triangular(-2, 0, 3, 50))


@person(quick=True)
def truncated_likelihood_with_random_end(rng):
    upper = pm.HalfNormal("upper", 5, initval=4.0)
    mu = pm.Normal("mu")
    y = rng.normal(0.5, 1, 200)
    pm.TruncatedNormal("y", mu, 1.0, lower=-1.0, upper=upper, observed=y[abs(y) < 1.0])


# ---- Integers between parameters and likelihood --------------------------------------------


@person(quick=True)
def changepoint_by_comparison(rng):
    t = np.arange(80.0)
    tau = pm.Uniform("tau", 0, 80)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    rate = pt.switch(pt.lt(t, tau), early, late)
    pm.Poisson("y", rate, observed=np.r_[rng.poisson(4, 35), rng.poisson(1, 45)])


@person(quick=True)
def floor_of_a_parameter(rng):
    x = pm.Uniform("x", 0, 5)
    level = pm.Normal("level", 0, 1, shape=5)
    pm.Normal("y", level[pt.floor(x).astype("int64")] + 0.1 * x, 0.5, observed=rng.normal(size=6))


@person(quick=True)
def index_by_argmax(rng):
    # Not the default, a tie: the information jumps there, and hardly any step is accepted.
    score = pm.Normal("score", shape=4, initval=[0.1, 0.4, 0.2, 0.3])
    level = pm.Normal("level", shape=4)
    pm.Normal("y", level[pt.argmax(score)], 0.5, observed=rng.normal(size=6))
    pm.Normal("best", pt.max(score), 0.5, observed=1.0)


@person(quick=True)
def counts_of_parameters(rng):
    """A number of parameters above zero, as a float, and a rounded one."""
    x = pm.Normal("x", shape=6)
    above = pt.sum(pt.gt(x, 0), axis=0)
    pm.Normal("y", 0.3 * above + pt.round(x[0]) + x.sum(), 1.0, observed=rng.normal(size=5))


# ---- Everyday models -----------------------------------------------------------------------


@person(quick=True)
def ordered_logit(rng):
    x = rng.normal(size=(150, 2))
    cutpoints = pm.Normal("cutpoints", 0, 2, shape=4, transform=ordered, initval=np.arange(4) - 1.5)
    eta = x @ pm.Normal("beta", 0, 1, shape=2)
    y = np.digitize(x @ [1.0, -0.5] + rng.logistic(size=150), [-2, -0.5, 0.7, 2])
    pm.OrderedLogistic("y", eta, cutpoints, observed=y, compute_p=False)


@person(quick=True)
def negative_binomial_regression(rng):
    x = rng.normal(size=(600, 4))
    mu = pt.exp(pm.Normal("a", 0, 5) + x @ pm.Normal("b", 0, 2, shape=4))
    y = rng.negative_binomial(2, 2 / (2 + np.exp(3 + x @ [0.5, -0.3, 0.2, 0.0])))
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 0.5), observed=y)


@person(quick=True)
def zero_inflated_poisson_regression(rng):
    x = rng.normal(size=120)
    mu = pt.exp(pm.Normal("a") + pm.Normal("b") * x)
    psi = pm.math.sigmoid(pm.Normal("c") + pm.Normal("d") * x)
    y = rng.poisson(np.exp(0.5 + 0.4 * x)) * (rng.random(120) < 0.6)
    pm.ZeroInflatedPoisson("y", psi, mu, observed=y)


def lattice(side):
    """Neighbours on a square."""
    at = np.arange(side**2).reshape(side, side)
    W = np.zeros((side**2, side**2), dtype=int)
    for a, b in ((at[1:], at[:-1]), (at[:, 1:], at[:, :-1])):
        W[a.ravel(), b.ravel()] = W[b.ravel(), a.ravel()] = 1
    return W


@person
def conditional_autoregression(rng):
    W, expected = lattice(7), rng.gamma(5, 1, 49)
    x = rng.normal(size=49)
    alpha, tau = pm.Beta("alpha", 1, 1), pm.Gamma("tau", 2, 2)
    phi = pm.CAR("phi", mu=np.zeros(49), W=W, alpha=alpha, tau=tau)
    theta = pm.Normal("theta", 0, pm.HalfNormal("sd"), shape=49)
    mu = pt.exp(pt.log(expected) + pm.Normal("b0") + pm.Normal("b1") * x + phi + theta)
    pm.Poisson("y", mu, observed=rng.poisson(expected))


@person
def intrinsic_autoregression(rng):
    phi = pm.ICAR("phi", W=lattice(5), sigma=pm.HalfNormal("sd"))
    pm.Poisson("y", pt.exp(pm.Normal("a") + phi), observed=rng.poisson(2, 25))


@person(quick=True)
def autoregression_of_order_two(rng):
    y = np.zeros(200)
    for t in range(2, 200):
        y[t] = 0.5 + 0.6 * y[t - 1] - 0.3 * y[t - 2] + rng.normal()
    rho = pm.Normal("rho", 0, 0.5, shape=3)
    start = pm.Normal.dist(0, 5, shape=2)
    sigma = pm.HalfNormal("sigma")
    pm.AR("y", rho, sigma=sigma, constant=True, init_dist=start, observed=y)


@person
def autoregression_latent(rng):
    start = pm.Normal.dist(0, 1, shape=2)
    rho, sigma = pm.Normal("rho", 0, 0.3, shape=2), pm.HalfNormal("sigma")
    ar = pm.AR("ar", rho, sigma=sigma, init_dist=start, steps=48)
    pm.Poisson("y", pt.exp(ar), observed=rng.poisson(1.5, 50))


@person(quick=True)
def best(rng):
    """Kruschke's comparison of two groups."""
    a, b = 101 + 2 * rng.standard_t(5, 47), 100 + 2 * rng.standard_t(5, 42)
    mu = pm.Normal("mu", 100, 6, shape=2)
    sigma = pm.Uniform("sigma", 1, 10, shape=2)
    nu = 1 + pm.Exponential("nu_minus_one", 1 / 29)
    pm.StudentT("a", nu=nu, mu=mu[0], sigma=sigma[0], observed=a)
    pm.StudentT("b", nu=nu, mu=mu[1], sigma=sigma[1], observed=b)


@person
def horseshoe(rng):
    """Piironen and Vehtari's regularised one."""
    n, d = 60, 25
    x = rng.normal(size=(n, d))
    y = x[:, :3] @ [2.0, -1.5, 1.0] + rng.normal(size=n)
    sigma = pm.HalfNormal("sigma")
    tau = pm.HalfStudentT("tau", nu=2, sigma=3 / (d - 3) * sigma / np.sqrt(n))
    local = pm.HalfStudentT("local", nu=5, shape=d)
    slab = pm.InverseGamma("slab", 1, 1)
    shrunk = local * pt.sqrt(slab / (slab + tau**2 * local**2))
    beta = pm.Normal("z", shape=d) * tau * shrunk
    pm.Normal("y", x @ beta, sigma, observed=y)


@person(quick=True)
def horseshoe_by_half_cauchy(rng):
    x = rng.normal(size=(40, 8))
    local, tau = pm.HalfCauchy("local", 1, shape=8), pm.HalfCauchy("tau", 1)
    beta = pm.Normal("beta", 0, local * tau, shape=8)
    pm.Normal("y", x @ beta, pm.HalfNormal("sigma"), observed=x[:, 0] + rng.normal(size=40))


@person
def dirichlet_multinomial(rng):
    """Explicit: a Dirichlet for every forest, and Multinomial counts."""
    n, k = 10, 5
    frac, conc = pm.Dirichlet("frac", np.ones(k)), pm.LogNormal("conc", 1, 1)
    p = pm.Dirichlet("p", frac * conc, shape=(n, k))
    counts = rng.multinomial(50, rng.dirichlet(6 * np.full(k, 0.2), n))
    pm.Multinomial("counts", n=50, p=p, observed=counts)


@person(quick=True)
def dirichlet_multinomial_marginal(rng):
    frac, conc = pm.Dirichlet("frac", np.ones(5)), pm.LogNormal("conc", 1, 1)
    counts = rng.multinomial(50, rng.dirichlet(6 * np.full(5, 0.2), 10))
    pm.DirichletMultinomial("counts", n=50, a=frac * conc, observed=counts)


def weibull_times(rng):
    x = rng.integers(0, 2, 120)
    alpha = pm.HalfNormal("alpha", 2)
    beta = pt.exp(pm.Normal("a", 0, 2) + pm.Normal("b") * x)
    time = np.exp(0.8 + 0.4 * x) * rng.weibull(1.4, 120)
    return alpha, beta, time


@person(quick=True)
def weibull_survival_by_potential(rng):
    alpha, beta, time = weibull_times(rng)
    ends = time > 3.0
    pm.Weibull("y", alpha, beta[~ends], observed=time[~ends])
    pm.Potential("survived", -((3.0 / beta[ends]) ** alpha).sum())


@person
def weibull_survival_censored(rng):
    alpha, beta, time = weibull_times(rng)
    limit = rng.uniform(2, 5, 120)
    base = pm.Weibull.dist(alpha, beta)
    pm.Censored("y", base, lower=None, upper=limit, observed=np.minimum(time, limit))


@person
def tobit(rng):
    x = rng.normal(size=150)
    base = pm.Normal.dist(pm.Normal("a") + pm.Normal("b") * x, pm.HalfNormal("sigma"))
    y = np.clip(0.5 * x + rng.normal(size=150), -1, 1)
    pm.Censored("y", base, lower=-1.0, upper=1.0, observed=y)


@person
def mixture_with_ordered_means(rng):
    y = np.r_[rng.normal(-2, 0.7, 60), rng.normal(0, 0.5, 80), rng.normal(2.5, 1, 60)]
    mu = pm.Normal("mu", 0, 5, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
    w, sigma = pm.Dirichlet("w", np.ones(3)), pm.HalfNormal("sigma", shape=3)
    pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=y)


@person
def missing_outcomes_and_regressors(rng):
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    hidden = np.ma.masked_array(x, mask=rng.random((60, 2)) < 0.1)
    mu, sd = pm.Normal("mu", shape=2), pm.HalfNormal("sd", shape=2)
    regressors = pm.Normal("x", mu, sd, observed=hidden)
    mean = pm.Normal("a") + regressors @ pm.Normal("b", shape=2)
    pm.Normal("y", mean, pm.HalfNormal("s"), observed=np.ma.masked_array(y, rng.random(60) < 0.1))


@person
def missing_counts_of_ages(rng):
    """Missing values of a positive variable, imputed under its default transform."""
    age = np.ma.masked_array(rng.gamma(4, 8, 80), mask=rng.random(80) < 0.15)
    ages = pm.Gamma(
        "age", alpha=pm.Exponential("k", 0.2), beta=pm.Exponential("r", 1), observed=age
    )
    eta = pm.Normal("a") + pm.Normal("b", 0, 0.1) * (ages - 32)
    pm.Bernoulli("y", logit_p=eta, observed=rng.integers(0, 2, 80))


@person(quick=True, coords={"county": range(20), "obs": range(200)})
def radon(rng):
    """Varying intercepts with a predictor for each county, by dims and data containers."""
    county = pm.Data("county_of", rng.integers(0, 20, 200), dims="obs")
    floor = pm.Data("floor", rng.integers(0, 2, 200).astype(float), dims="obs")
    level = pm.Normal("g0") + pm.Normal("g1") * rng.normal(size=20)
    effect = pm.Normal("effect", level, pm.Exponential("tau", 1), dims="county")
    mu = effect[county] + pm.Normal("b") * floor
    pm.Normal("y", mu, pm.Exponential("sigma", 1), observed=rng.normal(1, 1, 200), dims="obs")


@person(quick=True)
def eight_schools(rng):
    sd = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    tau = pm.HalfCauchy("tau", 5)
    theta = pm.Normal("mu", 0, 5) + tau * pm.Normal("raw", shape=8)
    pm.Normal("y", theta, sd, observed=[28.0, 8, -3, 7, -1, 1, 18, 12])


@person
def stochastic_volatility(rng):
    step = pm.Exponential("step", 10)
    start = pm.Normal.dist(0, 1)
    volatility = pm.GaussianRandomWalk("volatility", sigma=step, init_dist=start, steps=99)
    nu = pm.Exponential("nu", 0.1)
    returns = 0.02 * rng.standard_t(5, 100)
    pm.StudentT("returns", nu=nu, mu=0, sigma=pt.exp(volatility - 4), observed=returns)
