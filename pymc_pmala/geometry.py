"""The local geometry of a model's posterior: log-density, force and metric at a point."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection
from pymc.pytensorf import make_shared_replacements
from pymc.util import get_value_vars_from_user_vars
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.compilation import INTERPRETED, compile_graph, no_stack_traces
from pymc_pmala.differentiation import value_and_gradient
from pymc_pmala.factorization import Dense, Factorization
from pymc_pmala.information import RaveledModel, ravel_model
from pymc_pmala.metrics import ConstantMetric, Metric, MetricChoice, build_metric

__all__ = [
    "LocalGeometry",
    "SymbolicGeometry",
    "complete_point",
    "continuous_value_vars",
    "geometry_function",
    "local_geometry",
    "metric_factor",
    "metric_pieces",
    "symbolic_geometry",
]


class _Values(NamedTuple):
    logp: float
    gradient: np.ndarray
    metric: np.ndarray
    gamma: np.ndarray
    omega: np.ndarray


class LocalGeometry(_Values):
    r"""The geometry at one point, in the coordinates of the raveled value variables.

    Prints with the names of the coordinates.

    Attributes
    ----------
    logp : float
        Log-density, the transforms' log-Jacobians included.
    gradient : ndarray of shape (d,)
        Its gradient.
    metric : ndarray of shape (d, d)
        :math:`G`.
    gamma : ndarray of shape (d,)
        PMALA's drift correction :math:`\Gamma_i = \frac12 \sum_j \partial_j A_{ij}`,
        :math:`A = G^{-1}`.
    omega : ndarray of shape (d,)
        MMALA's, :math:`\Omega_i = |G|^{-1/2} \sum_j \partial_j (A_{ij} |G|^{1/2})`.
    labels : tuple of str
        Names of the coordinates, ``"theta[0]"`` for instance.
    """

    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """A line for each coordinate, and the metric in their order."""
        width = max(map(len, self.labels), default=0)
        lines = [f"log-density {self.logp:.6g}", f"{'':{width}}   gradient      gamma      omega"]
        for label, *row in zip(self.labels, self.gradient, self.gamma, self.omega, strict=False):
            lines.append(f"{label:{width}} " + " ".join(f"{value:10.4g}" for value in row))
        with np.printoptions(precision=4, linewidth=100, threshold=200):
            metric = np.array2string(self.metric)
        return "\n".join([*lines, "metric, in the same order", metric])


class SymbolicGeometry(NamedTuple):
    """What a transition needs of a point, as expressions in the raveled vector ``x``.

    Attributes
    ----------
    x : TensorVariable
        The point.
    logp : TensorVariable
        Log-density.
    force : TensorVariable
        The covector f whose drift is A f: the gradient, plus what the method adds to it.
    factor : list of TensorVariable or None
        Triangular factor of the metric; None if the caller supplies a constant one.
    log_det : TensorVariable or None
        Log |G|; not finite where the metric has no factor and another stands for it.
    factorization : Factorization
        What the factor's parts mean.
    """

    x: TensorVariable
    logp: TensorVariable
    force: TensorVariable
    factor: list[TensorVariable] | None
    log_det: TensorVariable | None
    factorization: Factorization


def complete_point(
    point: Mapping[str, np.ndarray] | None, model: pm.Model
) -> dict[str, np.ndarray]:
    """Values for all value variables: those of ``point``, else of the model's initial point."""
    variables = {variable.name: variable for variable in model.value_vars}
    given = {} if point is None else point
    unknown = sorted(set(given) - set(variables))
    if unknown:
        raise ValueError(
            f"Unknown names in the point: {unknown}. Expected value variables: "
            f"{sorted(variables)}; see `model.initial_point()`."
        )
    # PyMC gives every value, and compiles to find an initial point.
    fixed = all(None not in variable.type.shape for variable in variables.values())
    start = {} if fixed and set(given) == set(variables) else model.initial_point()
    for name, value in given.items():
        shape = np.shape(start[name]) if start else variables[name].type.shape
        if np.shape(value) != shape:
            raise ValueError(
                f"{name!r} has shape {np.shape(value)} in the point, but {shape} in the model."
            )
    values = start | dict(given)
    return {
        name: np.asarray(values[name], dtype=variable.dtype) for name, variable in variables.items()
    }


STEP_ADVICE = (
    "Give the sampler the continuous variables only, for example "
    "`step=[PMALA([a, b]), pm.Metropolis([k])]`, or marginalise the discrete ones."
)
TOOL_ADVICE = (
    "Name the continuous variables, `vars=[a, b]` for example; the others are held at their "
    "values in `point`."
)


def continuous_value_vars(
    vars: Sequence[Variable] | None, model: pm.Model, advice: str = STEP_ADVICE
) -> list[TensorVariable]:
    """Value variables for what a user listed: random variables, value variables, or nothing.

    Raises
    ------
    ValueError
        If one of them is discrete, with the advice given, or listed twice.
    """
    listed = model.value_vars if vars is None else vars
    value_vars = get_value_vars_from_user_vars(listed, model)
    discrete = [v.name for v in value_vars if v.dtype not in continuous_types]
    if discrete:
        raise ValueError(
            f"Langevin samplers need gradients and cannot sample the discrete variables "
            f"{discrete}. {advice}"
        )
    names = [v.name for v in value_vars]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"vars lists {twice} more than once. List each variable once.")
    return value_vars


def symbolic_geometry(
    raveled: RaveledModel, metric: Metric, factorization: Factorization, drift: str
) -> SymbolicGeometry:
    r"""Log-density, force and metric factor at x.

    With :math:`v_i = \sum_{jk} \partial_j G_{ik} A_{jk}`, so that
    :math:`\Gamma = -\frac12 A v` and
    :math:`\Omega = 2\Gamma + \frac12 A \nabla\log|G|`, the drifts of the family are
    :math:`A f` with

    =================  =============================================
    ``"gradient"``     :math:`f = g`
    ``"gamma"``        :math:`f = g - v`, that is Ag + 2Γ
    ``"omega"``        :math:`f = g - 2v + \nabla\log|G|`, Ag + 2Ω
    =================  =============================================
    """
    x = raveled.x
    logp, force = value_and_gradient(raveled.logp, x)
    if isinstance(metric, ConstantMetric):
        return SymbolicGeometry(x, logp, force, None, None, factorization)
    found = metric_factor(metric, factorization)
    log_det = 2.0 * factorization.half_log_det(found)
    factor = _where_finite(log_det, found, factorization, force)
    slope_alone = force
    if drift != "gradient":
        rows = factorization.rows(factor)
        divergence = metric.divergence(rows)
        slope = metric.log_det_gradient(rows) if drift == "omega" else None
        if divergence is not None:
            force = force - (divergence if drift == "gamma" else 2.0 * divergence)
        if slope is not None:
            force = force + slope
        force = pt.switch(pt.all(pt.abs(force) < np.inf), force, slope_alone)
    return SymbolicGeometry(x, logp, force, factor, log_det, factorization)


def _where_finite(
    log_det: TensorVariable,
    factor: Sequence[TensorVariable],
    factorization: Factorization,
    slope: TensorVariable,
) -> list[TensorVariable]:
    """A metric's factor, or that of (1 + |∇log π|²) I where the metric has none.

    Deterministic in x, hence as exact as any metric: a place where the metric alone is not finite,
    or not positive definite, belongs to the posterior. The slope keeps steps from being longer
    than the distance over which the density changes.
    """
    length = pt.sqrt(1.0 + (slope**2).sum())
    return [
        pt.switch(pt.abs(log_det) < np.inf, part, length * unit.astype(part.dtype))
        for part, unit in zip(factor, factorization.identity(), strict=True)
    ]


def metric_factor(metric: Metric, factorization: Factorization) -> list[TensorVariable]:
    """The parts of the triangular factor of G(x)."""
    return factorization.factor(metric_pieces(metric, factorization))


def metric_pieces(metric: Metric, factorization: Factorization) -> list[TensorVariable]:
    """The parts of G(x) that are not zero by the model's structure."""
    seeds = pt.constant(factorization.seeds.astype(metric.x.dtype))
    return factorization.pieces(metric.products(seeds))


@no_stack_traces()
def local_geometry(
    point: Mapping[str, np.ndarray] | None = None,
    *,
    metric: MetricChoice = "fisher",
    vars: Sequence[Variable] | None = None,
    model: pm.Model | None = None,
) -> LocalGeometry:
    r"""Log-density, gradient, metric, Γ and Ω of a model at a point.

    Parameters
    ----------
    point : mapping of str to array, optional
        Values of the value variables, as in ``model.initial_point()``, the default.
    metric : {"fisher", "softabs", "identity"}, array or callable, default "fisher"
        The metric, as for `PMALA`.
    vars : sequence of variables, optional
        The variables that make up the raveled vector, default all; others are held at
        ``point``.
    model : pm.Model, optional
        Taken from the ``with`` context by default.

    Returns
    -------
    LocalGeometry
        NumPy values, in the order and coordinates of the raveled value variables.
    """
    model = pm.modelcontext(model)
    value_vars = continuous_value_vars(vars, model, TOOL_ADVICE)
    start = complete_point(point, model)
    function = geometry_function(model, value_vars, start, metric, {"mode": INTERPRETED})
    q = DictToArrayBijection.map({v.name: start[v.name] for v in value_vars}).data
    return function(q)


@no_stack_traces()
def geometry_function(
    model: pm.Model,
    value_vars: Sequence[TensorVariable],
    point: Mapping[str, np.ndarray],
    metric: MetricChoice,
    compile_kwargs: dict[str, Any],
) -> Callable[[np.ndarray], LocalGeometry]:
    """Compile the local geometry as a function of the raveled value variables."""
    shared = make_shared_replacements(point, value_vars, model)
    raveled = ravel_model(model, value_vars, point, shared)
    chosen = build_metric(metric, model, raveled)
    x = raveled.x
    logp, slope = value_and_gradient(raveled.logp, x)
    matrix = chosen.matrix()
    dense = Dense(x.type.shape[0])
    rows = dense.rows(dense.factor([matrix]))
    divergence, log_det_gradient = chosen.divergence(rows), chosen.log_det_gradient(rows)
    zero = pt.zeros_like(x)
    outputs = [
        logp,
        slope,
        matrix,
        zero if divergence is None else divergence,
        zero if log_det_gradient is None else log_det_gradient,
    ]
    function = compile_graph([x], outputs, model, **compile_kwargs)
    labels = tuple(
        f"{v.name}[{', '.join(map(str, place))}]" if place else v.name
        for v in value_vars
        for place in np.ndindex(np.shape(point[v.name]))
    )

    def evaluate(q: np.ndarray) -> LocalGeometry:
        value, slope, g, v, slope_of_log_det = function(np.asarray(q, dtype=x.dtype))
        gamma = -0.5 * np.linalg.solve(g, v)
        omega = 2.0 * gamma + 0.5 * np.linalg.solve(g, slope_of_log_det)
        geometry = LocalGeometry(float(value), slope, g, gamma, omega)
        geometry.labels = labels
        return geometry

    return evaluate
