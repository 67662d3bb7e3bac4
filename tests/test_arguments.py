"""Whatever is passed to an option, one sentence says what was expected, before anything is run."""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_pmala
from pymc_pmala import (
    MALA,
    MMALA,
    PMALA,
    Information,
    SimplifiedMMALA,
    compare,
    explain_metric,
    local_geometry,
    make_kernel,
    plot_metric,
    plot_tuning,
    register_information,
)

FAST = {"mode": "FAST_COMPILE"}
STEPS = (PMALA, MMALA, SimplifiedMMALA, MALA)


class Thing:
    """Something that no option is meant for."""

    def __repr__(self):
        return "a thing\nof two lines"


def no_arguments():
    return 1


def returns_nothing(model, x):
    return None


VALUES = {
    "none": None, "text": "x", "bytes": b"x", "negative": -1, "zero": 0, "fraction": 1.5,
    "nan": np.nan, "infinity": np.inf, "complex": 1 + 2j, "flag": True, "nothing": [],
    "number in a list": [-1], "text in a list": ["x"], "mapping": {"x": 1},
    "vector": np.array([-1.0, 2.0]), "nans": np.full(3, np.nan), "matrix": np.ones((3, 2)),
    "thing": Thing(), "function": no_arguments, "class": pm.Normal,
}  # fmt: skip

# For each option, the values above that are right.
SEED = {"none", "zero", "flag", "nothing"}
STEP_OPTIONS = {
    "vars": {"none"},
    "metric": set(),
    "integrator": set(),
    "step_size": {"none", "fraction"},
    "target_accept": {"none"},
    "adapt_step_size": {"flag"},
    "step_size_jitter": {"zero"},
    "thin": {"none"},
    "interweave": {"none", "flag", "nothing"},
    "model": set(),
    "initial_point": {"none"},
    "compile_kwargs": {"none"},
    "rng": SEED,
    "blocked": {"flag"},
}
# In which other words an option may be named.
ALSO = {"initial_point": "point", "vars": "nothing to sample", "model": "no model"}


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=2)
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", mu.sum(), sigma, observed=[1.0, 2.0])
    return model


@pytest.fixture(scope="module")
def idata(model):
    with model:
        return pm.sample(
            8, tune=8, step=PMALA(compile_kwargs=FAST), chains=1, cores=1, progressbar=False,
            compute_convergence_checks=False, discard_tuned_samples=False, random_seed=1,
        )  # fmt: skip


def complaint(function, option, value, **others):
    """What the user is told."""
    with pytest.raises((TypeError, ValueError)) as caught:
        function(**{option: value}, **{k: v for k, v in others.items() if k != option})
    return str(caught.value)


def assert_clear(message, option):
    assert "\n" not in message
    assert len(message) < 400
    assert option in message or ALSO.get(option, option) in message
    for word in ("has no attribute", "unhashable", "not supported between", "ambiguous"):
        assert word not in message


def cases(options):
    return [
        pytest.param(option, value, id=f"{option}={name}")
        for option, right in options.items()
        for name, value in VALUES.items()
        if name not in right
    ]


@pytest.mark.parametrize(("option", "value"), cases(STEP_OPTIONS))
def test_options_of_a_step_method(model, option, value):
    assert_clear(complaint(PMALA, option, value, model=model, compile_kwargs=FAST), option)


@pytest.mark.parametrize("method", STEPS)
def test_all_options_of_the_step_methods_are_tried(method):
    given = set(inspect.signature(method).parameters)
    assert given | {"interweave"} == set(STEP_OPTIONS)


@pytest.mark.parametrize(("option", "value"), cases({"metric": set()}))
@pytest.mark.parametrize("method", STEPS[1:])
def test_metrics_of_the_other_step_methods(method, model, option, value):
    assert_clear(complaint(method, option, value, model=model, compile_kwargs=FAST), option)


COMPARE = {
    "model": set(),
    "steps": {"none"},
    "draws": {"none"},
    "seconds": {"none", "fraction"},
    "tune": {"none", "zero"},
    "chains": set(),
    "random_seed": SEED,
    "progressbar": {"flag"},
}


@pytest.mark.parametrize(("option", "value"), cases(COMPARE))
def test_options_of_compare(model, option, value):
    message = complaint(compare, option, value, model=model, steps=["PMALA"])
    assert_clear(message, "samplers" if "Unknown samplers" in message else option)


TOOL = {"model": set(), "vars": {"none"}, "point": {"none"}}


@pytest.mark.parametrize(("option", "value"), cases(TOOL))
@pytest.mark.parametrize("tool", [explain_metric, local_geometry])
def test_options_of_the_tools(tool, model, option, value):
    assert_clear(complaint(tool, option, value, model=model), option)


KERNEL = TOOL | {"initial_point": {"none"}, "compile_kwargs": {"none"}, "drift": set()}
KERNEL = {name: right for name, right in KERNEL.items() if name != "point"}


@pytest.mark.parametrize(("option", "value"), cases(KERNEL))
def test_options_of_a_kernel(model, option, value):
    assert_clear(complaint(make_kernel, option, value, model=model, compile_kwargs=FAST), option)


@pytest.mark.parametrize(("option", "value"), cases({"metric": set()}))
@pytest.mark.parametrize("tool", [local_geometry, make_kernel])
def test_metrics_of_the_tools(tool, model, option, value):
    assert_clear(complaint(tool, option, value, model=model), option)


PLOT_METRIC = {
    "idata": set(),
    "var_names": set(),
    "metric": set(),
    "ellipses": set(),
    "model": set(),
    "ax": {"none"},
}


@pytest.mark.parametrize(("option", "value"), cases(PLOT_METRIC))
def test_options_of_plot_metric(model, idata, option, value):
    others = {"model": model, "idata": idata, "var_names": ("mu[0]", "sigma")}
    assert_clear(complaint(plot_metric, option, value, **others), option)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("option", "value"), cases({"idata": set(), "step": {"none"}, "axes": {"none"}})
)
def test_options_of_plot_tuning(idata, option, value):
    assert_clear(complaint(plot_tuning, option, value, idata=idata), option)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    ("option", "value"), cases({"chains": set(), "model": set(), "client": set()})
)
def test_options_of_a_distributed_sample(model, option, value):
    pytest.importorskip("distributed")
    message = complaint(pymc_pmala.distributed.sample, option, value, model=model, client=None)
    assert_clear(message, option)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_a_rule_is_registered_for(value):
    if value is pm.Normal:
        return
    with pytest.raises(TypeError, match="random-variable Op"):
        register_information(value)


@pytest.mark.parametrize("value", [None, {"x": 1}, Thing()])
def test_the_parts_of_an_information(value):
    with pytest.raises(TypeError, match="weight"):
        Information(pt.constant(1.0), value)
    with pytest.raises(TypeError, match="coordinate"):
        Information(value, 1.0)


def test_the_tools_take_the_diagonal_of_a_metric(model, idata):
    found = local_geometry(metric=[1.0, 2.0, 3.0], model=model)
    np.testing.assert_array_equal(found.metric, np.diag([1.0, 2.0, 3.0]))
    ax = plot_metric(idata, ("mu[0]", "sigma"), metric=[1.0, 2.0, 3.0], model=model)
    plt.close(ax.figure)


def test_a_metric_function_that_returns_nothing(model):
    with pytest.raises(ValueError, match="The metric function returned None"):
        PMALA(metric=returns_nothing, model=model)
    with pytest.raises(ValueError, match="The metric function returned None"):
        local_geometry(metric=returns_nothing, model=model)
