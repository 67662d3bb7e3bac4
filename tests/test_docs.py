"""The examples of the documentation run as they stand, on short chains."""

import doctest
import re
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import get_mode

import pymc_pmala

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["index.md", "quickstart.md", "extending.md", "compound_steps.md", "loops.md"]


@pytest.fixture
def run_page(monkeypatch):
    """Execute a page's Python blocks, one after the other, and return what they define."""
    monkeypatch.setattr(
        "pymc_pmala.compile.functions.get_mode", lambda mode: get_mode(mode or "FAST_COMPILE")
    )
    short = {"draws": 8, "tune": 8, "chains": 1, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    monkeypatch.setattr(pm, "sample", partial(pm.sample, **short, **quiet))

    def run(page):
        text = (DOCS / page).read_text(encoding="utf-8")
        namespace = {}
        for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            exec(compile(block, page, "exec"), namespace)
        return namespace

    return run


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, run_page):
    defined = run_page(page)
    draws = defined["idata"].posterior
    assert all(np.isfinite(draws[name].values).all() for name in draws.data_vars)
    assert (defined["idata"].sample_stats["accepted"].values > 0).any()


def test_the_page_on_a_loop_of_ones_own_samples_the_posterior(run_page):
    draws = np.array(run_page("own_loop.md")["draws"])
    assert draws.shape == (500, 2)
    # The mean of the data is 1.4.
    assert abs(draws[:, 0].mean() - 1.4) < 0.3


def test_the_example_of_resuming_continues_the_chain(run_page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defined = run_page("resuming.md")
    model, draws = defined["model"], defined["first"] + defined["second"]
    uninterrupted = pymc_pmala.PMALA(model=model, rng=1)
    tuning = defined["run"](uninterrupted, model.initial_point(), 300)
    uninterrupted.stop_tuning()
    assert defined["run"](uninterrupted, tuning[-1], 200) == draws


def test_the_example_of_a_rule_takes_effect(run_page, capsys):
    run_page("extending.md")
    [line] = [line for line in capsys.readouterr().out.splitlines() if "DoubleExponential" in line]
    assert "closed form" in line


def test_the_example_of_a_metric_is_the_fisher_metric(run_page):
    defined = run_page("extending.md")
    np.testing.assert_allclose(defined["mine"].metric, defined["fisher"].metric, rtol=1e-8)
    np.testing.assert_allclose(defined["mine"].gamma, defined["fisher"].gamma, atol=1e-8)


@pytest.mark.parametrize("name", pymc_pmala.__all__)
def test_the_examples_of_docstrings_run(name):
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(getattr(pymc_pmala, name), name):
        runner.run(test)
    assert runner.failures == 0


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"\w+", (DOCS / "api" / "index.md").read_text(encoding="utf-8"))
    assert set(pymc_pmala.__all__) <= set(listed)
