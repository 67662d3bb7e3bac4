"""Small models, one per distribution family and structural feature.

Their posterior means and sds are in ``gallery_reference.json``; see `gallery_truth`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

__all__ = ["GALLERY", "Entry"]

# Data without a generator, whose streams may change: standard normal and positive numbers,
# counts and a regressor.
Z = np.array(
    [
        [0.13, -0.13, 0.64, 0.1, -0.54, 0.36, 1.3, 0.95, -0.7, -1.27, -0.62, 0.04],
        [-2.33, -0.22, -1.25, -0.73, -0.54, -0.32, 0.41, 1.04, -0.13, 1.37, -0.67, 0.35],
    ]
).ravel()
POSITIVE = np.exp(0.6 * Z)
COUNTS = np.array([1, 2, 0, 3, 1, 0, 2, 5, 1, 0, 4, 2, 0, 1, 3, 6, 2, 1, 0, 2, 7, 1, 3, 2])
ZEROS = COUNTS * (np.arange(24) % 3 != 0)
X = np.linspace(-1.5, 1.5, 24)
BINARY = (X + 0.8 * Z > 0).astype(int)
SHARES = 1 / (1 + np.exp(-0.3 - 0.7 * X - 0.5 * Z))


@dataclass(frozen=True)
class Entry:
    """A model of the gallery.

    Attributes
    ----------
    build : callable
        Makes the model.
    fast : bool
        Whether it is among the models that are always tested.
    support : tuple of int
        Values of the discrete variable, if there is one.
    unbend : callable or None
        For a funnel, whose shape no ellipse fits: points in better coordinates to points in
        the value variables' and the log-Jacobian.
    """

    build: Callable[[], pm.Model]
    fast: bool
    support: tuple[int, ...]
    unbend: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None


GALLERY: dict[str, Entry] = {}


def gallery(function=None, *, coords=None, fast=False, support=(), unbend=None):
    """Add a function that fills a model to the gallery."""
    if function is None:
        return partial(gallery, coords=coords, fast=fast, support=support, unbend=unbend)

    def build():
        with pm.Model(coords=coords) as model:
            function()
        return model

    GALLERY[function.__name__] = Entry(build, fast, tuple(support), unbend)
    return function


# ---- Continuous likelihoods ------------------------------------------------------------


@gallery(fast=True)
def normal():
    pm.Normal("y", pm.Normal("mu", 0, 5), pm.HalfNormal("sigma", 2), observed=Z)


@gallery
def normal_precision():
    tau = pm.Gamma("tau", 2, 2)
    pm.Normal("y", pm.Normal("mu", 0, 5), tau=tau, observed=Z[:8])


@gallery
def lognormal():
    pm.LogNormal("y", pm.Normal("mu"), pm.Exponential("sigma", 1), observed=POSITIVE)


@gallery
def half_normal():
    pm.HalfNormal("y", pm.LogNormal("sigma"), observed=POSITIVE)


@gallery
def student_t():
    mu = pm.Normal("mu", 0, 2)
    pm.StudentT("y", nu=4, mu=mu, sigma=pm.HalfNormal("sigma", 2), observed=Z + 3 * (Z < -1.2))


@gallery
def student_t_degrees_of_freedom():
    nu = pm.Gamma("nu", 2, 0.2)
    pm.StudentT("y", nu=nu, mu=0, sigma=pm.HalfNormal("sigma"), observed=Z)


@gallery
def cauchy():
    mu = pm.Normal("mu", 0, 2)
    pm.Cauchy("y", mu, pm.HalfNormal("beta"), observed=np.tan(Z))


@gallery
def half_cauchy():
    pm.HalfCauchy("y", pm.LogNormal("beta"), observed=POSITIVE**2)


@gallery
def half_student_t():
    pm.HalfStudentT("y", nu=3, sigma=pm.LogNormal("sigma"), observed=POSITIVE)


@gallery
def laplace():
    pm.Laplace("y", pm.Normal("mu"), pm.HalfNormal("b", 2), observed=Z)


@gallery
def asymmetric_laplace():
    b, kappa = pm.LogNormal("b"), pm.LogNormal("kappa", 0, 0.5)
    pm.AsymmetricLaplace("y", b=b, kappa=kappa, mu=0.05, observed=Z)


@gallery
def logistic():
    pm.Logistic("y", pm.Normal("mu"), pm.HalfNormal("s", 2), observed=Z)


@gallery
def gumbel():
    pm.Gumbel("y", pm.Normal("mu"), pm.HalfNormal("beta", 2), observed=Z)


@gallery
def moyal():
    pm.Moyal("y", pm.Normal("mu"), pm.HalfNormal("sigma"), observed=Z)


@gallery
def von_mises():
    pm.VonMises("y", pm.Normal("mu"), pm.Exponential("kappa", 0.5), observed=Z)


@gallery
def von_mises_prior():
    angle = pm.VonMises("angle", 0.5, 2.0)
    pm.Normal("y", pt.stack([pt.cos(angle), pt.sin(angle)]), 0.2, observed=[0.7, 0.6])


@gallery
def exponential():
    pm.Exponential("y", pt.exp(pm.Normal("a") + pm.Normal("b") * X), observed=POSITIVE)


@gallery
def gamma():
    alpha, beta = pm.Exponential("alpha", 0.3), pm.Exponential("beta", 0.3)
    pm.Gamma("y", alpha, beta, observed=POSITIVE)


@gallery
def gamma_mean_and_sd():
    mu = pt.exp(pm.Normal("a") + pm.Normal("b") * X)
    pm.Gamma("y", mu=mu, sigma=pm.HalfNormal("sigma"), observed=POSITIVE)


@gallery
def inverse_gamma():
    alpha, beta = pm.Exponential("alpha", 0.3), pm.Exponential("beta", 0.3)
    pm.InverseGamma("y", alpha, beta, observed=POSITIVE)


@gallery(fast=True)
def weibull():
    alpha, beta = pm.HalfNormal("alpha", 3), pm.HalfNormal("beta", 3)
    pm.Weibull("y", alpha, beta, observed=POSITIVE)


@gallery
def wald():
    pm.Wald("y", mu=pm.LogNormal("mu"), lam=pm.LogNormal("lam"), observed=POSITIVE)


@gallery
def pareto():
    pm.Pareto("y", alpha=pm.LogNormal("alpha"), m=0.2, observed=POSITIVE)


@gallery
def kumaraswamy():
    pm.Kumaraswamy("y", pm.LogNormal("a"), pm.LogNormal("b"), observed=SHARES)


@gallery
def rice():
    pm.Rice("y", nu=pm.HalfNormal("nu", 2), sigma=pm.HalfNormal("sigma", 2), observed=POSITIVE)


@gallery
def logit_normal():
    pm.LogitNormal("y", pm.Normal("mu"), pm.HalfNormal("sigma"), observed=SHARES)


@gallery
def skew_normal():
    alpha = pm.Normal("alpha", 0, 2)
    pm.SkewNormal("y", mu=0, sigma=pm.HalfNormal("sigma", 2), alpha=alpha, observed=POSITIVE - 1)


@gallery
def ex_gaussian():
    sigma, nu = pm.LogNormal("sigma", -1, 0.5), pm.LogNormal("nu", -0.5, 0.5)
    pm.ExGaussian("y", mu=pm.Normal("mu"), sigma=sigma, nu=nu, observed=POSITIVE)


@gallery
def triangular():
    c = pm.Uniform("c", 0, 1)
    pm.Triangular("y", lower=0, c=c, upper=1, observed=SHARES)


@gallery
def beta_regression():
    mu = pm.math.sigmoid(pm.Normal("a") + pm.Normal("b") * X)
    pm.Beta("y", mu=mu, nu=pm.Gamma("nu", 2, 0.1), observed=SHARES)


@gallery
def beta_shapes():
    pm.Beta("y", pm.Exponential("alpha", 0.3), pm.Exponential("beta", 0.3), observed=SHARES)


# ---- Discrete likelihoods and links ----------------------------------------------------


@gallery(fast=True)
def bernoulli_sigmoid():
    p = pm.math.sigmoid(pm.Normal("a") + pm.Normal("b", 0, 2) * X)
    pm.Bernoulli("y", p, observed=BINARY)


@gallery
def bernoulli_logit_p():
    a, b = pm.Normal("a"), pm.Normal("b", 0, 2)
    pm.Bernoulli("y", logit_p=a + b * X, observed=BINARY)


@gallery
def bernoulli_probability():
    pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=BINARY[:10])


@gallery
def binomial_probit():
    p = pm.math.invprobit(pm.Normal("a") + pm.Normal("b") * X)
    pm.Binomial("y", n=8, p=p, observed=COUNTS)


@gallery
def binomial_cloglog():
    p = 1 - pt.exp(-pt.exp(pm.Normal("a") + pm.Normal("b") * X))
    pm.Binomial("y", n=8, p=p, observed=COUNTS)


@gallery
def poisson_exp():
    mu = pt.exp(pm.Normal("a") + pm.Normal("b") * X)
    pm.Poisson("y", mu, observed=COUNTS)


@gallery
def poisson_softplus():
    mu = pt.softplus(pm.Normal("a", 0, 2) + pm.Normal("b") * X)
    pm.Poisson("y", mu, observed=COUNTS)


@gallery
def poisson_identity():
    pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=COUNTS[:6])


@gallery
def negative_binomial_regression():
    mu = pt.exp(pm.Normal("a") + pm.Normal("b") * X)
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 0.3), observed=COUNTS)


@gallery
def negative_binomial_n_p():
    pm.NegativeBinomial("y", n=pm.Gamma("n", 3, 0.5), p=pm.Beta("p", 2, 2), observed=COUNTS)


@gallery
def geometric():
    p = pm.math.sigmoid(pm.Normal("a") + pm.Normal("b") * X)
    pm.Geometric("y", p, observed=COUNTS + 1)


@gallery
def beta_binomial():
    alpha, beta = pm.LogNormal("alpha", 1, 0.7), pm.LogNormal("beta", 1, 0.7)
    pm.BetaBinomial("y", alpha, beta, n=8, observed=COUNTS)


@gallery
def discrete_weibull():
    pm.DiscreteWeibull("y", q=pm.Beta("q", 2, 2), beta=pm.LogNormal("beta"), observed=COUNTS)


@gallery
def discrete_uniform_with_fixed_bounds():
    mu = pm.Normal("mu")
    pm.DiscreteUniform("k", 0, 7, observed=COUNTS)
    pm.Normal("y", mu, 1, observed=Z[:4])


@gallery
def categorical_softmax():
    slopes = pm.Normal("slopes", 0, 1, shape=2)
    logits = pt.concatenate([pt.zeros((24, 1)), X[:, None] * slopes[None, :]], axis=1)
    pm.Categorical("y", p=pm.math.softmax(logits, axis=1), observed=COUNTS % 3)


@gallery
def multinomial_softmax():
    eta = pt.concatenate([[0.0], pm.Normal("eta", 0, 1, shape=2)])
    pm.Multinomial("y", n=10, p=pm.math.softmax(eta), observed=[[3, 5, 2], [4, 4, 2]])


@gallery
def dirichlet_multinomial():
    a = pm.LogNormal("a", 0.5, 0.7, shape=3)
    pm.DirichletMultinomial("y", n=10, a=a, observed=[[3, 5, 2], [7, 1, 2], [1, 8, 1]])


@gallery
def ordered_logistic():
    cutpoints = pm.Normal(
        "cutpoints", 0, 2, shape=2, transform=pm.distributions.transforms.ordered,
        initval=[-1.0, 1.0],
    )  # fmt: skip
    eta = pm.Normal("slope") * X
    pm.OrderedLogistic("y", eta, cutpoints, observed=np.minimum(COUNTS, 2), compute_p=False)


@gallery
def ordered_probit():
    eta = pm.Normal("slope") * X
    cutpoints = np.array([-0.8, 0.4])
    pm.OrderedProbit("y", eta, cutpoints, observed=np.minimum(COUNTS, 2), compute_p=False)


# ---- Distributions made of others ------------------------------------------------------


@gallery
def zero_inflated_poisson():
    pm.ZeroInflatedPoisson("y", pm.Beta("psi", 2, 2), pm.Gamma("mu", 2, 1), observed=ZEROS)


@gallery
def zero_inflated_binomial():
    p = pm.math.sigmoid(pm.Normal("a"))
    pm.ZeroInflatedBinomial("y", psi=pm.Beta("psi", 2, 2), n=8, p=p, observed=ZEROS)


@gallery
def zero_inflated_negative_binomial():
    psi, mu = pm.Beta("psi", 2, 2), pm.Gamma("mu", 2, 1)
    pm.ZeroInflatedNegativeBinomial("y", psi=psi, mu=mu, alpha=4.0, observed=ZEROS)


@gallery
def hurdle_poisson():
    pm.HurdlePoisson("y", pm.Beta("psi", 2, 2), pm.Gamma("mu", 2, 1), observed=ZEROS)


@gallery
def hurdle_gamma():
    psi, alpha = pm.Beta("psi", 2, 2), pm.LogNormal("alpha")
    y = np.where(ZEROS == 0, 0.0, POSITIVE)
    pm.HurdleGamma("y", psi=psi, alpha=alpha, beta=pm.LogNormal("beta"), observed=y)


@gallery
def mixture_of_poissons():
    rates = pm.Gamma(
        "rates", 2, 0.5, shape=2, transform=pm.distributions.transforms.ordered,
        initval=[1.0, 4.0],
    )  # fmt: skip
    components = pm.Poisson.dist(rates)
    pm.Mixture("y", w=[0.6, 0.4], comp_dists=components, observed=COUNTS)


@gallery
def mixture_of_different_families():
    w = pm.Beta("w", 2, 2)
    components = [pm.Normal.dist(pm.Normal("mu"), 0.5), pm.StudentT.dist(nu=3, mu=0, sigma=2)]
    pm.Mixture("y", w=pt.stack([w, 1 - w]), comp_dists=components, observed=Z)


@gallery
def normal_mixture():
    mu = pm.Normal(
        "mu", 0, 3, shape=2, transform=pm.distributions.transforms.ordered,
        initval=[-1.0, 1.0],
    )  # fmt: skip
    w = pm.Dirichlet("w", [3.0, 3.0])
    pm.NormalMixture("y", w=w, mu=mu, sigma=0.7, observed=Z + 3 * (X > 0.3))


@gallery(fast=True)
def censored_normal():
    base = pm.Normal.dist(pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 2))
    pm.Censored("y", base, lower=-1.0, upper=0.9, observed=np.clip(Z, -1.0, 0.9))


@gallery
def censored_weibull():
    base = pm.Weibull.dist(pm.LogNormal("alpha"), pm.LogNormal("beta"))
    pm.Censored("y", base, lower=None, upper=1.5, observed=np.minimum(POSITIVE, 1.5))


@gallery
def truncated_normal_likelihood():
    mu, sigma = pm.Normal("mu"), pm.LogNormal("sigma", 0, 0.5)
    pm.TruncatedNormal("y", mu, sigma, lower=-0.5, observed=Z[Z > -0.5])


@gallery
def truncated_gamma():
    base = pm.Gamma.dist(pm.LogNormal("alpha", 1, 0.5), 2.0)
    pm.Truncated("y", base, lower=0.5, upper=3.0, observed=POSITIVE[POSITIVE > 0.5])


@gallery
def truncated_poisson():
    base = pm.Poisson.dist(pm.Gamma("mu", 2, 1))
    pm.Truncated("y", base, lower=1, observed=COUNTS[COUNTS > 0])


@gallery
def custom_dist_by_logp():
    def logp(value, mu, sigma):
        return -pt.log(pt.cosh((value - mu) / sigma)) - pt.log(np.pi * sigma)

    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    pm.CustomDist("y", mu, sigma, logp=logp, observed=Z)


@gallery
def custom_dist_by_dist():
    def dist(mu, sigma, size):
        return pt.exp(pm.Normal.dist(mu, sigma, size=size))

    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    pm.CustomDist("y", mu, sigma, dist=dist, observed=POSITIVE)


@gallery
def custom_prior():
    def logp(value, scale):
        return -((value / scale) ** 4) - pt.log(scale)

    mu = pm.CustomDist("mu", 1.5, logp=logp)
    pm.Normal("y", mu, 1, observed=Z[:3])


# ---- Multivariate ----------------------------------------------------------------------


@gallery(fast=True)
def dirichlet_prior():
    p = pm.Dirichlet("p", [1.0, 2.0, 3.0])
    pm.Multinomial("y", n=12, p=p, observed=[3, 4, 5])


@gallery
def dirichlet_likelihood():
    y = np.stack([SHARES[:6] / 2, (1 - SHARES[:6]) / 2, np.full(6, 0.5)], axis=1)
    pm.Dirichlet("y", pm.LogNormal("a", 1, 0.7, shape=3), observed=y)


@gallery(fast=True)
def lkj_cholesky_cov():
    sd = pm.Exponential.dist(1.0)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd, compute_corr=True)
    pm.MvNormal("y", np.zeros(2), chol=chol, observed=Z.reshape(12, 2))


@gallery
def mv_normal_cov():
    s = pm.HalfNormal("s", 2)
    mu = pm.Normal("mu", 0, 2, shape=2)
    pm.MvNormal("y", mu, cov=s**2 * np.array([[1.0, 0.5], [0.5, 2.0]]), observed=Z.reshape(12, 2))


@gallery
def mv_normal_tau():
    t, rho = pm.Gamma("t", 2, 2), pm.Uniform("rho", -1, 1)
    tau = t * pt.stack([pt.stack([1.0, rho]), pt.stack([rho, 1.0])])
    pm.MvNormal("y", np.zeros(2), tau=tau, observed=Z.reshape(12, 2))


@gallery
def mv_student_t():
    mu = pm.Normal("mu", 0, 2, shape=2)
    scale = pm.HalfNormal("s") * np.array([[1.0, 0.3], [0.3, 1.0]])
    pm.MvStudentT("y", nu=5, mu=mu, scale=scale, observed=Z.reshape(12, 2))


@gallery
def mv_normal_prior():
    beta = pm.MvNormal("beta", np.zeros(2), cov=[[1.0, 0.8], [0.8, 1.5]])
    pm.Bernoulli("y", logit_p=beta[0] + beta[1] * X, observed=BINARY)


@gallery
def matrix_normal():
    scale = pm.HalfNormal("scale", 2)
    rowchol = scale * np.linalg.cholesky(np.array([[1.0, 0.2], [0.2, 1.0]]))
    pm.MatrixNormal(
        "y", mu=pm.Normal("mu"), rowchol=rowchol, colchol=np.eye(3), observed=Z[:6].reshape(2, 3)
    )


@gallery
def zero_sum_normal():
    effect = pm.ZeroSumNormal("effect", 1.5, shape=3)
    pm.Normal("y", effect[np.arange(24) % 3], 1, observed=Z)


@gallery
def conditional_autoregression():
    W = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    phi = pm.CAR("phi", mu=np.zeros(3), W=W, alpha=0.7, tau=1.5)
    pm.Poisson("y", pt.exp(phi), observed=[2, 0, 1])


@gallery
def gp_marginal_likelihood():
    ls, eta = pm.Gamma("ls", 3, 3), pm.HalfNormal("eta", 2)
    gp = pm.gp.Marginal(cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ls=ls))
    t = X[::2]
    gp.marginal_likelihood("y", X=t[:, None], y=np.sin(2 * t) + 0.3 * Z[::2], sigma=0.3)


@gallery
def gp_latent():
    gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, ls=pm.LogNormal("ls", 0, 0.3)))
    f = gp.prior("f", X=np.array([[-1.0], [0.0], [1.0]]))
    pm.Poisson("y", pt.exp(f), observed=[1, 3, 0])


# ---- Time series -----------------------------------------------------------------------


def _cumulated_steps(points):
    log_sigma, start, steps = points[:, :1], points[:, 1:2], points[:, 2:]
    walk = start + np.cumsum(np.exp(log_sigma) * steps, axis=1)
    return np.hstack([log_sigma, start, walk]), steps.shape[1] * log_sigma[:, 0]


@gallery(unbend=_cumulated_steps)
def gaussian_random_walk():
    sigma = pm.HalfNormal("sigma")
    start = pm.Normal.dist(0, 2)
    walk = pm.GaussianRandomWalk("walk", sigma=sigma, init_dist=start, steps=3)
    pm.Normal("y", walk, 0.5, observed=[0.1, 0.9, 0.7, 1.6])


@gallery
def observed_random_walk():
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma", 2)
    start = pm.Normal.dist(0, 5)
    pm.GaussianRandomWalk("y", mu=mu, sigma=sigma, init_dist=start, observed=np.cumsum(Z + 0.3))


@gallery
def autoregression():
    rho = pm.Normal("rho", 0, 0.5, shape=2)
    start = pm.Normal.dist(0, 5, shape=1)
    y = np.convolve(Z, 0.6 ** np.arange(8))[:24]
    pm.AR("y", rho, sigma=pm.HalfNormal("sigma"), constant=True, init_dist=start, observed=y)


@gallery
def garch():
    omega, alpha = pm.HalfNormal("omega"), pm.Uniform("alpha", 0, 0.5)
    pm.GARCH11("y", omega, alpha, 0.4, initial_vol=1.0, observed=Z[:12])


# ---- Structure -------------------------------------------------------------------------


@gallery
def conjugate_normal():
    pm.Normal("y", pm.Normal("mu", 1, 2), 1.5, observed=Z[:5])


@gallery
def flat_priors():
    pm.Normal("y", pm.Flat("mu"), pm.HalfFlat("sigma"), observed=Z)


@gallery
def uniform_bounds():
    low, high = pm.Uniform("low", -2, 0), pm.Uniform("high", 0, 3)
    pm.Normal("y", low + high, 0.5 + high - low, observed=Z)


@gallery
def truncated_priors():
    mu = pm.TruncatedNormal("mu", 0, 1, lower=-1, upper=0.5)
    rate = pm.TruncatedNormal("rate", 1, 1, lower=0.1)
    pm.Normal("y", mu, 1, observed=Z[:5])
    pm.Exponential("z", rate, observed=POSITIVE[:5])


@gallery
def interpolated_prior():
    points = np.linspace(-4, 4, 81)
    mu = pm.Interpolated("mu", points, np.exp(-0.5 * (points - 0.5) ** 2))
    pm.Normal("y", mu, 1, observed=Z[:6])


@gallery
def priors_only():
    pm.Normal("a", 1, 2)
    pm.Gamma("b", 2, 3)
    pm.Beta("c", 2, 3)
    pm.StudentT("d", nu=8, mu=0, sigma=1)


@gallery
def skewed_priors_only():
    pm.InverseGamma("a", 4, 2)
    pm.SkewNormal("b", 0, 1, 3)
    pm.Gumbel("c", 0, 1)


def _centred(points):
    mu, log_tau, raw = points[:, :1], points[:, 1:2], points[:, 2:]
    theta = mu + np.exp(log_tau) * raw
    return np.hstack([mu, log_tau, theta]), raw.shape[1] * log_tau[:, 0]


@gallery(unbend=_centred)
def hierarchical_centred():
    mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau")
    theta = pm.Normal("theta", mu, tau, shape=4)
    pm.Normal("y", theta, [0.6, 0.5, 0.8, 0.7], observed=[1.4, 0.4, -0.2, 0.9])


@gallery
def hierarchical_non_centred():
    mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau")
    raw = pm.Normal("raw", shape=4)
    theta = pm.Deterministic("theta", mu + tau * raw)
    pm.Normal("y", theta, [0.6, 0.5, 0.8, 0.7], observed=[1.4, 0.4, -0.2, 0.9])


@gallery(fast=True)
def missing_values():
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    y = np.where(np.arange(12) % 6 == 2, np.nan, Z[:12])
    pm.Normal("y", mu, sigma, observed=y)


@gallery
def missing_regressor():
    x = np.where(np.arange(12) == 5, np.nan, X[::2])
    regressor = pm.Normal("x", 0, 1, observed=x)
    pm.Normal("y", pm.Normal("b") * regressor, 0.5, observed=0.8 * X[::2] + 0.5 * Z[:12])


@gallery
def several_observed_and_shared_parameters():
    level, slope = pm.Normal("level"), pm.Normal("slope")
    pm.Poisson("counts", pt.exp(level + slope * X), observed=COUNTS)
    pm.Bernoulli("binary", logit_p=level - 1 + 2 * slope * X, observed=BINARY)
    pm.Normal("numbers", slope, pt.exp(level), observed=Z)


@gallery(coords={"group": ["a", "b", "c"], "obs": range(24)})
def dims_and_coords():
    effect = pm.Normal("effect", 0, 1, dims="group")
    pm.Normal("y", effect[np.arange(24) % 3], 1.2, observed=Z, dims="obs")


@gallery
def total_size():
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    pm.Normal("y", mu, sigma, observed=Z[:6], total_size=30)


@gallery
def deterministic_functions():
    top, half = pm.LogNormal("top"), pm.LogNormal("half")
    dose = np.exp(X[::2])
    mean = pm.Deterministic("mean", top * dose / (half + dose))
    pm.Normal("y", mean, 0.2, observed=1.5 * dose / (0.8 + dose) + 0.2 * Z[:12])


@gallery
def norms_and_reductions():
    v = pm.Normal("v", shape=3)
    pm.Normal("length", pt.sqrt((v**2).sum() + 0.1), 0.3, observed=1.2)
    pm.Normal("largest", pm.math.logsumexp(v), 0.3, observed=1.5)
    pm.Normal("total", pt.cumsum(v), 1.0, observed=[0.2, 0.5, 0.9])


@gallery
def potential():
    a, b = pm.Normal("a"), pm.Normal("b")
    pm.Potential("near", -2.0 * (a - b) ** 2)
    pm.Potential("soft", -pt.softplus(-3 * a))
    pm.Normal("y", b, 1, observed=Z[:4])


@gallery
def data_containers():
    x, y = pm.Data("x", X), pm.Data("y_data", BINARY)
    pm.Bernoulli("y", logit_p=pm.Normal("a") + pm.Normal("b") * x, observed=y)


@gallery(fast=True, support=range(24))
def discrete_switchpoint():
    k = pm.DiscreteUniform("k", 0, 23)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    counts = np.sort(COUNTS)
    pm.Poisson("y", pt.switch(np.arange(24) < k, early, late), observed=counts)


@gallery
def curved_ridge():
    a, b = pm.Normal("a"), pm.Normal("b", 0, 1)
    pm.Normal("y", a + b**2, 0.5, observed=[1.2, 0.8])


@gallery
def scanned_recursion():
    growth, start = pm.LogNormal("growth", 0, 0.3), pm.LogNormal("start", -1, 0.5)
    capacity = 2.0
    steps = 6
    population, _ = pytensor.scan(
        lambda n, r: n + 0.3 * r * n * (1 - n / capacity),
        outputs_info=[start], non_sequences=[growth], n_steps=steps,
    )  # fmt: skip
    y = np.array([0.5, 0.62, 0.75, 0.85, 1.1, 1.15])
    pm.LogNormal("y", pt.log(population), 0.15, observed=y)
