"""The kernel by itself: any number of transitions in one call, and a true account of them."""

import pickle

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from transitions import BY_C, one_by_one

from pymc_pmala import make_kernel


def normal_model():
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 2)
        pm.Normal("y", mu, sigma, observed=[0.3, 1.1, -0.4, 2.0])
    return model


def grouped_model():
    counts = np.random.default_rng(2).poisson(3, 30)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", mu, tau, shape=30)
        pm.Poisson("y", pm.math.exp(effect), observed=counts)
    return model


def walking_model():
    y = np.random.default_rng(3).normal(size=40)
    with pm.Model() as model:
        sd = pm.Exponential("sd", 5)
        level = pm.GaussianRandomWalk("level", sigma=sd, init_dist=pm.Normal.dist(), shape=40)
        pm.Normal("y", 0, pm.math.exp(0.5 * level), observed=y)
    return model


def noise_for(kernel, n, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, kernel.dimension)), np.log(rng.random(n))


def assert_same(found, expected):
    (state, info), (other, other_info) = found, expected
    for part, other_part in zip(state, other, strict=True):
        if isinstance(part, tuple):
            assert all(map(np.array_equal, part, other_part))
        else:
            np.testing.assert_array_equal(part, other_part)
    assert info.transitions == other_info.transitions
    assert info.accepted == other_info.accepted
    assert info.rejections == other_info.rejections
    assert info.diverging == other_info.diverging
    assert info.acceptance == pytest.approx(other_info.acceptance, rel=1e-14)


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (normal_model, {}),
        (normal_model, {"drift": "omega"}),
        (normal_model, {"metric": np.array([4.0, 8.0]), "drift": "gradient"}),
        (normal_model, {"metric": "softabs"}),
        (grouped_model, {}),
        (walking_model, {}),
    ],
)
def test_one_call_makes_the_transitions_of_many_to_the_bit(build, options):
    kernel = make_kernel(build(), **options)
    state, scales = kernel.init(kernel.start), kernel.scales(0.7)
    for n in (1, 2, 50):
        noise = noise_for(kernel, n, seed=n)
        found = kernel.run(state, *noise, scales)
        assert_same(found, one_by_one(kernel, state, *noise, scales))
    assert found[1].accepted > 0
    assert found[1].rejections < 50


def test_the_noise_of_one_call_may_be_that_of_several():
    kernel = make_kernel(normal_model())
    state, scales = kernel.init(kernel.start), kernel.scales(1.0)
    noises, log_uniforms = noise_for(kernel, 20)
    at_once, _ = kernel.run(state, noises, log_uniforms, scales)
    half, _ = kernel.run(state, noises[:7], log_uniforms[:7], scales)
    in_two, _ = kernel.run(half, noises[7:], log_uniforms[7:], scales)
    np.testing.assert_array_equal(at_once.x, in_two.x)


def test_it_leaves_the_posterior_invariant():
    """Points drawn from the posterior are so afterwards: a normal, by its quantiles."""
    with pm.Model() as model:
        pm.StudentT("x", nu=5)
    kernel = make_kernel(model)
    rng, scales = np.random.default_rng(5), kernel.scales(1.0)
    ends = []
    for x in rng.standard_t(5, size=3000):
        noise = rng.standard_normal((3, 1)), np.log(rng.random(3))
        state, _ = kernel.run(kernel.init(np.array([x])), *noise, scales)
        ends.append(state.x[0])
    assert stats.kstest(ends, stats.t(5).cdf).pvalue > 1e-3


def test_an_account_has_the_first_divergence():
    with pm.Model() as model:
        x = pm.Normal("x", initval=0.5)
        pm.Potential("wall", pt.switch(x < 1, 0.0, np.nan))
    kernel = make_kernel(model, metric="identity")
    state, scales = kernel.init(np.array([0.5])), kernel.scales(2.0)
    noises, log_uniforms = noise_for(kernel, 200)
    _, info = kernel.run(state, noises, log_uniforms, scales)
    assert 0 < info.diverging < 200
    source, destination = info.divergence
    assert source[0] < 1 <= destination[0]
    _, expected = one_by_one(kernel, state, noises, log_uniforms, scales)
    np.testing.assert_array_equal(destination, expected.divergence[1])


def test_outside_the_support_is_no_divergence():
    with pm.Model() as model:
        pm.HalfNormal("x", default_transform=None, initval=0.3)
    kernel = make_kernel(model, metric="identity", drift="gradient")
    state = kernel.init(np.array([0.3]))
    _, info = kernel.run(state, *noise_for(kernel, 100), kernel.scales(2.0))
    assert info.accepted < 100
    assert info.diverging == 0


def test_it_sees_new_data():
    with pm.Model() as model:
        held = pm.Data("held", [0.0, 1.0])
        pm.Normal("y", pm.Normal("mu"), 1, observed=held)
    kernel = make_kernel(model)
    before = kernel.init(kernel.start)
    noise, scales = noise_for(kernel, 10), kernel.scales(1.0)
    first, _ = kernel.run(before, *noise, scales)
    with model:
        pm.set_data({"held": [10.0, 11.0]})
    again, _ = kernel.run(kernel.init(kernel.start), *noise, scales)
    assert abs(first.x[0] - again.x[0]) > 1


def test_it_takes_data_of_another_layout_and_noise_of_any():
    columns = np.random.default_rng(0).normal(size=(20, 2))
    with pm.Model() as model:
        held = pm.Data("held", columns)
        beta = pm.Normal("beta", shape=2)
        pm.Normal("y", held @ beta, 1, observed=columns @ [1.0, 2.0])
    kernel = make_kernel(model)
    state, scales = kernel.init(kernel.start), kernel.scales(1.0)
    noises, log_uniforms = noise_for(kernel, 10)
    expected, _ = kernel.run(state, noises, log_uniforms, scales)
    transposed, _ = kernel.run(state, np.asfortranarray(noises), log_uniforms, scales)
    np.testing.assert_array_equal(transposed.x, expected.x)
    with model:
        pm.set_data({"held": np.asfortranarray(columns)})
    found, info = kernel.run(kernel.init(kernel.start), noises, log_uniforms, scales)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-10)
    assert info.transitions == 10


def test_a_copy_by_pickle_makes_the_same_transitions():
    kernel = make_kernel(normal_model())
    copy = pickle.loads(pickle.dumps(kernel))
    noise, scales = noise_for(kernel, 10), kernel.scales(0.5)
    state = kernel.init(kernel.start)
    assert_same(copy.run(state, *noise, scales), kernel.run(state, *noise, scales))


def test_an_interpreted_kernel_makes_the_same_transitions():
    model = normal_model()
    kernel, plain = (
        make_kernel(model, compile_kwargs=options) for options in (None, {"mode": "interpreted"})
    )
    noise, scales = noise_for(kernel, 10), kernel.scales(0.5)
    found, _ = kernel.run(kernel.init(kernel.start), *noise, scales)
    expected, _ = plain.run(plain.init(plain.start), *noise, scales)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-9)


def test_an_unknown_drift_is_refused():
    with pytest.raises(ValueError, match="Unknown drift 'beta'"):
        make_kernel(normal_model(), drift="beta")


def test_a_metric_that_is_not_positive_definite_is_refused():
    with pytest.raises(ValueError, match="not positive definite"):
        make_kernel(normal_model(), metric=np.array([1.0, -1.0]))


@pytest.mark.skipif(BY_C, reason="numba does not compile there")
def test_numba_compiles_the_loop(monkeypatch):
    """Without the loop `run` would be right, too, but slow: it is not to call `propose`."""
    kernel = make_kernel(normal_model())
    state, noise = kernel.init(kernel.start), noise_for(kernel, 5)
    monkeypatch.setattr(kernel, "propose", None)
    _, info = kernel.run(state, *noise, kernel.scales(0.5))
    assert info.transitions == 5


@pytest.mark.skipif(BY_C, reason="numba does not compile there")
def test_compiled_code_calls_compiled_code_by_its_address():
    import numba

    from pymc_pmala.kernel.machine_code import address_of, call_at_signature

    @numba.njit
    def halve(x, n):
        if n < 0:
            raise ValueError("negative")
        return x / 2, n + 1

    halve(np.ones(3), 0)
    [compiled] = halve.overloads.values()
    call_at = call_at_signature(compiled.signature)

    @numba.njit
    def repeat(address, x, n, times):
        for _ in range(times):
            x, n = call_at(address, (x, n))
        return x, n

    x, n = repeat(address_of(compiled), np.ones(3), 0, 1000)
    np.testing.assert_array_equal(x, 0.5**1000)
    assert n == 1000
    with pytest.raises(ValueError, match="negative"):
        repeat(address_of(compiled), np.ones(3), -1, 1)
