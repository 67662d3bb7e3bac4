"""Whatever is passed to an option, one sentence says what was expected, before anything is run."""

import inspect
from functools import partial
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.op import Op

import pymc_pmala
from pymc_pmala import (
    MALA,
    MMALA,
    PMALA,
    Information,
    Noise,
    SimplifiedMMALA,
    Standardisation,
    compare,
    explain_metric,
    local_geometry,
    location_scale,
    make_kernel,
    plot_metric,
    plot_tuning,
    posterior_expectation,
    posterior_mean,
    register_information,
    register_standardisation,
)
from pymc_pmala.interweaving.registry import standardisation

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
    "number in a list": [-1], "text in a list": ["x"], "none in a list": [None],
    "mapping": {"x": 1},
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
    assert_clear(message, option)


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
    ("option", "value"),
    cases(
        {
            "chains": set(),
            "model": set(),
            "client": set(),
            "step": {"function", "class"},
            "random_seed": SEED,
            "initvals": {"none", "mapping"},
            "compute_convergence_checks": {"flag"},
        }
    ),
)
def test_options_of_a_distributed_sample(model, option, value):
    pytest.importorskip("distributed")
    client = SimpleNamespace(submit=None)
    message = complaint(pymc_pmala.distributed.sample, option, value, model=model, client=client)
    assert_clear(message, option)


ESTIMATES = {"idata": set(), "model": set(), "metric": set(), "progressbar": {"flag"}}


@pytest.mark.parametrize(("option", "value"), cases(ESTIMATES | {"var_names": {"none"}}))
def test_options_of_posterior_mean(model, idata, option, value):
    assert_clear(complaint(posterior_mean, option, value, idata=idata, model=model), option)


@pytest.mark.parametrize(("option", "value"), cases(ESTIMATES | {"f": set()}))
def test_options_of_posterior_expectation(model, idata, option, value):
    others = {"idata": idata, "model": model, "f": lambda mu: mu[0]}
    assert_clear(complaint(posterior_expectation, option, value, **others), option)


@pytest.fixture(scope="module")
def kernel(model):
    return make_kernel(model, compile_kwargs=FAST)


@pytest.mark.parametrize(
    ("option", "value"), cases({"step_size": {"fraction"}, "integrator": set()})
)
def test_options_of_scales(kernel, option, value):
    assert_clear(complaint(kernel.scales, option, value, step_size=1.0), option)


@pytest.mark.parametrize(("option", "value"), cases({"x": {"nans"}, "constants": {"none"}}))
def test_options_of_the_state_at_a_point(kernel, option, value):
    assert_clear(complaint(kernel.init, option, value, x=kernel.start), option)


RUN = {"state": set(), "noises": set(), "log_uniforms": set(), "scales": set()}


@pytest.mark.parametrize(("option", "value"), cases(RUN | {"log_uniforms": {"vector"}}))
def test_options_of_a_run(kernel, option, value):
    others = {
        "state": kernel.init(kernel.start), "noises": np.zeros((2, 3)),
        "log_uniforms": np.zeros(2), "scales": kernel.scales(1.0),
    }  # fmt: skip
    assert_clear(complaint(kernel.run, option, value, **others), option)


DRAWS = {
    "state": set(),
    "per_draw": set(),
    "noise": set(),
    "scales": set(),
    "every": {"zero"},
    "hyper_noise": {"none"},
    "hyper_scales": {"none"},
}


@pytest.mark.parametrize(("option", "value"), cases(DRAWS))
def test_options_of_draws(kernel, option, value):
    others = {
        "state": kernel.init(kernel.start), "per_draw": 2, "scales": kernel.scales(1.0),
        "noise": Noise(np.zeros((4, 3)), np.zeros(4)),
    }  # fmt: skip
    assert_clear(complaint(kernel.draws, option, value, **others), option)


@pytest.mark.parametrize(
    ("option", "value"), cases({"state": set(), "noise": {"nans"}, "scales": set()})
)
def test_options_of_a_proposal(kernel, option, value):
    others = {
        "state": kernel.init(kernel.start), "noise": np.zeros(3), "scales": kernel.scales(1.0)
    }  # fmt: skip
    assert_clear(complaint(kernel.propose, option, value, **others), option)


def test_noise_that_is_too_short_is_refused_before_it_is_read(kernel):
    state, scales = kernel.init(kernel.start), kernel.scales(1.0)
    with pytest.raises(ValueError, match=r"shapes are \(3, 3\) and \(2,\)"):
        kernel.run(state, np.zeros((3, 3)), np.zeros(2), scales)
    noise = Noise(np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(ValueError, match=r"per_draw must be .* the 4 rows of noise, but is 3"):
        kernel.draws(state, 3, noise, scales)
    hyper_noise = Noise(np.zeros((1, 0)), np.zeros(1))
    with pytest.raises(ValueError, match=r"every must be .* divides per_draw, 2, but is 4"):
        kernel.draws(state, 2, noise, scales, 4, hyper_noise)
    with pytest.raises(ValueError, match="one row for every 2 rows of noise, 2, but has 1"):
        kernel.draws(state, 2, noise, scales, 2, hyper_noise)


@pytest.mark.parametrize("register", [register_information, register_standardisation])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_is_registered_as_a_rule(register, value):
    class Rule(Op):
        pass

    if not callable(value):
        assert_clear(complaint(register(Rule), "rule", value), "rule")


@pytest.mark.parametrize(("option", "value"), cases({"path": {"text"}}))
def test_the_kind_of_a_rule(option, value):
    assert_clear(complaint(partial(register_information, pm.Laplace), option, value), option)


NUMBERS = {
    "negative", "zero", "fraction", "nan", "infinity", "complex", "nothing", "number in a list",
    "vector", "nans", "matrix",
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"), cases(dict.fromkeys(("effects", "location", "log_scale"), NUMBERS))
)
def test_options_of_a_location_and_scale(option, value):
    assert_clear(complaint(location_scale, option, value, effects=pt.vector()), option)


class Effects(Op):
    """That of a distribution for which each test registers another rule."""

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("option", "value"),
    cases(
        {
            "parameters": set(),
            "standardise": {"function", "class"},
            "restore": {"function", "class"},
            "log_jacobian": {"function", "class"},
            "kept": set(),
            "form": {"text"},
        }
    ),
)
def test_the_parts_of_a_standardisation(option, value):
    right = Standardisation((pt.scalar(),), *[lambda *given: given[0]] * 3)
    register_standardisation(Effects)(lambda factor: right._replace(**{option: value}))
    factor = SimpleNamespace(op=Effects(), name="theta")
    assert_clear(complaint(standardisation, "factor", factor), option)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_a_standardisation_is(value):
    register_standardisation(Effects)(lambda factor: value)
    factor = SimpleNamespace(op=Effects(), name="theta")
    if value is None:
        assert standardisation(factor) is None
    else:
        assert_clear(complaint(standardisation, "factor", factor), "theta")


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
    with pytest.raises((TypeError, ValueError), match="weight"):
        Information([pt.constant(1.0), pt.constant(2.0)], value)


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
