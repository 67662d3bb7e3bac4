"""JAX mode: the draws of the default mode, to rounding."""

import importlib.util
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed"),
]

# In a process of its own: JAX's threads do not outlive the fork of PyMC's workers.
SCRIPT = """
import numpy as np
import pymc as pm

from benchmarks.models import independent_groups
from pymc_pmala import MALA, PMALA

rng = np.random.default_rng(0)
x, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
with pm.Model() as regression:
    beta = pm.Normal("beta", 0, 5, shape=3)
    pm.Bernoulli("y", logit_p=x @ beta, observed=y)
with pm.Model() as walk:
    level = pm.GaussianRandomWalk("level", sigma=0.3, init_dist=pm.Normal.dist(), steps=20)
    pm.Poisson("y", pm.math.exp(level), observed=np.arange(21))
with pm.Model() as potential:
    a = pm.Normal("a")
    pm.Potential("well", -(a**4))

options = {"draws": 30, "tune": 30, "chains": 1, "cores": 1, "random_seed": 1, "progressbar": False}
for model, method, choice in [
    (regression, PMALA, {}),
    (regression, PMALA, {"thin": 3}),
    (regression, MALA, {}),
    (walk, PMALA, {}),
    (independent_groups(3), PMALA, {}),
    (potential, PMALA, {}),
]:
    with model:
        ours, jax = (
            pm.sample(step=method(**choice, **mode), compute_convergence_checks=False, **options)
            for mode in ({}, {"compile_kwargs": {"mode": "JAX"}})
        )
    for name, values in ours.posterior.data_vars.items():
        np.testing.assert_allclose(jax.posterior[name].values, values.values, rtol=1e-6)
"""


def test_jax_mode_gives_the_draws_of_the_default_mode():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
