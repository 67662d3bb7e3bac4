"""The local geometry of a posterior as numbers: log-density, gradient, metric, Γ and Ω."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Variable

from pymc_pmala.arguments import check_metric, context_model
from pymc_pmala.calculus.differentiation import value_and_gradient
from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Dense
from pymc_pmala.metric import MetricChoice, build_metric
from pymc_pmala.metric.checks import constant_factor
from pymc_pmala.model.target import Target, make_target
from pymc_pmala.model.variables import TOOL_ADVICE
from pymc_pmala.stack_traces import no_stack_traces

__all__ = ["LocalGeometry", "full_matrix", "geometry_function", "local_geometry"]

# Largest dimension of a metric that is printed with the names of its rows and columns.
_MOST_PRINTED = 8


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

    Notes
    -----
    Γ is the drift correction of Xifara et al. (2014), Ω that of Girolami and Calderhead (2011).
    """

    labels: tuple[str, ...] = ()

    def to_xarray(self) -> xr.Dataset:
        """Return the same values with the names of the coordinates.

        Returns
        -------
        xarray.Dataset
            ``logp``, ``gradient``, ``gamma`` and ``omega`` by ``coordinate``, and ``metric`` by
            ``coordinate`` and ``other_coordinate``:
            ``geometry.to_xarray()["metric"].sel(coordinate="mu", other_coordinate="theta[0]")``.
        """
        one, both = ["coordinate"], ["coordinate", "other_coordinate"]
        values = {
            "logp": ([], self.logp),
            "gradient": (one, self.gradient),
            "metric": (both, self.metric),
            "gamma": (one, self.gamma),
            "omega": (one, self.omega),
        }
        return xr.Dataset(values, coords={name: list(self.labels) for name in both})

    def __repr__(self) -> str:
        """One line for each coordinate, and the metric with the names of its rows and columns."""
        columns = zip(self.gradient, self.gamma, self.omega, strict=True)
        vectors = _table(self.labels, ("gradient", "gamma", "omega"), list(columns))
        if len(self.labels) <= _MOST_PRINTED:
            metric = _table(self.labels, self.labels, self.metric)
        else:
            with np.printoptions(precision=4, linewidth=100, threshold=200):
                metric = np.array2string(self.metric)
        return f"log-density {self.logp:.6g}\n\n{vectors}\n\nmetric\n{metric}"


def _table(rows: Sequence[str], columns: Sequence[str], values: Any) -> str:
    """Return numbers under the names of their columns, beside those of their rows."""
    first = max(map(len, rows), default=0)
    widths = [max(10, len(name)) for name in columns]
    lines = [" ".join(f"{name:>{w}}" for name, w in zip(columns, widths, strict=True))]
    for numbers in values:
        # Adding zero turns -0 into 0.
        cells = zip(numbers, widths, strict=True)
        lines.append(" ".join(f"{number + 0.0:{w}.4g}" for number, w in cells))
    names = ["", *rows]
    return "\n".join(f"{name:{first}} {line}" for name, line in zip(names, lines, strict=True))


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
        NumPy values, in the order and coordinates of the raveled value variables. ``.labels``
        names them, and ``.to_xarray()`` returns the values with these names.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_pmala import local_geometry
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     sigma = pm.HalfNormal("sigma", 5)
    ...     y = pm.Normal("y", mu, sigma, observed=[0.3, 1.2, 0.8])
    ...     geometry = local_geometry()
    >>> geometry.labels
    ('mu', 'sigma_log__')
    >>> metric = geometry.to_xarray()["metric"]
    >>> round(metric.sel(coordinate="sigma_log__", other_coordinate="sigma_log__").item())
    8
    """
    check_metric(metric)
    target = make_target(context_model(model), vars, point, TOOL_ADVICE)
    return geometry_function(target, metric, mode="interpreted")(target.start)


@no_stack_traces()
def geometry_function(
    target: Target, metric: MetricChoice, **compile_kwargs: Any
) -> Callable[[np.ndarray], LocalGeometry]:
    """Compile the local geometry as a function of the raveled value variables."""
    chosen = build_metric(full_matrix(metric, target.dimension), target)
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


def full_matrix(metric: MetricChoice, dimension: int) -> MetricChoice:
    """Check a constant metric, and return the matrix if only its diagonal is given."""
    if isinstance(metric, str) or callable(metric):
        return metric
    given = np.asarray(metric, dtype=float)
    constant_factor(given, dimension)
    return np.diag(given) if given.ndim == 1 else given
