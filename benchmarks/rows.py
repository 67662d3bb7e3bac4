"""The posteriors of the comparison: the rows of its table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm

from benchmarks import models
from benchmarks.data import (
    LOGISTIC_SETS,
    load_fitzhugh_nagumo,
    load_logistic,
    load_volatility,
)

__all__ = ["ROWS", "Row"]

Folder = str | Path | None


@dataclass(frozen=True)
class Row:
    """A posterior that the samplers are compared on.

    Attributes
    ----------
    title : str
        The name in tables.
    build : callable
        Builds the model from the folder of data files, or None.
    reference : callable or dict
        Builds the same posterior in the coordinates that NUTS samples best; a long run of it
        gives the true means and sds. Or the exact values ``{name: (mean, sd)}``.
    blocks : tuple of tuples of str
        Variables that the package's samplers update together; by default, all of them.
    jitter : bool
        Whether samplers may start at random points near the initial point.
    note : str
        A note for readers of the table.
    """

    title: str
    build: Callable[[Folder], pm.Model]
    reference: Callable[[Folder], pm.Model] | dict[str, tuple[np.ndarray, np.ndarray]]
    blocks: tuple[tuple[str, ...], ...] = ()
    jitter: bool = True
    note: str = ""


def _row(title: str, build: Callable[[Folder], pm.Model], **options) -> Row:
    return Row(title, build, options.pop("reference", build), **options)


def _logistic(name: str, folder: Folder) -> pm.Model:
    return models.logistic_regression(*load_logistic(name, folder))


def _fitzhugh_nagumo(folder: Folder) -> pm.Model:
    return models.fitzhugh_nagumo(*load_fitzhugh_nagumo(folder))


def _volatility(folder: Folder) -> pm.Model:
    return models.stochastic_volatility(load_volatility(folder))


def _simulated(build: Callable[[], pm.Model]) -> Callable[[Folder], pm.Model]:
    return lambda folder: build()


def _gaussian_truth() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    covariance = models.ill_conditioned_covariance()
    return {"x": (np.zeros(len(covariance)), np.sqrt(np.diag(covariance)))}


ROWS: dict[str, Row] = {
    name: _row(name.capitalize(), partial(_logistic, name)) for name in LOGISTIC_SETS
} | {
    "fitzhugh_nagumo": _row(
        "FitzHugh–Nagumo",
        _fitzhugh_nagumo,
        jitter=False,
        note="All chains start at the true parameters, as in the paper; there are other modes.",
    ),
    "volatility": _row(
        "Stochastic volatility",
        _volatility,
        blocks=(("beta", "variance", "persistence"), ("x",)),
        note="The package's samplers update parameters and latent states in turn.",
    ),
    "eight_schools": _row(
        "Eight schools, centred",
        _simulated(models.eight_schools),
        reference=_simulated(partial(models.eight_schools, centred=False)),
        note="The reference is a long run of the non-centred form.",
    ),
    "funnel": _row(
        "Neal's funnel",
        _simulated(models.funnel),
        reference={"v": (np.array(0.0), np.array(3.0))},
        note="The reference is exact and covers v only; the other variables have no usable sd.",
    ),
    "poisson_glmm": _row("Poisson GLMM", _simulated(models.poisson_glmm)),
    "gaussian_process": _row(
        "Gaussian-process hyperparameters", _simulated(models.gaussian_process)
    ),
    "lotka_volterra": _row("Lotka–Volterra", _simulated(models.lotka_volterra)),
    "ill_conditioned": _row(
        "Ill-conditioned Gaussian",
        _simulated(models.ill_conditioned_gaussian),
        reference=_gaussian_truth(),
        note="The reference is exact.",
    ),
    "student_t": _row("Student-t regression", _simulated(models.student_t_regression)),
}
