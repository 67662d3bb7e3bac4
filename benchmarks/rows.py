"""The posteriors of the comparison: the rows of its table."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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

OTHERS = ("walnutpie", "mmala", "simplified_mmala", "numpyro", "pmala_euler", "mala_euler")
"""Further columns, for rows on which samplers and integrators differ most."""


@dataclass(frozen=True)
class Row:
    """A posterior that the samplers are compared on.

    Attributes
    ----------
    title : str
        The name in tables.
    build : callable
        Builds the model from the folder of data files, or None.
    reference : callable, dict or str
        Builds the same posterior in the coordinates that NUTS samples best; a long run of it
        gives the true means and sds. Or the exact values ``{name: (mean, sd)}``, of logarithms
        where a variable is positive. Or the name of a row with the same posterior.
    blocks : tuple of tuples of str
        Variables that the package's samplers update together; by default, all of them.
    jitter : bool
        Whether samplers may start at random points near the initial point.
    note : str
        A note for readers of the table.
    extra : tuple of str
        Samplers that are run on this row besides those that are run on every row.
    """

    title: str
    build: Callable[[Folder], pm.Model]
    reference: Callable[[Folder], pm.Model] | dict[str, tuple[np.ndarray, np.ndarray]] | str
    blocks: tuple[tuple[str, ...], ...] = ()
    jitter: bool = True
    note: str = ""
    extra: tuple[str, ...] = ()


def _row(title: str, build: Callable[[Folder], pm.Model], **options) -> Row:
    return Row(title, build, options.pop("reference", build), **options)


def _logistic(name: str, folder: Folder) -> pm.Model:
    return models.logistic_regression(*load_logistic(name, folder))


def _fitzhugh_nagumo(folder: Folder) -> pm.Model:
    return models.fitzhugh_nagumo(*load_fitzhugh_nagumo(folder))


def _volatility(folder: Folder) -> pm.Model:
    return models.stochastic_volatility(load_volatility(folder))


def _simulated(build: Callable[[], pm.Model], **options) -> Callable[[Folder], pm.Model]:
    return lambda folder: build(**options)


def _hierarchy(title: str, build: Callable[..., pm.Model], note: str = "", **options) -> Row:
    """Return a row of a centred model, whose reference is a long run of the non-centred form."""
    return Row(
        title,
        _simulated(build, **options),
        _simulated(build, centred=False, **options),
        note=" ".join(filter(None, [note, "The reference is a long run of the non-centred form."])),
    )


def _gaussian_truth() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    covariance = models.ill_conditioned_covariance()
    return {"x": (np.zeros(len(covariance)), np.sqrt(np.diag(covariance)))}


PAPER: dict[str, Row] = {
    name: _row(name.capitalize(), partial(_logistic, name)) for name in LOGISTIC_SETS
} | {
    "fitzhugh_nagumo": _row(
        "FitzHugh–Nagumo",
        _fitzhugh_nagumo,
        jitter=False,
        note="All chains start at the true parameters, as in the paper; there are other modes.",
        extra=OTHERS,
    ),
    "volatility": _row(
        "Stochastic volatility, in two blocks",
        _volatility,
        blocks=(("beta", "variance", "persistence"), ("x",)),
        note="The package's samplers update parameters and latent states in turn.",
    ),
}
"""The posteriors of the paper."""

REGRESSIONS: dict[str, Row] = {
    "student_t": _row("Student-t regression", _simulated(models.student_t_regression)),
    "best": _row("Two groups, Student-t (BEST)", _simulated(models.group_comparison)),
    "ordered_logit": _row("Ordered logit", _simulated(models.ordered_logit)),
    "zero_inflated": _row("Zero-inflated Poisson", _simulated(models.zero_inflated_poisson)),
    "negative_binomial": _row(
        "Negative binomial, N = 4000", _simulated(models.negative_binomial_regression)
    ),
    "censored": _row("Censored regression", _simulated(models.censored_regression)),
    "truncated": _row("Truncated regression", _simulated(models.truncated_regression)),
    "imputed": _row("Imputed covariates", _simulated(models.imputed_covariates)),
    "horseshoe": _row("Horseshoe regression", _simulated(models.horseshoe_regression)),
}

HIERARCHIES: dict[str, Row] = {
    "eight_schools": replace(
        _hierarchy("Eight schools, centred", models.eight_schools), extra=OTHERS
    ),
    "funnel": _row(
        "Neal's funnel",
        _simulated(models.funnel),
        reference={"v": (np.array(0.0), np.array(3.0))},
        note="The reference is exact and covers v only; the other variables have no usable sd.",
        extra=OTHERS,
    ),
    "poisson_glmm": _row("Poisson, 30 groups × 10", _simulated(models.poisson_glmm)),
    "poisson_40x1": _hierarchy("Poisson, 40 groups × 1", models.poisson_glmm, groups=40, size=1),
    "poisson_300x2": _hierarchy("Poisson, 300 groups × 2", models.poisson_glmm, groups=300, size=2),
    "varying_slopes": _hierarchy("Varying slopes, 60 × 6", models.varying_slopes),
    "correlated_slopes": _hierarchy("Varying slopes with LKJ, 60 × 6", models.correlated_slopes),
    "binomial": _hierarchy("Binomial, 70 groups", models.binomial_groups),
    "beta_binomial": _row("Beta–binomial, 70 groups", _simulated(models.beta_binomial_groups)),
    "item_response": _row("Item response 2PL, 120 × 25", _simulated(models.item_response)),
    "frailty": _row("Weibull survival with frailty", _simulated(models.survival_with_frailty)),
}

SERIES: dict[str, Row] = {
    "volatility_joint": _row(
        "Stochastic volatility, T = 2000",
        _volatility,
        reference="volatility",
        note="All variables are updated together.",
    ),
    "walk_volatility": _row(
        "Random-walk volatility, T = 400", _simulated(models.random_walk_volatility)
    ),
    "autoregression": _row("Regression with AR(2) noise", _simulated(models.autoregression)),
    "trend": _hierarchy("Structural trend", models.structural_trend),
    "change_point": _row(
        "Change point (discrete)",
        _simulated(models.change_point),
        reference=models.change_point_moments(),
        blocks=(("early", "late"),),
        note="PyMC samples the time of the change, which is discrete. The reference is exact.",
    ),
}

PROCESSES: dict[str, Row] = {
    "gaussian_process": _row("Marginal Gaussian process", _simulated(models.gaussian_process)),
    "latent_process": _row("Latent Gaussian process, Poisson", _simulated(models.latent_process)),
    "hsgp": _row("Hilbert-space Gaussian process", _simulated(models.hilbert_space_process)),
    "splines": _row("Splines", _simulated(models.splines)),
    "car": _row("CAR on a 7 × 7 grid", _simulated(models.areal_counts)),
}

MISCELLANEOUS: dict[str, Row] = {
    "mixture": _row("Gaussian mixture", _simulated(models.gaussian_mixture)),
    "dirichlet_multinomial": _row(
        "Dirichlet–multinomial", _simulated(models.dirichlet_multinomial)
    ),
    "factor_analysis": _row("Factor analysis", _simulated(models.factor_analysis)),
    "lotka_volterra": _row("Lotka–Volterra", _simulated(models.lotka_volterra), extra=OTHERS),
    "ill_conditioned": _row(
        "Ill-conditioned Gaussian",
        _simulated(models.ill_conditioned_gaussian),
        reference=_gaussian_truth(),
        note="The reference is exact.",
    ),
}

ROWS = PAPER | REGRESSIONS | HIERARCHIES | SERIES | PROCESSES | MISCELLANEOUS
