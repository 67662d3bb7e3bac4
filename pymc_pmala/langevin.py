"""The Metropolis-adjusted Langevin chain that all step methods share, inside PyMC's contract."""

import inspect
import math
from collections.abc import Sequence
from operator import is_
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection, RaveledVars, StatsType
from pymc.exceptions import SamplingError
from pymc.pytensorf import make_shared_replacements
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import WithSamplingState, dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pymc.vartypes import continuous_types
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.graph.utils import MethodNotDefined
from rich.progress import TextColumn
from rich.table import Column

from pymc_pmala.adaptation import (
    Mixing,
    MixingState,
    StepSizeAdaptation,
    StepSizeState,
    target_acceptance,
)
from pymc_pmala.arguments import (
    check_options,
    check_shape,
    constant_factor,
    without_gradient,
)
from pymc_pmala.compilation import compile_graph
from pymc_pmala.diagnosis import Diagnosis, DiagnosisState, divergence
from pymc_pmala.factorization import Factorization
from pymc_pmala.geometry import complete_point, continuous_value_vars, symbolic_geometry
from pymc_pmala.information import RaveledModel, ravel_model
from pymc_pmala.metrics import (
    ConstantMetric,
    FlooredMetric,
    Metric,
    MetricChoice,
    build_metric,
    is_floored,
)
from pymc_pmala.proposal import INTEGRATORS, State, leap_graph, transition_graph
from pymc_pmala.structure import find_factorization

__all__ = ["Langevin", "LangevinState"]


@dataclass_state
class LangevinState(StepMethodState):
    """Everything about a chain that its next draw depends on, but the point itself."""

    tune: bool
    started: bool
    divergences: int
    transitions: int
    step_size_adaptation: StepSizeState
    mixing: MixingState
    diagnosis: DiagnosisState


class _BoolOrFloat(type):
    def __eq__(cls, other: object) -> bool:
        return other in (bool, float) or other is np.float64 or cls is other

    def __hash__(cls) -> int:
        return type.__hash__(cls)


class Accepted(np.float64, metaclass=_BoolOrFloat):
    """Type of the statistic ``accepted``, stored as float64.

    PyMC refuses a compound step whose methods differ in the type of a statistic, and its own
    differ in this one: float64 in Metropolis, bool in HamiltonianMC and DEMetropolis. To
    stand beside any of them it compares equal to both.
    """


class Langevin(ArrayStepShared):
    """What the Metropolis-adjusted Langevin step methods share; see `PMALA`."""

    name: ClassVar[str]
    default_blocked = True
    default_tune_steps = 300
    drift: ClassVar[str]

    # The current point's geometry, and what it was computed from besides the point.
    _state: State | None
    _log_det: float
    _surroundings: list[bytes]
    _data_used: list[Any]
    # The last step size and its scales.
    _scaled_step: float
    _last_scales: tuple[np.ndarray, ...]

    _state_class = LangevinState

    stats_dtypes_shapes: ClassVar[dict[str, tuple[Any, list[int] | None]]] = {
        "acceptance_rate": (np.float64, []),
        "accepted": (Accepted, []),
        "diverging": (bool, []),
        # NUTS has `int` here and HamiltonianMC `np.int64`; this equals both.
        "divergences": (np.dtype(np.int64), []),
        "n_transitions": (np.int64, []),
        "step_size": (np.float64, []),
        "step_size_bar": (np.float64, []),
        "log_det_metric": (np.float64, []),
        "metric_floored": (np.float64, []),
        "model_logp": (np.float64, []),
        "warning": (SamplerWarning, None),
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Show the arguments of ``__init__``, which PyMC's ``__new__`` would hide."""
        super().__init_subclass__(**kwargs)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(parameters)

    def __new__(cls, vars=None, *args, **kwargs):
        """Create one step for all variables, or one for each with ``blocked=False``."""
        if vars is None:
            return super().__new__(cls, *args, **kwargs)
        if isinstance(vars, Sequence) and not vars:
            raise ValueError(
                "There is nothing to sample: vars is empty. List the random variables to "
                "sample, or leave vars out to sample all."
            )
        return super().__new__(cls, vars, *args, **kwargs)

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        metric: MetricChoice = "fisher",
        integrator: str = "exponential",
        step_size: float | None = None,
        target_accept: float | None = None,
        adapt_step_size: bool = True,
        step_size_jitter: float = 0.0,
        thin: int | None = None,
        model: pm.Model | None = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        rng: RandomGenerator = None,
        blocked: bool = True,
    ):
        check_options(integrator, step_size, target_accept, step_size_jitter, thin)
        model = pm.modelcontext(model)
        value_vars = continuous_value_vars(vars, model)
        point = complete_point(initial_point, model)
        shared = make_shared_replacements(point, value_vars, model)
        super().__init__(value_vars, shared, blocked=blocked, rng=rng)

        self.metric = metric
        self.integrator = integrator
        self.step_size = step_size
        self.adapt_step_size = adapt_step_size
        self.step_size_jitter = step_size_jitter
        # The paper's chain has a draw for each transition.
        self.thin = 1 if thin is None and integrator == "euler" else thin
        self._compile(model, point, shared, compile_kwargs or {})
        largest = INTEGRATORS[integrator].largest_step
        self.step_size_adaptation = StepSizeAdaptation(
            target_accept or target_acceptance(integrator, self._dimension),
            max(largest, step_size or largest),
        )
        self.diagnosis = Diagnosis(self.step_size_adaptation.target if adapt_step_size else None)
        self.reset_tuning()
        self._warm_up(self._start)

    def _compile(
        self,
        model: pm.Model,
        point: dict[str, np.ndarray],
        shared: dict[Variable, SharedVariable],
        compile_kwargs: dict[str, Any],
    ) -> None:
        raveled = ravel_model(model, self.vars, point, shared)
        self._dimension = sum(point[v.name].size for v in self.vars)
        self._dtype = raveled.x.dtype
        try:
            metric = self._build_metric(model, raveled, compile_kwargs)
            self._has_floor = isinstance(metric, FlooredMetric)
            if callable(self.metric):
                check_shape(metric.matrix(), self._dimension)
            start = DictToArrayBijection.map({v.name: point[v.name] for v in self.vars}).data
            self._start = start.astype(self._dtype)
            self._factorization = self._find_factorization(metric, start)
            geometry = symbolic_geometry(raveled, metric, self._factorization, self.drift)
        except (NotImplementedError, NullTypeGradError, MethodNotDefined) as error:
            names = without_gradient(model, self.vars)
            if not names:
                raise ValueError(
                    f"The metric {self.metric!r} needs derivatives beyond the gradient, which "
                    f"an Op of this model does not have ({error}). Choose metric='identity' or "
                    "a constant array, or give the distribution its information with "
                    "`pymc_pmala.register_information`."
                ) from error
            raise ValueError(
                f"Langevin samplers need gradients, but the log-density cannot be differentiated "
                f"with respect to {names}. Give the Ops that depend on them a gradient, or give "
                "these variables another step method, for example "
                "`step=[PMALA([a, b]), pm.Slice([c])]`; for a `pm.Simulator`, use "
                "`pm.sample_smc`."
            ) from error
        # None where the metric varies and every point brings its own.
        self.factor: tuple[np.ndarray, ...] | None = None
        if isinstance(metric, ConstantMetric):
            self.factor = self._constant_factor(metric)
        inputs, outputs = transition_graph(geometry)
        self._transition = compile_graph(inputs, outputs, model, **compile_kwargs)
        self._leap: Any = None
        if self.thin is not None and self.thin > 1:
            self._leap = compile_graph(
                *leap_graph(geometry, self.thin - 1), model, **compile_kwargs
            )
        own = set(shared.values())
        self._data = [
            v for v in graph_inputs(outputs) if isinstance(v, SharedVariable) and v not in own
        ]

    def _build_metric(
        self, model: pm.Model, raveled: RaveledModel, compile_kwargs: dict[str, Any]
    ) -> Metric:
        return build_metric(self.metric, model, raveled)

    def _find_factorization(self, metric: Metric, start: np.ndarray) -> Factorization:
        return find_factorization(metric, start, self.shared.values())

    def _constant_factor(self, metric: Metric) -> tuple[np.ndarray, ...]:
        factor = constant_factor(metric.matrix().eval(), self._dimension)
        return (factor.astype(self._dtype),)

    def _warm_up(self, x: np.ndarray) -> None:
        """Call what was compiled: numba compiles then, once for all processes forked later."""
        state, log_det = self._evaluate(x)
        if self._leap is not None:
            self._leap_from(state, log_det, 1.0)

    def __repr__(self) -> str:
        """Say what a chain's proposals depend on."""
        metric = repr(self.metric)
        if callable(self.metric):
            metric = getattr(self.metric, "__name__", type(self.metric).__name__)
        elif not isinstance(self.metric, str):
            metric = f"array of shape {np.shape(self.metric)}"
        # Before a chain has begun, tuning has said nothing about the step.
        step_size = f"{self._current_step_size():.3g}" if self.started else self.step_size
        return (
            f"{type(self).__name__}(metric={metric}, integrator={self.integrator!r}, "
            f"step_size={step_size}, dimension={self._dimension})"
        )

    # ---- The chain -------------------------------------------------------------------

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, StatsType]:
        """Propose, accept or reject; return the point kept and what happened."""
        state = self._state_at(q0.data)
        if not self.started:
            self._find_first_step(state)
        step_size = self._current_step_size()
        if self.step_size_jitter:
            # Whatever the point is: each size leaves the posterior as it is, and so do all.
            step_size *= self.rng.uniform(1.0 - self.step_size_jitter, 1.0 + self.step_size_jitter)
        if not self.tune:
            state = self._advance(state, step_size)
        proposed, log_det, log_acceptance = self._propose(state, step_size)
        if math.isfinite(log_acceptance):
            diverging = False
            acceptance = math.exp(min(0.0, log_acceptance))
        else:
            # Outside the support is a rejection like any other; a number that is none is not.
            diverging = not log_acceptance == proposed.logp == -math.inf
            acceptance = 0.0
        accepted = self.rng.random() < acceptance
        before = state.x
        if accepted:
            state = proposed
            self._keep(proposed, log_det)
        warning = None
        if self.tune:
            self.mixing.update(before, state.x)
            self._learn(acceptance)
        else:
            self.divergences += diverging
            could_grow = step_size < 0.25 * INTEGRATORS[self.integrator].largest_step
            warning = self.diagnosis.observe(acceptance, accepted, could_grow)
            if self.diagnosis.wants_jump:
                self.mixing.update(q0.data, state.x)
            if warning is None and self.diagnosis.wants_mixing:
                sizes = {info[0]: math.prod(info[1]) for info in q0.point_map_info}
                warning = self.diagnosis.judge_mixing(
                    self.mixing.correlations, sizes, self.transitions
                )
            if warning is None and self._has_floor and self.diagnosis.wants_metric:
                floored = is_floored(*self._factorization.diagonals(state.factor))
                warning = self.diagnosis.observe_metric(floored)
        if diverging and warning is None:
            warning = self._divergence(q0, proposed.x)
        stats = {
            "acceptance_rate": acceptance,
            "accepted": float(accepted),
            "diverging": diverging,
            "divergences": self.divergences,
            "n_transitions": 1 if self.tune else self.transitions,
            "step_size": step_size,
            "step_size_bar": self.step_size_adaptation.averaged,
            "log_det_metric": self._log_det,
            "metric_floored": self.diagnosis.floored_share,
            "model_logp": float(state.logp),
            "warning": warning,
        }
        # A copy: what becomes of the draw must not reach the point that the geometry is of.
        return RaveledVars(state.x.copy(), q0.point_map_info), [stats]

    def _divergence(self, q0: RaveledVars, proposal: np.ndarray) -> SamplerWarning:
        # As in PyMC: not so many points as to fill the memory.
        if self.tune or self.divergences > 100:
            return divergence(self.tune, None, None)
        source, destination = (
            DictToArrayBijection.rmap(RaveledVars(x.copy(), q0.point_map_info))
            for x in (q0.data, proposal)
        )
        return divergence(self.tune, source, destination)

    def _learn(self, acceptance: float) -> None:
        if self.adapt_step_size:
            self.step_size_adaptation.update(acceptance)

    def _propose(self, state: State, step_size: float) -> tuple[State, float, float]:
        noise = self.rng.standard_normal(self._dimension, self._dtype)
        return self._call(state, noise, self._scales(step_size))

    def _advance(self, state: State, step_size: float) -> State:
        """The state after all transitions of a draw but the last."""
        if self._leap is not None:
            state, log_det = self._leap_from(state, self._log_det, step_size)
            self._keep(state, log_det)
            return state
        for _ in range(self.transitions - 1):
            proposed, log_det, log_acceptance = self._propose(state, step_size)
            if math.log1p(-self.rng.random()) < log_acceptance:
                state = proposed
                self._keep(proposed, log_det)
        return state

    def _leap_from(self, state: State, log_det: float, step_size: float) -> tuple[State, float]:
        """The state, and its log |G|, after all transitions of a draw but the last."""
        x, logp, force, factor = state
        noises = self.rng.standard_normal((self.transitions - 1, self._dimension), self._dtype)
        log_uniforms = np.log1p(-self.rng.random(self.transitions - 1, self._dtype))
        log_det, x, logp, force, *new_factor = self._leap(
            noises,
            log_uniforms,
            *self._scales(step_size),
            np.asarray(log_det, dtype=self._dtype),
            x,
            logp,
            force,
            *factor,
        )
        return State(x, logp, force, tuple(new_factor) or factor), float(log_det)

    def _call(
        self, state: State, noise: np.ndarray, scales: tuple[np.ndarray, ...]
    ) -> tuple[State, float, float]:
        """One compiled transition: the proposal, its log |G| and the log acceptance ratio."""
        x, logp, force, factor = state
        log_acceptance, log_det, x, logp, force, *new_factor = self._transition(
            noise, *scales, x, logp, force, *factor
        )
        proposed = State(x, logp, force, tuple(new_factor) or factor)
        return proposed, float(log_det), float(log_acceptance)

    def _state_at(self, x: np.ndarray) -> State:
        """The geometry at a point; the one kept from the last step, if nothing has changed."""
        # PyMC overwrites points in place: values are compared, not arrays.
        x = x.astype(self._dtype, copy=False)
        surroundings = [s.get_value(borrow=True).tobytes() for s in self.shared.values()]
        data = [d.container.storage[0] for d in self._data]
        if (
            self._state is not None
            and x.tobytes() == self._state.x.tobytes()
            and surroundings == self._surroundings
            and all(map(is_, data, self._data_used))
        ):
            return self._state
        state, log_det = self._evaluate(x)
        self._check(state)
        self._keep(state, log_det)
        self._surroundings, self._data_used = surroundings, data
        return state

    def _evaluate(self, x: np.ndarray) -> tuple[State, float]:
        """The geometry at a point and its log |G|: a transition that does not move."""
        zero = np.zeros_like(x)
        factor = self.factor
        if factor is None:
            factor = tuple(part.astype(self._dtype) for part in self._factorization.identity())
        nowhere = State(x.copy(), np.zeros((), dtype=self._dtype), zero, factor)
        state, log_det, _ = self._call(nowhere, zero, (nowhere.logp, nowhere.logp))
        return state, log_det

    def _keep(self, state: State, log_det: float) -> None:
        self._state, self._log_det = state, log_det

    def _check(self, state: State) -> None:
        found = None
        if not np.isfinite(state.logp):
            found = f"the log-density is {state.logp}"
        elif not all(np.all(np.isfinite(part)) for part in state.factor):
            found = "the metric is not finite or not positive definite"
        elif not np.all(np.isfinite(state.force)):
            found = "the gradient of the log-density, or the drift, is not finite"
        if found:
            raise SamplingError(
                f"{type(self).__name__} cannot start from the current point: {found} there. "
                "Look for missing values in the data, inspect the model there with "
                "`model.debug()`, and start elsewhere with `pm.sample(initvals=...)`."
            )

    def _find_first_step(self, state: State) -> None:
        """Halve the step from a sensible size until a proposal from here could be accepted."""
        self.started = True
        if self.step_size is not None:
            return
        largest = INTEGRATORS[self.integrator].largest_step
        step_size = min(1.0, largest)
        for _ in range(30):
            _, _, log_acceptance = self._propose(state, step_size)
            if log_acceptance > math.log(0.25):
                break
            step_size /= 2.0
        self.step_size_adaptation.restart(step_size)

    def _current_step_size(self) -> float:
        adaptation = self.step_size_adaptation
        return adaptation.current if self.tune else adaptation.averaged

    def _scales(self, step_size: float) -> tuple[np.ndarray, ...]:
        """The integrator's scales as the compiled function takes them."""
        if step_size != self._scaled_step:
            scales = INTEGRATORS[self.integrator].scales(step_size)
            self._scaled_step = step_size
            self._last_scales = tuple(np.asarray(scale, dtype=self._dtype) for scale in scales)
        return self._last_scales

    # ---- PyMC's contract -------------------------------------------------------------

    def reset_tuning(self) -> None:
        """Forget what earlier chains have learned."""
        self.tune = True
        self.started = False
        self.divergences = 0
        self.transitions = self.thin or 1
        self.mixing = Mixing(self._dimension)
        self.step_size_adaptation.restart(self.step_size or 1.0)
        self.diagnosis.restart()
        self._forget_point()

    def stop_tuning(self) -> None:
        """Freeze what tuning has learned."""
        super().stop_tuning()
        if self.thin is None:
            self.transitions = self.mixing.transitions
        # Of transitions so far, of draws from here on.
        self.mixing = Mixing(self._dimension)

    def _forget_point(self) -> None:
        self._state, self._log_det = None, math.nan
        self._surroundings, self._data_used = [], []
        self._scaled_step, self._last_scales = math.nan, ()

    def __reduce__(self):
        """Pickle what sampling needs; not the model, which plain pickle cannot take."""
        state = {k: v for k, v in vars(self).items() if not k.endswith("__newargs")}
        return object.__new__, (type(self),), state

    @property
    def sampling_state(self) -> LangevinState:
        """All that the next draw depends on, but the point: enough to go on elsewhere."""
        return super().sampling_state

    @sampling_state.setter
    def sampling_state(self, state: LangevinState) -> None:
        WithSamplingState.sampling_state.fset(self, state)
        # The loop has been compiled for as many as this step was asked for.
        self.transitions = self.thin or self.transitions
        self._forget_point()

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
                "{task.fields[acceptance_rate]:0.2f}", table_column=Column("Accept", ratio=1)
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
