"""What cannot be sampled is refused early and by name; what goes wrong later is a rejection."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import SamplingError
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_pmala import MALA, PMALA, SimplifiedMMALA

METHODS = pytest.mark.parametrize("method", [PMALA, MALA, SimplifiedMMALA])
QUICK = {"mode": "FAST_COMPILE"}


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
        pm.Normal("w")
    return model


class Opaque(Op):
    """A function without a gradient."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [pt.as_tensor_variable(x)], [pt.as_tensor_variable(x).type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(np.sin(inputs[0]))


def nothing_compiled(*args, **kwargs):
    raise AssertionError("compiled before the arguments were checked")


# ---- In the constructor ------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"integrator": "leapfrog"}, r"'leapfrog'.*'euler'"),
        ({"metric": "fischer"}, r"'fischer'"),
        ({"step_size": 0.0}, "step_size.*positive.*0.0"),
        ({"step_size": -1.0}, "step_size.*positive.*-1.0"),
        ({"step_size": np.nan}, "step_size.*positive.*nan"),
        ({"step_size": np.inf}, "step_size.*positive.*inf"),
        ({"step_size": "a"}, "step_size.*positive.*'a'"),
        ({"target_accept": "high"}, "target_accept.*between 0 and 1.*'high'"),
        ({"metric": None}, "metric must be a name.*None"),
        ({"metric": 2.0}, "metric must be a name.*2.0"),
        ({"metric": {"fisher"}}, "metric must be a name.*fisher"),
        ({"target_accept": 0.0}, "target_accept.*between 0 and 1.*0.0"),
        ({"target_accept": 1.0}, "target_accept.*between 0 and 1.*1.0"),
        ({"step_size_jitter": -0.1}, "step_size_jitter.*at least 0.*-0.1"),
        ({"step_size_jitter": 1.0}, "step_size_jitter.*less than 1.*1.0"),
        ({"metric": np.eye(2)}, r"shape \(2, 2\).*dimension 3"),
        ({"metric": np.ones(4)}, r"shape \(4,\).*dimension 3"),
        ({"metric": np.ones((3, 3, 3))}, r"shape \(3, 3, 3\).*dimension 3"),
        ({"metric": np.array([1.0, -2.0, 1.0])}, "not positive definite.*eigenvalue is -2"),
        ({"metric": np.array([1.0, np.nan, 1.0])}, "not finite"),
        ({"metric": np.eye(3) + np.eye(3, k=1)}, "not symmetric"),
        ({"vars": []}, "vars is empty"),
        ({"initial_point": {"z": 1.0}}, r"Unknown names.*'z'.*'w', 'x'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_no_chain_could_run_with_is_refused(method, options, message, model, monkeypatch):
    for module in ("kernel.kernel", "step.preconditioning"):
        monkeypatch.setattr(f"pymc_pmala.{module}.compile_graph", nothing_compiled)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        method(model=model, **options)


@METHODS
def test_unknown_keywords_are_refused_in_the_name_of_the_method(method, model):
    with pytest.raises(
        TypeError, match=rf"^{method.__name__} has no argument 'target_acept'.*'target"
    ):
        method(model=model, target_acept=0.8)
    with pytest.raises(TypeError, match=f"^{method.__name__} has no argument 'foo'.*step_size"):
        method([model["x"]], model=model, foo=1)


def test_a_variable_listed_twice_is_named(model):
    with pytest.raises(ValueError, match=r"\['x'\] more than once"):
        PMALA([model["x"], model["x"]], model=model)


@pytest.mark.parametrize(
    "metric", [lambda model, x: pt.exp(x), lambda model, x: pt.eye(2), lambda model, x: x.sum()]
)
def test_a_metric_function_of_the_wrong_shape_is_refused(metric, model):
    with pytest.raises(ValueError, match=r"dimension 3.*\(3, 3\)"):
        PMALA(metric=metric, model=model)


@METHODS
def test_discrete_variables_are_named_with_what_to_do(method):
    with pm.Model() as model:
        pm.Normal("x")
        pm.Poisson("count", 2.0)
        pm.Bernoulli("switch", 0.5)
    with pytest.raises(ValueError, match=r"discrete.*'count', 'switch'.*pm\.Metropolis"):
        method(model=model)


@METHODS
@pytest.mark.parametrize("metric", ["identity", None])
def test_variables_without_a_gradient_are_named_with_what_to_do(method, metric):
    with pm.Model() as model:
        smooth = pm.Normal("smooth")
        rough = pm.Normal("rough")
        pm.Normal("y", smooth + Opaque()(rough), observed=0.3)
    options = {} if metric is None else {"metric": metric}
    with pytest.raises(ValueError, match=r"differentiated.*\['rough'\].*pm\.Slice"):
        method(model=model, **options)
    PMALA([smooth], model=model, metric="identity", compile_kwargs=QUICK)


@METHODS
def test_a_simulator_or_potential_without_gradient_is_refused_with_advice(method):
    with pm.Model() as simulated:
        mu = pm.Normal("mu")
        pm.Simulator("y", lambda rng, mu, size: rng.normal(mu, size=size), mu, observed=[0.3])
    with pm.Model() as opaque:
        pm.Potential("p", Opaque()(pm.Normal("mu")))
    for model in (simulated, opaque):
        with pytest.raises(ValueError, match=r"\['mu'\].*sample_smc"):
            method(model=model, compile_kwargs=QUICK)


def test_a_variable_of_another_model_is_named(model):
    with pm.Model():
        stranger = pm.Normal("stranger")
    with pytest.raises(ValueError, match=r"lists \['stranger'\], but the model samples"):
        PMALA([stranger], model=model)


@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.array(0.5), 1])
def test_the_initial_point_may_be_numbers_and_need_not_be_complete(value, model):
    step = PMALA(
        [model["w"]], model=model, initial_point={"w": value}, metric="identity",
        compile_kwargs=QUICK,
    )  # fmt: skip
    step.step(model.initial_point())


# ---- At the start --------------------------------------------------------------------------


def start_with(logp=None, observed=0.0, metric="identity", **kwargs):
    with pm.Model():
        x = pm.Normal("x", initval=1.0)
        pm.Normal("y", x, observed=observed)
        if logp is not None:
            pm.Potential("extra", logp(x))
        step = PMALA(metric=metric, compile_kwargs=QUICK)
        return pm.sample(
            draws=30, tune=5, chains=1, cores=1, step=step, progressbar=False,
            compute_convergence_checks=False, random_seed=3, **kwargs,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"logp": lambda x: pt.log(-x)}, "log-density is nan"),
        ({"logp": lambda x: pt.switch(x > 0, -np.inf, 0.0)}, "log-density is -inf"),
        ({"logp": lambda x: pt.switch(x > 0, np.inf, 0.0)}, "log-density is inf"),
        ({"logp": lambda x: pt.sqrt(pt.maximum(x, 100.0) - 100.0)}, "gradient.*not finite"),
    ],
)
def test_a_start_that_is_not_finite_is_a_sampling_error_with_advice(options, found):
    with pytest.raises(SamplingError, match=rf"(?s)PMALA.*{found}.*model\.debug\(\).*initvals"):
        start_with(**options)


def test_a_start_that_alone_has_no_gradient_is_left_for_one_nearby():
    idata = start_with(logp=lambda x: pt.sqrt(pt.abs(x - 1.0)))
    assert np.isfinite(idata.posterior["x"].values).all()
    assert (idata.sample_stats["accepted"].values > 0).any()


def test_missing_values_in_the_data_are_found_at_the_start():
    with pm.Model():
        x = pm.Normal("x")
        pm.Normal("y", x * np.array([0.1, np.nan]), observed=np.array([0.3, 0.4]))
        step = PMALA(metric="identity", compile_kwargs=QUICK)
        with pytest.raises(SamplingError, match=r"log-density is nan.*missing values in the data"):
            pm.sample(2, tune=2, chains=1, cores=1, step=step, progressbar=False)


# ---- On the way ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"logp": lambda x: pt.log(x)},
        {"logp": lambda x: pt.switch(x > 0, 0.0, np.inf)},
        {"logp": lambda x: pt.switch(x > 0, 0.0, -pt.sqrt(x))},
    ],
    ids=["logp-nan", "logp-inf", "logp-sqrt"],
)
def test_a_proposal_without_a_finite_geometry_is_a_divergence_and_rejected(options):
    idata = start_with(**options)
    x, stats = idata.posterior["x"].values, idata.sample_stats
    assert (x > 0).all()
    assert np.isfinite(stats["lp"]).all()
    diverging = stats["diverging"].values
    assert diverging.any()
    assert (stats["accepted"].values[diverging] == 0).all()
    assert (stats["acceptance_rate"].values[diverging] == 0).all()
    np.testing.assert_array_equal(stats["divergences"], diverging.cumsum(axis=1))


@pytest.mark.parametrize(
    "there",
    [lambda x: -pt.ones_like(x), lambda x: x * np.inf, lambda x: x * np.nan],
    ids=["negative", "infinite", "nan"],
)
def test_a_metric_without_a_factor_is_replaced_and_the_posterior_is_kept(there, caplog):
    """The part of the posterior where only the metric is at fault is not cut off."""
    with pm.Model():
        x = pm.Normal("x", initval=1.0)
        pm.Normal("y", x, observed=0.4)
        step = PMALA(
            metric=lambda model, x: pt.diag(pt.switch(x > 0.3, there(x), 2.0)),
            compile_kwargs=QUICK, thin=1,
        )  # fmt: skip
        idata = pm.sample(
            draws=4000, tune=200, chains=2, cores=1, step=step, progressbar=False,
            compute_convergence_checks=False, random_seed=3,
        )  # fmt: skip
    x, stats = idata.posterior["x"].values, idata.sample_stats
    np.testing.assert_array_equal(stats["metric_replaced"], x > 0.3)
    assert not stats["diverging"].values.any()
    assert caplog.text.count("It is replaced by") == 2  # once a chain
    z = (x - 0.2) * np.sqrt(2.0)
    assert abs(z.mean()) < 5.0 / np.sqrt(az.ess(z, method="mean"))
    assert abs((z**2).mean() - 1.0) < 5.0 * np.sqrt(2.0 / az.ess(z**2, method="mean"))


class Leads(pm.Metropolis):
    """A step that moves its variable to where another's geometry is not finite, and back."""

    draws = 0

    def astep(self, q0):
        self.draws += 1
        point, stats = super().astep(q0)
        astray = 20 <= self.draws % 30 < 25
        return point._replace(data=np.full(1, -1.0 if astray else 1.0)), stats


def test_a_point_that_another_step_has_led_astray_is_left_as_it_is_and_told():
    with pm.Model():
        w = pm.Normal("w", initval=1.0)
        x = pm.Normal("x")
        pm.Potential("broken", pt.sqrt(w) * x)
        steps = [Leads([w]), PMALA([x], metric="identity", compile_kwargs=QUICK)]
        idata = pm.sample(
            60, tune=40, chains=2, cores=1, step=steps, progressbar=False, random_seed=3,
            compute_convergence_checks=False,
        )  # fmt: skip
    astray = idata.posterior["w"].values < 0
    assert 0 < astray.sum() < astray.size
    x, diverging = (
        idata.posterior["x"].values,
        idata.sample_stats["diverging"].values.reshape(2, 60),
    )
    np.testing.assert_array_equal(diverging, astray)
    assert (np.diff(x)[astray[:, 1:]] == 0).all()
    assert (np.diff(x)[~astray[:, 1:]] != 0).mean() > 0.5


def test_a_chain_that_cannot_start_does_not_lose_those_before_it(caplog):
    with pm.Model():
        x = pm.Normal("x")
        pm.Potential("root", pt.sqrt(10.0 - x))
        step = PMALA(metric="identity", compile_kwargs=QUICK)
        idata = pm.sample(
            30, tune=5, chains=3, cores=1, step=step, progressbar=False, random_seed=3,
            compute_convergence_checks=False, initvals=[{"x": 0.0}, {"x": 20.0}, {"x": 0.0}],
        )  # fmt: skip
    assert dict(idata.posterior.sizes) == {"chain": 1, "draw": 30}
    assert "cannot start" in caplog.text
    assert "chains drawn so far" in caplog.text


@pytest.mark.parametrize(
    "logp",
    [
        lambda x: pt.switch(x > 0, 0.0, -np.inf),
        # An invalid parameter: ParameterValueError elsewhere, no density here.
        lambda x: pm.logp(pm.Normal.dist(0.0, pt.switch(x > 0, 1.0, -1.0)), 0.0),
    ],
    ids=["support", "parameter"],
)
def test_a_proposal_outside_the_support_is_a_rejection_and_no_divergence(logp):
    idata = start_with(logp)
    assert (idata.posterior["x"].values > 0).all()
    assert (idata.sample_stats["acceptance_rate"].values == 0).any()
    assert not idata.sample_stats["diverging"].values.any()


@pytest.mark.parametrize(("patience", "messages"), [(0.0, 1), (60.0, 0)])
def test_a_long_compilation_is_announced(patience, messages, monkeypatch, caplog):
    monkeypatch.setattr("pymc_pmala.announcement.PATIENCE", patience)
    with pm.Model(), caplog.at_level("INFO", logger="pymc"):
        pm.Normal("x")
        PMALA(compile_kwargs={"mode": "FAST_COMPILE"})
    assert caplog.text.count("PMALA is deriving its metric and compiling") == messages
