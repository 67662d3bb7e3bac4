"""Stochastic volatility: section 4.3 of the paper, with 2000 latents and three parameters."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.transform.conditioning import remove_value_transforms
from pytensor.tensor.variable import TensorVariable

from benchmarks import models
from benchmarks.data import load_volatility
from examples.paper.chains import NUTPIE, Case, Results, Settings
from examples.paper.published import VOLATILITY_GC
from examples.paper.tables import Table, interval, published
from pymc_pmala import MMALA, PMALA

__all__ = ["cases", "seconds_per_step", "tables"]

NAMES = ("β", "σ", "φ")
LATENT_STEP, PARAMETER_STEP = 0.07, 1.0
LENGTHS = (500, 1000, 2000, 4000)
# The parameters with which Girolami & Calderhead simulated their data.
START = {"beta": 0.65, "variance": 0.15**2, "persistence": 0.99}


def girolami_calderhead_metric(length: int):
    """Return the expected information of (β, log σ², logit (φ+1)/2), averaged over the series.

    In the coordinates (β, log σ, atanh φ) of Girolami & Calderhead it is [[2T/β², 0, 0],
    [0, 2T, 2φ], [0, 2φ, 2φ² + (T−1)(1−φ²)]]. Our coordinates of σ and φ are twice theirs. The
    priors of σ and φ add the information of the logarithm and of the logit.
    """

    def metric(model: pm.Model, x: TensorVariable) -> TensorVariable:
        beta, phi = x[0], pt.tanh(x[2] / 2)
        of_phi = 2 * phi**2 + (length - 1) * (1 - phi**2)
        a, b = 20.0, 1.5
        zero = pt.zeros_like(beta)
        return pt.stack(
            [
                pt.stack([2 * length / beta**2, zero, zero]),
                pt.stack([zero, zero + length / 2 + 5.0, phi / 2]),
                pt.stack([zero, phi / 2, of_phi / 4 + a * b / (a + b + 1)]),
            ]
        )

    return metric


def compound(data: str | None, cls: type, length: int):
    """Update the latents given the parameters, then the parameters given the latents."""
    model = models.stochastic_volatility(load_volatility(data)[:length])
    model = remove_value_transforms(model, [model["beta"]])
    parameters = [model[name] for name in ("beta", "variance", "persistence")]
    options = {
        "model": model,
        "integrator": "euler",
        "adapt_step_size": False,
        "interweave": False,
    }
    return model, [
        cls([model["x"]], metric="fisher", step_size=LATENT_STEP, **options),
        cls(
            parameters,
            metric=girolami_calderhead_metric(length),
            step_size=PARAMETER_STEP,
            **options,
        ),
    ]


def jointly(data: str | None, length: int):
    """Update latents and parameters in one transition; the metric is banded with a border of 3."""
    model = models.stochastic_volatility(load_volatility(data)[:length])
    return model, PMALA(model=model, metric="fisher", thin=1, interweave=False)


def cases(settings: Settings) -> Iterator[Case]:
    """Yield the cases: 20 000 draws after 10 000, from the true parameters and zero latents."""
    data, quick = settings.data, settings.quick
    length = 50 if quick else 2000

    def case(title: str, build, burn_in: int, draws: int, enough: int = 20) -> Case:
        return Case(
            name=f"volatility/{title}",
            build=build,
            quantities=_parameters,
            burn_in=20 if quick else burn_in,
            draws=50 if quick else draws,
            start=START,
            names=tuple(START),
            enough=enough,
        )

    yield case("PMALA", lambda: compound(data, PMALA, length), 10_000, 20_000)
    if quick:
        return
    yield case("MMALA", lambda: compound(data, MMALA, length), 10_000, 20_000)
    yield case("PMALA exponential, joint", lambda: jointly(data, length), 2_000, 5_000, 3)
    model = models.stochastic_volatility
    yield case(NUTPIE, lambda: (model(load_volatility(data)), NUTPIE), 500, 1_000, 3)


def _parameters(draws) -> np.ndarray:
    return np.column_stack(
        [draws["beta"], np.sqrt(draws["variance"]), 2 * draws["persistence"] - 1]
    )


def tables(settings: Settings, results: dict[str, Results]) -> Iterator[Table]:
    """Yield the effective sizes and the moments of the posterior, and the cost by length."""
    table = Table(
        "Stochastic volatility, T = 2000",
        [
            "method",
            "chains",
            "draws",
            "acceptance",
            *[f"ESS {name}" for name in NAMES],
            "GC, MMALA: β, σ, φ",
            *NAMES,
            "ms per transition",
            "min ESS/s",
        ],
    )
    for name, result in results.items():
        title = name.removeprefix("volatility/")
        moments = zip(result.means.mean(axis=0), result.sds.mean(axis=0), strict=True)
        table.add(
            title,
            str(result.replicates),
            str(result.draws),
            ", ".join(f"{rate:.2f}" for rate in result.acceptance.mean(axis=0)),
            *[interval(column) for column in result.sizes.T],
            # With these blocks, PMALA and MMALA are the same algorithm.
            published(VOLATILITY_GC) if title in ("PMALA", "MMALA") else "",
            *[f"{mean:.3f} ± {sd:.3f}" for mean, sd in moments],
            f"{1e3 * np.median(result.seconds) / result.draws:.2f}",
            f"{np.median(result.sizes.min(axis=1) / result.seconds):.1f}",
        )
    yield table
    if not settings.quick:
        yield _cost(settings.folder / "volatility" / "cost.json")


def _cost(path: Path) -> Table:
    """Return the CPU time of a transition of the latents by the length of the series."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({length: seconds_per_step(length) for length in LENGTHS}))
    table = Table(
        "Transition of the latents by length", ["T", "ms per transition", "µs per latent"]
    )
    for length, seconds in json.loads(path.read_text()).items():
        table.add(length, f"{1e3 * seconds:.2f}", f"{1e6 * seconds / int(length):.2f}")
    return table


def seconds_per_step(length: int, repeats: int = 5, steps: int = 100) -> float:
    """Measure the CPU time of one transition of `length` latents given the parameters."""
    returns = np.random.default_rng(1).normal(size=length)
    model = models.stochastic_volatility(returns)
    options = {"metric": "fisher", "step_size": LATENT_STEP, "adapt_step_size": False}
    step = PMALA([model["x"]], model=model, **options)
    point, times = model.initial_point(), []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(steps):
            point, _ = step.step(point)
        times.append((time.process_time() - start) / steps)
    return float(np.median(times))
