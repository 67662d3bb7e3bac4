"""Gaussian processes are built within little memory, each in a process of its own."""

import subprocess
import sys

import pytest

MOST = 2.0
"""Gigabytes."""

SCRIPT = """
import resource
import sys

import numpy as np
import pymc as pm

from pymc_pmala import PMALA, local_geometry

kind, points = sys.argv[1], int(sys.argv[2])
x = np.linspace(0.0, 1.0, points)[:, None]
with pm.Model() as model:
    ell, eta = pm.Gamma("ell", 2.0, 1.0), pm.HalfNormal("eta", 1.0)
    covariance = eta**2 * pm.gp.cov.ExpQuad(1, ell)
    if kind == "marginal":
        gp = pm.gp.Marginal(cov_func=covariance)
        gp.marginal_likelihood("y", X=x, y=np.sin(3 * x[:, 0]), sigma=pm.HalfNormal("sigma", 1.0))
    else:
        f = pm.gp.Latent(cov_func=covariance).prior("f", X=x)
        if kind == "poisson":
            pm.Poisson("y", pm.math.exp(f), observed=np.arange(points) % 3)
        else:
            pm.Normal("y", f, 0.5, observed=np.sin(3 * x[:, 0]))
    if kind == "geometry":
        for _ in range(50):
            local_geometry()
    else:
        PMALA()
usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(usage / (1e9 if sys.platform == "darwin" else 1e6))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the peak")
@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("normal", 50),
        ("normal", 150),
        ("poisson", 50),
        ("poisson", 150),
        ("marginal", 100),
        ("marginal", 500),
        ("geometry", 5),
    ],
)
def test_a_gaussian_process_is_built_within_little_memory(kind, points):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(points)],
        check=True, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip
    assert float(run.stdout.splitlines()[-1]) < MOST
