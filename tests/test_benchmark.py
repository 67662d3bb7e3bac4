"""The comparison of samplers measures what it says, and believes no chain that is stuck."""

import json
import logging
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from pytensor import config
from pytensor.compile.mode import Mode
from scipy import stats

pytest.importorskip("resource", reason="the comparison takes processor time from Unix")

from benchmarks import comparison, models
from benchmarks.cell import peak_memory, warnings_of
from benchmarks.comparison import Settings, compare, load_results
from benchmarks.page import write_page
from benchmarks.reference import exact, why_void
from benchmarks.report import FIGURES, ratio_tables, remarks
from benchmarks.results import Cell, cells
from benchmarks.rows import ROWS
from benchmarks.samplers import EVERYWHERE, SAMPLERS, samplers_of
from pymc_pmala.tools.quality import effective_sizes, moments

TRUTH = exact({"x": (np.zeros(2), np.ones(2))})


@pytest.fixture
def normal_draws():
    return {"x": np.random.default_rng(1).normal(size=(2, 1000, 2))}


def run_of(row, sampler, seed=1, **figures):
    task = {"row": row, "sampler": sampler, "seed": seed}
    usual = {
        "cold": seed == 1,
        "setup_seconds": 3.0,
        "tuning_seconds": 1.0,
        "sampling_seconds": 2.0,
        "seconds_per_draw": 0.001,
        "gradient_seconds": 0.0002,
        "gradients_per_draw": 5.0,
        "steps_per_draw": 2.0,
        "peak_memory": 500.0,
        "bulk_ess": 400.0,
        "tail_ess": 200.0,
        "void": None,
    }
    return {"task": task, **usual, **figures}


def test_draws_from_the_truth_are_believed(normal_draws):
    assert why_void(normal_draws, TRUTH) is None


def test_a_chain_that_does_not_move_is_void(normal_draws):
    normal_draws["x"][1] = 0.3
    assert "moved in 0.0 %" in why_void(normal_draws, TRUTH)


@pytest.mark.parametrize(
    ("moment", "change"), [("mean", lambda x: x + 0.5), ("sd", lambda x: 2 * x)]
)
def test_draws_from_elsewhere_are_void(normal_draws, moment, change):
    wrong = {"x": change(normal_draws["x"])}
    assert f"{moment} of x" in why_void(wrong, TRUTH)


def test_draws_that_are_no_numbers_are_void(normal_draws):
    normal_draws["x"][0, 3, 0] = np.nan
    assert "not finite" in why_void(normal_draws, TRUTH)


def test_errors_of_independent_draws_are_the_textbook_ones(normal_draws):
    found = moments(normal_draws)["x"]
    np.testing.assert_allclose(found["mean_error"], np.sqrt(1 / 2000), rtol=0.2)
    np.testing.assert_allclose(found["sd_error"], np.sqrt(0.5 / 2000), rtol=0.2)


def test_effective_size_is_that_of_the_worst_variable(normal_draws):
    rng = np.random.default_rng(2)
    slow = np.cumsum(rng.normal(size=(2, 1000)), axis=1)
    assert (
        max(effective_sizes(normal_draws | {"slow": slow}))
        < 100
        < min(effective_sizes(normal_draws))
    )


def test_figures_of_a_cell_follow_from_its_runs():
    runs = [run_of("pima", "pmala", seed, setup_seconds=9.0 / seed) for seed in (1, 2, 3)]
    cell = cells(runs)["pima", "pmala"]
    assert isinstance(cell, Cell)
    assert cell.cold_setup == 9.0
    assert cell.warm_setup == (4.5 + 3.0) / 2
    assert (cell.bulk_rate, cell.tail_rate, cell.rate) == (200.0, 100.0, 100.0)
    assert cell.rate_with_tuning == pytest.approx(200 / 3)
    assert cell.per_gradient == pytest.approx(1000 * 200 / (2.0 / 0.0002))
    assert cell.cold_seconds == 9.0 + 1.0 + 10.0
    assert cell.warm_seconds == 3.75 + 1.0 + 10.0


def test_a_sampler_has_the_cold_setup_of_the_one_that_compiles_for_it():
    runs = [
        run_of("pima", "nutpie", setup_seconds=7.0),
        run_of("pima", "nutpie_low_rank", cold=False, setup_seconds=2.0),
        run_of("pima", "nuts", cold=False, setup_seconds=2.0),
    ]
    found = cells(runs)
    assert found["pima", "nutpie_low_rank"].cold_setup == 7.0
    assert found["pima", "nutpie_low_rank"].warm_setup == 2.0
    assert found["pima", "nuts"].cold_setup is None


def column_of(table, title):
    [cells_of] = [[*column.cells] for column in table.columns if column.header == title]
    return cells_of


def test_ratios_above_one_are_better_than_nutpie_and_have_a_geometric_mean():
    runs = [
        run_of("pima", "nutpie", peak_memory=300.0),
        run_of("pima", "mala", tail_ess=400.0, peak_memory=600.0),
        run_of("best", "nutpie"),
        run_of("best", "mala", sampling_seconds=4.0, tail_ess=200.0),
        run_of("funnel", "nutpie", void="wrong"),
        run_of("funnel", "mala"),
    ]
    tables = {table.title: table for table in ratio_tables(cells(runs))}
    assert "1000 effective draws, cold" in next(iter(tables))
    titles = {figure.name: title for figure in FIGURES for title in tables if figure.title in title}
    # All first runs are cold, so that nothing is known of warm ones.
    assert set(titles) == {figure.name for figure in FIGURES} - {"warm_seconds"}
    # 1000 effective draws take 3 + 1 + 10 s with nutpie, and 3 + 1 + 5 s and 3 + 1 + 20 s here.
    assert column_of(tables[titles["cold_seconds"]], "MALA") == [
        "9 (×1.6)", "24 (×0.58)", "14", "×0.95 of 2",
    ]  # fmt: skip
    assert column_of(tables[titles["tail_rate"]], "MALA") == [
        "200 (×2)", "50 (×0.5)", "100", "×1 of 2",
    ]  # fmt: skip
    assert column_of(tables[titles["memory"]], "MALA")[0] == "600 (×0.5)"
    assert column_of(tables[titles["memory"]], "nutpie")[2] == "void"


def test_void_and_failed_cells_show_no_figure_but_a_reason(tmp_path):
    runs = [
        run_of("pima", "nutpie"),
        run_of("pima", "mala", tail_ess=300.0),
        run_of("pima", "pmala", void="a chain moved in 0.0 % of its transitions"),
        {"task": {"row": "pima", "sampler": "mmala", "seed": 1}, "failure": "no result"},
    ]
    found = cells(runs)
    table = ratio_tables(found)[0]
    assert column_of(table, "PMALA") == ["void", "–"]
    assert column_of(table, "MMALA") == ["failed", "–"]
    assert any("moved" in remark for remark in remarks(found))
    assert any("no result" in remark for remark in remarks(found))
    write_page(found, "Somewhere.", tmp_path)
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "150 (×1.5)" in page
    assert (tmp_path / "ratios.svg").exists()


def settings(folder, **options):
    usual = {
        "rows": ("eight_schools",),
        "samplers": ("mala",),
        "seeds": 1,
        "draws": 50,
        "chains": 2,
        "tune": 20,
        "data": None,
        "reference_draws": 100,
        "timeout": 600.0,
        "results": folder,
        "references": folder / "references",
        "fresh": False,
        "warm": True,
        "jobs": 1,
    }
    return Settings(**usual | options)


def store_reference(folder, draws=100, moments=None):
    folder.mkdir(exist_ok=True)
    stored = {"draws": draws, "moments": moments or {}}
    (folder / "eight_schools.json").write_text(json.dumps(stored))


@pytest.fixture
def tasks_run(monkeypatch):
    """Replace the processes of a comparison by a list of their tasks."""
    tasks = []

    def run(task, path, stdin, timeout, cache):
        tasks.append((task, stdin, cache))
        cache.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {"void": None} if task.sampler != "reference" else {"mu": {"mean": 1.0123456789}}
        path.write_text(json.dumps(found))

    monkeypatch.setattr(comparison, "_run", run)
    return tasks


def test_a_reference_is_computed_once_unless_it_is_too_short(tmp_path, tasks_run):
    store_reference(tmp_path / "shared", draws=100, moments={"mu": {"mean": 2.0}})
    chosen = settings(tmp_path / "a", references=tmp_path / "shared")
    list(compare(chosen, lambda message: None))
    [(task, truth, _)] = tasks_run
    assert (task.sampler, json.loads(truth)) == ("mala", {"mu": {"mean": 2.0}})
    tasks_run.clear()
    longer = settings(tmp_path / "b", references=tmp_path / "shared", reference_draws=101)
    list(compare(longer, lambda message: None))
    assert [task.sampler for task, _, _ in tasks_run] == ["reference", "mala"]
    stored = json.loads((tmp_path / "shared" / "eight_schools.json").read_text())
    assert stored == {"draws": 101, "moments": {"mu": {"mean": 1.012346}}}


def test_rows_with_the_same_posterior_share_a_reference(tmp_path, tasks_run):
    rows = ("volatility", "volatility_joint")
    list(compare(settings(tmp_path, rows=rows, jobs=2), lambda message: None))
    assert [task.row for task, _, _ in tasks_run if task.sampler == "reference"] == ["volatility"]
    assert {task.row for task, _, _ in tasks_run} == set(rows)


def test_rows_have_samplers_of_their_own_and_are_worked_on_together(tmp_path, tasks_run):
    rows = ("funnel", "best", "ill_conditioned")
    chosen = settings(tmp_path, rows=rows, samplers=None, jobs=2, seeds=2, warm=False)
    count = len(list(compare(chosen, lambda message: None)))
    runs = [(task.row, task.sampler) for task, _, _ in tasks_run if task.sampler != "reference"]
    expected = {
        (row, sampler)
        for row in rows
        for sampler in samplers_of(ROWS[row])
        if SAMPLERS[sampler].installed
    }
    assert set(runs) == expected
    assert len(runs) == count == 2 * len(expected)
    # Nothing is left to do, nor of the caches.
    assert list(compare(chosen, lambda message: None)) == []
    assert {path.name for path in (tmp_path / "cache").iterdir()} <= {"shared"}


def test_samplers_that_compile_the_same_functions_share_a_cache(tmp_path, tasks_run, monkeypatch):
    for name in ("nutpie", "nutpie_low_rank"):
        alike = SAMPLERS["mala"].__class__(name, None, "pymc", SAMPLERS[name].compiler)
        monkeypatch.setitem(SAMPLERS, name, alike)
    store_reference(tmp_path / "references")
    names = ("mala", "nutpie", "nutpie_low_rank")
    list(compare(settings(tmp_path, samplers=names, warm=False), lambda message: None))
    caches = {task.sampler: cache for task, _, cache in tasks_run}
    assert caches["nutpie"] == caches["nutpie_low_rank"] != caches["mala"]
    cold = {run["task"]["sampler"]: run["cold"] for run in load_results(tmp_path)}
    assert cold == {"mala": True, "nutpie": True, "nutpie_low_rank": False}


@pytest.mark.slow
def test_a_cell_is_measured_in_a_process_of_its_own_and_not_twice(tmp_path, monkeypatch):
    # What other tests have compiled need not be compiled again.
    monkeypatch.setattr(comparison, "_shared_cache", lambda _: Path(config.base_compiledir))
    chosen = settings(tmp_path, rows=("ill_conditioned",))
    messages = []
    assert len(list(compare(chosen, messages.append))) == 1
    [record] = load_results(tmp_path)
    assert "failure" not in record, record
    for figure in ("setup_seconds", "sampling_seconds", "gradients_per_draw", "bulk_ess"):
        assert record[figure] > 0
    assert list(compare(chosen, messages.append)) == []


def test_a_run_that_takes_too_long_is_recorded_and_the_next_one_follows(tmp_path):
    store_reference(tmp_path / "references")
    chosen = settings(tmp_path, samplers=("mala", "pmala"), seeds=2, timeout=0.01)
    assert len(list(compare(chosen, lambda message: None))) == 2
    assert all("no result after" in record["failure"] for record in load_results(tmp_path))


@pytest.fixture(params=ROWS)
def row(request, monkeypatch):
    """Every row whose data need not be downloaded."""
    from benchmarks.data import DataUnavailable

    monkeypatch.delenv("PMALA_DATA", raising=False)
    try:
        ROWS[request.param].build(None)
    except DataUnavailable:
        pytest.skip("needs a data file")
    return ROWS[request.param]


def test_every_row_has_variables_and_samplers_that_exist(row):
    names = {rv.name for rv in row.build(None).free_RVs}
    if isinstance(row.reference, dict):
        assert set(row.reference) <= names
    elif callable(row.reference):
        # The reference has the same variables, whatever its own free ones are.
        assert names <= {v.name for v in row.reference(None).unobserved_RVs}
    else:
        assert ROWS[row.reference].build is row.build
    assert {part for block in row.blocks for part in block} <= names
    assert set(samplers_of(row)) == {*EVERYWHERE, *row.extra} <= set(SAMPLERS)


def test_every_row_has_a_finite_log_density_at_its_start(row):
    model = row.build(None)
    logp = model.compile_logp(mode=Mode("py", "fast_compile"))
    assert np.isfinite(logp(model.initial_point()))


def test_references_in_other_coordinates_have_the_same_posterior():
    """A centred model and its reference differ by the Jacobian of the effects, a power of tau."""
    rng = np.random.default_rng(1)
    centred, other = models.poisson_glmm(5, 2), models.poisson_glmm(5, 2, centred=False)
    mode = Mode("py", "fast_compile")
    logps = [model.compile_logp(mode=mode) for model in (centred, other)]
    for _ in range(3):
        mu, log_tau, slope, *raw = rng.normal(size=8)
        point = {"mu": mu, "tau_log__": log_tau, "slope": slope}
        effects = mu + np.exp(log_tau) * np.array(raw)
        difference = logps[1](point | {"intercept_raw": np.array(raw)})
        difference -= logps[0](point | {"intercept": effects})
        assert difference == pytest.approx(5 * log_tau)


def test_moments_of_the_change_point_are_those_of_its_model_on_a_grid():
    model = models.change_point()
    [counts] = [model.rvs_to_values[rv].data for rv in model.observed_RVs]
    log_rates = np.linspace(-3, 3, 601)
    likelihoods = stats.poisson.logpmf(counts[:, None], np.exp(log_rates))
    # Gamma(2, 1) priors of the rates, as densities of their logarithms.
    prior = stats.gamma.logpdf(np.exp(log_rates), 2) + log_rates
    before = np.vstack([np.zeros(601), np.cumsum(likelihoods, axis=0)])
    early, late = np.exp(before + prior), np.exp(before[-1] - before + prior)
    found = models.change_point_moments()
    weights = early.sum(axis=1) * late.sum(axis=1)
    cases = {
        "change": (np.arange(len(weights)), weights),
        "early": (log_rates, early.T @ late.sum(axis=1)),
        "late": (log_rates, late.T @ early.sum(axis=1)),
    }
    for name, (values, mass) in cases.items():
        mean = np.average(values, weights=mass)
        sd = np.sqrt(np.average((values - mean) ** 2, weights=mass))
        np.testing.assert_allclose(found[name], (mean, sd), rtol=1e-4, err_msg=name)


def test_warnings_of_a_run_are_kept_and_the_logger_is_left_as_it_was():
    logger = logging.getLogger("pymc")
    before = logger.level, logger.handlers
    with warnings_of("pymc") as messages:
        logger.warning("a chain is stuck")
        logger.info("sampling")
    assert messages == ["a chain is stuck"]
    assert (logger.level, logger.handlers) == before


def test_peak_memory_is_what_the_system_says():
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux tells the peak in another way")
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    assert peak_memory() == pytest.approx(float(line.split()[1]) / 1e3, rel=0.02)


@pytest.mark.slow
def test_walnutpie_samples_a_pymc_model():
    pytest.importorskip("walnutpie")
    with pm.Model() as model:
        pm.Exponential("scale", 2.0)
        pm.Normal("x", [1.0, -1.0], [0.5, 2.0])
    options = {"draws": 1000, "chains": 2, "random_seed": 1}
    found = SAMPLERS["walnutpie"].run(model, ROWS["best"], options)
    assert min(found.setup, found.tuning, found.sampling) > 0
    truth = exact({"scale": (0.5, 0.5), "x": (np.array([1.0, -1.0]), np.array([0.5, 2.0]))})
    assert why_void(found.draws, truth) is None


def test_samplers_that_are_not_installed_are_left_out_with_a_note(tmp_path, monkeypatch):
    absent = SAMPLERS["mala"].__class__("absent", SAMPLERS["mala"].run, "no_such_package")
    monkeypatch.setitem(SAMPLERS, "mala", absent)
    store_reference(tmp_path / "references")
    messages = []
    assert list(compare(settings(tmp_path), messages.append)) == []
    assert "no_such_package is not installed" in messages[0]
