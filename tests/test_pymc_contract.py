"""What PyMC demands of a step method, on every supported version."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.step_methods.compound import CompoundStep

from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA

Y = np.array([0.3, 1.9, -0.4, 1.1, 0.8])

# One-off steps of tiny models: nothing is gained by compiling them well.
QUICK = {"mode": "FAST_COMPILE"}


def normal_model():
    with pm.Model() as model:
        data = pm.Data("data", Y)
        mu = pm.Normal("mu")
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=data)
    return model


@pytest.fixture(scope="module")
def model():
    return normal_model()


@pytest.fixture(scope="module")
def whole(model):
    """One step for all variables, with everything that can be learned."""
    return MALA(model=model)


def compound_step(model):
    """Two steps that hold each other's variable fixed."""
    return CompoundStep([MALA([model["sigma"]], model=model), PMALA([model["mu"]], model=model)])


@pytest.fixture(scope="module")
def compound(model):
    return compound_step(model)


@pytest.fixture(params=["whole", "compound"])
def step(request):
    return request.getfixturevalue(request.param)


def sample(step, model, **kwargs):
    options = {"draws": 15, "tune": 15, "chains": 2, "cores": 1, "random_seed": 20140604}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    with model:
        return pm.sample(step=step, **(options | quiet | kwargs))


def draws(idata, group="posterior"):
    return {name: values.values for name, values in idata[group].data_vars.items()}


def assert_same_draws(one, other, rtol=0.0):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=rtol, err_msg=name)


def chain(step, point, n):
    """Points and statistics of n transitions."""
    kept = []
    for _ in range(n):
        point, stats = step.step(point)
        kept.append(({k: np.array(v) for k, v in point.items()}, copy.deepcopy(stats)))
    return kept


def seeded(step, seed=1):
    """The step at the beginning of a chain, as either version of PyMC sets it up."""
    rng = np.random.default_rng(seed)
    if hasattr(step, "setup_chain"):
        step.setup_chain(rng, 10, 10)
    else:
        step.set_rng(rng)
    return step


# ---- Choice of variables -------------------------------------------------------------


def test_variables_may_be_random_variables_or_value_variables(model):
    mu, value = model["mu"], model.rvs_to_values[model["mu"]]
    for listed in ([mu], [value], mu, (mu,)):
        step = PMALA(listed, metric="identity", model=model, compile_kwargs=QUICK)
        assert step.vars == [value]
        assert set(step.shared) == {"sigma_log__"}


@pytest.mark.parametrize("method", [MALA, SimplifiedMMALA, MMALA, PMALA])
def test_without_blocking_each_variable_has_a_step_of_its_own(method, model):
    for given in ({}, {"vars": None}, {"vars": model.free_RVs}):
        step = method(**given, blocked=False, metric="identity", model=model, compile_kwargs=QUICK)
        assert [[v.name for v in one.vars] for one in step.methods] == [["mu"], ["sigma_log__"]]
        assert all(type(one) is method for one in step.methods)
    assert draws(sample(step, model))["mu"].shape == (2, 15)


# ---- Cached geometry ------------------------------------------------------------------


def test_geometry_is_never_that_of_other_values_of_the_other_variables(compound, model):
    """Against the same chain with the cache emptied before every transition."""
    step, logp = compound.methods[0], model.compile_logp()
    others = np.random.default_rng(2).normal(size=40)

    def run(forget):
        point = model.initial_point()
        seeded(step)
        for other in others:
            point["mu"] = np.asarray(other)
            if forget:
                step.chain.forget_point()
            point, [stats] = step.step(point)
            np.testing.assert_allclose(stats["model_logp"], logp(point), rtol=1e-12)
            yield float(point["sigma_log__"]), stats["accepted"]

    cached, fresh = list(run(forget=False)), list(run(forget=True))
    assert cached == fresh
    assert 0 < sum(accepted for _, accepted in cached) < 40


def test_points_overwritten_in_place_are_noticed(whole, compound, model):
    """PyMC's workers hand in one buffer; a user may write into a draw."""
    logp = model.compile_logp()
    for step in (whole, compound.methods[1]):
        seeded(step)
        point = {name: np.array(value) for name, value in model.initial_point().items()}
        for value in (0.0, 0.5, 1.0, 0.0):
            for name in point:
                point[name][...] = value
            new, [stats] = step.step(point)
            np.testing.assert_allclose(stats["model_logp"], logp(new), rtol=1e-12)
            for name in step.var_names:
                new[name][...] = 7.0
            # What was drawn before is written over: from the same point, the same geometry.
            again, [stats] = step.step(point)
            np.testing.assert_allclose(stats["model_logp"], logp(again), rtol=1e-12)


class Counted:
    """A kernel that counts the points at which its caller has the geometry computed."""

    def __init__(self, kernel):
        self.kernel, self.points = kernel, 0

    def __getattr__(self, name):
        return getattr(self.kernel, name)

    def init(self, *arguments):
        self.points += 1
        return self.kernel.init(*arguments)

    def propose(self, *arguments):
        self.points += 1
        return self.kernel.propose(*arguments)

    def draws(self, state, per_draw, noise, scales, every=1, hyper_noise=None, hyper_scales=None):
        self.points += len(noise.normals) + (len(hyper_noise.normals) if hyper_noise else 0)
        return self.kernel.draws(state, per_draw, noise, scales, every, hyper_noise, hyper_scales)


def test_the_geometry_of_the_current_point_is_not_computed_twice(whole, model):
    step = copy.deepcopy(whole)
    counted = Counted(step.kernel)
    step.chain.kernel = counted
    step.chain.arrival = step.chain.arrival._replace(kernel=counted)
    seeded(step)
    point, _ = step.step(model.initial_point())
    assert counted.points > 1
    counted.points = 0
    chain(step, point, 10)
    assert counted.points == 10


def count_evaluations(step):
    """All evaluations of a step's geometry: by its kernel, and of what it averages."""
    chain = step.chain
    counted = chain.kernel = Counted(chain.kernel)
    chain.arrival = chain.arrival._replace(kernel=counted)
    pieces = getattr(chain.preconditioning, "_pieces", None)
    if pieces is not None:

        def observed(x):
            counted.points += 1
            return pieces(x)

        chain.preconditioning._pieces = observed
    return counted


@pytest.mark.parametrize("tune", [0, 30])
@pytest.mark.parametrize(
    "options",
    [
        {"interweave": True, "metric": "fisher"},
        {"metric": "adapt"},
        {"thin": 3, "interweave": False},
        None,
    ],
    ids=["interwoven", "averaged", "thinned", "MALA"],
)
def test_evaluations_are_counted(options, tune):
    with pm.Model() as hierarchy:
        theta = pm.Normal("theta", pm.Normal("mu"), pm.HalfNormal("tau"), shape=3)
        pm.Poisson("y", pm.math.exp(theta), observed=[0, 40, 3])
        quick = {"compile_kwargs": {"mode": "interpreted"}}
        step = MALA(**quick) if options is None else PMALA(**options, **quick)
    counted = count_evaluations(step)
    step.set_rng(np.random.default_rng(1))
    point = hierarchy.initial_point()
    path = chain(step, point, tune)
    step.stop_tuning()
    path += chain(step, path[-1][0] if path else point, 20)
    found = sum(stats["n_steps"] for _, [stats] in path)
    # All but the point that was handed in.
    assert found == counted.points - 1
    made = sum(stats["n_transitions"] for _, [stats] in path)
    assert made == tune + 20 * step.chain.transitions < found


def test_new_data_are_used_between_runs_and_between_transitions(step, model):
    logp = model.compile_logp()
    start = model.initial_point()
    try:
        first = sample(step, model)
        with model:
            pm.set_data({"data": Y + 3.0})
        second = sample(step, model)
        assert second.posterior["mu"].values.mean() > first.posterior["mu"].values.mean() + 0.5

        seeded(step)
        point = chain(step, start, 3)[-1][0]
        for data in (Y, Y - 1.0, np.append(Y, [0.0, 1.0])):
            with model:
                pm.set_data({"data": data})
            point, stats = step.step(point)
            np.testing.assert_allclose(stats[-1]["model_logp"], logp(point), rtol=1e-12)
    finally:
        with model:
            pm.set_data({"data": Y})
    assert_same_draws(draws(sample(step, model)), draws(first))


# ---- Chains and processes --------------------------------------------------------------


def test_one_instance_keeps_nothing_of_earlier_chains(step, model):
    first = draws(sample(step, model))
    sample(step, model, random_seed=5, tune=3)
    assert_same_draws(draws(sample(step, model)), first)
    # Parallel chains are set up without `reset_tuning`.
    start = model.initial_point()
    alone, other, again = (chain(seeded(step, seed), start, 20) for seed in (5, 9, 5))
    assert alone == again != other


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("context", multiprocessing.get_all_start_methods())
def test_same_seed_gives_same_draws_on_any_number_of_cores(context, compound, model):
    parallel = sample(compound, model, cores=2, mp_ctx=context, discard_tuned_samples=False)
    sequential = sample(compound, model, discard_tuned_samples=False)
    # A new interpreter compiles anew, and may add up in another order: the last digit.
    rtol = 0.0 if context == "fork" else 1e-8
    for group in ("posterior", "warmup_posterior", "sample_stats"):
        assert_same_draws(draws(parallel, group), draws(sequential, group), rtol)


@pytest.mark.parametrize(
    "duplicate",
    [
        lambda step: pickle.loads(pickle.dumps(step)),
        lambda step: cloudpickle.loads(cloudpickle.dumps(step)),
        copy.deepcopy,
    ],
    ids=["pickle", "cloudpickle", "deepcopy"],
)
@pytest.mark.parametrize("tuned", [False, True], ids=["tuning", "tuned"])
def test_a_copy_of_a_step_continues_to_the_same_draws(duplicate, tuned, step, model):
    seeded(step)
    point = chain(step, model.initial_point(), 8)[-1][0]
    if tuned:
        step.stop_tuning()
    twin = duplicate(step)
    assert chain(twin, point, 8) == chain(step, point, 8)


@pytest.mark.parametrize("tuned", [False, True], ids=["tuning", "tuned"])
def test_a_sampling_state_continues_to_the_same_draws(tuned, step, model, tmp_path):
    seeded(step)
    point = chain(step, model.initial_point(), 8)[-1][0]
    if tuned:
        for one in getattr(step, "methods", [step]):
            one.stop_tuning()
    (tmp_path / "state").write_bytes(pickle.dumps(step.sampling_state))
    expected = chain(step, point, 12)
    # The same instance, which has gone on; one that has seen nothing; one that stands at the
    # very point but has learned something else.
    other = copy.deepcopy(step)
    seeded(other, seed=3)
    other.step(point)
    for resumed in (step, seeded(copy.deepcopy(step)), other):
        resumed.sampling_state = pickle.loads((tmp_path / "state").read_bytes())
        assert chain(resumed, point, 12) == expected


RESUME = """
import pickle
import sys
from pathlib import Path

from test_pymc_contract import chain, compound_step, normal_model

folder = Path(sys.argv[1])
step = compound_step(normal_model())
step.sampling_state, point = pickle.loads((folder / "paused").read_bytes())
(folder / "resumed").write_bytes(pickle.dumps(chain(step, point, 12)))
"""


def test_a_chain_paused_on_disk_is_resumed_by_a_new_process(compound, model, tmp_path):
    seeded(compound)
    point = chain(compound, model.initial_point(), 8)[-1][0]
    (tmp_path / "paused").write_bytes(pickle.dumps((compound.sampling_state, point)))
    expected = chain(compound, point, 12)
    tests = Path(__file__).parent
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)]),
        # Nothing that this process has compiled.
        "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'compiled'}",
    }
    command = [sys.executable, "-c", RESUME, str(tmp_path)]
    subprocess.run(command, check=True, env=environment)
    resumed = pickle.loads((tmp_path / "resumed").read_bytes())
    # NaN equals NaN here.
    np.testing.assert_equal(resumed, expected)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda m: MMALA(model=m, compile_kwargs=QUICK), "name pmala, not mmala"),
        (lambda m: PMALA(model=m, integrator="euler", compile_kwargs=QUICK), "integrator expo"),
        (lambda m: PMALA(model=m, target_accept=0.9, compile_kwargs=QUICK), "target_accept 0.6"),
        (lambda m: PMALA(model=m, metric="identity", compile_kwargs=QUICK), "metric_kind 'adapt'"),
        (lambda m: PMALA([m["mu"]], model=m, compile_kwargs=QUICK), "dimension 2, not 1"),
        (lambda m: MALA(model=m, compile_kwargs=QUICK), "name pmala, not mala"),
    ],
)
def test_the_state_of_another_sampler_is_refused(other, words, model):
    state = PMALA(model=model, compile_kwargs=QUICK).sampling_state
    with pytest.raises(ValueError, match=f"another sampler's.*{words}.*arguments"):
        other(model).sampling_state = state
    with pytest.raises(TypeError, match="not CompoundStepState"):
        other(model).sampling_state = compound_step(model).sampling_state


# ---- What pm.sample returns -------------------------------------------------------------


def test_sampling_works_without_tuning(step, model):
    idata = sample(step, model, tune=0)
    sizes = idata.sample_stats["step_size"].values
    assert (sizes == sizes[:, :1]).all()
    assert np.isfinite(sizes).all()
    assert 0 < idata.sample_stats["accepted"].values.mean() <= 1


def test_the_step_size_is_frozen_when_tuning_ends(step, model):
    idata = sample(step, model, discard_tuned_samples=False)
    after = idata.sample_stats
    np.testing.assert_array_equal(after["step_size"], after["step_size_bar"])
    assert (np.ptp(after["step_size"].values, axis=1) == 0).all()
    assert (np.ptp(idata["warmup_sample_stats"]["step_size"].values, axis=1) > 0).all()


def test_tuning_draws_are_kept_on_request(step, model):
    kept = sample(step, model, tune=7, discard_tuned_samples=False)
    assert kept["warmup_posterior"]["mu"].shape == (2, 7)
    assert kept["warmup_sample_stats"]["lp"].shape[:2] == (2, 7)
    assert_same_draws(draws(kept), draws(sample(step, model, tune=7)))


def test_sample_stats_are_those_that_arviz_users_expect(whole, model):
    seen = []
    idata = sample(whole, model, callback=lambda trace, draw: seen.append(draw.point))
    stats = idata.sample_stats
    kinds = {name: values.dtype.kind for name, values in stats.data_vars.items()}
    numbers = ["acceptance_rate", "accepted", "lp", "step_size", "step_size_bar"]
    numbers += ["log_det_metric", "metric_floored", "interweaving_accept"]
    counts = ["divergences", "n_transitions", "n_steps"]
    flags = ["diverging", "metric_replaced"]
    expected = zip((numbers, counts, flags), "fib", strict=True)
    assert kinds == {name: kind for names, kind in expected for name in names}
    assert all(values.shape == (2, 15) for values in stats.data_vars.values())
    logp = model.compile_logp()
    expected = np.reshape([float(logp(point)) for point in seen], (2, 30))[:, 15:]
    np.testing.assert_allclose(stats["lp"], expected, rtol=1e-12)
    moved = np.diff(idata.posterior["mu"].values) != 0
    np.testing.assert_array_equal(stats["accepted"].values[:, 1:] > 0, moved)
    assert ((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1)).all()
    assert not stats["diverging"].values.any()


def test_an_interrupt_keeps_the_draws_made(step, model):
    def interrupt(trace, draw):
        if draw.draw_idx == 15 + 5:
            raise KeyboardInterrupt

    idata = sample(step, model, chains=1, callback=interrupt)
    complete = draws(sample(step, model, chains=1))
    assert_same_draws(draws(idata), {name: values[:, :6] for name, values in complete.items()})


@pytest.mark.filterwarnings("ignore:.*return_inferencedata:FutureWarning")
def test_zarr_traces_hold_the_same_draws(step, model, tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    if int(zarr.__version__.split(".")[0]) >= 3:
        pytest.skip("PyMC's ZarrTrace needs zarr < 3")
    # PyMC stores sampling states as pickles, which numcodecs reads only if told to trust them.
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    trace = pm.backends.ZarrTrace(store=zarr.DirectoryStore(str(tmp_path / "trace.zarr")))
    # Not to InferenceData: xarray reads zarr 2 no more.
    sample(step, model, trace=trace, return_inferencedata=False)
    stored = {name: trace.posterior[name][:] for name in ("mu", "sigma")}
    assert_same_draws(stored, draws(sample(step, model)))
    for recorded in trace.root["_sampling_state"]["sampling_state"][:].ravel():
        assert type(recorded) is type(step.sampling_state)


def test_float32_models_stay_float32():
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model() as model:
            mu = pm.Normal("mu", initval=0.1)
            sigma = pm.HalfNormal("sigma")
            pm.Normal("y", mu, sigma, observed=Y.astype("float32"))
            logp = model.compile_logp()
            step = CompoundStep([MALA([sigma]), PMALA([mu])])
        seen = []
        idata = sample(step, model, callback=lambda trace, draw: seen.append(draw.point))
        for name in ("mu", "sigma"):
            assert idata.posterior[name].dtype == np.float32
        for one in step.methods:
            # A double is no reason to fail under trust_input.
            state = one.chain.draw(np.array([0.1]), one.rng, ahead=False).end
            values = (state.x, state.logp, state.force, *state.factor)
            assert {value.dtype for value in values} == {np.dtype("float32")}
        assert {value.dtype for point in seen for value in point.values()} == {np.dtype("float32")}
        expected = np.reshape([float(logp(point)) for point in seen], (2, 30))[:, 15:]
        np.testing.assert_allclose(idata.sample_stats["lp"].values[..., -1], expected, rtol=1e-5)


def test_a_given_step_size_is_kept_if_it_is_not_to_be_adapted(model):
    step = PMALA(
        model=model, metric="identity", integrator="euler", step_size=0.3, adapt_step_size=False,
        compile_kwargs=QUICK,
    )  # fmt: skip
    sizes = sample(step, model, discard_tuned_samples=False)["warmup_sample_stats"]["step_size"]
    np.testing.assert_allclose(sizes, 0.3, rtol=1e-12)


def test_repr_says_metric_integrator_step_size_and_dimension(model):
    step = PMALA(metric=np.ones(2), integrator="euler", model=model, compile_kwargs=QUICK)
    expected = "PMALA(metric=array of shape (2,), integrator='euler', step_size={}, dimension=2)"
    assert repr(step) == expected.format(None)
    step.step(model.initial_point())
    assert repr(step) == expected.format(f"{step.chain.step_size(tuning=True):.3g}")


def test_repr_names_a_metric_of_the_user(model):
    def flat(model, x):
        return pytensor.tensor.eye(2)

    step = PMALA(metric=flat, model=model, step_size=0.5, compile_kwargs=QUICK)
    assert repr(step) == (
        "PMALA(metric=flat, integrator='exponential', step_size=0.5, dimension=2)"
    )
