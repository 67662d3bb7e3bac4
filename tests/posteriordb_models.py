"""Models of posteriordb (BSD-3-Clause, stan-dev/posteriordb) in PyMC, by name of the posterior.

Names and shapes of the parameters are Stan's, so that the reference summaries apply.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered


def autoregression(data):
    y, k = np.array(data["y"]), data["K"]
    lagged = np.stack([y[k - 1 - lag : len(y) - 1 - lag] for lag in range(k)], axis=1)
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0, 10)
        beta = pm.Normal("beta", 0, 10, shape=k)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", alpha + lagged @ beta, sigma, observed=y[k:])
    return model


def schools_centred(data):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=data["J"])
        pm.Normal("y", theta, np.array(data["sigma"], float), observed=data["y"])
    return model


def schools_non_centred(data):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        standardised = pm.Normal("standardised", shape=data["J"])
        theta = pm.Deterministic("theta", mu + tau * standardised)
        pm.Normal("y", theta, np.array(data["sigma"], float), observed=data["y"])
    return model


def garch(data):
    y = np.array(data["y"])
    with pm.Model() as model:
        mu = pm.Flat("mu", initval=y.mean())
        alpha0 = pm.HalfFlat("alpha0")
        alpha1 = pm.Uniform("alpha1", 0, 1)
        beta1 = pm.Uniform("beta1", 0, 1 - alpha1)
        pm.Potential("flat_on_the_triangle", pt.log1p(-alpha1))

        def variance(squared, before, alpha0, alpha1, beta1):
            return alpha0 + alpha1 * squared + beta1 * before

        first = pt.constant(data["sigma1"] ** 2, dtype="float64")
        later = pytensor.scan(
            variance,
            sequences=[(y[:-1] - mu) ** 2],
            outputs_info=[first],
            non_sequences=[alpha0, alpha1, beta1],
            return_updates=False,
        )
        variances = pt.concatenate([first[None], later])
        pm.Normal("y", mu, pt.sqrt(variances), observed=y)
    return model


def gp_regression(data):
    x = np.array(data["x"], float)
    squares = (x[:, None] - x) ** 2
    with pm.Model() as model:
        rho = pm.Gamma("rho", 25, 4)
        alpha = pm.HalfNormal("alpha", 2)
        sigma = pm.HalfNormal("sigma", 1)
        # Stan's model adds sigma, not its square.
        covariance = alpha**2 * pt.exp(-0.5 * squares / rho**2) + sigma * pt.eye(len(x))
        pm.MvNormal("y", np.zeros(len(x)), covariance, observed=data["y"])
    return model


def lotka_volterra(data):
    times, parts = np.array(data["ts"], float), 10
    step = 1.0 / parts
    assert (np.diff(times, prepend=0) == 1).all()

    def slope(z, theta):
        u, v = z[0], z[1]
        return pt.stack([(theta[0] - theta[1] * v) * u, (-theta[2] + theta[3] * u) * v])

    def runge_kutta(z, theta):
        a = slope(z, theta)
        b = slope(z + step / 2 * a, theta)
        c = slope(z + step / 2 * b, theta)
        d = slope(z + step * c, theta)
        return z + step / 6 * (a + 2 * b + 2 * c + d)

    with pm.Model() as model:
        theta = pm.TruncatedNormal(
            "theta", [1, 0.05, 1, 0.05], [0.5, 0.05, 0.5, 0.05], lower=0, shape=4,
            initval=[0.5, 0.03, 0.8, 0.02],
        )  # fmt: skip
        z_init = pm.LogNormal("z_init", np.log(10), 1, shape=2)
        sigma = pm.LogNormal("sigma", -1, 1, shape=2)
        path = pytensor.scan(
            runge_kutta,
            outputs_info=[z_init],
            non_sequences=[theta],
            n_steps=parts * len(times),
            return_updates=False,
        )
        pm.LogNormal("y_init", pt.log(z_init), sigma, observed=data["y_init"])
        pm.LogNormal("y", pt.log(path[parts - 1 :: parts]), sigma, observed=data["y"])
    return model


def kid_scores(data):
    school, iq = np.array(data["mom_hs"], float), np.array(data["mom_iq"])
    columns = np.stack([np.ones_like(iq), school, iq, school * iq], axis=1)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=4)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", columns @ beta, sigma, observed=np.array(data["kid_score"], float))
    return model


def normal_mixture(data):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2, transform=ordered, initval=[-1, 1])
        sigma = pm.HalfNormal("sigma", 2, shape=2)
        theta = pm.Beta("theta", 5, 5)
        pm.NormalMixture("y", pt.stack([theta, 1 - theta]), mu, sigma, observed=data["y"])
    return model


def election_study(data):
    age = np.array(data["age_discrete"])
    names = ["educ1", "gender", "income"]
    columns = np.stack(
        [
            np.ones(len(age)),
            data["real_ideo"],
            data["race_adj"],
            *(age == group for group in (2, 3, 4)),
            *(data[name] for name in names),
        ],
        axis=1,
    ).astype(float)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=9)
        sigma = pm.HalfFlat("sigma")
        pm.Normal("y", columns @ beta, sigma, observed=np.array(data["partyid7"], float))
    return model


def linear_regression(data):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=data["D"])
        sigma = pm.HalfNormal("sigma", 10)
        pm.Normal("y", np.array(data["X"]) @ beta, sigma, observed=data["y"])
    return model


MODELS = {
    "arK-arK": autoregression,
    "eight_schools-eight_schools_centered": schools_centred,
    "eight_schools-eight_schools_noncentered": schools_non_centred,
    "garch-garch11": garch,
    "gp_pois_regr-gp_regr": gp_regression,
    "hudson_lynx_hare-lotka_volterra": lotka_volterra,
    "kidiq-kidscore_interaction": kid_scores,
    "low_dim_gauss_mix-low_dim_gauss_mix": normal_mixture,
    "nes2000-nes": election_study,
    "sblrc-blr": linear_regression,
}
