"""Information of mixtures, hurdles and truncated distributions, against E[s sᵀ] by quadrature."""

import zlib
from itertools import product

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.mixture import MixtureRV, _HurdleRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.compile.mode import Mode
from scipy import special as sp

from pymc_pmala.information import NoInformation, factor_information
from pymc_pmala.information.registry import _entry
from pymc_pmala.metric import FisherMetric
from pymc_pmala.model.target import make_target

MODE = Mode(linker="py", optimizer=None)


def compiled(x, outputs):
    function = pytensor.function([x], outputs, mode=MODE, on_unused_input="ignore")

    def quiet(*parts):
        with np.errstate(all="ignore"):
            return function(np.concatenate([np.atleast_1d(p).astype(float) for p in parts]))

    return quiet


def raveled(dist, data):
    """The factor of v in a model, as functions of the raveled vector of its parameters.

    ``dist`` creates v, given parameters that are flat real numbers, named as in its
    signature. ``data`` is what is observed, or the shape of a free v.
    """
    with pm.Model() as model:
        parameters = [pm.Flat(name) for name in names(dist)]
        kwargs = {"shape": data} if isinstance(data, tuple) else {"observed": data}
        dist(*parameters, **kwargs)
    whole = make_target(model, model.free_RVs)
    [factor] = [f for f in whole.factors if f.name == "v"]
    return whole.x, factor


def names(dist):
    return dist.__code__.co_varnames[: dist.__code__.co_argcount]


def information(dist, data, *, divergence=False):
    """Function for the information of v by its rule, and for the contraction PMALA takes of it."""
    x, factor = raveled(dist, data)
    metric = FisherMetric(x, factor_information(factor))
    outputs = [metric.matrix()]
    if divergence:
        outputs.append(metric.divergence(pt.eye(x.type.shape[0])))
    function = compiled(x, outputs)
    return function if divergence else lambda *theta: function(*theta)[0]


def expected_information(dist, nodes, weights=1.0):
    """Function for E[s sᵀ] over observations v, by summation."""
    x, factor = raveled(dist, nodes)
    scores = compiled(x, [factor.logp, *parameter_scores(factor.logp, x, len(names(dist)))])
    return lambda theta: outer_product(*scores(theta), weights=weights)


def expected_free_information(dist, nodes, weights):
    """Function for E[s sᵀ] in the parameters and the unconstrained value of v, by summation."""
    x, factor = raveled(dist, nodes.shape)
    n = len(names(dist))
    value_score = pt.grad(factor.logp.sum(), x)[n:]
    scores = compiled(x, [factor.logp, *parameter_scores(factor.logp, x, n), value_score])
    return lambda theta: outer_product(*scores(theta, nodes), weights=weights)


def parameter_scores(logp, x, n):
    """Derivatives of elementwise log-densities by the first n parameters.

    The derivative of a gradient by the weights of the elements (Towns 2017).
    """
    weights = pt.ones_like(logp)
    gradient = pt.grad((weights * logp).sum(), x)
    return [pt.grad(gradient[i], weights) for i in range(n)]


def outer_product(logp, *scores, weights):
    density = np.exp(logp) * weights
    used = density > 1e-200
    assert density[used].sum() == pytest.approx(1.0, rel=1e-6)
    scores = np.stack(scores)[:, used]
    return (scores * density[used]) @ scores.T


def midpoints(lower, upper, n=20000):
    step = (upper - lower) / n
    return lower + step * (np.arange(n) + 0.5), step


def assert_finite_and_positive(function, corners):
    """Positive semi-definite to rounding, beside the floor that a metric has."""
    for corner in corners:
        matrix, divergence = function(corner)
        assert np.isfinite(matrix).all(), corner
        assert np.isfinite(divergence).all(), corner
        matrix = matrix + 1e-12 * np.eye(len(matrix))
        scale = np.sqrt(np.diag(matrix))
        matrix = matrix / scale / scale[:, None]
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-10)
        assert np.linalg.eigvalsh(matrix).min() > -1e-10, corner


def random_thetas(name, n, count=3):
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(-1.0, 1.0, size=(count, n))


sigmoid, exp = pm.math.sigmoid, pt.exp


def hurdle_of_negative_binomial(a, b, c, **k):
    """HurdleNegativeBinomial with a normalisation that is quick to differentiate."""

    def logp(v, psi, mu, alpha):
        counts = pm.NegativeBinomial.dist(mu, alpha)
        positive = pm.logp(counts, v) - pt.log1mexp(pm.logp(counts, 0))
        return pt.switch(pt.eq(v, 0), pt.log1p(-psi), pt.log(psi) + positive)

    return pm.CustomDist("v", sigmoid(a), exp(b), exp(c), logp=logp, dtype="int64", **k)


# Distribution, support, tolerance and, where it is not the distribution itself, the truth.
COUNTS = {
    "ZeroInflatedPoisson": (
        lambda a, b, **k: pm.ZeroInflatedPoisson("v", sigmoid(a), exp(b), **k),
        np.arange(60),
        1e-9,
    ),
    "ZeroInflatedBinomial": (
        lambda a, b, **k: pm.ZeroInflatedBinomial("v", sigmoid(a), 7, sigmoid(b), **k),
        np.arange(8),
        1e-9,
    ),
    "ZeroInflatedBernoulli": (
        lambda a, b, **k: pm.ZeroInflatedBinomial("v", sigmoid(a), 1, sigmoid(b), **k),
        np.arange(2),
        1e-9,
    ),
    "ZeroInflatedNegativeBinomialMean": (
        lambda a, b, **k: pm.ZeroInflatedNegativeBinomial("v", sigmoid(a), exp(b), 1.7, **k),
        np.arange(500),
        1e-9,
    ),
    # The information about the dispersion is itself approximate.
    "ZeroInflatedNegativeBinomial": (
        lambda a, b, c, **k: pm.ZeroInflatedNegativeBinomial("v", sigmoid(a), exp(b), exp(c), **k),
        np.arange(500),
        1e-3,
    ),
    "ZerosLast": (
        lambda a, b, **k: pm.Mixture(
            "v",
            pt.special.softmax(pt.stack([0.0, a])),
            [pm.Poisson.dist(exp(b)), pm.DiracDelta.dist(0)],
            **k,
        ),
        np.arange(60),
        1e-9,
    ),
    "HurdlePoisson": (
        lambda a, b, **k: pm.HurdlePoisson("v", sigmoid(a), exp(b), **k),
        np.arange(60),
        1e-9,
    ),
    "HurdleNegativeBinomial": (
        lambda a, b, c, **k: pm.HurdleNegativeBinomial("v", sigmoid(a), exp(b), exp(c), **k),
        np.arange(500),
        1e-3,
        hurdle_of_negative_binomial,
    ),
    "TruncatedBinomial": (
        lambda b, **k: pm.Truncated("v", pm.Binomial.dist(5, sigmoid(b)), lower=1, **k),
        np.arange(1, 6),
        1e-9,
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_information_of_counts_is_the_expected_outer_product(name):
    dist, support, tolerance, *truth = COUNTS[name]
    expected = expected_information(*(truth or [dist]), support)
    function = information(dist, np.array([1, 1, 1]), divergence=True)
    n = len(names(dist))
    for theta in random_thetas(name, n):
        matrix, _ = function(theta)
        truth = expected(theta)
        scale = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
        np.testing.assert_allclose(matrix / 3 / scale, truth / scale, atol=tolerance)
    assert_finite_and_positive(function, product((-40.0, -3.0, 40.0), repeat=n))


HURDLES = {
    "HurdleGamma": (
        lambda a, b, c, **k: pm.HurdleGamma("v", sigmoid(a), exp(b), exp(c), **k),
        lambda b, c, **k: pm.Gamma("v", exp(b), exp(c), **k),
    ),
    "HurdleLogNormal": (
        lambda a, b, c, **k: pm.HurdleLogNormal("v", sigmoid(a), b, exp(c), **k),
        lambda b, c, **k: pm.LogNormal("v", b, exp(c), **k),
    ),
}


@pytest.mark.parametrize("name", HURDLES)
def test_information_of_a_continuous_hurdle_is_that_of_its_parts(name):
    dist, base = HURDLES[name]
    [theta] = random_thetas(name, 3, 1)
    psi = sp.expit(theta[0])
    data = np.array([0.0, 0.7])
    expected = np.zeros((3, 3))
    expected[0, 0] = 2 * psi * (1 - psi)
    expected[1:, 1:] = psi * information(base, data)(theta[1:])
    np.testing.assert_allclose(information(dist, data)(theta), expected, rtol=1e-12)


MIXTURES = {
    "sigmoid": lambda a, m, s, **k: pm.NormalMixture(
        "v", pt.stack([sigmoid(a), 1 - sigmoid(a)]), pt.stack([m, 1.0]), exp([s, 0.3]), **k
    ),
    "softmax": lambda a, b, m, s, **k: pm.NormalMixture(
        "v", pt.special.softmax(pt.stack([a, b, 0.0])), pt.stack([m, 1.0, 2.0]), exp(s), **k
    ),
    "list": lambda a, b, m, s, **k: pm.Mixture(
        "v",
        pt.special.softmax(pt.stack([a, b, 0.0])),
        [pm.Normal.dist(m, exp(s)), pm.Logistic.dist(1.0, exp(s)), pm.Gumbel.dist(m, 2.0)],
        **k,
    ),
}


def bound_and_truth(dist, theta, nodes, step):
    """The information of a mixture by its rule and by quadrature, of data and of a free value."""
    nodes_of_free, wide = nodes[5::10], 10 * step
    return [
        (information(dist, np.array([0.4]))(theta), expected_information(dist, nodes, step)(theta)),
        (
            information(dist, ())(theta, 0.4),
            expected_free_information(dist, nodes_of_free, wide)(theta),
        ),
    ]


@pytest.mark.parametrize("name", MIXTURES)
def test_information_of_a_mixture_is_an_upper_bound(name):
    dist = MIXTURES[name]
    [theta] = random_thetas(name, len(names(dist)), 1)
    for bound, truth in bound_and_truth(dist, theta, *midpoints(-60.0, 60.0, 10000)):
        gap = np.linalg.eigvalsh(bound - truth)
        assert gap.min() > -1e-9
        assert gap.max() > 0.05
        assert np.trace(bound) < 10 * np.trace(truth)


@pytest.mark.parametrize("name", MIXTURES)
def test_information_of_a_mixture_is_finite_and_positive_at_extreme_parameters(name):
    dist = MIXTURES[name]
    function = information(dist, np.array([0.1, 1.0]), divergence=True)
    assert_finite_and_positive(function, product((-40.0, 40.0), repeat=len(names(dist))))


DISTANT = {
    "sigmoid": lambda a, m, s, **k: pm.NormalMixture(
        "v", pt.stack([1 - sigmoid(a), sigmoid(a)]), pt.stack([m, m + 90.0]), exp(s), **k
    ),
    "softmax": lambda a, b, m, s, **k: pm.NormalMixture(
        "v",
        pt.special.softmax(pt.stack([a, b, 0])),
        pt.stack([m, 90.0, 200.0]),
        exp([s, 0, s]),
        **k,
    ),
    "list": lambda a, b, m, s, **k: pm.Mixture(
        "v",
        pt.special.softmax(pt.stack([a, b, 0])),
        [pm.Normal.dist(m, 1.0), pm.Normal.dist(m + 90, exp(s)), pm.Normal.dist(200.0, exp(s))],
        **k,
    ),
}


@pytest.mark.parametrize("name", DISTANT)
def test_information_of_a_mixture_is_exact_if_its_components_do_not_overlap(name):
    dist = DISTANT[name]
    [theta] = random_thetas(name, len(names(dist)), 1)
    for matrix, truth in bound_and_truth(dist, theta, *midpoints(-30.0, 230.0, 20000)):
        np.testing.assert_allclose(matrix, truth, rtol=1e-6, atol=1e-9)


def test_information_of_mixed_counts_is_an_upper_bound():
    def dist(a, b, c, **k):
        components = [pm.Poisson.dist(exp(b)), pm.Geometric.dist(sigmoid(c))]
        return pm.Mixture("v", pt.stack([sigmoid(a), 1 - sigmoid(a)]), components, **k)

    theta = np.array([0.3, 1.0, -0.2])
    truth = expected_information(dist, np.arange(400))(theta)
    bound = information(dist, np.array([1]))(theta)
    assert np.linalg.eigvalsh(bound - truth).min() > -1e-12


def mv_normals(batched):
    def dist(a, b, c, **k):
        w = pt.special.softmax(pt.stack([a, 0.0, 0.5]))
        mu = pt.stack([pt.stack([b, c]), pt.stack([1.0, b]), pt.stack([0.0, 2.0])])
        chol = pt.eye(2) * exp(c)
        if batched:
            return pm.Mixture("v", w, pm.MvNormal.dist(mu, chol=chol), **k)
        return pm.Mixture("v", w, [pm.MvNormal.dist(mu[i], chol=chol) for i in range(3)], **k)

    return dist


def test_multivariate_components_may_be_batched_or_listed():
    theta, data = np.array([0.3, -0.5, 0.2]), np.arange(10.0).reshape(5, 2)
    w = sp.softmax([0.3, 0.0, 0.5])
    expected = np.diag([w[0] * (1 - w[0]), (w[0] + w[1]) * np.exp(-0.4), w[0] * np.exp(-0.4) + 4])
    for batched in (True, False):
        matrix = information(mv_normals(batched), data)(theta)
        np.testing.assert_allclose(matrix, 5 * expected, rtol=1e-9, atol=1e-12)


def test_weights_and_components_may_vary_between_elements():
    def dist(covariate):
        def mixture(a, b, s, **k):
            w = pt.stack([sigmoid(a * covariate), 1 - sigmoid(a * covariate)], axis=-1)
            mu = pt.stack([b * covariate, b + 0 * pt.as_tensor(covariate)], axis=-1)
            return pm.NormalMixture("v", w, mu, exp(s), **k)

        return mixture

    theta, covariate = np.array([0.7, -0.4, 0.2]), np.array([-1.0, 0.5])
    whole = information(dist(covariate), np.zeros(2))(theta)
    parts = [information(dist(c), np.zeros(()))(theta) for c in covariate]
    np.testing.assert_allclose(whole, sum(parts), rtol=1e-12)


@pytest.mark.parametrize("name", ["ZeroInflatedPoisson", "HurdlePoisson"])
def test_information_is_scaled_to_the_size_of_the_data_behind_a_minibatch(name):
    dist = COUNTS[name][0]
    theta, data = np.array([0.3, 0.6]), np.array([0, 2, 1])
    whole = information(lambda a, b, **k: dist(a, b, total_size=30, **k), data)(theta)
    np.testing.assert_allclose(whole, 10 * information(dist, data)(theta), rtol=1e-12)


def test_weights_of_a_dirichlet_prior_enter_by_their_logits():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(3))
        pm.NormalMixture("v", w, [0.0, 100.0, 200.0], 1.0, observed=np.zeros(7))
    target = make_target(model)
    x = target.x
    metric = FisherMetric(x, factor_information(target.factors[1]))
    function = compiled(x, [metric.matrix(), metric.divergence(pt.eye(2))])
    logits = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    w = sp.softmax(logits @ [0.3, -0.8])
    expected = 7 * logits.T @ (np.diag(w) - np.outer(w, w)) @ logits
    np.testing.assert_allclose(function([0.3, -0.8])[0], expected, rtol=1e-12)
    assert_finite_and_positive(function, [[60.0, -700.0], [40.0, 40.0]])


TRUNCATED = {
    "below": (lambda m, s, **k: pm.TruncatedNormal("v", m, exp(s), lower=0.4, **k), 1),
    "above": (lambda m, s, **k: pm.TruncatedNormal("v", m, exp(s), upper=0.4, **k), -1),
}


@pytest.mark.parametrize("name", TRUNCATED)
def test_information_of_a_normal_cut_off_on_one_side_is_exact(name):
    dist, sign = TRUNCATED[name]
    u, du = midpoints(-30.0, 6.0, 1500)
    distance, step = midpoints(0.0, 14.0, 60000)
    free, free_truth = information(dist, ()), expected_free_information(dist, u, du)
    data, data_truth = (
        information(dist, 0.4 + sign * np.ones(3)),
        expected_information(dist, 0.4 + sign * distance, step),
    )
    for theta in ([-3.0, -0.4], [0.0, 0.3], [3.0, 0.1]):
        np.testing.assert_allclose(free(theta, 0.2), free_truth(theta), rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(data(theta) / 3, data_truth(theta), rtol=1e-6)


def test_information_of_a_normal_cut_off_at_a_bound_that_moves_is_exact():
    def dist(m, s, c, **k):
        return pm.TruncatedNormal("v", m, exp(s), lower=c, **k)

    theta = np.array([0.3, -0.2, 0.7])
    truth = expected_free_information(dist, *midpoints(-30.0, 6.0, 1500))(theta)
    matrix = information(dist, ())(theta, 0.2)
    np.testing.assert_allclose(matrix, truth, rtol=1e-7, atol=1e-10)


def test_information_of_a_truncated_normal_is_continuous_and_positive_far_out():
    def dist(m, **k):
        return pm.TruncatedNormal("v", m, 1.0, lower=0.0, **k)

    function = information(dist, (), divergence=True)
    locations = (-1e8, -1e3, -40.0, -5.0, 0.0, 5.0, 40.0, 1e3, 1e8)
    assert_finite_and_positive(function, [[m, 0.3] for m in locations])
    before, after = (function([-25.0 + shift, 0.3])[0] for shift in (1e-9, -1e-9))
    np.testing.assert_allclose(before, after, rtol=1e-8)


BOUNDED = {
    "TruncatedNormal": lambda m, **k: pm.TruncatedNormal("v", m, 1.0, lower=-1.0, upper=2.0, **k),
    "wide": lambda m, **k: pm.TruncatedNormal("v", m, 1.0, lower=-9.0, upper=9.0, **k),
    "Gamma below": lambda m, **k: pm.Truncated("v", pm.Gamma.dist(3.0, exp(m)), lower=1.0, **k),
    "Logistic": lambda m, **k: pm.Truncated(
        "v", pm.Logistic.dist(m, 0.6), lower=-1.0, upper=2.0, **k
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_average_information_of_a_free_truncated_value_is_near_the_expected(name):
    """The metric depends on the value: its average is what should come near E[s_u²]."""
    nodes, step = midpoints(-25.0, 25.0, 250)
    expected = expected_free_information(BOUNDED[name], nodes, step)([0.3])[1, 1]
    x, factor = raveled(BOUNDED[name], nodes.shape)
    metric = FisherMetric(x, factor_information(factor))
    logp, matrix = compiled(x, [factor.logp, metric.matrix()])([0.3], nodes)
    average = (np.exp(logp) * step * np.diagonal(matrix)[1:]).sum()
    assert 0.6 < average / expected < 1.6


def censored_information(dist):
    """The metric of one censored datum, and E[s sᵀ] by quadrature."""

    def censored(m, s, **k):
        return pm.Censored("v", dist(m, exp(s)), lower=-1.0, upper=2.0, **k)

    theta, data = np.array([0.3, 0.1]), np.array([-1.0, 0.0, 2.0])
    nodes, step = midpoints(-1.0, 2.0, 3000)
    weights = np.r_[1.0, np.full(nodes.shape, step), 1.0]
    truth = expected_information(censored, np.r_[-1.0, nodes, 2.0], weights)(theta)
    return information(censored, data)(theta) / 3, truth


@pytest.mark.parametrize("dist", [pm.Normal.dist, pm.Logistic.dist, pm.Gumbel.dist])
def test_information_of_censored_data_is_the_expected_outer_product(dist):
    found, truth = censored_information(dist)
    np.testing.assert_allclose(found, truth, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("dist", [pm.LogNormal.dist, pm.Logistic.dist, pm.Gumbel.dist])
def test_information_of_data_censored_far_away_is_that_of_the_data_themselves(dist):
    """The share above the limit is zero up to rounding, which its derivative need not be."""
    limits = np.linspace(6.0, 40.0, 400)
    limits = np.exp(limits) if dist is pm.LogNormal.dist else 2.0 * limits

    def information_below(limits):
        def censored(m, s, **k):
            return pm.Censored("v", dist(m, exp(s)), lower=None, upper=limits, **k)

        return information(censored, np.ones(400))([0.3, 0.1])

    found, expected = information_below(limits), information_below(np.full(400, np.inf))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)


def test_information_of_other_censored_data_is_an_upper_bound():
    bound, truth = censored_information(lambda m, s: pm.StudentT.dist(4, mu=m, sigma=s))
    assert np.linalg.eigvalsh(bound - truth).min() > -1e-9


def test_a_component_without_a_rule_leaves_the_mixture_without():
    def custom(m, **k):
        normal = pm.CustomDist.dist(m, logp=lambda v, m: -0.5 * (v - m) ** 2)
        return pm.Mixture("v", [0.5, 0.5], [normal, pm.Normal.dist(m, 1.0)], **k)

    _, factor = raveled(custom, np.zeros(3))
    with pytest.raises(NoInformation, match="'v'"):
        factor_information(factor)


def test_rules_that_are_not_exact_say_so():
    for op_type in (MixtureRV, CensoredRV, TruncatedRV, TruncatedNormalRV):
        assert "complete-data" in _entry.dispatch(op_type)(None).path
    assert _entry.dispatch(_HurdleRV)(None).path == "closed form"
