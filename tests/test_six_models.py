"""The six models of the page "From the gallery": their data, and the command that samples them."""

import numpy as np
import pytest

from examples.gallery.__main__ import main
from examples.gallery.models import MODELS
from pymc_pmala import explain_metric

# Sums of the data of PyMC's examples; the means of the two groups are those of Kruschke (2013).
SUMS = {
    "eight_schools": {"effect": 70},
    "baseball": {"hits": 215},
    "golf": {"holed": 3390},
    "outliers": {},
    "two_groups": {"drug": 47 * 101.91, "placebo": 42 * 100.36},
    "rugby": {"home_points": 367, "away_points": 236},
}


@pytest.mark.parametrize("name", MODELS)
def test_the_data_are_the_published_ones(name):
    model = MODELS[name]()
    for variable, total in SUMS[name].items():
        observed = model.rvs_to_values[model[variable]].data
        assert np.sum(observed) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_every_factor_has_a_rule(name):
    paths = {factor.path for factor in explain_metric(MODELS[name]()).factors}
    assert not any("SoftAbs" in path for path in paths)


@pytest.mark.slow
def test_the_command_writes_a_table_and_a_picture(tmp_path, capsys):
    short = ["--only", "golf", "--samplers", "PMALA,NUTS", "--draws", "200", "--tune", "200"]
    main([*short, "--docs", str(tmp_path)])
    assert "Samplers compared" in capsys.readouterr().out
    heading, _, row = (tmp_path / "table.md").read_text().splitlines()
    assert heading == "| model | `PMALA` | `NUTS` | largest difference |"
    assert row.startswith("| golf | 0.")
    assert (tmp_path / "golf.png").stat().st_size > 5000
