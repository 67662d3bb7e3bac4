"""`compare` measures every sampler alike, and recommends none whose draws are not sound."""

import importlib.util
import io
import math
import re
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
from rich.console import Console

from pymc_pmala import MALA, PMALA, SamplerFigures, compare
from pymc_pmala.tools.compare import Comparison, _choose
from pymc_pmala.tools.timing import PhaseClock, TimedRun, timed_nutpie
from pymc_pmala.tools.verdict import recommend, sampler_figures
from pymc_pmala.tools.watch import Watch, duration

FAST = {"compile_kwargs": {"mode": "FAST_COMPILE"}}
QUIET = {"progressbar": False, "random_seed": 1}


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", mu, sigma, observed=np.arange(12.0))
    return model


def broken():
    raise RuntimeError("no such luck.\nA long traceback follows.")


@pytest.fixture(scope="module")
def comparison(model):
    steps = {
        "PMALA": lambda: PMALA(**FAST),
        "MALA": lambda: MALA(**FAST),
        "still": lambda: PMALA(metric="identity", step_size=1e9, adapt_step_size=False, **FAST),
        "broken": broken,
    }
    return compare(model, steps=steps, draws=400, tune=150, chains=2, **QUIET)


def figures(name, seconds, rate=100.0, **others):
    return SamplerFigures(name, seconds_to_enough=seconds, ess_per_second=rate, **others)


def test_every_sampler_has_its_figures(comparison):
    by_name = {f.name: f for f in comparison.samplers}
    for name in ("PMALA", "MALA"):
        found = by_name[name]
        assert found.trouble is None
        assert found.bulk_ess > 50
        assert 0.99 < found.rhat < 1.05
        assert found.disagreement < 5
        expected = found.tuning_seconds + 400 / found.ess_per_second
        assert found.seconds_to_enough == pytest.approx(expected)
        assert found.setup_seconds > 0
        assert found.first_setup_seconds > 0
    assert comparison.recommended in ("PMALA", "MALA")
    assert comparison.idata["MALA"].posterior.sizes["draw"] == 400


def test_a_chain_that_stands_still_is_not_recommended(comparison):
    [still] = [f for f in comparison.samplers if f.name == "still"]
    assert "moved in 0.0 %" in still.trouble


def test_a_sampler_that_fails_does_not_end_the_comparison(comparison):
    assert comparison.samplers[-1].trouble == "failed, RuntimeError: no such luck"


def test_prints_as_text_and_as_html(comparison, monkeypatch):
    # Wide enough for headings of one line.
    monkeypatch.setenv("COLUMNS", "200")
    for rendered in (str(comparison), repr(comparison), comparison._repr_html_()):
        for word in ("PMALA", "bulk ESS", "s to 400", "set-up (s)", "MCSE", "no such luck"):
            assert word in rendered


def test_the_plot_has_a_bar_for_every_sampler_measured_on_the_axes_given(comparison):
    _, given = plt.subplots(1, 2)
    rates, times = comparison.plot(given)
    assert rates is given[0]
    assert len(rates.patches) == 3
    assert len(times.patches) == 3 * 3
    assert next(label.get_text() for label in rates.get_yticklabels()) == comparison.recommended
    plt.close(rates.figure)


def test_seconds_end_the_chains_after_tuning(model):
    steps = {"PMALA": lambda: PMALA(**FAST)}
    found = compare(model, steps=steps, seconds=2, tune=50, chains=2, **QUIET)
    draws = found.idata["PMALA"].posterior.sizes
    assert draws["chain"] == 2
    assert 0 < draws["draw"] < 50_000
    assert found.samplers[0].sampling_seconds > 0
    assert math.isnan(found.samplers[0].disagreement)


def test_discrete_variables_are_left_to_pymc():
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.5)
        pm.Normal("x", k, 1)
    found = compare(model, steps=["SimplifiedMMALA"], draws=50, tune=20, chains=2, **QUIET)
    assert found.samplers[0].trouble is None or "failed" not in found.samplers[0].trouble


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 10, "seconds": 1}, "not both"),
        ({"seconds": -1}, "must be a positive number"),
        ({"steps": []}, "nothing to compare"),
        ({"steps": ["Gibbs"]}, "unknown samplers"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        compare(model, **options)


def test_the_least_time_to_400_effective_draws_is_recommended():
    best, reason = recommend([figures("PMALA", 2.0), figures("NUTS", 6.0)])
    assert best == "PMALA"
    assert "tuning and 400 effective draws take 2 s" in reason
    assert "NUTS, the next best, takes 3 times as long" in reason


def test_the_set_up_does_not_decide_but_is_told():
    slow = figures("PMALA", 2.0, setup_seconds=30.0)
    best, reason = recommend([slow, figures("NUTS", 6.0, setup_seconds=1.0)])
    assert best == "PMALA"
    assert "With its set-up, NUTS is the first to finish, after 7 s instead of 32 s" in reason


def test_a_tie_is_called_a_tie():
    best, reason = recommend([figures("PMALA", 2.0), figures("MALA", 2.3), figures("MMALA", 2.6)])
    assert best == "PMALA"
    assert "MALA is as fast, within 20 %; MMALA, the next best, takes 1.3 times" in reason


def test_a_default_that_is_as_fast_is_recommended():
    best, reason = recommend([figures("PMALA", 2.0), figures("NUTS", 2.2)])
    assert best == "NUTS"
    assert "PMALA is as fast, within 20 %" in reason
    assert "next best" not in reason


def test_the_best_for_long_runs_is_named():
    _, reason = recommend([figures("MALA", 2.0), figures("PMALA", 9.0, rate=5000.0)])
    assert "For a long run use PMALA, which has 5000 effective draws per second" in reason


def test_the_best_for_long_runs_is_named_beside_a_default():
    best, reason = recommend([figures("PMALA", 2.0, rate=5000.0), figures("NUTS", 2.2)])
    assert best == "NUTS"
    assert reason.endswith("which has 5000 effective draws per second instead of 100.")


def test_samplers_in_trouble_are_never_recommended():
    assert recommend([figures("PMALA", 2.0, trouble="stuck")])[0] is None


RNG = np.random.default_rng(1)


def run(mu):
    draws = {"mu": mu, "sigma": np.exp(RNG.normal(size=mu.shape))}
    posterior = {name: SimpleNamespace(values=values) for name, values in draws.items()}
    return TimedRun(SimpleNamespace(posterior=posterior, sample_stats={}), 1.0, 1.0, 1.0)


def normal(scale=1.0, shift=0.0):
    return run(RNG.normal(shift, scale, size=(2, 8000)))


def with_short_tails():
    """Mean and sd of a Normal, but shorter tails."""
    sign = RNG.choice([-1.0, 1.0], size=(2, 8000))
    return run(sign * RNG.normal(0.9, np.sqrt(0.19), size=sign.shape))


@pytest.mark.parametrize(
    ("odd", "what"),
    [
        (lambda: normal(shift=1.0), "means|quantiles"),
        (lambda: normal(scale=1.5), "sds"),
        (with_short_tails, "quantiles"),
    ],
    ids=["mean", "sd", "tails"],
)
def test_the_sampler_whose_posterior_differs_is_the_one_in_trouble(model, odd, what):
    found = sampler_figures({"a": normal(), "b": normal(), "c": odd()}, model, 2)
    [trouble] = [f.trouble for f in found if f.name == "c"]
    assert re.search(f"its .*({what}).* standard errors from the other samplers'", trouble)
    assert {f.trouble for f in found if f.name != "c"} == {None}


def test_samplers_that_share_a_metric_do_not_outvote_nuts(model):
    names = ("PMALA", "MMALA", "MALA")
    wrong = {name: normal(scale=1.5) for name in names}
    found = sampler_figures(wrong | {"NUTS": normal(), "nutpie": normal()}, model, 2)
    assert {f.name for f in found if f.trouble} == set(names)


def test_a_chain_left_out_is_told(model):
    [found] = sampler_figures({"a": normal()}, model, 3)
    assert found.trouble == "1 of its 3 chains were too slow to be counted"


def test_classes_of_step_methods_can_be_compared(model):
    found = compare(model, steps=[PMALA, pm.NUTS], draws=60, tune=60, chains=2, **QUIET)
    assert {f.name for f in found.samplers} == {"PMALA", "NUTS"}
    assert not any("failed" in (f.trouble or "") for f in found.samplers)
    assert "NUTS" in str(found)


def test_every_sampler_is_set_up_twice_and_the_second_time_counts(model, monkeypatch):
    """A clock that advances when a step method is made: slowly at first, as by compiling."""
    clock = SimpleNamespace(time=0.0, made=0)

    def step():
        clock.made += 1
        clock.time += 50.0 if clock.made == 1 else 3.0
        return PMALA(**FAST)

    def now():
        clock.time += 1e-6
        return clock.time

    monkeypatch.setattr(PhaseClock.__init__, "__defaults__", (now, None, None))
    found = compare(model, steps={"slow": step}, draws=20, tune=20, chains=2, **QUIET)
    assert clock.made == 2
    [measured] = found.samplers
    assert measured.first_setup_seconds == pytest.approx(50.0, abs=0.01)
    assert measured.setup_seconds == pytest.approx(3.0, abs=0.01)
    assert "First set-ups, with what had to be compiled: slow 50.0 s." in str(found)


def test_the_time_of_the_comparison_is_told(comparison):
    assert comparison.seconds > 0
    assert f"The comparison took {duration(comparison.seconds)}." in str(comparison)


def test_the_time_that_is_left_is_forecast(monkeypatch):
    clock = SimpleNamespace(time=0.0)
    monkeypatch.setattr("pymc_pmala.tools.watch.time.perf_counter", lambda: clock.time)
    with Watch(3, 4, 10.0, shown=False) as watch:
        watch.start("PMALA")
        assert watch.forecast() == "sampler 1 of 3, at least 30 s"
        clock.time = 70.0
        watch.start("NUTS")
        assert watch.forecast() == "sampler 2 of 3, about 2 min left"


@pytest.mark.parametrize(("seconds", "text"), [(3.4, "3 s"), (600.0, "10 min"), (9000.0, "2.5 h")])
def test_a_duration_has_a_fitting_unit(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("width", [80, 110])
def test_no_number_is_cut_in_a_terminal(width, monkeypatch):
    row = SamplerFigures(
        "SimplifiedMMALA", 13456.0, 12345.0, 123456.0, 0.01234, 123.4, 123.4, 12.3, 45.6, 1.001, 12,
        104.5,
    )  # fmt: skip
    comparison = Comparison([row], "SimplifiedMMALA", "Use it.", {})
    out = io.StringIO()
    Console(file=out, width=width).print(comparison)
    monkeypatch.setenv("COLUMNS", str(width))
    for text in (out.getvalue(), str(comparison)):
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        [line] = [line for line in lines if line.startswith(" SimplifiedMMALA")]
        assert line.split() == list(comparison._cells()[0])


def test_after_an_interrupt_what_was_measured_is_returned(model):
    def interrupted():
        raise KeyboardInterrupt

    steps = {"MALA": lambda: MALA(**FAST), "stop": interrupted, "never": broken}
    found = compare(model, steps=steps, draws=50, tune=50, chains=2, **QUIET)
    assert [f.name for f in found.samplers] == ["MALA"]
    assert found.reason.startswith("Interrupted before measuring stop, never.")
    with pytest.raises(KeyboardInterrupt):
        compare(model, steps={"stop": interrupted}, draws=50, **QUIET)


def test_seconds_end_all_chains_at_the_same_draw(model):
    clock, made = PhaseClock(iter(range(10**6)).__next__, seconds=10.0), []
    for chain in range(3):
        for draw in range(100):
            try:
                clock(None, SimpleNamespace(chain=chain, tuning=draw < 5, draw_idx=draw))
            except KeyboardInterrupt:
                made.append(draw - 4)
                break
    assert made[0] == made[1] == made[2] > 3


def test_the_clock_counts_phases_apart_and_not_the_watcher():
    time = iter(range(1000))
    clock = PhaseClock(lambda: next(time), watch=lambda draw: [next(time) for _ in range(50)])
    for tuning in (True, True, False, False, False):
        clock(None, SimpleNamespace(chain=0, tuning=tuning))
    assert (clock.tuning, clock.sampling, clock.recorded) == (1, 3, 3)


def test_a_comparison_of_nothing_sound_says_so():
    recommended, reason = recommend([figures("PMALA", math.nan, trouble="failed")])
    text = str(Comparison([figures("PMALA", math.nan, trouble="failed")], recommended, reason, {}))
    assert "No sampler can be recommended" in text


def test_nutpie_is_left_out_where_it_is_not_installed(model, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "nutpie" not in _choose(None, model)
    assert "NUTS" in _choose(None, model)
    with pytest.raises(ImportError, match="pip install nutpie"):
        _choose(["nutpie"], model)


def test_nutpie_gets_the_time_that_it_was_promised(model, monkeypatch):
    """A nutpie that takes as long to start as for five hundred draws, by a clock of its own."""
    clock = SimpleNamespace(time=0.0)

    def sample(compiled, draws, chains, **options):
        clock.time += 0.5 + 0.001 * draws * chains
        steps = {"n_steps": np.ones(draws)}
        return SimpleNamespace(warmup_sample_stats={"n_steps": np.zeros(1)}, sample_stats=steps)

    fake = SimpleNamespace(compile_pymc_model=lambda model, **options: None, sample=sample)
    monkeypatch.setitem(sys.modules, "nutpie", fake)
    options = {"chains": 4, "random_seed": 1}
    found = timed_nutpie(model, options, now=lambda: clock.time, seconds=2.0)
    assert 0.8 * 8.0 < found.sampling < 1.6 * 8.0
