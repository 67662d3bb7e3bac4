"""Logistic regression on five data sets: section 4.1 of the paper."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.data import LOGISTIC_SETS, load_logistic
from benchmarks.models import logistic_regression
from examples.paper.chains import NUTPIE, NUTS, Case, Results, Settings
from examples.paper.published import LOGISTIC_GC, LOGISTIC_X
from examples.paper.tables import Table, interval, published
from pymc_pmala import MALA, MMALA, PMALA, SimplifiedMMALA

__all__ = ["cases", "tables"]

# The step sizes of the paper are tuned but not published; these reproduce its effective sizes.
# Girolami & Calderhead use 1 for all data sets, as does simplified MMALA here.
STEP_SIZES = {"australian": 1.0, "german": 0.9, "heart": 1.05, "pima": 1.3, "ripley": 1.2}

Steps = Callable[[str, pm.Model], Any]


def _euler(cls: type, step_size: float | None = None) -> Steps:
    def build(name: str, model: pm.Model):
        return cls(
            model=model,
            metric="fisher",
            integrator="euler",
            step_size=step_size or STEP_SIZES[name],
            adapt_step_size=False,
        )

    return build


PAPER: dict[str, Steps] = {
    "PMALA": _euler(PMALA),
    "MMALA": _euler(MMALA),
    "SimplifiedMMALA": _euler(SimplifiedMMALA, 1.0),
}
BESIDE: dict[str, Steps] = {
    "MALA": lambda name, model: MALA(model=model, integrator="euler", metric="identity"),
    "PMALA exponential": lambda name, model: PMALA(model=model, metric="fisher", thin=1),
    "MALA exponential": lambda name, model: MALA(model=model, thin=1),
    NUTS: lambda name, model: NUTS,
    NUTPIE: lambda name, model: NUTPIE,
}


def cases(settings: Settings) -> Iterator[Case]:
    """Yield every method on every data set: 5000 draws after 5000, from β = 0."""
    data = settings.data
    if settings.quick:
        yield _case("pima", "PMALA", data, burn_in=100, draws=200)
        return
    for name in LOGISTIC_SETS:
        for title in PAPER:
            yield _case(name, title, data, burn_in=5000, draws=5000)
    for name in LOGISTIC_SETS:
        for title in BESIDE:
            yield _case(name, title, data, burn_in=1000, draws=5000, enough=5)


def _case(name: str, title: str, data: str | None, **options: int) -> Case:
    def build():
        model = logistic_regression(*load_logistic(name, data))
        return model, (PAPER | BESIDE)[title](name, model)

    # At β = 0 the derivative with respect to the intercept is zero if both classes have the same
    # size.
    return Case(
        f"logistic/{name}/{title}", build, lambda draws: draws["beta"], jitter=True, **options
    )


def tables(settings: Settings, results: dict[str, Results]) -> Iterator[Table]:
    """Yield one table for each data set, with our results and the published ones."""
    for name in LOGISTIC_SETS:
        ours = {
            title: results[key]
            for title in PAPER | BESIDE
            if (key := f"logistic/{name}/{title}") in results
        }
        if ours:
            yield _table(name, ours)


def _table(name: str, ours: dict[str, Results]) -> Table:
    table = Table(
        f"Logistic regression, {name}",
        [
            "method",
            "chains",
            "step size",
            "acceptance",
            "ESS min",
            "median",
            "max",
            "X: min, median, max",
            "GC: min, median, max",
            "µs per transition",
            "min ESS/s",
        ],
    )
    for title, result in ours.items():
        extremes = np.column_stack([f(result.sizes, axis=1) for f in (np.min, np.median, np.max)])
        table.add(
            title,
            str(result.replicates),
            f"{result.step_size.mean():.2f}",
            f"{result.acceptance.mean():.2f}",
            *[interval(column) for column in extremes.T],
            published(LOGISTIC_X[name].get(title)),
            published(LOGISTIC_GC[name].get(title)),
            f"{1e6 * np.median(result.seconds) / result.draws:.0f}",
            f"{np.median(extremes[:, 0] / result.seconds):.0f}",
        )
    return table
