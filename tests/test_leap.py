"""Several transitions in one compiled loop are the same transitions, one after another."""

import math

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


class Recorded:
    """A generator that gives again what is put in, row by row."""

    def __init__(self, noises, log_uniforms):
        self.noises, self.log_uniforms = list(noises), list(log_uniforms)

    def standard_normal(self, size, dtype):
        if np.ndim(size) == 0:
            return self.noises.pop(0)
        return np.array([self.noises.pop(0) for _ in range(size[0])])

    def random(self, size=None, dtype=None):
        if size is None:
            return -math.expm1(self.log_uniforms.pop(0))
        return -np.expm1([self.log_uniforms.pop(0) for _ in range(size)])


def run(step, x, noises, log_uniforms):
    step.rng = np.random.default_rng(0)
    step.reset_tuning()
    point = {"beta": x[:2], "sigma_log__": x[2]}
    for _ in range(30):
        point, _ = step.step(point)
    step.stop_tuning()
    step.rng = Recorded(noises, log_uniforms)
    while step.rng.noises:
        point, stats = step.step(point)
    return point, stats[0]


@pytest.mark.parametrize("method", [PMALA, MMALA, SimplifiedMMALA, MALA])
@pytest.mark.parametrize("options", [{}, INTERPRETED], ids=["compiled", "interpreted"])
def test_a_draw_with_thinning_is_the_last_of_as_many_transitions(method, options):
    model, rng = regression(), np.random.default_rng(2)
    noises, log_uniforms = rng.normal(size=(12, 3)), np.log(rng.uniform(size=12))
    one, many = (
        run(method(model=model, thin=thin, **options), np.zeros(3), noises, log_uniforms)
        for thin, options in ((1, INTERPRETED), (4, options))
    )
    for name in one[0]:
        np.testing.assert_allclose(many[0][name], one[0][name], rtol=1e-9)
    for name in ("log_det_metric", "model_logp"):
        np.testing.assert_allclose(many[1][name], one[1][name], rtol=1e-9)


def test_thinning_must_be_a_positive_integer():
    with pytest.raises(ValueError, match="thin must be a positive integer"):
        PMALA(model=regression(), thin=0)
