"""Explanation of the metric of a model, factor by factor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_pmala.arguments import context_model
from pymc_pmala.calculus.differentiation import has_loop, has_opaque_op
from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Factorization, find_factorization
from pymc_pmala.information import NoInformation, factor_information, information_path
from pymc_pmala.interweaving import find_interweaving
from pymc_pmala.metric import (
    Metric,
    SumMetric,
    build_metric,
    information_terms,
    latent_information_varies,
    softabs_metric,
)
from pymc_pmala.model.factors import Factor
from pymc_pmala.model.target import Target, make_target
from pymc_pmala.model.variables import TOOL_ADVICE
from pymc_pmala.stack_traces import no_stack_traces
from pymc_pmala.tools.tables import Tabular

__all__ = ["FactorShare", "MetricExplanation", "explain_metric"]

_FALLBACK = "SoftAbs of its Hessian"


class FactorShare(NamedTuple):
    """Contribution of one factor of the model to the metric at a point.

    Attributes
    ----------
    name : str
        Name of the variable or potential.
    distribution : str
        Its distribution.
    path : str
        How its information was found.
    treatment : {"averaged", "local"}
        Whether ``metric="adapt"`` averages it over the tuning draws or computes it at the point.
    share : float
        Its share of the trace of G.
    rank : int
        Number of directions in which it is informative.
    smallest : float
        Smallest eigenvalue of its contribution, which is not negative if its rule is correct.
    """

    name: str
    distribution: str
    path: str
    treatment: str
    share: float
    rank: int
    smallest: float


@dataclass(frozen=True, repr=False)
class MetricExplanation(Tabular):
    """The metric of a model at a point, factor by factor, which prints as a table.

    Attributes
    ----------
    factors : list of FactorShare
    dimension : int
    smallest, largest : float
        Extreme eigenvalues of G at the point.
    structure : str
        The structure of G that its factorization exploits.
    directions : int
        Number of directions along which a PMALA transition differentiates the model, in addition
        to the gradient. It determines how the cost of a transition grows with the dimension.
    interweaving : tuple of str
        The effects that interweaving moves can standardise, and in which hyperparameters.
    """

    factors: list[FactorShare]
    dimension: int
    smallest: float
    largest: float
    structure: str
    directions: int
    interweaving: tuple[str, ...]

    _TITLE = "Fisher metric"
    _TEXT = ("factor", "distribution", "information", "with 'adapt'")
    _NUMBERS = ("share of trace", "rank")

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (f.name, f.distribution, f.path, f.treatment, f"{f.share:.1%}", str(f.rank))
            for f in self.factors
        ]

    def _notes(self) -> list[str]:
        return [
            f"dimension {self.dimension}, {self.structure}",
            f"eigenvalues of G from {self.smallest:.3g} to {self.largest:.3g}",
            "with metric='fisher', a transition computes the gradient of the log-density and "
            f"directional gradients along {self.directions} directions; with 'adapt', only for "
            "factors whose information is local",
            *[f"interweaving can standardise {line}" for line in self.interweaving],
            *[
                f"the information of {f.name} is negative in some direction: check its rule"
                for f in self.factors
                if f.share < 0 or f.smallest < -1e-6 * self.largest
            ],
        ]


@no_stack_traces()
def explain_metric(
    model: pm.Model | None = None,
    *,
    point: Mapping[str, np.ndarray] | None = None,
    vars: Sequence[Variable] | None = None,
) -> MetricExplanation:
    """Explain what each factor of a model contributes to its Fisher metric.

    Parameters
    ----------
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    point : mapping of str to array, optional
        Values of the value variables; ``model.initial_point()`` by default.
    vars : sequence of variables, optional
        The variables to be sampled; all by default.

    Returns
    -------
    MetricExplanation
        Prints as a table in a terminal and in a notebook.

    Notes
    -----
    Each factor contributes the expected information of its value and its parameters. Kleppe [1]_
    adds up the same quantities for models written in C++.

    References
    ----------
    .. [1] T. S. Kleppe (2022). Log-density gradient covariance and automatic metric tensors for
       Riemann manifold Monte Carlo methods. arXiv:2211.01746.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_pmala import explain_metric
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=[0.3, 1.2, 0.8])
    >>> explain_metric(model).factors[1].path
    'closed form'
    """
    target = make_target(context_model(model), vars, point, TOOL_ADVICE)
    x = target.start
    metric = build_metric("fisher", target)
    factorization = find_factorization(metric, target.shared.values())
    interweaving = find_interweaving(target)
    is_local = latent_information_varies(target)
    parts = [_part(target, factor) for factor in target.factors]
    graphs = [metric.matrix(), *[part.matrix() for _, part in parts]]
    whole, *matrices = compile_graph([target.x], graphs, target.model, mode="interpreted")(x)
    eigenvalues = np.linalg.eigvalsh(whole)
    return MetricExplanation(
        factors=[
            FactorShare(
                factor.name,
                _distribution(factor),
                path,
                "local" if is_local and not factor.observed else "averaged",
                float(np.trace(matrix) / np.trace(whole)),
                int(np.linalg.matrix_rank(matrix, hermitian=True)),
                float(np.linalg.eigvalsh(matrix)[0]),
            )
            for factor, (path, _), matrix in zip(target.factors, parts, matrices, strict=True)
        ],
        dimension=len(x),
        smallest=float(eigenvalues[0]),
        largest=float(eigenvalues[-1]),
        structure=_structure(factorization, target),
        directions=len(factorization.seeds),
        interweaving=() if interweaving is None else interweaving.explanation,
    )


def _part(target: Target, factor: Factor) -> tuple[str, Metric]:
    """Return how the information of a factor is found, and its contribution to the metric."""
    try:
        forms = factor_information(factor)
    except NoInformation:
        return _FALLBACK, softabs_metric(target.x, factor.logp.sum())
    metric = SumMetric(information_terms(target.x, forms))
    return information_path(factor) or _FALLBACK, metric


def _distribution(factor: Factor) -> str:
    if factor.op is None:
        return "Potential"
    return type(factor.op).__name__.removesuffix("RV").lstrip("_")


def _structure(factorization: Factorization, target: Target) -> str:
    if has_loop([target.logp]):
        return "dense, derivatives of G by finite differences through the model's loop"
    if has_opaque_op([target.logp]):
        return "dense, derivatives of G by finite differences (no second derivatives)"
    return str(factorization)
