"""The local geometry of a posterior as numbers: log-density, gradient, metric, Γ and Ω."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_pmala.calculus.differentiation import value_and_gradient
from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Dense
from pymc_pmala.metric import MetricChoice, build_metric
from pymc_pmala.model.target import Target, make_target
from pymc_pmala.model.variables import TOOL_ADVICE
from pymc_pmala.stack_traces import no_stack_traces

__all__ = ["LocalGeometry", "geometry_function", "local_geometry"]


class _Values(NamedTuple):
    logp: float
    gradient: np.ndarray
    metric: np.ndarray
    gamma: np.ndarray
    omega: np.ndarray


class LocalGeometry(_Values):
    r"""The geometry at one point, in the coordinates of the raveled value variables.

    It prints with the names of the coordinates.

    Attributes
    ----------
    logp : float
        Log-density, including the log-Jacobians of the transforms.
    gradient : ndarray of shape (d,)
        Gradient of the log-density.
    metric : ndarray of shape (d, d)
        :math:`G`.
    gamma : ndarray of shape (d,)
        PMALA's drift correction :math:`\Gamma_i = \frac12 \sum_j \partial_j A_{ij}`,
        :math:`A = G^{-1}`.
    omega : ndarray of shape (d,)
        MMALA's drift correction
        :math:`\Omega_i = |G|^{-1/2} \sum_j \partial_j (A_{ij} |G|^{1/2})`.
    labels : tuple of str
        Names of the coordinates, for instance ``"theta[0]"``.
    """

    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line for each coordinate, and the metric in the same order."""
        width = max(map(len, self.labels), default=0)
        lines = [f"log-density {self.logp:.6g}", f"{'':{width}}   gradient      gamma      omega"]
        for label, *row in zip(self.labels, self.gradient, self.gamma, self.omega, strict=False):
            lines.append(f"{label:{width}} " + " ".join(f"{value:10.4g}" for value in row))
        with np.printoptions(precision=4, linewidth=100, threshold=200):
            metric = np.array2string(self.metric)
        return "\n".join([*lines, "metric, in the same order", metric])


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
        Values of the value variables; ``model.initial_point()`` by default.
    metric : {"fisher", "softabs", "identity"}, array or callable, default "fisher"
        The metric, as for `PMALA`.
    vars : sequence of variables, optional
        The variables that make up the raveled vector; all by default. The others are held at
        their values in ``point``.
    model : pm.Model, optional
        Taken from the ``with`` context by default.

    Returns
    -------
    LocalGeometry
        NumPy values, in the order and coordinates of the raveled value variables.
    """
    target = make_target(pm.modelcontext(model), vars, point, TOOL_ADVICE)
    return geometry_function(target, metric, mode="interpreted")(target.start)


@no_stack_traces()
def geometry_function(
    target: Target, metric: MetricChoice, **compile_kwargs: Any
) -> Callable[[np.ndarray], LocalGeometry]:
    """Compile the local geometry as a function of the raveled value variables."""
    chosen = build_metric(metric, target)
    x = target.x
    logp, slope = value_and_gradient(target.logp, x)
    matrix = chosen.matrix()
    dense = Dense(target.dimension)
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
    function = compile_graph([x], outputs, target.model, **compile_kwargs)

    def evaluate(q: np.ndarray) -> LocalGeometry:
        value, slope, g, v, slope_of_log_det = function(np.asarray(q, dtype=x.dtype))
        gamma = -0.5 * np.linalg.solve(g, v)
        omega = 2.0 * gamma + 0.5 * np.linalg.solve(g, slope_of_log_det)
        geometry = LocalGeometry(float(value), slope, g, gamma, omega)
        geometry.labels = target.labels
        return geometry

    return evaluate
