"""Models whose graphs have tripped a compiler: correlated, batched, of open or zero lengths."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt

MODELS: dict[str, Callable[[], pm.Model]] = {}

GROUPS = 5
GROUP = np.arange(30) % GROUPS
X, NOISE = np.random.default_rng(14).normal(size=(2, 30))
Y = 1.0 + 0.5 * X + NOISE


def add(function: Callable[[], None]) -> Callable[[], None]:
    def build() -> pm.Model:
        with pm.Model() as model:
            function()
        return model

    MODELS[function.__name__.replace("_", " ")] = build
    return function


def _rng() -> np.random.Generator:
    """The same numbers whenever a model is built."""
    return np.random.default_rng(15)


def _scales(n: int):
    return pm.LKJCholeskyCov("chol", n=n, eta=2.0, sd_dist=pm.Exponential.dist(1.0, size=n))


@add
def varying_slopes_centred():
    chol, _, _ = _scales(2)
    mean = pm.Normal("mean", 0.0, 1.0, shape=2)
    effects = pm.MvNormal("effects", mean, chol=chol, shape=(GROUPS, 2))
    sigma = pm.HalfNormal("sigma", 1.0)
    pm.Normal("y", effects[GROUP, 0] + effects[GROUP, 1] * X, sigma, observed=Y)


@add
def varying_slopes_not_centred():
    chol, _, _ = _scales(2)
    mean = pm.Normal("mean", 0.0, 1.0, shape=2)
    z = pm.Normal("z", 0.0, 1.0, shape=(GROUPS, 2))
    effects = pm.Deterministic("effects", mean + z @ chol.T)
    sigma = pm.HalfNormal("sigma", 1.0)
    pm.Normal("y", effects[GROUP, 0] + effects[GROUP, 1] * X, sigma, observed=Y)


@add
def varying_slopes_named():
    model = pm.modelcontext(None)
    model.add_coords({"group": range(GROUPS), "effect": ["intercept", "slope"]})
    chol, _, _ = _scales(2)
    z = pm.Normal("z", 0.0, 1.0, dims=("effect", "group"))
    mean = pm.Normal("mean", 0.0, 1.0, dims="effect")
    effects = pm.Deterministic("effects", pt.dot(chol, z).T + mean, dims=("group", "effect"))
    group, x = pm.Data("group_of", GROUP), pm.Data("x", X)
    sigma = pm.Exponential("sigma", 1.0)
    pm.Normal("y", effects[group, 0] + effects[group, 1] * x, sigma, observed=Y)


@add
def factor_analysis():
    data = _rng().normal(size=(12, 4))
    loadings = pm.Normal("loadings", 0.0, 1.0, shape=(4, 2))
    scores = pm.Normal("scores", 0.0, 1.0, shape=(12, 2))
    psi = pm.HalfNormal("psi", 1.0, shape=4)
    pm.Normal("y", scores @ loadings.T, psi, observed=data)


@add
def marginal_factor_analysis():
    data = _rng().normal(size=(12, 4))
    rows, columns = np.tril_indices(4, m=2)
    packed = pm.Normal("packed", 0.0, 1.0, shape=len(rows))
    loadings = pt.set_subtensor(pt.zeros((4, 2))[rows, columns], packed)
    psi = pm.HalfNormal("psi", 1.0, shape=4)
    pm.MvNormal("y", np.zeros(4), cov=loadings @ loadings.T + pt.diag(psi**2), observed=data)


@add
def copula():
    data = _rng().gamma(2.0, size=(15, 2))
    shape = pm.Exponential("shape", 1.0, shape=2)
    scale = pm.Exponential("scale", 1.0, shape=2)
    chol, _, _ = _scales(2)
    uniform = pm.math.exp(pm.logcdf(pm.Weibull.dist(shape, scale), data))
    probit = pt.sqrt(2.0) * pt.erfinv(2.0 * pt.clip(uniform, 1e-6, 1 - 1e-6) - 1.0)
    density = pm.logp(pm.MvNormal.dist(np.zeros(2), chol=chol), probit)
    pm.Potential("copula", density.sum() - pm.logp(pm.Normal.dist(), probit).sum())
    pm.Weibull("margins", shape, scale, observed=data)


@add
def correlated_random_walk():
    chol, _, _ = _scales(2)
    z = pm.Normal("z", 0.0, 1.0, shape=(8, 2))
    walk = pm.Deterministic("walk", pt.cumsum(z @ chol.T, axis=0))
    sigma = pm.HalfNormal("sigma", 1.0)
    pm.Normal("y", walk, sigma, observed=_rng().normal(size=(8, 2)))


@add
def walk_of_coefficients():
    model = pm.modelcontext(None)
    model.add_coords({"time": range(8), "part": range(2)})
    chol, _, _ = _scales(2)
    step = pm.Normal("step", dims=("time", "part"))
    walk = pt.cumsum(step @ chol.T, axis=0)
    x = _rng().normal(size=8)
    sigma = pm.Exponential("sigma", 1.0)
    pm.Normal("y", walk[:, 0] + walk[:, 1] * x, sigma, observed=_rng().normal(size=8), dims="time")


@add
def gaussian_random_walk_of_vectors():
    chol, _, _ = _scales(2)
    walk = pm.MvGaussianRandomWalk(
        "walk", mu=np.zeros(2), chol=chol, shape=(6, 2),
        init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)),
    )  # fmt: skip
    pm.Normal("y", walk, 1.0, observed=_rng().normal(size=(6, 2)))


@add
def correlations():
    result = pm.LKJCorr("correlation", n=3, eta=2.0)
    matrix = result
    if result.ndim == 1:
        upper = np.triu_indices(3, 1)
        matrix = pt.set_subtensor(pt.eye(3)[upper], result)
        matrix = matrix + matrix.T - pt.eye(3)
    pm.MvNormal("y", np.zeros(3), cov=matrix, observed=_rng().normal(size=(12, 3)))


@add
def batched_covariances():
    scale = pm.HalfNormal("scale", 1.0, shape=(3, 1, 1))
    cov = scale**2 * np.eye(2) + 0.1
    mean = pm.Normal("mean", 0.0, 1.0, shape=(3, 2))
    pm.MvNormal("y", mean, cov=cov, observed=_rng().normal(size=(3, 2)))


@add
def linear_algebra():
    w = pm.Normal("w", 0.0, 1.0, shape=(3, 3))
    matrix = w @ w.T + 3.0 * pt.eye(3)
    solution = pt.linalg.solve(matrix, np.ones(3), assume_a="pos")
    _, log_det = pt.linalg.slogdet(matrix)
    pm.Normal("y", solution, 1.0, observed=np.zeros(3))
    pm.Potential("size", -0.1 * log_det - 0.01 * pt.trace(pt.linalg.inv(matrix)))


@add
def masks():
    beta = pm.Normal("beta", 0.0, 1.0, shape=4)
    mask = pm.Data("mask", X[:4] > 0)
    pm.Normal("y", beta[mask].sum() + (beta * mask).sum(), 1.0, observed=Y[:6])


@add
def integers_between():
    rate = pm.Exponential("rate", 1.0)
    beta = pm.Normal("beta", 0.0, 1.0, shape=5)
    bucket = pt.clip(pt.cast(pt.floor(rate), "int64"), 0, 4)
    pm.Normal("y", beta[bucket] + rate, 1.0, observed=Y[:6])


@add
def lengths_of_zero():
    beta = pm.Normal("beta", 0.0, 1.0, shape=3)
    none = pm.Data("none", np.zeros((0, 3)))
    pm.Normal("nothing", none @ beta, 1.0, observed=pm.Data("seen", np.zeros(0)))
    pm.Normal("y", beta, 1.0, observed=np.zeros(3))


@add
def specified_shapes():
    beta = pm.Normal("beta", 0.0, 1.0, shape=2)
    x = pt.specify_shape(pm.Data("x", X[:8].reshape(4, 2)), (None, 2))
    sigma = pm.HalfNormal("sigma", 1.0)
    pm.Normal("y", x @ beta, sigma, observed=Y[:4])


@add
def data_of_open_length():
    x, y = pm.Data("x", np.stack([X, X**2], 1)), pm.Data("y_seen", (Y > 1).astype(int))
    beta = pm.Normal("beta", 0.0, 1.0, shape=(x.shape[1],))
    offset = pm.Normal("offset", 0.0, 1.0, shape=(1,))
    pm.Bernoulli("y", logit_p=offset + x @ beta, observed=y)


@add
def spectral_gaussian_process():
    x = np.linspace(0, 1, 12)[:, None]
    ell, eta = pm.InverseGamma("ell", 2.0, 1.0), pm.HalfNormal("eta", 1.0)
    gp = pm.gp.HSGP(m=[5], c=1.5, cov_func=eta**2 * pm.gp.cov.Matern52(1, ell))
    f = gp.prior("f", X=x)
    pm.Normal("y", f, 0.5, observed=np.sin(x[:, 0]))


@add
def spectral_gaussian_process_linearised():
    x = np.linspace(0, 1, 12)[:, None]
    ell = pm.InverseGamma("ell", 2.0, 1.0)
    gp = pm.gp.HSGP(m=[4], L=[2.0], cov_func=pm.gp.cov.ExpQuad(1, ell))
    phi, sqrt_psd = gp.prior_linearized(X=x)
    beta = pm.Normal("beta", size=gp.n_basis_vectors)
    pm.Normal("y", phi @ (beta * sqrt_psd), 0.5, observed=np.sin(x[:, 0]))


@add
def spectral_gaussian_process_periodic():
    x = np.linspace(0, 1, 12)[:, None]
    scale, ell = pm.HalfNormal("scale", 1.0), pm.InverseGamma("ell", 2.0, 1.0)
    gp = pm.gp.HSGPPeriodic(m=4, scale=scale, cov_func=pm.gp.cov.Periodic(1, period=1, ls=ell))
    f = gp.prior("f", X=x)
    pm.Poisson("y", pt.exp(f), observed=np.arange(12) % 3)


@add
def latent_gaussian_process():
    x = np.linspace(0, 1, 8)[:, None]
    ell, eta = pm.Gamma("ell", 2.0, 1.0), pm.HalfNormal("eta", 1.0)
    f = pm.gp.Latent(cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ell)).prior("f", X=x)
    pm.Poisson("y", pt.exp(f), observed=np.arange(8) % 3)


@add
def marginal_gaussian_process():
    x = np.linspace(0, 1, 10)[:, None]
    ell, sigma = pm.Gamma("ell", 2.0, 1.0), pm.HalfNormal("sigma", 1.0)
    gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, ell))
    gp.marginal_likelihood("y", X=x, y=np.sin(3 * x[:, 0]), sigma=sigma)
