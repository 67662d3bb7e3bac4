"""Several transitions in one compiled loop are the same transitions, one after another."""

import numpy as np
import pymc as pm
import pytest

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA

INTERPRETED = {"compile_kwargs": {"mode": "interpreted"}}


def regression():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 2))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", x @ beta, sigma, observed=rng.normal(size=20))
    return model


def run(step, x, draws):
    step.rng = np.random.default_rng(0)
    step.reset_tuning()
    point = {"beta": x[:2], "sigma_log__": x[2]}
    for _ in range(30):
        point, _ = step.step(point)
    step.stop_tuning()
    # Every transition takes its random numbers in turn: these are the same for any thinning.
    step.rng = np.random.default_rng(2)
    for _ in range(draws):
        point, stats = step.step(point)
    return point, stats[0]


@pytest.mark.parametrize("method", [PMALA, MMALA, SimplifiedMMALA, MALA])
@pytest.mark.parametrize("options", [{}, INTERPRETED], ids=["compiled", "interpreted"])
def test_a_draw_with_thinning_is_the_last_of_as_many_transitions(method, options):
    model = regression()
    one, many = (
        run(method(model=model, thin=thin, **options), np.zeros(3), draws)
        for thin, draws, options in ((1, 12, INTERPRETED), (4, 3, options))
    )
    for name in one[0]:
        np.testing.assert_allclose(many[0][name], one[0][name], rtol=1e-9)
    for name in ("log_det_metric", "model_logp"):
        np.testing.assert_allclose(many[1][name], one[1][name], rtol=1e-9)


def test_thinning_must_be_a_positive_integer():
    with pytest.raises(ValueError, match="thin must be a positive integer"):
        PMALA(model=regression(), thin=0)
