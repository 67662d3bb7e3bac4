import subprocess
import sys

import arviz as az
import numpy as np
import pytest

from pymc_pmala.tools import demo


@pytest.fixture(scope="module")
def idata():
    return demo.sample(draws=1000, chains=2, seed=20140604)


def test_data_are_the_23_launches_before_the_last():
    assert len(demo.TEMPERATURE) == len(demo.DAMAGE) == 23
    assert demo.TEMPERATURE[demo.DAMAGE == 1].tolist() == [70, 57, 63, 70, 53, 75, 58]
    # Every launch below 65 °F showed damage.
    assert demo.DAMAGE[demo.TEMPERATURE < 65].all()


def test_posterior_agrees_with_quadrature(idata):
    grids = {"intercept": np.linspace(-9, 4, 521), "slope": np.linspace(-14, 4, 721)}
    t = (demo.TEMPERATURE - demo.TEMPERATURE.mean()) / demo.TEMPERATURE.std(ddof=1)
    intercept, slope = np.meshgrid(*grids.values(), indexing="ij")
    logp = -(intercept**2 + slope**2) / (2 * 10**2)
    for temperature, damage in zip(t, demo.DAMAGE, strict=True):
        logit = intercept + slope * temperature
        logp += damage * logit - np.logaddexp(0, logit)
    weight = np.exp(logp - logp.max())
    weight /= weight.sum()
    expected = {"intercept": (intercept * weight).sum(), "slope": (slope * weight).sum()}

    for name, mean in expected.items():
        draws = idata.posterior[name].values
        mcse = draws.std() / np.sqrt(float(az.ess(idata)[name]))
        assert mcse < 0.15 * draws.std()
        assert abs(draws.mean() - mean) < 4 * mcse


def test_summary_has_effective_draws_per_second(idata):
    table = demo.summary(idata)
    assert list(table.index) == ["intercept", "slope"]
    seconds = idata.posterior.attrs["sampling_time"]
    for kind in ("bulk", "tail"):
        rate = table[f"ess_{kind}/s"].astype(float)
        reported = table[f"ess_{kind}"].astype(float)
        np.testing.assert_allclose(rate * seconds, reported, rtol=0.01, atol=1)


def test_main_prints_the_summary_and_writes_the_picture(idata, monkeypatch, capsys, tmp_path):
    asked = []

    def sample(*arguments):
        asked.append(arguments)
        return idata

    monkeypatch.setattr(demo, "sample", sample)
    monkeypatch.chdir(tmp_path)
    assert demo.main(["--draws", "50", "--chains", "3", "--seed", "7", "--output", "rings"]) == 0
    assert asked == [(50, 3, 7)]
    printed = capsys.readouterr().out
    assert "ess_bulk/s" in printed
    assert "Picture: rings.png" in printed
    assert (tmp_path / "rings.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "output", ["missing/rings.png", ".", "rings.docx", "a.png/rings.png"], ids=str
)
def test_an_output_that_cannot_be_written_is_refused_before_sampling(
    output, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(demo, "sample", lambda *_: pytest.fail("sampling started"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").touch()
    with pytest.raises(SystemExit) as stopped:
        demo.main(["--output", output])
    assert stopped.value.code == 2
    assert f"cannot write the picture to {output}" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


def test_an_existing_picture_survives_an_interrupted_run(monkeypatch, tmp_path):
    picture = tmp_path / "rings.png"
    picture.write_bytes(b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.main(["--output", str(picture)])
    assert picture.read_bytes() == b"old"


@pytest.mark.parametrize("arguments", [["--draws", "0"], ["--chains", "-1"], ["--draws", "many"]])
def test_nonsensical_numbers_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        demo.main(arguments)
    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_the_module_runs_as_a_command():
    command = [sys.executable, "-m", "pymc_pmala", "--help"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--output" in finished.stdout
