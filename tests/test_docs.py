"""The examples of the documentation run as they stand, on short chains."""

import doctest
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode

import pymc_pmala

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    "docs/index.md",
    "docs/quickstart.md",
    "docs/extending.md",
    "docs/estimates.md",
    "docs/hierarchies.md",
    "docs/compound_steps.md",
    "docs/loops.md",
    "docs/coming_from_nuts.md",
    "README.md",
]
# Pages with a test of their own below.
OTHERS = {"docs/own_loop.md", "docs/resuming.md", "docs/distributed.md", "CONTRIBUTING.md"}


def blocks(page, fence="```python\n"):
    """The blocks of code of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^{re.escape(fence)}(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def run_page(monkeypatch):
    """Execute a page's Python blocks, one after the other, and return what they define."""
    monkeypatch.setattr(
        "pymc_pmala.compile.functions.get_mode", lambda mode: get_mode(mode or "FAST_COMPILE")
    )
    short = {"draws": 8, "tune": 8, "chains": 1, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    monkeypatch.setattr(pm, "sample", partial(pm.sample, **short, **quiet))

    def run(page, fence="```python\n", name="page"):
        namespace = {"__name__": name}
        for block in blocks(page, fence):
            exec(compile(block, page, "exec"), namespace)
        return namespace

    yield run
    plt.close("all")


@pytest.fixture
def quick_compare(monkeypatch):
    """Let `compare` run one sampler for a few draws, whatever a page asks for."""
    short = {"steps": ["PMALA"], "draws": 20, "tune": 20, "progressbar": False}
    quick = partial(pymc_pmala.compare, **short)
    monkeypatch.setattr(pymc_pmala, "compare", lambda model, **options: quick(model))


def test_every_page_with_code_is_run():
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    found = {str(page.relative_to(ROOT)) for page in pages if blocks(page)}
    assert found == OTHERS.union(PAGES)


@pytest.mark.usefixtures("quick_compare")
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, run_page):
    defined = run_page(page)
    draws = defined["idata"].posterior
    assert all(np.isfinite(draws[name].values).all() for name in draws.data_vars)
    assert (defined["idata"].sample_stats["accepted"].values > 0).any()


def test_the_page_on_a_loop_of_ones_own_samples_the_posterior(run_page):
    draws = np.array(run_page("docs/own_loop.md")["draws"])
    assert draws.shape == (500, 2)
    # The mean of the data is 1.4.
    assert abs(draws[:, 0].mean() - 1.4) < 0.3


def test_the_example_of_resuming_continues_the_chain(run_page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defined = run_page("docs/resuming.md")
    model, draws = defined["model"], defined["first"] + defined["second"]
    uninterrupted = pymc_pmala.PMALA(model=model, rng=1)
    tuning = defined["run"](uninterrupted, model.initial_point(), 300)
    uninterrupted.stop_tuning()
    assert defined["run"](uninterrupted, tuning[-1], 200) == draws
    # What ArviZ is given is the points on the scale of the variables.
    expected = [[np.exp(point["sigma_log__"]) for point in draws]]
    np.testing.assert_allclose(defined["posterior"]["sigma"], expected)
    assert len(defined["third"]) == 100


def test_the_example_of_a_finished_run_continues_it(run_page):
    defined = run_page("docs/coming_from_nuts.md")
    more, tuned = defined["more"], defined["idata"].sample_stats["step_size"].values[0, -1]
    np.testing.assert_allclose(more.sample_stats["step_size"].values, tuned)
    assert defined["slopes"].shape == (1, 16)


def test_the_example_of_bambi_runs(run_page):
    pytest.importorskip("bambi")
    page = "docs/coming_from_nuts.md"
    defined = run_page(page, "```{code-block} python\n:class: bambi\n")
    # Not the intercept of centred predictors.
    assert defined["fitted"].posterior["Intercept"].mean() < -10
    assert "log_det_metric" in defined["fitted"].sample_stats


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_example_of_a_cluster_runs(run_page):
    pytest.importorskip("distributed")
    defined = run_page("docs/distributed.md", name="__main__")
    defined["client"].shutdown()
    assert defined["idata"].posterior.sizes["chain"] == 8


def test_the_example_of_contributing_is_the_rule_of_the_package(run_page, monkeypatch):
    registered = []
    monkeypatch.setattr(
        pymc_pmala, "register_information", lambda op: lambda rule: registered.append(rule) or rule
    )
    run_page("CONTRIBUTING.md")
    [rule] = registered
    mu, sigma = pt.scalars("mu", "sigma")
    factor = SimpleNamespace(parameters=(mu, sigma), value=pt.scalar("value"))
    location, scale = rule(factor)
    # 1/σ² about v - μ, and 2 about log σ.
    assert location.weight[0][0].eval({sigma: 2.0}) == pytest.approx(0.25)
    assert pt.as_tensor(scale.weight[0][0]).eval() == 2.0


def test_the_example_of_a_rule_takes_effect(run_page, capsys):
    run_page("docs/extending.md")
    [line] = [line for line in capsys.readouterr().out.splitlines() if "DoubleExponential" in line]
    assert "closed form" in line


def test_the_example_of_a_metric_is_the_fisher_metric(run_page):
    defined = run_page("docs/extending.md")
    np.testing.assert_allclose(defined["mine"].metric, defined["fisher"].metric, rtol=1e-8)
    np.testing.assert_allclose(defined["mine"].gamma, defined["fisher"].gamma, atol=1e-8)


def test_the_example_of_a_standardisation_takes_effect(run_page):
    defined = run_page("docs/hierarchies.md")
    assert defined["explained"].interweaving == ("theta: location–scale in mu, tau",)


@pytest.mark.parametrize("name", pymc_pmala.__all__)
def test_the_examples_of_docstrings_run(name):
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(getattr(pymc_pmala, name), name):
        runner.run(test)
    assert runner.failures == 0


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"\w+", (DOCS / "api" / "index.md").read_text(encoding="utf-8"))
    assert set(pymc_pmala.__all__) <= set(listed)
