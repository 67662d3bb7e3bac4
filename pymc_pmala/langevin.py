"""The Metropolis-adjusted Langevin chain that all step methods share, inside PyMC's contract."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.blocking import RaveledVars, StatsType
from pymc.exceptions import SamplingError
from pymc.pytensorf import compile as pymc_compile
from pymc.pytensorf import make_shared_replacements
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pymc.vartypes import continuous_types
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs
from rich.progress import TextColumn
from rich.table import Column

from pymc_pmala.adaptation import StepSizeAdaptation, StepSizeState, target_acceptance
from pymc_pmala.geometry import continuous_value_vars, symbolic_geometry
from pymc_pmala.information import RaveledModel, ravel_model
from pymc_pmala.metrics import ConstantMetric, Metric, MetricChoice, build_metric
from pymc_pmala.proposal import INTEGRATORS, Scales, State, transition_graph

__all__ = ["Langevin", "LangevinState", "cholesky_factor"]


@dataclass_state
class LangevinState(StepMethodState):
    """Everything about a chain that its next draw depends on, but the point itself."""

    tune: bool
    started: bool
    divergences: int
    step_size_adaptation: StepSizeState


class Langevin(ArrayStepShared):
    """What the Metropolis-adjusted Langevin step methods share; see `PMALA`."""

    name: ClassVar[str]
    default_blocked = True
    default_tune_steps = 300
    drift: ClassVar[str]

    _state_class = LangevinState

    stats_dtypes_shapes = {
        "acceptance_rate": (np.float64, []),
        "accepted": (np.float64, []),
        "diverging": (bool, []),
        "divergences": (int, []),
        "step_size": (np.float64, []),
        "step_size_bar": (np.float64, []),
        "log_det_metric": (np.float64, []),
        "model_logp": (np.float64, []),
    }

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        metric: MetricChoice = "fisher",
        integrator: str = "exponential",
        step_size: float | None = None,
        target_accept: float | None = None,
        adapt_step_size: bool = True,
        model: pm.Model | None = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        rng: RandomGenerator = None,
        blocked: bool = True,
    ):
        if integrator not in INTEGRATORS:
            raise ValueError(
                f"Unknown integrator {integrator!r}. Choose one of {sorted(INTEGRATORS)}."
            )
        if step_size is not None and not step_size > 0:
            raise ValueError(f"step_size must be positive, but is {step_size}.")
        if target_accept is not None and not 0 < target_accept < 1:
            raise ValueError(f"target_accept must lie between 0 and 1, but is {target_accept}.")
        model = pm.modelcontext(model)
        value_vars = continuous_value_vars(vars, model)
        point = model.initial_point() if initial_point is None else initial_point
        shared = make_shared_replacements(point, value_vars, model)
        super().__init__(value_vars, shared, blocked=blocked, rng=rng)

        self.metric = metric
        self.integrator = integrator
        self.step_size = step_size
        self.adapt_step_size = adapt_step_size
        self._compile(model, point, shared, compile_kwargs or {})
        largest = INTEGRATORS[integrator].largest_step
        self.step_size_adaptation = StepSizeAdaptation(
            target_accept or target_acceptance(integrator, self._dimension),
            max(largest, step_size or largest),
        )
        self.reset_tuning()

    def _compile(
        self,
        model: pm.Model,
        point: dict[str, np.ndarray],
        shared: dict[Variable, SharedVariable],
        compile_kwargs: dict[str, Any],
    ) -> None:
        raveled = ravel_model(model, self.vars, point, shared)
        metric = self._build_metric(model, raveled, compile_kwargs)
        geometry = symbolic_geometry(raveled, metric, self.drift)
        inputs, outputs = transition_graph(geometry)
        with model:
            self._transition = pymc_compile(inputs, outputs, **compile_kwargs)
            self._transition.trust_input = True
        self._dimension = sum(point[v.name].size for v in self.vars)
        self._dtype = raveled.x.dtype
        # None where the metric varies and every point brings its own.
        self.cholesky: np.ndarray | None = None
        if isinstance(metric, ConstantMetric):
            factor = cholesky_factor(metric.matrix().eval(), self._dimension)
            self.cholesky = factor.astype(self._dtype)
        own = set(shared.values())
        self._data = [
            v for v in graph_inputs(outputs) if isinstance(v, SharedVariable) and v not in own
        ]

    def _build_metric(
        self, model: pm.Model, raveled: RaveledModel, compile_kwargs: dict[str, Any]
    ) -> Metric:
        return build_metric(self.metric, model, raveled)

    # ---- The chain -------------------------------------------------------------------

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, StatsType]:
        """Propose, accept or reject; return the point kept and what happened."""
        state = self._state_at(q0.data)
        if not self.started:
            self._find_first_step(state)
        step_size = self._current_step_size()
        proposed, log_det, log_acceptance = self._propose(state, self._scales(step_size))
        diverging = math.isnan(log_acceptance)
        acceptance = 0.0 if diverging else math.exp(min(0.0, log_acceptance))
        accepted = self.rng.random() < acceptance
        if accepted:
            self._state, self._log_det = proposed, log_det
        if self.tune:
            self._learn(acceptance)
        elif diverging:
            self.divergences += 1
        stats = {
            "acceptance_rate": acceptance,
            "accepted": float(accepted),
            "diverging": diverging,
            "divergences": self.divergences,
            "step_size": step_size,
            "step_size_bar": self.step_size_adaptation.averaged,
            "log_det_metric": self._log_det,
            "model_logp": float(self._state.logp),
        }
        return RaveledVars(self._state.x, q0.point_map_info), [stats]

    def _learn(self, acceptance: float) -> None:
        if self.adapt_step_size:
            self.step_size_adaptation.update(acceptance)

    def _propose(self, state: State, scales: Scales) -> tuple[State, float, float]:
        noise = self.rng.standard_normal(self._dimension)
        return self._call(state, noise.astype(self._dtype, copy=False), scales)

    def _call(
        self, state: State, noise: np.ndarray, scales: Scales
    ) -> tuple[State, float, float]:
        """One compiled transition: the proposal, its log |G| and the log acceptance ratio."""
        drift, spread = (np.asarray(scale, dtype=self._dtype) for scale in scales)
        outputs = self._transition(*state, noise, drift, spread)
        if self.cholesky is not None:
            outputs.insert(3, state.cholesky)
        *new, log_det, log_acceptance = outputs
        return State(*new), float(log_det), float(log_acceptance)

    def _state_at(self, x: np.ndarray) -> State:
        """The geometry at a point; the one kept from the last step, if nothing has changed."""
        surroundings = self._surroundings()
        if (
            self._state is not None
            and np.array_equal(x, self._state.x)
            and _same(surroundings, self._known_surroundings)
        ):
            return self._state
        zero = np.zeros_like(x)
        cholesky = self.cholesky
        if cholesky is None:
            cholesky = np.eye(self._dimension, dtype=self._dtype)
        nowhere = State(x.copy(), np.asarray(0.0, dtype=self._dtype), zero, cholesky)
        state, log_det, _ = self._call(nowhere, zero, Scales(0.0, 0.0))
        self._check(state)
        self._state, self._log_det = state, log_det
        self._known_surroundings = [np.copy(value) for value in surroundings[0]], surroundings[1]
        return state

    def _surroundings(self) -> tuple[list[np.ndarray], list[Any]]:
        """What the geometry depends on besides x: other variables by value, data by identity."""
        others = [shared.get_value(borrow=True) for shared in self.shared.values()]
        return others, [data.container.storage[0] for data in self._data]

    def _check(self, state: State) -> None:
        names = ["log-density", "gradient and drift", "metric"]
        for name, value in zip(names, state[1:], strict=True):
            if not np.all(np.isfinite(value)):
                hint = (
                    " A metric that is not positive definite has no Cholesky factor."
                    if name == "metric"
                    else ""
                )
                raise SamplingError(
                    f"{self.name}: the {name} at the current point is not finite.{hint} "
                    "You can inspect the model there with `model.debug()`, and start "
                    "elsewhere with `pm.sample(initvals=...)`."
                )

    def _find_first_step(self, state: State) -> None:
        """Halve the step from a sensible size until a proposal from here could be accepted."""
        self.started = True
        if self.step_size is not None:
            return
        largest = INTEGRATORS[self.integrator].largest_step
        step_size = min(1.0, largest)
        for _ in range(30):
            _, _, log_acceptance = self._propose(state, self._scales(step_size))
            if log_acceptance > math.log(0.25):
                break
            step_size /= 2.0
        self.step_size_adaptation.restart(step_size)

    def _current_step_size(self) -> float:
        adaptation = self.step_size_adaptation
        return adaptation.current if self.tune else adaptation.averaged

    def _scales(self, step_size: float) -> Scales:
        return INTEGRATORS[self.integrator].scales(step_size)

    # ---- PyMC's contract -------------------------------------------------------------

    def reset_tuning(self) -> None:
        """Forget what earlier chains have learned."""
        self.tune = True
        self.started = False
        self.divergences = 0
        self.step_size_adaptation.restart(self.step_size or 1.0)
        self._forget_point()

    def _forget_point(self) -> None:
        self._state: State | None = None
        self._known_surroundings: tuple[list[np.ndarray], list[Any]] = ([], [])
        self._log_det = math.nan

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Start a chain (PyMC 6.3 and later)."""
        self.set_rng(rng)

    def set_rng(self, rng: RandomGenerator) -> None:
        """Start a chain (PyMC before 6.3)."""
        self.rng = get_random_generator(rng, copy=False)
        self.reset_tuning()

    @staticmethod
    def competence(var, has_grad):
        """Compatible with continuous variables; NUTS stays PyMC's default."""
        if var.dtype in continuous_types and has_grad:
            return Competence.COMPATIBLE
        return Competence.INCOMPATIBLE

    @staticmethod
    def _progressbar_config(n_chains=1):
        columns = [
            TextColumn("{task.fields[divergences]}", table_column=Column("Divergences", ratio=1)),
            TextColumn("{task.fields[step_size]:0.3f}", table_column=Column("Step size", ratio=1)),
            TextColumn(
                "{task.fields[acceptance_rate]:0.2f}", table_column=Column("Acceptance", ratio=1)
            ),
        ]
        stats = {name: [0] * n_chains for name in ("divergences", "step_size", "acceptance_rate")}
        return columns, stats

    @staticmethod
    def _make_progressbar_update_functions():
        def update(stats):
            names = ("divergences", "step_size", "acceptance_rate")
            return {name: stats[name] for name in names} | {"failing": stats["divergences"] > 0}

        return (update,)


def cholesky_factor(matrix: np.ndarray, dimension: int) -> np.ndarray:
    """Lower Cholesky factor of a metric given as a matrix or as its diagonal."""
    if matrix.ndim == 1:
        matrix = np.diag(matrix)
    if matrix.shape != (dimension, dimension):
        raise ValueError(
            f"The metric has shape {matrix.shape}, but the sampled variables have dimension "
            f"{dimension}: a matrix of shape ({dimension}, {dimension}) or a diagonal of "
            f"length {dimension} is needed."
        )
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError(
            "The metric is not positive definite: it has no Cholesky factor."
        ) from None


def _same(left, right) -> bool:
    values, identities = left
    known_values, known_identities = right
    return all(map(np.array_equal, values, known_values)) and all(
        a is b for a, b in zip(identities, known_identities, strict=True)
    )
