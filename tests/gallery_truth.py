"""The truth about the models of the gallery, from ``model.logp()`` alone, without any chain.

``python tests/gallery_truth.py`` computes the posterior means and sds of every model's value
variables and writes them to ``gallery_reference.json``; with names as arguments, those of
some models.
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from gallery import GALLERY, Entry
from modes import INTERPRETED
from pymc.blocking import DictToArrayBijection
from pytensor.graph.replace import graph_replace, vectorize_graph
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import chi2, norm, qmc

__all__ = ["REFERENCE", "logp_change", "truth"]

REFERENCE = Path(__file__).with_name("gallery_reference.json")


def logp_change(model: pm.Model) -> float:
    """Change of the log-density near the initial point, by which a reference knows its model.

    A constant of the density, which is not the same in all versions of PyMC, cancels.
    """
    value_vars = model.value_vars
    function = pytensor.function(value_vars, model.logp(), mode=INTERPRETED)
    start = [model.initial_point()[v.name] for v in value_vars]
    near = [
        x if x.dtype.kind in "iu" else x + 0.1 * np.cos(np.arange(x.size)).reshape(x.shape)
        for x in start
    ]
    return float(function(*near) - function(*start))


def truth(entry: Entry) -> dict:
    """Posterior means and sds of the raveled continuous value variables."""
    model = entry.build()
    densities = _LogDensity(model, entry.support)
    start = densities.start
    if len(start) <= 2:
        mean, sd, error = _by_quadrature(densities, start)
    else:
        mean, sd, error = _by_importance(densities, start, entry.unbend)
    return {
        "logp_change": logp_change(model),
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "error": error.tolist(),
    }


class _LogDensity:
    """The model's log-density at many points, summed over its discrete variable."""

    def __init__(self, model, support):
        start = model.initial_point()
        discrete = [v for v in model.value_vars if v.dtype.startswith("int")]
        continuous = [v for v in model.value_vars if v not in discrete]
        self.start = DictToArrayBijection.map({v.name: start[v.name] for v in continuous}).data
        d = len(self.start)
        x, many = pt.vector("x", shape=(d,)), pt.matrix("many", shape=(None, d))
        total = _raveled_logp(model, x, continuous, discrete, start, support)
        self._one = pytensor.function([x], total, mode=INTERPRETED)
        self.vectorised = False
        try:
            batched = vectorize_graph(total, {x: many})
            self._many = pytensor.function([many], batched, mode=INTERPRETED)
            trial = self.start + 0.1 * np.random.default_rng(0).normal(size=(4, d))
            np.testing.assert_allclose(self._many(trial), [self._one(t) for t in trial])
            self.vectorised = True
        except Exception as error:  # whatever cannot be vectorised is done one by one
            print("  one by one:", type(error).__name__)

    def __call__(self, points):
        with np.errstate(all="ignore"):
            if self.vectorised:
                parts = np.array_split(points, max(1, len(points) // 4096))
                values = np.concatenate([self._many(part) for part in parts])
            else:
                values = np.array([self._one(point) for point in points])
        return np.where(np.isfinite(values), values, -np.inf)


def _raveled_logp(model, x, continuous, discrete, start, support):
    replace, at = {}, 0
    for v in continuous:
        n = np.size(start[v.name])
        replace[v] = x[at : at + n].reshape(np.shape(start[v.name])).astype(v.dtype)
        at += n
    cases = [{v: pt.constant(k, dtype=v.dtype) for v in discrete} for k in support or (0,)]
    logp = model.logp()
    return pt.logsumexp(
        pt.stack([graph_replace(logp, replace | case, strict=False) for case in cases])
    )


def _by_quadrature(densities, start):
    """Trapezoidal rule over ±9 sds in the posterior's own principal axes.

    For smooth densities that vanish at the ends it converges faster than any power of the
    spacing. Its error is taken from the rule with half the spacing.
    """
    d = len(start)
    center, root = _laplace(densities, start)
    sizes = {1: (201, 201, 401, 801), 2: (41, 41, 61, 121)}[d]
    results = []
    for n in sizes:
        half_width = 9.0
        grid = np.linspace(-half_width, half_width, n)
        standard = np.array(list(itertools.product(*[grid] * d)))
        points = center + standard @ root.T
        logs = densities(points)
        center, covariance = _moments(points, np.exp(logs - logs.max()))
        root = np.linalg.cholesky(covariance)
        results.append((center, np.sqrt(np.diag(covariance))))
    (mean, sd), (rough_mean, rough_sd) = results[-1], results[-2]
    return mean, sd, np.maximum(abs(mean - rough_mean), abs(sd - rough_sd))


def _by_importance(densities, start, unbend=None, degrees=5.0):
    """Importance sampling from a Student t fitted to the posterior, at Sobol points.

    In coordinates of which ``unbend`` gives the value variables and the log-Jacobian.
    """
    d = len(start)
    unbend = unbend or (lambda points: (points, 0.0))

    def log_density(points):
        value_points, log_jacobian = unbend(points)
        return densities(value_points) + log_jacobian

    center, root = _laplace(log_density, start)
    for log2 in (11, 12, 12, 15 if densities.vectorised else 13):
        uniform = qmc.Sobol(d + 1, seed=20140604).random_base2(log2)
        uniform = np.clip(uniform, 1e-12, 1 - 1e-12)
        radius = np.sqrt(degrees / chi2.ppf(uniform[:, -1:], degrees))
        standard = norm.ppf(uniform[:, :-1]) * radius
        points = center + standard @ root.T
        log_t = (
            gammaln((degrees + d) / 2) - gammaln(degrees / 2)
            - 0.5 * d * np.log(degrees * np.pi) - np.log(np.diag(root)).sum()
            - 0.5 * (degrees + d) * np.log1p((standard**2).sum(axis=1) / degrees)
        )  # fmt: skip
        logs = log_density(points) - log_t
        weights = np.exp(logs - logs.max())
        center, covariance = _moments(points, weights)
        root = np.linalg.cholesky(covariance)
    effective = weights.sum() ** 2 / (weights**2).sum()
    assert effective > 1000, effective
    points, _ = unbend(points)
    center, covariance = _moments(points, weights)
    weights /= weights.sum()
    sd = np.sqrt(np.diag(covariance))
    # Those of independent points, which Sobol's are better than.
    deviation = points - center
    of_mean = np.sqrt((weights[:, None] ** 2 * deviation**2).sum(axis=0))
    of_variance = np.sqrt((weights[:, None] ** 2 * (deviation**2 - sd**2) ** 2).sum(axis=0))
    return center, sd, np.maximum(of_mean, of_variance / (2 * sd))


_SIGNS = list(itertools.product((1, -1), repeat=2))


def _laplace(densities, start):
    """A mode, and a square root of the covariance there, from differences."""
    d = len(start)
    found = minimize(
        lambda q: -min(float(densities(q[None])[0]), 1e300),
        start + 0.05,
        method="Nelder-Mead",
        options={"maxiter": 400 * d, "xatol": 1e-4, "fatol": 1e-6},
    )
    mode, eps = found.x, 1e-2
    steps = eps * np.eye(d)
    values = densities(
        np.array([mode + a * u + b * v for u in steps for v in steps for a, b in _SIGNS])
    ).reshape(d, d, 2, 2)
    signs = np.array([[1, -1], [-1, 1]])
    hessian = -(values * signs).sum(axis=(2, 3)) / (4 * eps**2)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    root = vectors / np.sqrt(np.maximum(np.abs(eigenvalues), 0.05))
    return mode, np.linalg.cholesky(root @ root.T)


def _moments(points, weights):
    weights = weights / weights.sum()
    mean = weights @ points
    deviation = points - mean
    return mean, (weights[:, None] * deviation).T @ deviation


def main(names: list[str]) -> None:
    """Write the truth of the models, all by default, to the reference file."""
    stored = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    for name in names or GALLERY:
        stored[name] = truth(GALLERY[name])
        print(name, stored[name], flush=True)
        in_order = {n: stored[n] for n in GALLERY if n in stored}
        lines = [f"{json.dumps(n)}: {json.dumps(t)}" for n, t in in_order.items()]
        REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
