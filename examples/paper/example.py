"""The paper's example G = diag(f(x₂), 1): the invariant densities of the two diffusions.

The diffusions of PMALA and MMALA are simulated with a small step, without a Metropolis step.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.integrate import quad

from examples.paper.chains import Case, Results, Settings
from examples.paper.tables import Table

__all__ = ["cases", "draw", "metric", "model", "tables"]

STEP, STEPS, PARTICLES = 0.01, 2_000, 40_000
BINS = np.linspace(-4, 4, 65)


def f(x: np.ndarray) -> np.ndarray:
    """Return the first element of the metric, a function of the second coordinate."""
    return 1.0 + x**2


def model() -> pm.Model:
    """Build the target π: two independent standard normals."""
    with pm.Model() as normal:
        pm.Normal("x", shape=2)
    return normal


def metric(model: pm.Model, x):
    """Return G = diag(f(x₂), 1) as a metric for the package."""
    return pt.diag(pt.stack([f(x[1]), pt.ones_like(x[1])]))


# Derived by hand: Γ₂ = 0, and Ω₂ = f^(-1/2) ∂₂ f^(1/2) = f'/(2f).
CORRECTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "PMALA": np.zeros_like,
    "MMALA": lambda x: x / f(x),
}
DENSITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "π": lambda x: np.exp(-0.5 * x**2),
    "π f": lambda x: np.exp(-0.5 * x**2) * f(x),
}


def simulate(method: str, steps: int = STEPS, seed: int = 1) -> np.ndarray:
    """Simulate x₂ of many particles from N(0, 1) by Euler–Maruyama steps of a diffusion.

    The second coordinate does not depend on the first: dx₂ = (½ ∂₂log π + correction) dt + dW.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=PARTICLES)
    for _ in range(steps):
        drift = -0.5 * x + CORRECTIONS[method](x)
        x = x + STEP * drift + np.sqrt(STEP) * rng.normal(size=PARTICLES)
    return x


def probabilities(density: str) -> np.ndarray:
    """Return the probability of each bin under a normalised density."""
    function = DENSITIES[density]
    total = quad(function, -np.inf, np.inf)[0]
    return np.array([quad(function, a, b)[0] / total for a, b in pairwise(BINS)])


def cases(settings: Settings) -> Iterator[Case]:
    """Return no cases: the particles are simulated when the table is made."""
    yield from ()


def tables(settings: Settings, results: dict[str, Results]) -> Iterator[Table]:
    """Return the distances of the particles of each diffusion from π and from π f."""
    table = Table(
        f"Unadjusted diffusions, {PARTICLES} particles, step {STEP}: total variation distance",
        ["diffusion", *[f"from {name}" for name in DENSITIES]],
    )
    for method in CORRECTIONS:
        counts, _ = np.histogram(simulate(method, 200 if settings.quick else STEPS), BINS)
        distances = [0.5 * np.abs(counts / PARTICLES - probabilities(d)).sum() for d in DENSITIES]
        table.add(method, *[f"{distance:.3f}" for distance in distances])
    yield table


def draw(path: Path) -> None:
    """Plot histograms of both diffusions with both densities."""
    import matplotlib.pyplot as plt

    grid = np.linspace(BINS[0], BINS[-1], 300)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
    for axis, method in zip(axes, CORRECTIONS, strict=True):
        axis.hist(simulate(method), BINS, density=True, color="0.8", label="particles")
        for (name, function), style in zip(DENSITIES.items(), ("-", "--"), strict=True):
            total = quad(function, -np.inf, np.inf)[0]
            axis.plot(grid, function(grid) / total, style, label=f"$\\pi{name[1:]}$")
        axis.set(title=f"{method}'s diffusion", xlabel="$x_2$")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
