"""Factors of dense, arrow-shaped and banded metrics against NumPy on the full matrix."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from modes import INTERPRETED

from pymc_pmala.factorization import Arrow, Averaged, Dense
from pymc_pmala.factorization.banded import BandedArrow, BandedLoop

rng = np.random.default_rng(7)


def arrow(blocks, size, border, other=(0, 1)):
    """An arrow with two sizes of blocks, its variables in random order."""
    count = blocks * size + other[0] * other[1] + border
    positions = rng.permutation(count)
    groups = [positions[: blocks * size].reshape(blocks, size)]
    if other[0]:
        start = blocks * size
        groups.append(positions[start : start + other[0] * other[1]].reshape(other))
    return Arrow(groups, positions[count - border :])


def banded(size, bandwidth, border):
    """A band with a border, its variables in random order."""
    positions = rng.permutation(size + border)
    return BandedArrow(positions[:size], bandwidth, positions[size:])


def full_pattern(factorization):
    """Where a metric of this structure is not zero."""
    d = factorization.dimension
    if isinstance(factorization, Dense):
        return np.ones((d, d), dtype=bool)
    pattern = np.zeros((d, d), dtype=bool)
    if isinstance(factorization, BandedArrow):
        place = np.arange(len(factorization.body))
        near = np.abs(np.subtract.outer(place, place)) <= factorization.bandwidth
        pattern[np.ix_(factorization.body, factorization.body)] = near
    else:
        for group in factorization.groups:
            for block in group:
                pattern[np.ix_(block, block)] = True
    pattern[factorization.border] = True
    pattern[:, factorization.border] = True
    return pattern


def random_metric(factorization):
    """A positive-definite matrix with the factorization's pattern."""
    d = factorization.dimension
    pattern = full_pattern(factorization)
    root = rng.normal(size=(d, d)) * np.tril(np.ones((d, d)))
    metric = np.where(pattern, root @ root.T, 0.0)
    return metric + (1 + np.abs(metric).sum(axis=1).max()) * np.eye(d)


CASES = {
    "dense": Dense(5),
    "averaged": Averaged(5),
    "diagonal": arrow(6, 1, 0),
    "independent blocks": arrow(4, 3, 0),
    "blocks and border": arrow(5, 2, 3),
    "diagonal and border": arrow(7, 1, 2),
    "large blocks": arrow(2, 8, 1),
    "two sizes of blocks": arrow(4, 2, 2, other=(3, 3)),
    "tridiagonal": banded(9, 1, 0),
    "wide band": banded(12, 3, 0),
    "band and border": banded(10, 2, 2),
    "tridiagonal and border": banded(8, 1, 1),
    "band of no width": banded(6, 0, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_factor_solves_multiplies_and_measures_like_the_full_matrix(case):
    factorization = CASES[case]
    d = factorization.dimension
    metric = random_metric(factorization)
    g, v = pt.matrix("g", shape=(d, d)), pt.vector("v", shape=(d,))
    products = pt.constant(factorization.seeds) @ g
    factor = factorization.factor(factorization.pieces(products))
    whitened = factorization.solve(factor, v)
    outputs = [
        factorization.solve_transposed(factor, whitened),
        whitened,
        factorization.multiply_transposed(factor, v),
        factorization.solve_transposed(factor, factorization.multiply_transposed(factor, v)),
        2 * factorization.half_log_det(factor),
        factorization.rows(factor),
        *factor,
    ]
    function = pytensor.function([g, v], outputs, mode=INTERPRETED)
    vector = rng.normal(size=d)
    solution, white, product, _, log_det, rows, *parts = function(metric, vector)
    inverse = np.linalg.inv(metric)
    np.testing.assert_allclose(solution, inverse @ vector)
    np.testing.assert_allclose(white @ white, vector @ inverse @ vector)
    np.testing.assert_allclose(product @ product, vector @ metric @ vector)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(metric)[1])
    for part, unit in zip(parts, factorization.identity(), strict=True):
        assert part.shape == unit.shape
    # The rows add up to the inverse where it is needed: on the pattern of the metric.
    pattern = full_pattern(factorization)
    np.testing.assert_allclose((rows.T @ rows)[pattern], inverse[pattern], atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_products_of_rows_are_those_with_the_full_matrix(case):
    factorization = CASES[case]
    d = factorization.dimension
    metric, rows = random_metric(factorization), rng.normal(size=(3, d))
    g, u = pt.matrix("g", shape=(d, d)), pt.matrix("u", shape=(3, d))
    gram = factorization.gram(factorization.pieces(pt.constant(factorization.seeds) @ g), u)
    found = pytensor.function([g, u], gram, mode=INTERPRETED)(metric, rows)
    np.testing.assert_allclose(found, rows @ metric @ rows.T)


@pytest.mark.parametrize("case", CASES)
def test_identity_is_the_factor_of_the_identity(case):
    factorization = CASES[case]
    products = pt.constant(factorization.seeds)
    factor = factorization.factor(factorization.pieces(products))
    function = pytensor.function([], factor, mode=INTERPRETED)
    for part, unit in zip(function(), factorization.identity(), strict=True):
        np.testing.assert_allclose(part, unit)


@pytest.mark.parametrize("bandwidth", [1, 2, 4])
def test_a_long_band_equals_the_dense_factor(bandwidth):
    """Also where neighbours are correlated to the last digits, as in a smooth walk."""
    size = 300
    difference = np.diff(np.eye(size), n=bandwidth, axis=0)
    # The dense factor itself must be good to ten digits.
    strength = 1e4 * 4.0 ** (1 - bandwidth)
    metric = strength * difference.T @ difference + np.diag(rng.uniform(0.5, 1.5, size))
    factorization = BandedArrow(np.arange(size), bandwidth, np.arange(0))
    dense = Dense(size)
    g, v = pt.matrix("g", shape=(size, size)), pt.vector("v", shape=(size,))
    outputs = []
    for f in (factorization, dense):
        factor = f.factor(f.pieces(pt.constant(f.seeds) @ g))
        rows = f.rows(factor)
        outputs += [f.solve(factor, v), f.solve_transposed(factor, v)]
        outputs += [f.multiply_transposed(factor, v), f.half_log_det(factor), rows.T @ rows]
    function = pytensor.function([g, v], outputs, mode=INTERPRETED)
    *ours, inverse = (values := function(metric, rng.normal(size=size)))[:5]
    *expected, full = values[5:]
    for found, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(wanted).max(), rtol=1e-10)
    pattern = full_pattern(factorization)
    np.testing.assert_allclose(inverse[pattern], full[pattern], rtol=1e-10)


def test_every_linker_runs_the_same_loops_over_a_band():
    band = pt.matrix("band", shape=(8, 3))
    lower = BandedLoop("cholesky")(band)
    outputs = [lower, BandedLoop("solve")(lower, band), BandedLoop("directions")(lower)]
    value = np.column_stack([np.full(8, 4.0), rng.uniform(-1, 1, size=(8, 2))])
    value[7, 1:] = value[6, 2] = 0.0
    compiled = pytensor.function([band], outputs)(value)
    interpreted = pytensor.function([band], outputs, mode=INTERPRETED)(value)
    for found, wanted in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_band_that_is_not_positive_definite_gives_nan():
    factorization = BandedArrow(np.arange(4), 1, np.arange(0))
    products = pt.constant(
        factorization.seeds @ (np.eye(4) - 2 * np.eye(4, k=1) - 2 * np.eye(4, k=-1))
    )
    [lower, *_] = factorization.factor(factorization.pieces(products))
    assert np.isnan(lower.eval(mode=INTERPRETED)).any()


def test_an_average_drifts_by_one_mean_and_draws_noise_by_the_other():
    """x + a (mean G)⁻¹ f, with noise of covariance mean(G⁻¹)."""
    averaged, metrics = Averaged(4), [random_metric(Dense(4)) * scale for scale in (1.0, 30.0)]
    g, v = pt.matrix("g", shape=(4, 4)), pt.vector("v", shape=(4,))
    pieces = averaged.pieces(g)
    means = [piece.type() for piece in pieces]
    factor = averaged.factor(means)
    outputs = [
        averaged.solve_transposed(factor, averaged.solve(factor, v)),
        averaged.solve_transposed(factor, v),
        averaged.multiply_transposed(factor, v),
    ]
    at_a_point = pytensor.function([g], pieces, mode=INTERPRETED)
    of_means = pytensor.function([*means, v], outputs, mode=INTERPRETED)
    mean = [sum(parts) / 2 for parts in zip(*map(at_a_point, metrics), strict=True)]
    vector = rng.normal(size=4)
    drift, noise, whitened = of_means(*mean, vector)
    np.testing.assert_allclose(drift, np.linalg.solve(sum(metrics) / 2, vector))
    covariance = sum(map(np.linalg.inv, metrics)) / 2
    np.testing.assert_allclose(noise @ np.linalg.solve(covariance, noise), vector @ vector)
    np.testing.assert_allclose(whitened @ whitened, vector @ np.linalg.solve(covariance, vector))
