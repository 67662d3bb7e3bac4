"""The paper's acceptance rates, and reference posteriors of hierarchical models."""

import json

import arviz as az
import numpy as np
import pymc as pm
import pytest

from benchmarks.data import load_logistic
from benchmarks.models import logistic_regression
from pymc_pmala import MMALA, PMALA

pytestmark = pytest.mark.slow

# Independent runs at h = 1 with Euler's proposal.
ACCEPTANCE = {"australian": 0.52, "german": 0.47, "heart": 0.48, "pima": 0.69, "ripley": 0.41}


def sample(step, model, **options):
    defaults = {"chains": 4, "cores": 1, "progressbar": False, "random_seed": 3}
    with model:
        return pm.sample(step=step, compute_convergence_checks=False, **(defaults | options))


@pytest.mark.parametrize("name", ACCEPTANCE)
def test_acceptance_of_the_paper_s_proposal_on_its_data(name, data_folder):
    model = logistic_regression(*load_logistic(name, data_folder))
    step = PMALA(integrator="euler", step_size=1.0, adapt_step_size=False, model=model)
    idata = sample(step, model, chains=2, tune=300, draws=3000)
    acceptance = idata.sample_stats["acceptance_rate"].values.mean()
    assert abs(acceptance - ACCEPTANCE[name]) < 0.03


def schools(folder, centred):
    data = json.loads((folder / "eight_schools-eight_schools_centered" / "data.json").read_text())
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            z = pm.Normal("z", 0, 1, shape=8)
            theta = pm.Deterministic("theta", mu + tau * z)
        pm.Normal("y", theta, np.array(data["sigma"], float), observed=np.array(data["y"], float))
    return model


@pytest.mark.parametrize("centred", [True, False])
def test_eight_schools_agree_with_the_reference_posterior(centred, posteriordb_folder):
    name = "eight_schools-eight_schools_centered"
    path = posteriordb_folder / name / "reference_summary.json"
    reference = json.loads(path.read_text())["parameters"]
    model = schools(posteriordb_folder, centred)
    step = PMALA(model=model)
    idata = sample(step, model, tune=500, draws=25_000 if centred else 6_000)
    assert not idata.sample_stats["diverging"].values.any()
    for parameter, expected in reference.items():
        base, _, index = parameter.partition("[")
        draws = idata.posterior[base].values
        if index:
            draws = draws[..., int(index.rstrip("]")) - 1]
        error = draws.std() / np.sqrt(float(az.ess(draws)))
        combined = np.hypot(error, expected["mcse_mean"])
        assert abs(draws.mean() - expected["mean"]) < 4 * combined, parameter


def test_neals_funnel_has_the_known_quantiles_where_mmala_collapses():
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
    idata = sample(PMALA(model=model), model, tune=500, draws=40_000)
    draws = idata.posterior["v"].values
    assert not idata.sample_stats["diverging"].values.any()
    for probability, quantile in [(0.25, -2.0235), (0.5, 0.0), (0.75, 2.0235)]:
        below = (draws < quantile).astype(float)
        error = below.std() / np.sqrt(float(az.ess(below)))
        assert abs(below.mean() - probability) < 4 * error
    # The drift that the paper corrects: at the step size that PMALA tunes, MMALA rejects.
    step_size = float(idata.sample_stats["step_size_bar"].values[:, -1].mean())
    fixed = MMALA(step_size=step_size, adapt_step_size=False, model=model)
    mmala = sample(fixed, model, chains=2, tune=100, draws=2000)
    acceptance = idata.sample_stats["acceptance_rate"].values.mean()
    assert mmala.sample_stats["acceptance_rate"].values.mean() < 0.2 * acceptance
