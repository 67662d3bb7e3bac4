"""Information of multivariate and time-series distributions against independent sources.

Scores are central differences of log-densities written here in NumPy (and compared with
PyMC's), and their mean outer product is taken over draws that do not come from PyMC either.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors
from scipy import stats
from scipy.special import expit, gammaln, log_softmax, logit, softmax

from pymc_pmala.information import factor_information
from pymc_pmala.metric import FisherMetric
from pymc_pmala.model.target import make_target

PY = Mode(linker="py", optimizer="fast_compile")
DRAWS = 100_000
RING = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
PYMC_6 = int(pm.__version__.split(".")[0]) >= 6


class Case(NamedTuple):
    """A distribution with parameters θ, and what is known of it from elsewhere.

    ``sample`` draws many values in coordinates φ, in which ``logp`` is the log-density.
    ``phi`` goes from PyMC's unconstrained value to φ.
    """

    build: Callable
    theta: np.ndarray
    sample: Callable
    logp: Callable
    phi: Callable = lambda u, theta: u
    natural: Callable = lambda phi, theta: phi


def compiled(inputs, outputs):
    return pytensor.function(inputs, outputs, mode=PY, on_unused_input="ignore")


def ravel(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_target(model)


def metric_of(raveled):
    forms = [form for factor in raveled.factors for form in factor_information(factor)]
    return FisherMetric(raveled.x, forms)


def fisher(model):
    """The metric's matrix of a model, as a function of the raveled point."""
    raveled = ravel(model)
    return compiled([raveled.x], metric_of(raveled).matrix())


def model_of(build, theta, observed=None):
    """θ is flat, so that the metric is the information of one factor only."""
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.register_rv(build(pm.Flat("theta", shape=len(theta))), "v", observed=observed)
    return model


def derivative(function, x, step=1e-5):
    """Central differences along each element of x, on the last axis."""
    return np.stack(
        [
            (function(x + step * e) - function(x - step * e)) / (2 * step)
            for e in np.eye(x.size).reshape(x.size, *x.shape)
        ],
        axis=-1,
    )


def simulated_scores(case, phi, observed):
    in_theta = derivative(lambda t: case.logp(phi, t), case.theta)
    if observed:
        return in_theta
    zero = np.zeros(phi.shape[1:])
    in_phi = derivative(lambda d: case.logp(phi + d, case.theta), zero)
    return np.concatenate([in_theta, in_phi], axis=1)


def assert_mean_outer_product(scores, expected, precision=0.02):
    """Whether E[s sᵀ] is the expected matrix, entry by entry, by a z-test with power."""
    mean = scores.T @ scores / len(scores)
    error = np.sqrt(((scores**2).T @ scores**2 / len(scores) - mean**2) / len(scores))
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(error <= precision * size + 1e-9)
    z = (mean - expected) / np.maximum(error, 1e-8 * size + 1e-8)
    assert np.abs(z).max() < 5, f"\n{mean}\n{expected}\n{z}"


def assert_positive_semi_definite(matrix):
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.abs(matrix).max()


def chol_of(t, xp=pt):
    """A lower-triangular 3 × 3 matrix from 6 numbers."""
    entries = [[xp.exp(t[0]), 0.0, 0.0], [t[1], xp.exp(t[2]), 0.0], [t[3], t[4], xp.exp(t[5])]]
    return np.array(entries) if xp is np else pt.stacklists(entries)


def cov_of(t, xp=pt):
    return chol_of(t, xp).dot(chol_of(t, xp).T)


def normal_logp(delta, cov):
    whitened = np.linalg.solve(np.linalg.cholesky(cov), np.moveaxis(delta, -1, 0))
    return -0.5 * (whitened**2).sum(axis=0) - 0.5 * np.linalg.slogdet(cov)[1]


def student_logp(delta, nu, cov):
    k = len(cov)
    squares = -2.0 * (normal_logp(delta, cov) + 0.5 * np.linalg.slogdet(cov)[1])
    constant = gammaln((nu + k) / 2) - gammaln(nu / 2) - 0.5 * k * np.log(nu)
    return constant - 0.5 * np.linalg.slogdet(cov)[1] - (nu + k) / 2 * np.log1p(squares / nu)


def random(seed=3):
    return np.random.default_rng(seed)


def gaussian(build, theta, mean, cov):
    """A case that is a multivariate normal with this mean and covariance."""
    return Case(
        build,
        np.asarray(theta),
        lambda t: random().multivariate_normal(mean(t), cov(t), size=DRAWS),
        lambda v, t: normal_logp(v - mean(t), cov(t)),
    )


def student(build, theta, nu, loc, cov):
    def sample(t):
        normal = random().multivariate_normal(np.zeros(3), cov(t), size=DRAWS)
        return loc(t) + normal / np.sqrt(random(4).chisquare(nu(t), size=(DRAWS, 1)) / nu(t))

    return Case(
        build, np.asarray(theta), sample, lambda v, t: student_logp(v - loc(t), nu(t), cov(t))
    )


def kronecker_cov(t):
    return np.kron([[1.0, 0.3], [0.3, 2.0]], cov_of(t[3:9], np)) + np.exp(2 * t[9]) * np.eye(6)


def walk_cov(t):
    """Covariance of a walk of 5 steps with sds e^t₀ (first) and e^t₁ (others)."""
    lower = np.tri(6)
    return lower @ np.diag(np.exp(2 * np.r_[t[0], np.full(5, t[1])])) @ lower.T


def dirichlet_logp(u, t):
    a = np.exp(t)
    logits = np.concatenate([u, -u.sum(axis=-1, keepdims=True)], axis=-1)
    return log_softmax(logits, axis=-1) @ a + gammaln(a.sum()) - gammaln(a).sum()


def dirichlet_sample(t):
    log_p = np.log(random().dirichlet(np.exp(t), size=DRAWS))
    return (log_p - log_p.mean(axis=-1, keepdims=True))[:, :-1]


def simplex(u, theta=None):
    return softmax(np.concatenate([u, -u.sum(axis=-1, keepdims=True)], axis=-1), axis=-1)


def stick_fractions(u, theta):
    p = simplex(u)
    left = np.cumsum(p[::-1])[::-1]
    return logit(p[:-1] / left[:-1])


def stick_logp(y, t):
    alpha = np.exp(t[0])
    return (np.log(alpha) + np.log(expit(y)) + alpha * np.log(expit(-y))).sum(axis=-1)


def correlation_coordinates(cov):
    """Log standard deviations, and Fisher's z of r₁₂, r₁₃ and r₂₃ given 1."""
    sd = np.sqrt(np.diag(cov))
    r = cov / np.outer(sd, sd)
    partial = (r[1, 2] - r[0, 1] * r[0, 2]) / np.sqrt((1 - r[0, 1] ** 2) * (1 - r[0, 2] ** 2))
    return np.r_[np.log(sd), np.arctanh([r[0, 1], r[0, 2], partial])]


LKJ_SHAPES = 1.7 + 0.5 * np.array([1, 1, 0])  # η + (n − 2 − j)/2 for n = 3


def lkj_cov_phi(u, theta):
    return correlation_coordinates(cov_of(u, np))


def lkj_cov_logp(phi, t):
    log_sd, z = phi[..., :3], phi[..., 3:]
    log_rate = t[0]
    sd = (log_rate + log_sd - np.exp(log_rate + log_sd)).sum(axis=-1)
    return sd + (LKJ_SHAPES * np.log1p(-(np.tanh(z) ** 2))).sum(axis=-1)


def lkj_cov_sample(t):
    rng = random()
    z = np.arctanh(2 * rng.beta(LKJ_SHAPES, LKJ_SHAPES, size=(DRAWS, 3)) - 1)
    return np.concatenate([np.log(rng.exponential(np.exp(-t[0]), size=(DRAWS, 3))), z], axis=1)


def matrix_normal_cov(t):
    row = np.array([[np.exp(t[6]), 0.0], [t[7], np.exp(t[8])]])
    return np.kron(row @ row.T, cov_of(t[9:], np))


def matrix_normal(t):
    row = pt.stacklists([[pt.exp(t[6]), 0.0], [t[7], pt.exp(t[8])]])
    return pm.MatrixNormal.dist(t[:6].reshape((2, 3)), rowchol=row, colchol=chol_of(t[9:]))


def matrix_normal_case():
    theta = np.r_[random(5).normal(size=6), 0.1, 0.4, -0.3, CHOL]
    case = gaussian(matrix_normal, theta, lambda t: t[:6], matrix_normal_cov)
    return case._replace(
        sample=lambda t: case.sample(t).reshape(-1, 2, 3),
        logp=lambda v, t: case.logp(v.reshape(*v.shape[:-2], 6), t),
    )


MU, CHOL = random(20).normal(size=3), random(21).normal(size=6) * 0.6

CASES = {
    "mv_normal_cov": gaussian(
        lambda t: pm.MvNormal.dist(t[:3], cov=cov_of(t[3:])),
        [*MU, *CHOL],
        lambda t: t[:3],
        lambda t: cov_of(t[3:], np),
    ),
    "mv_normal_chol": gaussian(
        lambda t: pm.MvNormal.dist(t[:3], chol=chol_of(t[3:])),
        [*MU, *CHOL],
        lambda t: t[:3],
        lambda t: cov_of(t[3:], np),
    ),
    "mv_normal_tau": gaussian(
        lambda t: pm.MvNormal.dist(t[:3], tau=cov_of(t[3:])),
        [*MU, *CHOL],
        lambda t: t[:3],
        lambda t: np.linalg.inv(cov_of(t[3:], np)),
    ),
    "mv_student_t": student(
        lambda t: pm.MvStudentT.dist(nu=pt.exp(t[0]), mu=t[1:4], scale=cov_of(t[4:])),
        [np.log(2.5), *MU, *CHOL],
        lambda t: np.exp(t[0]),
        lambda t: t[1:4],
        lambda t: cov_of(t[4:], np),
    ),
    "mv_student_t_chol": student(
        lambda t: pm.MvStudentT.dist(nu=5.0, mu=t[:3], chol=chol_of(t[3:])),
        [*MU, *CHOL],
        lambda t: 5.0,
        lambda t: t[:3],
        lambda t: cov_of(t[3:], np),
    ),
    "mv_student_t_tau": student(
        lambda t: pm.MvStudentT.dist(nu=pt.exp(t[0]), mu=t[1:4], tau=cov_of(t[4:])),
        [np.log(2.5), *MU, *CHOL],
        lambda t: np.exp(t[0]),
        lambda t: t[1:4],
        lambda t: np.linalg.inv(cov_of(t[4:], np)),
    ),
    "kronecker_normal": gaussian(
        lambda t: pm.KroneckerNormal.dist(
            mu=pt.concatenate([t[:3], t[:3]]),
            covs=[pt.as_tensor([[1.0, 0.3], [0.3, 2.0]]), cov_of(t[3:9])],
            sigma=pt.exp(t[9]),
        ),
        [*MU, *CHOL, -0.5],
        lambda t: np.r_[t[:3], t[:3]],
        kronecker_cov,
    ),
    "matrix_normal": matrix_normal_case(),
    "car": gaussian(
        lambda t: pm.CAR.dist(mu=t[:4], W=RING, alpha=pt.tanh(t[4]), tau=pt.exp(t[5])),
        [*MU, 0.1, 0.5, 0.3],
        lambda t: t[:4],
        lambda t: np.linalg.inv(np.exp(t[5]) * (2 * np.eye(4) - np.tanh(t[4]) * RING)),
    ),
    "zero_sum_normal": Case(
        lambda t: pm.ZeroSumNormal.dist(pt.exp(t[0]), support_shape=[4]),
        np.array([0.3]),
        lambda t: random().normal(scale=np.exp(t[0]), size=(DRAWS, 3)),
        lambda u, t: stats.norm(scale=np.exp(t[0])).logpdf(u).sum(axis=-1),
        natural=lambda u, t: np.r_[1.0, -1.0, 2.0, -2.0],
    ),
    "dirichlet": Case(
        lambda t: pm.Dirichlet.dist(pt.exp(t)),
        np.log([1.5, 4.0, 2.5]),
        dirichlet_sample,
        dirichlet_logp,
        natural=simplex,
    ),
    "stick_breaking_weights": Case(
        lambda t: pm.StickBreakingWeights.dist(pt.exp(t[0]), K=3),
        np.array([0.4]),
        lambda t: logit(random().beta(1.0, np.exp(t[0]), size=(DRAWS, 3))),
        stick_logp,
        phi=stick_fractions,
        natural=lambda y, t: np.r_[expit(y), 1] * np.r_[1, np.cumprod(expit(-y))],
    ),
    "random_walk": gaussian(
        lambda t: pm.GaussianRandomWalk.dist(
            mu=t[2], sigma=pt.exp(t[1]), init_dist=pm.Normal.dist(0.5, pt.exp(t[0])), steps=5
        ),
        [0.2, -0.4, 0.3],
        lambda t: 0.5 + t[2] * np.arange(6),
        walk_cov,
    ),
    "mv_random_walk": gaussian(
        lambda t: pm.MvGaussianRandomWalk.dist(
            mu=t[:3],
            chol=chol_of(t[3:]),
            init_dist=pm.MvNormal.dist(np.zeros(3), np.eye(3)),
            steps=2,
        ),
        [*MU, *CHOL],
        lambda t: np.outer(np.arange(3), t[:3]).ravel(),
        lambda t: (
            np.kron(np.ones((3, 3)), np.eye(3))
            + np.kron([[0, 0, 0], [0, 1, 1], [0, 1, 2]], cov_of(t[3:], np))
        ),
    ),
}
CASES["mv_random_walk"] = CASES["mv_random_walk"]._replace(
    natural=lambda v, t: v.reshape(3, 3),
)


# Free, these have the information of their scale mixture at the value.
HEAVY = ("mv_student_t", "mv_student_t_chol", "mv_student_t_tau")


@pytest.mark.parametrize("name", CASES)
def test_information_of_data_is_the_mean_outer_product_of_scores(name):
    check(CASES[name], observed=True)


@pytest.mark.parametrize("name", [name for name in CASES if name not in HEAVY])
def test_information_of_a_free_variable_is_the_mean_outer_product_of_scores(name):
    check(CASES[name], observed=False)


def test_a_free_student_t_has_the_precision_of_its_scale_mixture():
    """Given v, the mixing variable has a Gamma((ν + k)/2, (ν + m)/2) distribution."""
    cov, mu, v = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([1.0, -2.0]), np.array([7.0, 1.5])
    with pm.Model() as model:
        pm.MvStudentT("v", nu=3.0, mu=mu, scale=cov)
    precision = np.linalg.inv(cov)
    squared = (v - mu) @ precision @ (v - mu)
    np.testing.assert_allclose(fisher(model)(v), 5.0 / (3.0 + squared) * precision)


def check(case, observed):
    theta = case.theta
    phi = case.sample(theta)
    value = case.natural(phi[0], theta)
    model = model_of(case.build, theta, value if observed else None)
    scores = simulated_scores(case, phi.reshape(len(phi), *phi.shape[1:]), observed)
    if observed:
        matrix = fisher(model)(theta)
    else:
        u = 0.3 * random(9).normal(size=model.initial_point()[model.value_vars[1].name].size)
        matrix = fisher(model)(np.r_[theta, u])
        jacobian = np.eye(len(matrix))
        jacobian[len(theta) :, len(theta) :] = derivative(lambda u: case.phi(u, theta), u)
        matrix = np.linalg.solve(jacobian.T, np.linalg.solve(jacobian.T, matrix).T)
    assert_positive_semi_definite((matrix + matrix.T) / 2)
    assert_mean_outer_product(scores, matrix)


def test_lkj_cholesky_cov():
    case = Case(
        lambda t: pm.LKJCholeskyCov.dist(
            n=3, eta=1.7, sd_dist=pm.Exponential.dist(pt.exp(t[0])), compute_corr=False
        ),
        np.array([0.4]),
        lkj_cov_sample,
        lkj_cov_logp,
        phi=lkj_cov_phi,
    )
    check(case, observed=False)
    # The densities in φ that the draws come from are PyMC's.
    model = model_of(case.build, case.theta)
    logp = compiled(model.value_vars, model.logp())
    differences = []
    for u in random(8).normal(size=(4, 6)) * 0.5:
        jacobian = derivative(lambda v: case.phi(v, None), u)
        own = case.logp(case.phi(u, None), case.theta) + np.linalg.slogdet(jacobian)[1]
        differences.append(logp(case.theta, u) - own)
    np.testing.assert_allclose(differences, differences[0], rtol=1e-6)


def test_wishart_observed():
    scale, nu = cov_of(CHOL, np), 7

    def logp(v, t):
        cov = cov_of(t, np)
        trace = np.einsum("ij,nji->n", np.linalg.inv(cov), v)
        return -0.5 * trace - 0.5 * nu * np.linalg.slogdet(cov)[1]

    case = Case(
        lambda t: pm.Wishart.dist(nu, cov_of(t)),
        CHOL,
        lambda t: stats.wishart(nu, scale).rvs(DRAWS, random_state=1),
        logp,
    )
    check(case, observed=True)


@pytest.mark.skipif(not PYMC_6, reason="PyMC 5 has no transform for Wishart")
def test_wishart_free():
    """With a diagonal scale, the unconstrained entries are independent of one another."""
    sd, nu = np.array([1.0, 2.0, 0.5]), 7
    with pm.Model() as model:
        pm.Wishart("v", nu, np.diag(sd**2))
    matrix = fisher(model)(np.zeros(6))
    rows, cols = np.tril_indices(3)
    expected = np.where(rows == cols, 2.0 * (nu - rows), sd[rows] ** -2.0)
    np.testing.assert_allclose(matrix, np.diag(expected), atol=1e-12)


def test_lkj_corr():
    with pm.Model() as model:
        rv = pm.LKJCorr("v", n=3, eta=1.7)
    [u] = model.value_vars
    value = compiled([u], model.replace_rvs_by_values([rv]))

    def phi(x):
        [entries] = value(x)
        if PYMC_6:
            corr = entries @ entries.T
        else:
            corr = np.eye(3)
            corr[np.triu_indices(3, 1)] = entries
            corr = corr + corr.T - np.eye(3)
        return correlation_coordinates(corr)[3:]

    x = np.array([0.3, -0.5, 0.2])
    jacobian = derivative(phi, x)
    weight = 4 * LKJ_SHAPES**2 / (2 * LKJ_SHAPES + 1)
    expected = jacobian.T @ np.diag(weight) @ jacobian
    np.testing.assert_allclose(fisher(model)(x), expected, rtol=1e-6, atol=1e-8)


def test_intrinsic_conditional_autoregression():
    with pm.Model() as model:
        pm.ICAR("v", W=RING, sigma=pt.exp(pm.Flat("log_sigma")), zero_sum_stdev=0.3)
    logp = compiled(model.value_vars, model.logp())
    x = np.r_[0.4, random().normal(size=4)]
    matrix = fisher(model)(x)
    hessian = derivative(lambda u: derivative(lambda w: logp(x[0], w), u, 1e-3), x[1:], 1e-3)
    np.testing.assert_allclose(matrix[1:, 1:], -hessian, rtol=1e-5, atol=1e-5)
    assert matrix[0, 0] == 6.0
    assert_positive_semi_definite(matrix)


def test_multinomial():
    logits, n = np.array([0.3, -1.0, 0.8, 0.1]), 7
    p = softmax(logits)
    expected = n * (np.diag(p) - np.outer(p, p))
    counts = random().multinomial(n, p, size=5)
    builds = {
        "softmax": lambda t: pm.Multinomial.dist(n, pt.special.softmax(t)),
        "ratio": lambda t: pm.Multinomial.dist(n, pt.exp(t) / pt.exp(t).sum()),
        "any": lambda t: pm.Multinomial.dist(n, pt.exp(pt.special.log_softmax(t)) * 1.0),
    }
    for build in builds.values():
        matrix = fisher(model_of(build, logits, counts[0]))(logits)
        np.testing.assert_allclose(matrix, expected, atol=1e-12)
    with pm.Model() as model:
        t = pm.Flat("t", shape=4)
        pm.Multinomial("y", np.full(5, n), pt.special.softmax(t), observed=counts)
    np.testing.assert_allclose(fisher(model)(logits), 5 * expected, atol=1e-12)


@pytest.mark.parametrize("size", [40.0, 800.0])
def test_simplexes_are_finite_in_the_tails(size):
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones(3))
        pm.Multinomial("y", 10, p, observed=[3, 3, 4])
        pm.OrderedMultinomial(
            "z",
            eta=pm.Normal("eta"),
            cutpoints=[-1.0, 1.0],
            n=10,
            compute_p=False,
            observed=[3, 3, 4],
        )
    assert np.all(np.isfinite(fisher(model)(np.array([size, -size, size]))))


def autoregression_data():
    return np.cumsum(random().normal(size=12)) * 0.3


def test_autoregression_is_regression_on_lags():
    y = autoregression_data()
    with pm.Model() as model:
        rho = pm.Flat("rho", shape=3)
        sigma = pt.exp(pm.Flat("log_sigma"))
        init = pm.Normal.dist(0, 10, shape=2)
        pm.AR("y", rho, sigma, constant=True, init_dist=init, observed=y)
    x = np.r_[0.1, 0.5, -0.2, -0.3]
    lags = np.stack([np.ones(10), y[1:-1], y[:-2]], axis=1)
    expected = np.zeros((4, 4))
    expected[:3, :3] = lags.T @ lags * np.exp(2 * 0.3)
    expected[3, 3] = 2 * 10
    np.testing.assert_allclose(fisher(model)(x), expected, rtol=1e-10)


def test_free_autoregression_has_the_precision_of_the_series():
    rho, sigma = 0.6, 0.5
    with pm.Model() as model:
        pm.AR("y", [rho], sigma, init_dist=pm.Normal.dist(0, 2.0, shape=1), steps=4)
    errors = np.eye(5) - rho * np.eye(5, k=-1)
    expected = errors.T @ np.diag([1 / 4, *[1 / sigma**2] * 4]) @ errors
    np.testing.assert_allclose(fisher(model)(np.zeros(5)), expected, rtol=1e-10)


def test_euler_maruyama_is_conditionally_normal():
    y, dt = autoregression_data(), 0.1
    with pm.Model() as model:
        rate, log_noise = pm.Flat("rate"), pm.Flat("log_noise")
        pm.EulerMaruyama(
            "y",
            dt,
            lambda v, r, s: (-r * v, s * pt.ones_like(v)),
            (rate, pt.exp(log_noise)),
            init_dist=pm.Normal.dist(0, 1),
            observed=y,
        )
    expected = np.diag([dt * (y[:-1] ** 2).sum() * np.exp(-0.4), 2 * 11])
    np.testing.assert_allclose(fisher(model)(np.r_[1.0, 0.2]), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["mv_normal_cov", "mv_normal_chol", "mv_student_t"])
def test_rows_that_share_parameters_add_up(kind):
    case = CASES[kind]
    one = fisher(model_of(case.build, case.theta, np.zeros(3)))(case.theta)
    many = {
        "mv_normal_cov": lambda t: pm.MvNormal.dist(t[:3], cov=cov_of(t[3:]), shape=(50, 3)),
        "mv_normal_chol": lambda t: pm.MvNormal.dist(t[:3], chol=chol_of(t[3:]), shape=(50, 3)),
        "mv_student_t": lambda t: pm.MvStudentT.dist(
            nu=pt.exp(t[0]), mu=t[1:4], scale=cov_of(t[4:]), shape=(50, 3)
        ),
    }[kind]
    model = model_of(many, case.theta, np.zeros((50, 3)))
    np.testing.assert_allclose(fisher(model)(case.theta), 50 * one, rtol=1e-10, atol=1e-10)
    coordinates = metric_of(ravel(model)).coordinates
    assert max(np.prod(c.type.shape) for c in coordinates) == 9


def test_batches_of_means_and_covariances():
    scales = np.array([1.0, 2.0, 0.5])
    with pm.Model() as model:
        t = pm.Flat("t", shape=6)
        covs = scales[:, None, None] * cov_of(t)
        pm.MvNormal("y", pm.Flat("mu", shape=(3, 3)), cov=covs, observed=np.zeros((4, 3, 3)))
    matrix = fisher(model)(np.r_[CHOL, np.zeros(9)])
    one = fisher(model_of(lambda t: pm.MvNormal.dist(np.zeros(3), cov_of(t)), CHOL, np.zeros(3)))
    precision = np.linalg.inv(cov_of(CHOL, np))
    np.testing.assert_allclose(matrix[:6, :6], 12 * one(CHOL), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        matrix[6:, 6:], 4 * np.kron(np.diag(1 / scales), precision), rtol=1e-9, atol=1e-12
    )


def gaussian_process(t):
    points = np.linspace(0, 1, 8)[:, None]
    cov = pt.exp(2 * t[0]) * pm.gp.cov.ExpQuad(1, ls=pt.exp(t[1]))
    return pm.gp.Marginal(cov_func=cov), points, pt.exp(t[2])


@pytest.mark.parametrize("kind", ["gp", "mv_normal_tau", "lkj"])
def test_divergence_is_derivative_of_matrix(kind):
    if kind == "gp":
        with pm.Model() as model:
            gp, points, noise = gaussian_process(pm.Normal("t", shape=3))
            gp.marginal_likelihood("y", points, y=np.sin(6 * points[:, 0]), sigma=noise)
        x = np.array([0.2, -1.0, -0.7])
    elif kind == "lkj":
        with pm.Model() as model:
            chol, *_ = pm.LKJCholeskyCov("c", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
            mu = pm.Normal("mu", shape=3)
            pm.MvNormal("y", mu, chol=chol, observed=np.zeros((5, 3)))
        x = random().normal(size=9) * 0.4
    else:
        case = CASES[kind]
        x = case.theta
        model = model_of(case.build, x, np.zeros(3))
    raveled = ravel(model)
    metric = metric_of(raveled)
    rows = pt.matrix("rows")
    matrix = compiled([raveled.x], metric.matrix())
    given = random().normal(size=(2, len(x)))
    derivatives = [
        derivative(lambda e, r=r: matrix(x + e * r) @ r, np.zeros(1))[:, 0] for r in given
    ]
    evaluated = compiled(
        [raveled.x, rows], [metric.divergence(rows), metric.log_det_gradient(rows)]
    )
    divergence, gradient = evaluated(x, given)
    np.testing.assert_allclose(divergence, np.sum(derivatives, axis=0), rtol=1e-6, atol=1e-6)
    numeric = derivative(lambda z: sum(r @ matrix(z) @ r for r in given), x)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "factorisations"), [("mv_normal_cov", 1), ("mv_normal_chol", 0)])
def test_covariance_is_factorised_at_most_once(kind, factorisations):
    case = CASES[kind]
    raveled = ravel(model_of(case.build, case.theta, np.zeros(3)))
    matrix = metric_of(raveled).matrix()
    nodes = {v.owner for v in ancestors([matrix]) if v.owner is not None}
    assert sum("Cholesky" in str(node.op) for node in nodes) == factorisations


def test_information_of_a_dirichlet_multinomial_is_the_expected_outer_product():
    theta = np.array([0.3, -0.4, 0.8])
    support = np.array([(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)])

    def model(data):
        with pm.Model() as model:
            a = pt.exp(pm.Flat("theta", shape=3))
            pm.DirichletMultinomial("v", n=4, a=a, observed=data)
        return model

    everything = model(support)
    [value] = everything.value_vars
    logp = everything.logp(vars=[everything["v"]], sum=False)[0]
    jacobian = pytensor.gradient.jacobian(logp, value)
    log_probability, scores = compiled([value], [logp, jacobian])(theta)
    expected = (scores.T * np.exp(log_probability)) @ scores
    information = fisher(model(support[:2]))
    np.testing.assert_allclose(information(theta), 2 * expected, rtol=1e-8)
    for far in (-13.8, 13.8):
        assert np.isfinite(information(np.array([far, 0.0, -far]))).all()


def test_information_of_garch_is_that_of_its_conditional_variances():
    y = np.array([0.3, -1.0, 0.5, 0.8, 1.2, -0.4, 0.1])
    theta = np.array([0.1, -1.2, -0.3])

    def log_variances(theta):
        omega, alpha, beta = np.exp(theta)
        variances = [1.0]
        for past in y[:-1]:
            variances.append(omega + alpha * past**2 + beta * variances[-1])
        return np.log(variances)

    with pm.Model() as model:
        omega, alpha, beta = pt.exp(pm.Flat("theta", shape=3))
        pm.GARCH11("v", omega, alpha, beta, initial_vol=1.0, observed=y)
    jacobian = derivative(log_variances, theta)
    np.testing.assert_allclose(fisher(model)(theta), 0.5 * jacobian.T @ jacobian, rtol=1e-7)


def test_missing_values_of_a_multivariate_normal_have_its_precision():
    y = np.array([[1.0, 2.0], [np.nan, 0.5], [0.3, np.nan], [1.0, 1.0]])
    precision = np.linalg.inv([[1.0, 0.5], [0.5, 2.0]])
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.MvNormal("v", pm.Flat("mu", shape=2), tau=precision, observed=y)
    # Deviations from μ of the four rows, by (μ₁, μ₂, v₂₁, v₃₂).
    rows = np.zeros((4, 2, 4))
    rows[:, [0, 1], [0, 1]] = -1.0
    rows[1, 0, 2] = rows[2, 1, 3] = 1.0
    expected = sum(row.T @ precision @ row for row in rows)
    np.testing.assert_allclose(fisher(model)(np.zeros(4)), expected, atol=1e-12)
