"""Zero-mean functions at the draws of a model, from the choice of variables to the values."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable
from rich.progress import Progress

from pymc_pmala.metric import ConstantMetric, Metric, MetricChoice, build_metric
from pymc_pmala.metric.checks import constant_factor
from pymc_pmala.model.target import Target, make_target
from pymc_pmala.tools.generator import Evaluation, Generator, is_smooth
from pymc_pmala.tools.posterior_draws import fixed_variables
from pymc_pmala.tools.smoothness import variables_with_jumps
from pymc_pmala.tools.zero_mean import (
    LARGEST_QUADRATIC,
    constant_inverse,
    has_exact_divergence,
    polynomials,
)

__all__ = ["Corrections", "find_corrections"]

# Draws at which the metric is averaged, and at which its derivative is checked.
_AVERAGED = 100
_CHECKED = 2
# A progress bar is shown if the evaluation takes longer than this.
_PATIENCE = 2.0


@dataclass(frozen=True)
class Corrections:
    """Zero-mean functions at n draws.

    Attributes
    ----------
    generators : list of ndarray of shape (n, m)
        Generators of the m elements of all functions, each to be added to the draws with
        coefficient 1; zero for functions without a usable graph.
    families : list of ndarray of shape (n, p)
        Families of further zero-mean functions.
    held : dict of str to str
        Value variables without zero-mean functions of their own, and why.
    differing : list of int
        Positions of functions whose draws are not their values in the model.
    """

    generators: list[np.ndarray] = field(default_factory=list)
    families: list[np.ndarray] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    differing: list[int] = field(default_factory=list)


def find_corrections(
    model: pm.Model,
    draws: Mapping[str, np.ndarray],
    functions: Sequence[tuple[TensorVariable | None, np.ndarray]],
    metric: MetricChoice,
    progressbar: bool,
) -> Corrections:
    """Evaluate zero-mean functions at all draws.

    Parameters
    ----------
    model : pm.Model
    draws : mapping of str to ndarray
        Draws of all value variables, with the draws in the first axis.
    functions : sequence of pairs
        A graph of random variables of the model, or None, and the draws of the function, of shape
        (n, elements).
    metric : str, array or callable
    progressbar : bool
    """
    held = fixed_variables(model) | _not_finite(model, draws)
    graphs = [graph for graph, _ in functions]
    while True:
        free = [v for v in model.value_vars if v.name not in held]
        if not free:
            return Corrections(held=held)
        x = np.concatenate([draws[v.name].reshape(len(draws[v.name]), -1) for v in free], axis=1)
        target = make_target(model, free, {v.name: draws[v.name][0] for v in model.value_vars})
        smooth = _smooth_graphs(target, graphs)
        used = [graph for graph in smooth if graph is not None]
        generator = Generator(target, _metric(metric, target), used, draws)
        jumps = variables_with_jumps(generator, x, _places(target))
        if not jumps:
            break
        held |= {free[i].name: "the density has a jump or a boundary" for i in jumps}
    constant = _constant(generator, x)
    generator.set_constant(constant)
    exact = _is_exact(generator, x)
    found = _evaluate(generator, x, progressbar)
    generators, differing = _generators(found, exact, smooth, functions)
    return Corrections(generators, _families(found, exact, x, constant), held, differing)


def _not_finite(model: pm.Model, draws: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {
        v.name: "draws on the boundary of the support"
        for v in model.value_vars
        if not np.isfinite(draws[v.name]).all()
    }


def _metric(choice: MetricChoice, target: Target) -> Metric:
    metric = build_metric(choice, target)
    if not isinstance(metric, ConstantMetric):
        return metric
    factor = constant_factor(metric.matrix().eval(), target.dimension)
    return build_metric(factor @ factor.T, target)


def _smooth_graphs(
    target: Target, graphs: Sequence[TensorVariable | None]
) -> list[Variable | None]:
    """Express graphs in x; None for those without a generator."""
    known = [graph for graph in graphs if graph is not None]
    expressed = iter(target.express(known))
    found = [None if graph is None else next(expressed) for graph in graphs]
    return [f if f is not None and is_smooth(f, target.x) else None for f in found]


def _places(target: Target) -> list[np.ndarray]:
    """Positions in x of the elements of each variable."""
    sizes = [target.point[v.name].size for v in target.variables]
    return np.split(np.arange(target.dimension), np.cumsum(sizes)[:-1])


def _some(x: np.ndarray, count: int) -> np.ndarray:
    """Numbers of a few draws, spread evenly."""
    return np.unique(np.linspace(0, len(x) - 1, min(count, len(x))).astype(int))


def _constant(generator: Generator, x: np.ndarray) -> np.ndarray:
    """Constant matrix C, the inverse of the mean metric; variances if there is none."""
    inverses = np.array([generator(x[i], i).inverse for i in _some(x, _AVERAGED)])
    found = constant_inverse(inverses)
    if found is not None and np.linalg.eigvalsh(found)[0] > 0:
        return found
    variances = x.var(axis=0)
    return np.diag(np.where(variances > 0, variances, 1.0))


def _is_exact(generator: Generator, x: np.ndarray) -> bool:
    """Whether the drift has the divergence of A at some draws."""
    return all(
        has_exact_divergence(lambda q, i=i: generator(q, i), x[i])  # type: ignore[misc]
        for i in _some(x, _CHECKED)
    )


def _evaluate(generator: Generator, x: np.ndarray, progressbar: bool) -> Evaluation:
    """Evaluate at all draws; a draw that repeats the one before it is evaluated once."""
    found: list[Evaluation] = []
    kept = slice(None) if x.shape[1] <= LARGEST_QUADRATIC else slice(0)
    with _progress(len(x), progressbar) as advance:
        for i, point in enumerate(x):
            repeated = i > 0 and not generator.holds_variables and (point == x[i - 1]).all()
            at = found[-1] if repeated else generator(point, i)
            found.append(at._replace(inverse=at.inverse[kept]))
            advance(i)
    return Evaluation(*map(np.array, zip(*found, strict=True)))


@contextmanager
def _progress(count: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Progress bar that appears only if the work takes long."""
    progress = Progress(transient=True)
    task = progress.add_task("Evaluating the draws", total=count)
    start = time.perf_counter()

    def advance(done: int) -> None:
        if not shown or done % 20:
            return
        if (time.perf_counter() - start) * count > _PATIENCE * (done + 1):
            progress.start()
        progress.update(task, completed=done)

    try:
        yield advance
    finally:
        if progress.live.is_started:
            progress.stop()


def _generators(
    found: Evaluation,
    exact: bool,
    graphs: Sequence[Variable | None],
    functions: Sequence[tuple[TensorVariable | None, np.ndarray]],
) -> tuple[list[np.ndarray], list[int]]:
    """Generators of all functions, and the functions that differ from their draws."""
    n = len(found.logp)
    # With the metric at the point and with a constant one, the parts of second degree that remain
    # have opposite signs, and cancel if the metric is the Hessian of the log-density.
    kinds = [found.moving, 0.5 * (found.moving + found.fixed)] if exact else [found.fixed]
    columns: list[list[np.ndarray]] = [[] for _ in kinds]
    differing, start = [], 0
    for number, (graph, (_, drawn)) in enumerate(zip(graphs, functions, strict=True)):
        size = drawn.shape[1]
        known = graph is not None
        if known:
            part = slice(start, start + size)
            start += size
            if not _agree(found.values[:, part], drawn):
                differing.append(number)
                known = False
        for kind, parts in zip(kinds, columns, strict=True):
            parts.append(kind[:, part] if known else np.zeros((n, size)))
    return [np.concatenate(parts, axis=1) for parts in columns], differing


def _agree(computed: np.ndarray, drawn: np.ndarray) -> bool:
    # Draws may be stored in single precision.
    scale = np.abs(drawn).max(axis=0, initial=0.0)
    return computed.shape == drawn.shape and bool((np.abs(computed - drawn) <= 1e-4 * scale).all())


def _families(
    found: Evaluation, exact: bool, x: np.ndarray, constant: np.ndarray
) -> list[np.ndarray]:
    """Zero-mean functions of first degree, and of first and second degree."""
    whiten = np.linalg.inv(np.linalg.cholesky(constant))
    small = x.shape[1] <= LARGEST_QUADRATIC
    parts = [polynomials(x, found.slope @ constant, constant if small else None, whiten)]
    if exact:
        parts.append(polynomials(x, found.drift, found.inverse if small else None, whiten))
    first = np.concatenate([linear for linear, _ in parts], axis=1)
    both = np.concatenate([first, *[quadratic for _, quadratic in parts]], axis=1)
    families = [first, both] if small else [first]
    return [family[:, np.isfinite(family).all(axis=0)] for family in families]
