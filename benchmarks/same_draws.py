"""Fingerprints of draws, to check that a change of the code does not change any chain.

``python -m benchmarks.same_draws > after.txt`` prints one line for each combination of model and
sampler. Run it on two commits with the same versions of PyMC and pytensor, and compare the files:
equal lines mean that the draws are identical to the last bit.

The script uses only public names of the package, so that it also runs on other commits::

    git worktree add /tmp/before COMMIT
    PYTHONPATH=/tmp/before python benchmarks/same_draws.py > before.txt
"""

import hashlib
import logging

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA

SEED = 20140901
SAMPLING = {
    "draws": 150,
    "tune": 150,
    "chains": 2,
    "cores": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
    "random_seed": SEED,
}


def data(*size):
    return np.random.default_rng(SEED).normal(size=size)


def logistic():
    x = data(200, 4)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5, shape=4)
        pm.Bernoulli("y", logit_p=pt.dot(x, beta), observed=x @ [1, -1, 0.5, 0] > data(200))
    return model


def regression():
    x = data(100, 3)
    with pm.Model() as model:
        held = pm.Data("x", x)
        beta = pm.Normal("beta", 0, 5, shape=3)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", held @ beta, sigma, observed=x @ [3.0, 1.0, -2.0] + data(100))
    return model


def far_start():
    x = data(500, 2)
    counts = np.random.default_rng(1).poisson(np.exp(3 + x @ [0.5, -0.3]))
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 10), pm.Normal("b", 0, 10, shape=2)
        alpha = pm.Exponential("alpha", 1)
        pm.NegativeBinomial("y", mu=pm.math.exp(a + x @ b), alpha=alpha, observed=counts)
    return model


def hierarchy(groups=30):
    group = np.repeat(np.arange(groups), 5)
    counts = np.random.default_rng(2).poisson(np.exp(1 + 0.5 * data(groups)[group]))
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", mu, tau, shape=groups)
        pm.Poisson("y", pm.math.exp(effect[group]), observed=counts)
    return model


def eight_schools():
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        sd = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
        pm.Normal("y", theta, sd, observed=[28.0, 8, -3, 7, -1, 1, 18, 12])
    return model


def random_walk():
    with pm.Model() as model:
        sd = pm.Exponential("sd", 10)
        level = pm.GaussianRandomWalk("level", sigma=sd, init_dist=pm.Normal.dist(0, 1), shape=60)
        pm.Normal("y", 0, pm.math.exp(0.5 * level), observed=data(60))
    return model


def decay():
    times = np.arange(1.0, 21.0)
    with pm.Model() as model:
        rate, start = pm.LogNormal("rate", -1, 1), pm.LogNormal("start", 1, 1)

        def euler(state, rate):
            return state - 0.1 * rate * state * (1 + 0.1 * state)

        states = pytensor.scan(
            euler, outputs_info=[start], non_sequences=[rate], n_steps=20, return_updates=False
        )
        observed = 3 * np.exp(-0.05 * times) + 0.1 * data(20)
        pm.Normal("y", states, 0.1, observed=observed)
    return model


def change_point():
    counts = np.random.default_rng(3).poisson(np.where(np.arange(60) < 25, 3, 8))
    with pm.Model() as model:
        when = pm.DiscreteUniform("when", 0, 59)
        early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
        rate = pm.math.switch(when >= np.arange(60), early, late)
        pm.Poisson("y", rate, observed=counts)
    return model


def quartic(model, x):
    """A user-defined metric."""
    return pt.diag(1 + x**2)


CASES = {
    "PMALA, logistic regression": (logistic, PMALA, {}),
    "PMALA, regression, data held": (regression, PMALA, {}),
    "PMALA, negative binomial from afar": (far_start, PMALA, {}),
    "PMALA, hierarchy": (hierarchy, PMALA, {}),
    "PMALA, eight schools": (eight_schools, PMALA, {}),
    "PMALA, band": (random_walk, PMALA, {}),
    "PMALA, loop": (decay, PMALA, {}),
    "PMALA, compound": (change_point, None, {}),
    "PMALA, Euler": (regression, PMALA, {"integrator": "euler"}),
    "PMALA, thin": (logistic, PMALA, {"thin": 4}),
    "PMALA, jitter": (logistic, PMALA, {"step_size_jitter": 0.5}),
    "PMALA, SoftAbs": (eight_schools, PMALA, {"metric": "softabs"}),
    "PMALA, callable": (logistic, PMALA, {"metric": quartic}),
    "PMALA, constant": (logistic, PMALA, {"metric": np.full(4, 20.0)}),
    "MMALA, eight schools": (eight_schools, MMALA, {}),
    "SimplifiedMMALA, hierarchy": (hierarchy, SimplifiedMMALA, {}),
    "MALA, logistic regression": (logistic, MALA, {}),
    "MALA, negative binomial from afar": (far_start, MALA, {}),
    "MALA, hierarchy": (hierarchy, MALA, {}),
    "MALA, Euler, thin": (logistic, MALA, {"integrator": "euler", "thin": 3}),
    "MALA, identity": (logistic, MALA, {"metric": "identity"}),
}


def fingerprint(build, method, options):
    with build() as model:
        if method is None:
            early, late = model["early"], model["late"]
            step = [PMALA([early, late]), pm.Metropolis([model["when"]])]
        else:
            step = method(**options)
        idata = pm.sample(step=step, **SAMPLING)
    digest = hashlib.sha256()
    for name in sorted(idata.posterior.data_vars):
        digest.update(np.ascontiguousarray(idata.posterior[name].values).tobytes())
    for name in ("step_size", "n_transitions", "lp"):
        digest.update(np.ascontiguousarray(idata.sample_stats[name].values).tobytes())
    return digest.hexdigest()[:16]


def main():
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for name, case in CASES.items():
        print(f"{fingerprint(*case)}  {name}", flush=True)


if __name__ == "__main__":
    main()
