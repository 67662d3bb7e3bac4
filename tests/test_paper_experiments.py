"""The command that repeats the paper's experiments, and what it measures with."""

import json

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from examples.paper import example
from examples.paper.__main__ import main
from examples.paper.effective_size import effective_size
from pymc_pmala import local_geometry


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_size_of_an_autoregression_is_its_closed_form(rho):
    rng = np.random.default_rng(3)
    sizes = []
    for _ in range(20):
        x = rng.normal(size=20_000)
        for i in range(1, len(x)):
            x[i] += rho * x[i - 1]
        sizes.append(effective_size(x))
    expected = 20_000 * (1 - rho) / (1 + rho)
    # The sum stops where noise takes over, which biases it by a few per cent.
    assert abs(np.mean(sizes) / expected - 1) < 0.07


def test_a_chain_that_never_moves_has_no_effective_size():
    assert effective_size(np.ones(100)) == 0.0


def test_drifts_of_the_example_are_those_of_the_package():
    point = np.array([0.3, -1.2])
    geometry = local_geometry({"x": point}, metric=example.metric, model=example.model())
    for name, found in [("PMALA", geometry.gamma), ("MMALA", geometry.omega)]:
        by_hand = [0.0, example.CORRECTIONS[name](point[1])]
        np.testing.assert_allclose(found, by_hand, atol=1e-12)


def test_unadjusted_pmala_keeps_the_density_and_mmala_multiplies_it_by_f():
    for method, kept in [("PMALA", "π"), ("MMALA", "π f")]:
        counts, _ = np.histogram(example.simulate(method), example.BINS)
        difference = counts / example.PARTICLES - example.probabilities(kept)
        assert 0.5 * np.abs(difference).sum() < 0.03


def test_the_corrected_riemannian_diffusion_has_the_drift_of_pmala():
    """½ A ∇log π* + ½ Ω with π* = π |G|^(-1/2), the density by the metric's own volume."""
    rng = np.random.default_rng(4)
    d = 3
    linear, quadratic = rng.normal(size=(d, d, d)), 0.3 * rng.normal(size=(d, d, d))

    def root(x, module):
        return module.tensordot(linear, x, axes=1) + module.tensordot(quadratic, x**2, axes=1)

    def metric(model, x):
        return root(x, pt) @ root(x, pt).T + np.eye(d)

    def matrix(x):
        return root(x, np) @ root(x, np).T + np.eye(d)

    with pm.Model() as model:
        pm.StudentT("x", nu=3, shape=d)
    x, step = rng.normal(size=d), 1e-4
    geometry = local_geometry({"x": x}, metric=metric, model=model)

    def derivative(function):
        """∂_j of an array, j last, to fourth order."""
        weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
        slopes = [
            sum(w * function(x + k * step * e) for k, w in weights.items()) / step
            for e in np.eye(d)
        ]
        return np.stack(slopes, axis=-1)

    volume = np.sqrt(np.linalg.det(matrix(x)))
    omega = (
        np.einsum(
            "ijj->i",
            derivative(lambda y: np.linalg.inv(matrix(y)) * np.linalg.det(matrix(y)) ** 0.5),
        )
        / volume
    )
    log_pi_star = geometry.gradient - derivative(lambda y: 0.5 * np.linalg.slogdet(matrix(y))[1])
    inverse = np.linalg.inv(matrix(x))
    riemannian = 0.5 * inverse @ log_pi_star + 0.5 * omega
    pmala = 0.5 * inverse @ geometry.gradient + geometry.gamma
    np.testing.assert_allclose(riemannian, pmala, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(geometry.omega, omega, rtol=1e-7, atol=1e-9)
    # And they are not MMALA's, or this would show nothing.
    assert np.abs(geometry.omega - geometry.gamma).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["logistic", "fhn", "volatility"])
def test_an_experiment_runs_quickly_and_is_resumed(experiment, data_folder, tmp_path, capsys):
    arguments = [experiment, "--quick", "--data", str(data_folder), "--results", str(tmp_path)]
    main(arguments)
    first = capsys.readouterr().out
    assert "PMALA" in first
    [path] = tmp_path.rglob("PMALA*.json")
    [chain] = json.loads(path.read_text())
    assert all(0 < rate <= 1 for rate in chain["acceptance"])
    assert min(chain["sizes"]) > 0
    stamp = path.stat().st_mtime_ns
    main(arguments)
    assert capsys.readouterr().out == first
    assert path.stat().st_mtime_ns == stamp
