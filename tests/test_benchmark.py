"""The comparison of samplers measures what it says, and believes no chain that is stuck."""

import json
from pathlib import Path

import numpy as np
import pytest
from pytensor import config

pytest.importorskip("resource", reason="the comparison takes processor time from Unix")

from benchmarks import comparison
from benchmarks.comparison import Settings, compare, load_results
from benchmarks.reference import exact, why_void
from benchmarks.report import Cell, cells, ratio_tables, remarks, write_page
from benchmarks.rows import ROWS
from benchmarks.samplers import SAMPLERS
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
        "gradients_per_draw": 3.0,
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
    assert cell.rate == 100.0
    assert cell.rate_with_tuning == pytest.approx(200 / 3)
    assert cell.seconds_to_enough == 9.0 + 1.0 + 4.0


def test_void_and_failed_cells_show_no_figure_but_a_reason(tmp_path):
    runs = [
        run_of("pima", "nutpie"),
        run_of("pima", "mala", tail_ess=300.0),
        run_of("pima", "pmala", void="a chain moved in 0.0 % of its transitions"),
        {"task": {"row": "pima", "sampler": "mmala", "seed": 1}, "failure": "no result"},
    ]
    found = cells(runs)
    [line] = [[*column.cells] for column in ratio_tables(found)[0].columns[1:2]]
    assert line == ["void"]
    assert any("moved" in remark for remark in remarks(found))
    assert any("no result" in remark for remark in remarks(found))
    write_page(found, "Somewhere.", tmp_path)
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "100 (×1.5)" in page
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
        "fresh": False,
        "warm": True,
    }
    return Settings(**usual | options)


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
    reference = tmp_path / "references" / "eight_schools.json"
    reference.parent.mkdir()
    reference.write_text(json.dumps({}))
    chosen = settings(tmp_path, samplers=("mala", "pmala"), seeds=2, timeout=0.01)
    assert len(list(compare(chosen, lambda message: None))) == 2
    assert all("no result after" in record["failure"] for record in load_results(tmp_path))


@pytest.mark.parametrize("name", ROWS)
def test_every_row_has_a_model_without_data_files_or_says_what_is_missing(name, monkeypatch):
    from benchmarks.data import DataUnavailable

    monkeypatch.delenv("PMALA_DATA", raising=False)
    try:
        model = ROWS[name].build(None)
    except DataUnavailable:
        return
    names = {rv.name for rv in model.free_RVs}
    if isinstance(ROWS[name].reference, dict):
        assert set(ROWS[name].reference) <= names
    assert {part for block in ROWS[name].blocks for part in block} <= names


def test_samplers_that_are_not_installed_are_left_out_with_a_note(tmp_path, monkeypatch):
    absent = SAMPLERS["mala"].__class__("absent", SAMPLERS["mala"].run, "no_such_package")
    monkeypatch.setitem(SAMPLERS, "mala", absent)
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "eight_schools.json").write_text("{}")
    messages = []
    assert list(compare(settings(tmp_path), messages.append)) == []
    assert "no_such_package is not installed" in messages[0]
