"""Langevin steps beside PyMC's own: compound steps, statistics and progress bar."""

import sys

import numpy as np
import pymc as pm
import pytest
from rich.console import Console
from rich.progress import Progress

from pymc_pmala import MALA, PMALA

QUICK = {"mode": "FAST_COMPILE"}

CONTINUOUS = [pm.NUTS, pm.HamiltonianMC, pm.Metropolis, pm.Slice, pm.DEMetropolis, pm.DEMetropolisZ]
BINARY = [pm.BinaryMetropolis, pm.BinaryGibbsMetropolis, pm.CategoricalGibbsMetropolis]


def sample(steps, **kwargs):
    options = {"draws": 3, "tune": 3, "chains": 1, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    return pm.sample(step=steps, **(options | quiet | kwargs))


@pytest.fixture(scope="module")
def mixed():
    """A continuous variable that depends on a continuous, a binary and a count."""
    with pm.Model() as model:
        w = pm.Normal("w")
        z = pm.Bernoulli("z", 0.4)
        k = pm.Poisson("k", 2.0)
        pm.Normal("x", w + 2.0 * z - 0.5 * k, 1.0)
    return model


@pytest.fixture(scope="module")
def langevin(mixed):
    return PMALA([mixed["x"]], model=mixed, metric=np.ones(1))


def test_the_type_of_accepted_is_that_of_every_pymc_step_and_has_no_hash():
    kind = PMALA.stats_dtypes_shapes["accepted"][0]
    assert kind == bool  # noqa: E721
    assert kind == np.float64
    assert kind != np.int64
    assert np.zeros(1, dtype=kind).dtype == np.float64
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind)


def test_nuts_stays_the_default():
    with pm.Model() as model:
        pm.Normal("x")
        idata = pm.sample(
            3, tune=3, chains=1, cores=1, nuts_sampler="pymc", progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert "tree_depth" in idata.sample_stats
    x = model.value_vars[0]
    assert 0 < PMALA.competence(x, True) < pm.NUTS.competence(x, True)
    assert PMALA.competence(x, False) == 0


@pytest.mark.parametrize("method", CONTINUOUS, ids=lambda method: method.__name__)
def test_a_step_compounds_with_every_continuous_pymc_step(method):
    # On one variable: DEMetropolis and DEMetropolisZ cannot sample only some of a model's.
    with pm.Model():
        x = pm.Normal("x")
        mine, other = PMALA([x], metric="identity", compile_kwargs=QUICK), method([x])
        chains = 3 if method is pm.DEMetropolis else 1
        for steps in ([mine, other], [other, mine]):
            idata = sample(steps, chains=chains)
            assert np.isfinite(idata.posterior["x"].values).all()
    assert {"lp", "accepted", "step_size", "diverging"} <= set(idata.sample_stats.data_vars)
    assert idata.sample_stats["accepted"].dtype == np.float64


@pytest.mark.parametrize("method", BINARY, ids=lambda method: method.__name__)
def test_a_step_compounds_with_every_discrete_pymc_step(method, langevin, mixed):
    with mixed:
        steps = [method([mixed["z"]]), pm.Metropolis([mixed["k"]]), pm.Slice([mixed["w"]])]
        idata = sample([langevin, *steps])
        assert set(idata.posterior.data_vars) == {"w", "x", "z", "k"}


def test_lp_is_the_log_density_of_the_whole_model_in_a_compound_step(langevin, mixed):
    seen = []
    with mixed:
        others = [pm.BinaryGibbsMetropolis([mixed["z"]]), pm.Metropolis([mixed["k"]])]
        steps = [pm.Metropolis([mixed["w"]]), *others, langevin]
        idata = sample(
            steps, draws=20, tune=0, callback=lambda trace, draw: seen.append(draw.point)
        )
    logp = mixed.compile_logp()
    lp = np.reshape(idata.sample_stats["lp"].values, (20, -1))[:, -1]
    np.testing.assert_allclose(lp, [logp(point) for point in seen], rtol=1e-12)
    assert len({int(point["k"]) for point in seen}) > 1


def test_draws_given_the_other_variables_have_the_conditional_distribution(langevin, mixed):
    """Exact for a Gaussian under its own precision: N(m + ρ(x − m), 1 − ρ²), m = w + 2z − k/2."""
    rng, noise = np.random.default_rng(4), []
    point = mixed.initial_point()
    langevin.reset_tuning()
    langevin.rng = np.random.default_rng(5)
    for _ in range(1000):
        point["w"] = np.asarray(rng.normal(scale=3.0))
        point["z"], point["k"] = np.asarray(rng.integers(2)), np.asarray(rng.poisson(2.0))
        new, [stats] = langevin.step(point)
        assert stats["mean_tree_accept"] > 1 - 1e-9
        rho = np.exp(-stats["step_size"] / 2)
        mean = point["w"] + 2.0 * point["z"] - 0.5 * point["k"]
        noise.append((new["x"] - mean - rho * (point["x"] - mean)) / np.sqrt(1 - rho**2))
        point = new
    assert abs(np.mean(noise)) < 4 / np.sqrt(1000)
    assert abs(np.var(noise) - 1.0) < 4 * np.sqrt(2 / 1000)


@pytest.mark.parametrize(
    "beside",
    [None, pm.NUTS, pm.Metropolis],
    ids=lambda method: getattr(method, "__name__", "alone"),
)
def test_the_progress_bar_has_columns_of_its_own(beside, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    # PyMC 5.28 keeps the stream of its import.
    monkeypatch.setattr("pymc.progress_bar.rich_progress.stderr", sys.stdout)
    with pm.Model():
        x, w = pm.Normal("x"), pm.Normal("w")
        mine = MALA([x] if beside else None, metric="identity", compile_kwargs=QUICK)
        steps = [mine, *([beside([w])] if beside else [])]
        for options in ({"chains": 1}, {"chains": 2}):
            sample(steps, progressbar=True, **options)
            shown = capsys.readouterr().out
            for header in ("Divergences", "Step size", "Accept"):
                assert header in shown


def test_the_progress_bar_shows_step_size_acceptance_and_divergences():
    columns, start = PMALA._progressbar_config(n_chains=2)
    [update] = PMALA._make_progressbar_update_functions()
    stats = {"step_size": 1.2345, "mean_tree_accept": 0.678, "divergences": 3, "lp": -1.0}
    assert all(len(values) == 2 for values in start.values())
    progress = Progress(*columns, console=Console(width=100))
    task = progress.add_task("", **{name: values[0] for name, values in start.items()})
    shown = update(stats)
    assert shown.pop("failing")
    assert not update(stats | {"divergences": 0})["failing"]
    progress.update(task, **shown)
    with progress.console.capture() as captured:
        progress.console.print(progress.get_renderable())
    assert captured.get().split() == ["3", "1.234", "0.68"]
