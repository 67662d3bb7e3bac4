"""Factors of dense and arrow-shaped metrics against NumPy on the full matrix."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_pmala.compilation import INTERPRETED
from pymc_pmala.factorization import Arrow, Dense

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


def random_metric(factorization):
    """A positive-definite matrix with the factorization's pattern."""
    d = factorization.dimension
    pattern = np.ones((d, d), dtype=bool)
    if isinstance(factorization, Arrow):
        pattern = np.zeros((d, d), dtype=bool)
        for group in factorization.groups:
            for block in group:
                pattern[np.ix_(block, block)] = True
        pattern[factorization.border] = True
        pattern[:, factorization.border] = True
    root = rng.normal(size=(d, d)) * np.tril(np.ones((d, d)))
    metric = np.where(pattern, root @ root.T, 0.0)
    return metric + (1 + np.abs(metric).sum(axis=1).max()) * np.eye(d)


CASES = {
    "dense": Dense(5),
    "diagonal": arrow(6, 1, 0),
    "independent blocks": arrow(4, 3, 0),
    "blocks and border": arrow(5, 2, 3),
    "diagonal and border": arrow(7, 1, 2),
    "large blocks": arrow(2, 8, 1),
    "two sizes of blocks": arrow(4, 2, 2, other=(3, 3)),
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
    outer = rows.T @ rows
    blocks = getattr(factorization, "groups", [np.arange(d)[None]])
    for group in blocks:
        for block in group:
            np.testing.assert_allclose(
                outer[np.ix_(block, block)], inverse[np.ix_(block, block)], atol=1e-12
            )
    border = getattr(factorization, "border", np.arange(0))
    np.testing.assert_allclose(outer[border], inverse[border], atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_identity_is_the_factor_of_the_identity(case):
    factorization = CASES[case]
    products = pt.constant(factorization.seeds)
    factor = factorization.factor(factorization.pieces(products))
    function = pytensor.function([], factor, mode=INTERPRETED)
    for part, unit in zip(function(), factorization.identity(), strict=True):
        np.testing.assert_allclose(part, unit)
