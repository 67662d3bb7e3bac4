"""What a model's metric is made of, for the person who models."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection
from pymc.pytensorf import make_shared_replacements
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compilation import INTERPRETED, compile_graph
from pymc_pmala.differentiation import gradient, has_loop, has_opaque_op
from pymc_pmala.factorization import Factorization
from pymc_pmala.geometry import complete_point, continuous_value_vars, symbolic_geometry
from pymc_pmala.information import (
    Factor,
    NoInformation,
    RaveledModel,
    factor_information,
    information_path,
    ravel_model,
)
from pymc_pmala.metrics import (
    Metric,
    SumMetric,
    build_metric,
    information_terms,
    softabs_metric,
)
from pymc_pmala.structure import find_factorization
from pymc_pmala.tables import Tabular

__all__ = ["FactorShare", "MetricExplanation", "explain_metric"]

_FALLBACK = "SoftAbs of its Hessian"


class FactorShare(NamedTuple):
    """What one factor of the model contributes to the metric at a point.

    Attributes
    ----------
    name : str
        Name of the variable or potential.
    distribution : str
        Its distribution.
    path : str
        How its information was found.
    share : float
        Its share of the trace of G.
    rank : int
        In how many directions it knows something.
    """

    name: str
    distribution: str
    path: str
    share: float
    rank: int


@dataclass(frozen=True, repr=False)
class MetricExplanation(Tabular):
    """The metric of a model at a point, factor by factor; prints as a table.

    Attributes
    ----------
    factors : list of FactorShare
    dimension : int
    smallest, largest : float
        Extreme eigenvalues of G at the point.
    structure : str
        The shape of G that its factorization makes use of.
    gradients_per_transition : float
        Estimated cost of one PMALA transition, in gradients of the log-density.
    """

    factors: list[FactorShare]
    dimension: int
    smallest: float
    largest: float
    structure: str
    gradients_per_transition: float

    _TITLE = "Fisher metric"
    _TEXT = ("factor", "distribution", "information")
    _NUMBERS = ("share of trace", "rank")

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (f.name, f.distribution, f.path, f"{f.share:.1%}", str(f.rank)) for f in self.factors
        ]

    def _notes(self) -> list[str]:
        return [
            f"dimension {self.dimension}, {self.structure}",
            f"eigenvalues of G from {self.smallest:.3g} to {self.largest:.3g}",
            f"one PMALA transition costs about {self.gradients_per_transition:.1f} gradients",
        ]


def explain_metric(
    model: pm.Model | None = None,
    *,
    point: Mapping[str, np.ndarray] | None = None,
    vars: Sequence[Variable] | None = None,
) -> MetricExplanation:
    """Tell what each factor of a model contributes to its Fisher metric.

    Parameters
    ----------
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    point : mapping of str to array, optional
        Values of the value variables at which to look; ``model.initial_point()`` by default.
    vars : sequence of variables, optional
        The variables to be sampled, default all.

    Returns
    -------
    MetricExplanation
        Prints as a table in a terminal and in a notebook.

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
    model = pm.modelcontext(model)
    value_vars = continuous_value_vars(vars, model)
    start = complete_point(point, model)
    shared = make_shared_replacements(start, value_vars, model)
    raveled = ravel_model(model, value_vars, start, shared)
    x = DictToArrayBijection.map({v.name: start[v.name] for v in value_vars}).data
    metric = build_metric("fisher", model, raveled)
    factorization = find_factorization(metric, x, shared.values())

    def compiled(outputs: list[TensorVariable]) -> Callable:
        return compile_graph([raveled.x], outputs, model, mode=INTERPRETED)

    # All graphs first: pytensor 2 rewrites a Scan's body in place when it compiles.
    parts = [_part(raveled, factor) for factor in raveled.factors]
    graphs = [metric.matrix(), *[part.matrix() for _, part in parts]]
    geometry = symbolic_geometry(raveled, metric, factorization, "gamma")
    slope = [raveled.logp, gradient(raveled.logp, raveled.x)]
    full = [geometry.logp, geometry.force, *(geometry.factor or [])]
    whole, *matrices = compiled(graphs)(x)
    eigenvalues = np.linalg.eigvalsh(whole)
    return MetricExplanation(
        factors=[
            FactorShare(
                factor.name,
                _distribution(factor),
                path,
                float(np.trace(matrix) / np.trace(whole)),
                int(np.linalg.matrix_rank(matrix, hermitian=True)),
            )
            for factor, (path, _), matrix in zip(raveled.factors, parts, matrices, strict=True)
        ],
        dimension=len(x),
        smallest=float(eigenvalues[0]),
        largest=float(eigenvalues[-1]),
        structure=_structure(factorization, raveled),
        gradients_per_transition=_seconds(compiled(full), x) / _seconds(compiled(slope), x),
    )


def _part(raveled: RaveledModel, factor: Factor) -> tuple[str, Metric]:
    """The path that a factor takes, and its own contribution to the metric."""
    try:
        forms = factor_information(factor)
    except NoInformation:
        return _FALLBACK, softabs_metric(raveled.x, factor.logp.sum())
    metric = SumMetric(information_terms(raveled.x, forms))
    return information_path(factor.op) or _FALLBACK, metric


def _distribution(factor: Factor) -> str:
    if factor.op is None:
        return "Potential"
    return type(factor.op).__name__.removesuffix("RV").lstrip("_")


def _structure(factorization: Factorization, raveled: RaveledModel) -> str:
    if has_loop([raveled.logp]):
        return "dense, derivatives of G by finite differences through the model's loop"
    if has_opaque_op([raveled.logp]):
        return "dense, derivatives of G by finite differences, for want of second derivatives"
    return str(factorization)


def _seconds(function: Callable, x: np.ndarray) -> float:
    function(x)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return float(np.median(times))
