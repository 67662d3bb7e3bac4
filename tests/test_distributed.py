"""Chains on a Dask cluster: the draws of one machine, whatever happens to the workers."""

import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pymc as pm
import pytest

import pymc_pmala
from pymc_pmala import PMALA

OPTIONS = {"draws": 30, "tune": 20, "chains": 4, "random_seed": 11}
INITVALS = [{"mu": np.full(2, 0.1 * chain)} for chain in range(4)]


def normal_model():
    with pm.Model(coords={"place": ["a", "b"]}) as model:
        mu = pm.Normal("mu", dims="place")
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=[[0.3, 1.9], [-0.4, 1.1]])
    return model


def quick_pmala():
    return PMALA(compile_kwargs={"mode": "interpreted"})


@pytest.fixture(scope="module")
def local():
    """The same chains by `pm.sample`."""
    with normal_model():
        return pm.sample(
            step=quick_pmala(), cores=1, initvals=INITVALS, progressbar=False,
            compute_convergence_checks=False, discard_tuned_samples=False, **OPTIONS,
        )  # fmt: skip


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def assert_same(one, other):
    for group in ("posterior", "warmup_posterior", "sample_stats"):
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name, values in other[group].data_vars.items():
            assert one[group][name].dims == values.dims
            np.testing.assert_allclose(one[group][name], values, rtol=1e-8, err_msg=name)
        np.testing.assert_array_equal(one[group]["chain"], other[group]["chain"])
    np.testing.assert_array_equal(one["observed_data"]["y"], other["observed_data"]["y"])


def die_once_a_chain_has_ended(folder):
    """A callback that records which chains begin, and kills one worker in its second chain."""

    def callback(trace, draw):
        if draw.draw_idx == 0 and draw.tuning:
            (folder / f"begun-{time.time_ns()}-{os.getpid()}").touch()
        if draw.draw_idx == 25 and len(list(folder.glob(f"begun-*-{os.getpid()}"))) == 2:
            try:
                (folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                return
            # Time for the first chain to reach the client.
            time.sleep(3)
            os.kill(os.getpid(), signal.SIGKILL)

    return callback


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_worker_costs_its_running_chain_and_no_draw(client, local, tmp_path):
    idata = pymc_pmala.distributed.sample(
        normal_model(), step=quick_pmala, client=client, initvals=INITVALS,
        discard_tuned_samples=False, callback=die_once_a_chain_has_ended(tmp_path), **OPTIONS,
    )  # fmt: skip
    assert (tmp_path / "killed").exists()
    # Four chains and the one that was killed; those that had ended did not begin again.
    assert len(list(tmp_path.glob("begun-*"))) == 5
    assert type(idata) is type(local)
    assert_same(idata, local)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_step_made_already_and_its_warnings_travel(client, caplog):
    model = normal_model()
    with model:
        step = PMALA(
            metric=np.full(3, 1e-12), step_size=1.0, adapt_step_size=False,
            compile_kwargs={"mode": "interpreted"},
        )  # fmt: skip
    with caplog.at_level(logging.INFO, logger="pymc"):
        pymc_pmala.distributed.sample(
            model, step=step, client=client, chains=2, draws=110, tune=2, random_seed=1
        )
    told = [r.getMessage() for r in caplog.records if "A chain is stuck" in r.getMessage()]
    assert sorted(message[:8] for message in told) == ["Chain 0:", "Chain 1:"]
    assert ["1 of 2" in caplog.text, "2 of 2" in caplog.text] == [True, True]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_error_in_a_chain_is_the_users(client):
    with pm.Model() as model:
        pm.Potential("broken", pm.math.log(-1.0 - pm.Normal("x") ** 2))
    with pytest.raises(pm.exceptions.SamplingError, match="log-density is nan"):
        pymc_pmala.distributed.sample(
            model, step=quick_pmala, client=client, chains=2, draws=5, tune=5
        )


def test_without_dask_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pymc-pmala\[dask\]"):
        pymc_pmala.distributed.sample(normal_model(), client=None)


def test_optional_packages_are_not_imported_before_they_are_used():
    code = (
        "import sys, pymc; before = set(sys.modules); import pymc_pmala; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(found.stdout.split())
    assert "pymc_pmala" in imported
    assert not imported & {"dask", "distributed", "matplotlib", "nutpie", "jax", "blackjax"}
