"""The notebooks of the documentation run, on short chains, and are kept with their outputs."""

import json
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import pymc as pm
import pytest
from pytensor.compile.mode import get_mode

import pymc_pmala

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@each_notebook
def test_a_notebook_is_kept_as_executed_and_ends_in_a_picture(path):
    cells = code_cells(path)
    assert all(cell["execution_count"] for cell in cells)
    kinds = {kind for output in cells[-1]["outputs"] for kind in output.get("data", {})}
    assert "image/png" in kinds
    # What PyMC logs about the draws is for the reader; warnings of Python and errors are not.
    told = [
        "".join(output["text"])
        for cell in cells
        for output in cell["outputs"]
        if output.get("name") == "stderr"
    ]
    assert not any("Warning:" in text or "Traceback" in text for text in told)


@pytest.fixture
def closed_figures():
    """What a notebook has drawn is closed."""
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.usefixtures("closed_figures")
@each_notebook
def test_a_notebook_runs(path, monkeypatch):
    monkeypatch.setattr(
        "pymc_pmala.compile.functions.get_mode", lambda mode: get_mode(mode or "FAST_COMPILE")
    )
    short = {"draws": 20, "tune": 20, "chains": 2, "compute_convergence_checks": False}

    def sample(*draws, **options):
        return real_sample(**options | short)

    real_sample = pm.sample
    monkeypatch.setattr(pm, "sample", sample)
    # Only the package's samplers: what NUTS compiles is PyMC's concern.
    own = partial(pymc_pmala.compare, steps={"PMALA": pymc_pmala.PMALA}, draws=20, tune=20)
    monkeypatch.setattr(
        pymc_pmala, "compare", lambda model, **options: own(model, progressbar=False)
    )
    namespace = {}
    with plt.rc_context():
        for cell in code_cells(path):
            exec(compile("".join(cell["source"]), path.name, "exec"), namespace)
    assert plt.get_fignums()
