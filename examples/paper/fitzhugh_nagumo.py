"""FitzHugh–Nagumo: section 4.2 of the paper.

Girolami & Calderhead sample (a, b, c) on their natural scale with the metric FI + diag(2/θ²),
in which 2/θ² represents the prior. Both this metric and the Fisher information alone are used
here.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from benchmarks import models
from benchmarks.data import load_fitzhugh_nagumo
from examples.paper.chains import NUTPIE, NUTS, Case, Results, Settings
from examples.paper.published import FITZHUGH_NAGUMO_GC, FITZHUGH_NAGUMO_X
from examples.paper.tables import Table, interval, published
from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.calculus.batching import batch
from pymc_pmala.calculus.differentiation import pushforward

__all__ = ["cases", "natural_scale", "tables"]

NAMES = ("a", "b", "c")
NOISE = 0.5


def natural_scale(data: str | None) -> pm.Model:
    """Build the model of the benchmark without log transforms."""
    return models.fitzhugh_nagumo(*load_fitzhugh_nagumo(data), default_transform=None)


def fisher_information(model: pm.Model, x: TensorVariable) -> TensorVariable:
    """Return the Gram matrix of the sensitivities to (a, b, c), over the noise variance."""
    [mean] = graph_replace(
        [model["y"].owner.op.dist_params(model["y"].owner)[0]],
        {model[name]: x[i] for i, name in enumerate(NAMES)},
    )
    direction = x.type()
    [tangent] = pushforward([mean], x, direction)
    [sensitivities] = batch([tangent], {direction: pt.eye(len(NAMES))})
    flat = sensitivities.reshape((len(NAMES), -1))
    return flat @ flat.T / NOISE**2


def with_prior(model: pm.Model, x: TensorVariable) -> TensorVariable:
    """Return the metric of Girolami & Calderhead."""
    return fisher_information(model, x) + pt.diag(2.0 / x**2)


# Metrics and their step sizes.
METRICS: dict[str, tuple[Callable, float]] = {
    "FI + 2/θ²": (with_prior, 1.6),
    "FI": (fisher_information, 1.3),
}


def cases(settings: Settings) -> Iterator[Case]:
    """Yield each method with each metric: 5000 draws after 1000, from the true parameters."""
    data, quick = settings.data, settings.quick
    for metric, (choice, step_size) in METRICS.items():
        for cls in (PMALA, MMALA, SimplifiedMMALA):
            if quick and (cls is not PMALA or choice is not with_prior):
                continue

            def build(cls=cls, choice=choice, step_size=step_size):
                model = natural_scale(data)
                options = {"integrator": "euler", "adapt_step_size": False, "interweave": False}
                return model, cls(model=model, metric=choice, step_size=step_size, **options)

            yield _case(f"{cls.__name__}, {metric}", build, quick)
    if quick:
        return
    yield _case("MALA", lambda: _mala(natural_scale(data)), quick, enough=5)
    yield _case("PMALA exponential", lambda: _exponential(_logarithmic(data)), quick, enough=5)
    yield _case(NUTS, lambda: (_logarithmic(data), NUTS), quick, enough=5)
    yield _case(NUTPIE, lambda: (_logarithmic(data), NUTPIE), quick, enough=5)


def _case(title: str, build: Callable, quick: bool, **options: int) -> Case:
    return Case(
        name=f"fhn/{title.replace('/', '÷')}",
        build=build,
        quantities=lambda draws: np.column_stack([draws[name] for name in NAMES]),
        burn_in=5 if quick else 1000,
        draws=15 if quick else 5000,
        **options,
    )


def _logarithmic(data: str | None) -> pm.Model:
    return models.fitzhugh_nagumo(*load_fitzhugh_nagumo(data))


def _mala(model: pm.Model):
    return model, MALA(model=model, integrator="euler", metric="identity")


def _exponential(model: pm.Model):
    return model, PMALA(model=model, metric="fisher", thin=1, interweave=False)


def tables(settings: Settings, results: dict[str, Results]) -> Iterator[Table]:
    """Yield the effective sizes of a, b and c, and the gain of PMALA over MMALA."""
    table = Table(
        "FitzHugh–Nagumo",
        [
            "method",
            "chains",
            "step size",
            "acceptance",
            *[f"ESS {name}" for name in NAMES],
            "X: a, b, c",
            "GC: a, b, c",
            "µs per transition",
            "min ESS/s",
        ],
    )
    for name, result in results.items():
        title = name.removeprefix("fhn/").replace("÷", "/")
        method = title.split(",")[0]
        table.add(
            title,
            str(result.replicates),
            f"{result.step_size.mean():.2f}",
            f"{result.acceptance.mean():.2f}",
            *[interval(column) for column in result.sizes.T],
            published(FITZHUGH_NAGUMO_X.get(method)),
            published(FITZHUGH_NAGUMO_GC.get(method)),
            f"{1e6 * np.median(result.seconds) / result.draws:.0f}",
            f"{np.median(result.sizes.min(axis=1) / result.seconds):.0f}",
        )
    yield table
    gains = Table("Gain of PMALA over MMALA", ["metric", "a", "b", "c"])
    for metric in METRICS:
        pair = [
            results.get(f"fhn/{method}, {metric}".replace("2/θ", "2÷θ"))
            for method in ("PMALA", "MMALA")
        ]
        if None not in pair:
            gains.add(metric, *_gain(*pair))
    gains.add("X", *[f"{p / m - 1:+.0%}" for p, m in zip(*FITZHUGH_NAGUMO_X.values(), strict=True)])
    yield gains


def _gain(first: Results, second: Results) -> list[str]:
    """Return ratios of mean effective sizes, with standard errors by the delta method."""
    ratio = first.sizes.mean(axis=0) / second.sizes.mean(axis=0)
    relative = [
        r.sizes.std(axis=0, ddof=1) / r.sizes.mean(axis=0) / r.replicates**0.5
        for r in (first, second)
    ]
    error = ratio * np.hypot(*relative)
    return [f"{r - 1:+.0%} ± {e:.0%}" for r, e in zip(ratio, error, strict=True)]
