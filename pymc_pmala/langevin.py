"""The Metropolis-adjusted Langevin chain that all step methods share, inside PyMC's contract."""

import inspect
import logging
import math
from collections.abc import Sequence
from dataclasses import field
from operator import is_
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection, PointType, RaveledVars, StatsType
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
    check_keywords,
    check_metric,
    check_options,
    check_shape,
    constant_factor,
    without_gradient,
)
from pymc_pmala.compilation import compile_graph, no_stack_traces
from pymc_pmala.diagnosis import Diagnosis, DiagnosisState, Tally, divergence
from pymc_pmala.factorization import Factorization
from pymc_pmala.geometry import complete_point, continuous_value_vars, symbolic_geometry
from pymc_pmala.information import RaveledModel, ravel_model
from pymc_pmala.interruption import Run, is_interrupt
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

# Moves of a chain towards the typical set at most, points tried for each, and the squared length
# of the drift per dimension from which a point is far from it.
_ARRIVAL, _BACKTRACKING, _HOME = 100, 12, 4
# How far a transformed variable may move at once on the way.
_REACH = 2.0
# Transitions after which a chain in tuning is asked whether it is there; a plateau may look so.
_LOOKS = (0, 20, 50, 100)
# Points tried where the start has no gradient, as many as PyMC tries.
_STARTS = 10


_log = logging.getLogger("pymc")


def _fixed() -> Any:
    """A field of the state that says whose it is, and that no step takes over from another."""
    return field(metadata={"frozen": True})


@dataclass_state
class LangevinState(StepMethodState):
    """Everything about a chain that its next draw depends on, but the point itself."""

    name: str = _fixed()
    metric_kind: str = _fixed()
    integrator: str = _fixed()
    target_accept: float = _fixed()
    dimension: int = _fixed()
    tune: bool
    started: bool
    divergences: int
    transitions: int
    arrival_moves: int
    step_size_adaptation: StepSizeState
    mixing: MixingState
    diagnosis: DiagnosisState


class _Number:
    """The type of a statistic that is stored as float64, and that PyMC's steps call otherwise.

    PyMC refuses a compound step whose methods differ in the type of a statistic, and its own
    differ in ``accepted``: float64 in Metropolis, bool in HamiltonianMC and DEMetropolis. To
    stand beside any of them this compares equal to both, and so has no hash.
    """

    dtype = np.dtype(np.float64)
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) or other is bool or other is np.float64


class Langevin(ArrayStepShared):
    """What the Metropolis-adjusted Langevin step methods share; see `PMALA`."""

    name: ClassVar[str]
    default_blocked = True
    default_tune_steps = 300
    drift: ClassVar[str]

    # The current point's geometry, and what it was computed from besides the point.
    _state: State | None
    _log_det: float
    _fault: str | None
    _surroundings: list[bytes]
    _data_used: list[Any]
    # The last step size and its scales.
    _scaled_step: float
    _last_scales: tuple[np.ndarray, ...]

    _state_class = LangevinState

    stats_dtypes_shapes: ClassVar[dict[str, tuple[Any, list[int] | None]]] = {
        # NUTS's name and type, which PyMC makes `acceptance_rate` of: under that name at once, it
        # would be lost beside NUTS.
        "mean_tree_accept": (np.dtype(np.float64), []),
        "accepted": (_Number(), []),
        "diverging": (bool, []),
        # NUTS has `int` here and HamiltonianMC `np.int64`; this equals both.
        "divergences": (np.dtype(np.int64), []),
        "n_transitions": (np.int64, []),
        "step_size": (np.float64, []),
        "step_size_bar": (np.float64, []),
        "log_det_metric": (np.float64, []),
        "metric_floored": (np.float64, []),
        "metric_replaced": (bool, []),
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
        check_keywords(cls, kwargs)
        if vars is None:
            return super().__new__(cls, *args, **kwargs)
        if isinstance(vars, Sequence) and not vars:
            raise ValueError(
                "There is nothing to sample: vars is empty. List the random variables to "
                "sample, or leave vars out to sample all."
            )
        return super().__new__(cls, vars, *args, **kwargs)

    @no_stack_traces()
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
        check_metric(metric)
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
        self._run = Run()
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
        transforms = [model.rvs_to_transforms[model.values_to_rvs[v]] for v in self.vars]
        self._transformed = np.repeat(
            [transform is not None for transform in transforms],
            [point[v.name].size for v in self.vars],
        )
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
            self._leap_from(state, log_det, 1.0, Tally())

    def __repr__(self) -> str:
        """Say what a chain's proposals depend on."""
        # Before a chain has begun, tuning has said nothing about the step.
        step_size = f"{self._current_step_size():.3g}" if self.started else self.step_size
        return (
            f"{type(self).__name__}(metric={self.metric_kind}, integrator={self.integrator!r}, "
            f"step_size={step_size}, dimension={self._dimension})"
        )

    @property
    def metric_kind(self) -> str:
        """The metric in a word or two."""
        if callable(self.metric):
            return getattr(self.metric, "__name__", type(self.metric).__name__)
        if isinstance(self.metric, str):
            return repr(self.metric)
        return f"array of shape {np.shape(self.metric)}"

    @property
    def target_accept(self) -> float:
        """Acceptance rate that the step size is tuned for."""
        return self.step_size_adaptation.target

    @property
    def dimension(self) -> int:
        """Number of coordinates that are sampled."""
        return self._dimension

    # ---- The chain -------------------------------------------------------------------

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make one draw; Ctrl-C ends this chain and those after it, whatever became of it."""
        try:
            if self._run.is_over:
                raise KeyboardInterrupt
            result = super().step(point)
        except BaseException as error:
            if not is_interrupt(error):
                raise
            self._run.interrupt()
            raise KeyboardInterrupt from error
        self._run.drawn += 1
        return result

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, StatsType]:
        """Make the transitions of one draw; return the point kept and what happened."""
        state = self._state_at(q0.data)
        if not self.started:
            if self._fault and self.tune:
                state = self._start_nearby(state)
            self._refuse_fault()
        if self.tune and self.adapt_step_size and self.mixing.count in _LOOKS:
            state = self._arrive(state)
        if not self.started:
            self._find_first_step(state)
        start = state.x
        step_size = self._current_step_size()
        if self.step_size_jitter:
            # Whatever the point is: each size leaves the posterior as it is, and so do all.
            step_size *= self.rng.uniform(1.0 - self.step_size_jitter, 1.0 + self.step_size_jitter)
        tally = Tally()
        warning, floored = None, math.nan
        if self._fault:
            # Another step has moved the chain to where no proposal can be made: it stays.
            tally.add(math.nan, 0.0, state.x, state.x, math.nan)
        else:
            state = self._transitions(state, step_size, tally)
        if self.tune and not self._fault:
            self.mixing.update(start, state.x)
            self._learn(tally.acceptance)
        elif not self.tune:
            self.divergences += tally.diverging
            warning, floored = self._diagnose(q0, state, step_size, tally)
        if warning is None and tally.divergence is not None:
            warning = self._divergence(tally.divergence, q0)
        stats = {
            "mean_tree_accept": tally.acceptance / tally.transitions,
            "accepted": tally.accepted / tally.transitions,
            "diverging": tally.diverging > 0,
            "divergences": self.divergences,
            "n_transitions": tally.transitions,
            "step_size": step_size,
            "step_size_bar": self.step_size_adaptation.averaged,
            "log_det_metric": self._log_det,
            "metric_floored": floored,
            "metric_replaced": self._is_replaced,
            "model_logp": float(state.logp),
            "warning": warning,
        }
        # A copy: what becomes of the draw must not reach the point that the geometry is of.
        return RaveledVars(state.x.copy(), q0.point_map_info), [stats]

    def _transitions(self, state: State, step_size: float, tally: Tally) -> State:
        """The state after all transitions of a draw."""
        count = 1 if self.tune else self.transitions
        if count > 1 and self._leap is not None:
            state, log_det = self._leap_from(state, self._log_det, step_size, tally)
            self._keep(state, log_det)
            count = 1
        for _ in range(count):
            proposed, log_det, log_acceptance = self._propose(state, step_size)
            log_uniform = math.log1p(-self.rng.random())
            if tally.add(log_acceptance, log_uniform, state.x, proposed.x, float(proposed.logp)):
                state = proposed
                self._keep(proposed, log_det)
        return state

    def _diagnose(
        self, q0: RaveledVars, state: State, step_size: float, tally: Tally
    ) -> tuple[SamplerWarning | None, float]:
        """A warning about the draw, if there is reason, and whether the metric's floor is at work.

        The latter is NaN where it is not looked at.
        """
        diagnosis, floored = self.diagnosis, math.nan
        could_grow = step_size < 0.25 * INTEGRATORS[self.integrator].largest_step
        warning = diagnosis.observe(tally, could_grow)
        warning = warning or diagnosis.observe_replacement(self._is_replaced)
        if diagnosis.wants_jump:
            self.mixing.update(q0.data, state.x)
        if diagnosis.wants_metric or (warning is None and diagnosis.wants_mixing):
            sizes = {info[0]: math.prod(info[1]) for info in q0.point_map_info}
        if warning is None and diagnosis.wants_mixing:
            warning = diagnosis.judge_mixing(self.mixing.correlations, sizes, self.transitions)
        if diagnosis.wants_metric:
            pivots, diagonal = self._factorization.diagonals(state.factor)
            if self._has_floor:
                floored = float(is_floored(pivots, diagonal))
                warning = warning or diagnosis.observe_floor(bool(floored))
            if self.factor is None:
                force = state.force[self._factorization.order]
                warning = warning or diagnosis.observe_metric(diagonal, force, sizes)
        return warning, floored

    def _divergence(self, places: tuple[np.ndarray, np.ndarray], q0: RaveledVars) -> SamplerWarning:
        # As in PyMC: not so many points as to fill the memory.
        if self.tune or self.divergences > 100:
            return divergence(self.tune, None, None)
        source, destination = (
            DictToArrayBijection.rmap(RaveledVars(x.copy(), q0.point_map_info)) for x in places
        )
        return divergence(self.tune, source, destination)

    def _learn(self, acceptance: float) -> None:
        if self.adapt_step_size:
            self.step_size_adaptation.update(acceptance)

    def _propose(self, state: State, step_size: float) -> tuple[State, float, float]:
        noise = self.rng.standard_normal(self._dimension, self._dtype)
        return self._call(state, noise, self._scales(step_size))

    def _leap_from(
        self, state: State, log_det: float, step_size: float, tally: Tally
    ) -> tuple[State, float]:
        """The state, and its log |G|, after all transitions of a draw but the last."""
        noises = self.rng.standard_normal((self.transitions - 1, self._dimension), self._dtype)
        log_uniforms = np.log1p(-self.rng.random(self.transitions - 1, self._dtype))
        x, logp, force, factor = state
        current = (np.asarray(log_det, dtype=self._dtype), x, logp, force, *factor)
        outputs = self._leap(noises, log_uniforms, *self._scales(step_size), *current)
        *last, starts, ratios, proposals, logps = outputs
        for happened in zip(
            ratios.tolist(), log_uniforms.tolist(), starts, proposals, logps.tolist(), strict=True
        ):
            tally.add(*happened)
        log_det, x, logp, force, *new_factor = last
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
        self._fault = _find_fault(state)
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

    @property
    def _is_replaced(self) -> bool:
        """Whether another metric stands for the one at the current point, which has no factor."""
        return self.factor is None and not math.isfinite(self._log_det)

    def _keep(self, state: State, log_det: float) -> None:
        self._state, self._log_det = state, log_det

    def _start_nearby(self, state: State) -> State:
        """Another start where the given one has no gradient: PyMC's own jitter, for ten tries.

        NUTS starts from such points, a shape parameter of exactly zero for example.
        """
        start, fault = state.x, self._fault
        for _ in range(_STARTS):
            state = self._state_at(start + self.rng.uniform(-1.0, 1.0, len(start)))
            if self._fault is None:
                _log.info("%s at the start: the chain starts nearby.", fault)
                break
        return state

    def _arrive(self, state: State) -> State:
        r"""A state near the typical set, from one that may be far from it.

        Fisher scoring with the diffusion's noise and a search along the line. At home the squared
        length :math:`f^T A f` of the drift in the metric is some d, the dimension. The noise
        keeps a hierarchy from running into its neck. This is no Markov chain: it belongs to tuning,
        and what has been learned on the way is forgotten.
        """
        while self.arrival_moves < _ARRIVAL:
            found = self._uphill(state)
            if found is None:
                break
            self._keep(*found)
            state = self._renewed(found[0])
            self.arrival_moves += 1
            self.started, self.mixing = False, Mixing(self._dimension)
        return state

    def _uphill(self, state: State) -> tuple[State, float] | None:
        """The next state on the way home, and its log |G|; None if there is none to be found.

        The largest useful step if it does not fall far. Else the better of two searches: along it,
        and along the force divided by the diagonal of G, since information that is next to
        nothing in one direction, as it may be where the model does not fit at all, sends the
        whole step astray. No logarithm or logit changes by more than a few units at once.
        """
        integrator = INTEGRATORS["exponential"]
        scales = integrator.scales(integrator.largest_step)
        noise = self.rng.standard_normal(self._dimension, self._dtype)
        arrays = tuple(np.asarray(scale, dtype=self._dtype) for scale in scales)
        proposed, log_det, _ = self._call(state, noise, arrays)
        way = np.nan_to_num(proposed.x - state.x)
        if state.force @ way < scales.drift * _HOME * (self._dimension + _HOME):
            return None
        reach = np.where(self._transformed, _REACH, np.inf)
        scale = min(1.0, np.min(reach / np.maximum(np.abs(way), _REACH)))
        if scale == 1.0 and self._is_level(state, proposed):
            return proposed, log_det
        _, diagonal = self._factorization.diagonals(state.factor)
        aside = state.force / diagonal[np.argsort(self._factorization.order)]
        searches = (self._search(state, w) for w in (scale * way, aside.clip(-reach, reach)))
        found = [search for search in searches if search is not None]
        return max(found, key=lambda search: search[0].logp, default=None)

    def _search(self, state: State, way: np.ndarray) -> tuple[State, float] | None:
        """The first of ever nearer points on a way that is level, or a better one after it."""
        best: tuple[State, float] | None = None
        for i in range(_BACKTRACKING):
            found = self._evaluate(state.x + 0.25**i * way)
            if best is not None and not found[0].logp > best[0].logp:
                break
            if self._is_level(state, found[0]):
                best = found
        return best

    def _is_level(self, state: State, other: State) -> bool:
        """Whether another state is as good as this one, but for the diffusion's noise."""
        return bool(other.logp > state.logp - self._dimension) and not _find_fault(other)

    def _renewed(self, state: State) -> State:
        """A state that was just arrived at, with the metric that belongs to it."""
        return state

    def _refuse_fault(self) -> None:
        """An error where a chain cannot start."""
        if self._fault is None:
            return
        message = (
            f"{type(self).__name__} cannot start from the current point: {self._fault} there. "
            "Look for missing values in the data, inspect the model there with "
            "`model.debug()`, and start elsewhere with `pm.sample(initvals=...)`."
        )
        if self._run.has_draws:
            # An error would lose the chains before this one.
            _log.error("%s The chains drawn so far are returned.", message)
            raise KeyboardInterrupt
        raise SamplingError(message)

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
        self.arrival_moves: int = 0
        self.mixing = Mixing(self._dimension)
        self.step_size_adaptation.restart(self.step_size or 1.0)
        self.diagnosis.restart()
        self._forget_point()

    def stop_tuning(self) -> None:
        """Freeze what tuning has learned."""
        super().stop_tuning()
        self.diagnosis.tuned = self.mixing.count
        if self.thin is None:
            self.transitions = self.mixing.transitions
        # Of transitions so far, of draws from here on.
        self.mixing = Mixing(self._dimension)

    def _forget_point(self) -> None:
        self._state, self._log_det, self._fault = None, math.nan, None
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
        self._check_owner(state)
        WithSamplingState.sampling_state.fset(self, state)
        # The loop has been compiled for as many as this step was asked for.
        self.transitions = self.thin or self.transitions
        self._forget_point()
        self._run.restore(state)

    def _check_owner(self, state: Any) -> None:
        """Refuse a state that another sampler has learned."""
        if not isinstance(state, LangevinState):
            raise TypeError(
                f"{type(self).__name__} takes the sampling state of a Langevin step, not "
                f"{type(state).__name__}."
            )
        different = [
            f"{name} {getattr(state, name)}, not {getattr(self, name)}"
            for name in ("name", "metric_kind", "integrator", "target_accept", "dimension")
            if getattr(state, name) != getattr(self, name)
        ]
        if different:
            raise ValueError(
                f"The sampling state is another sampler's: it has {'; '.join(different)}. Make "
                "the step with the arguments that were used when the state was saved."
            )

    def end_chain(self) -> None:
        """Tell that a callback ends this chain, and not the run, by its KeyboardInterrupt."""
        self._run.complete()

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Start a chain (PyMC 6.3 and later)."""
        self._start_chain(rng, tune + draws)

    def set_rng(self, rng: RandomGenerator) -> None:
        """Start a chain (PyMC before 6.3, which does not say how long it is)."""
        self._start_chain(rng, 0)

    def _start_chain(self, rng: RandomGenerator, length: int) -> None:
        self.rng = get_random_generator(rng, copy=False)
        self.reset_tuning()
        self._run.begin(length)

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
            return {
                "divergences": stats["divergences"],
                "step_size": stats["step_size"],
                "acceptance_rate": stats["mean_tree_accept"],
                "failing": stats["divergences"] > 0,
            }

        return (update,)


def _find_fault(state: State) -> str | None:
    """What keeps a chain from making a proposal from a state."""
    if not np.isfinite(state.logp):
        return f"the log-density is {state.logp}"
    if not all(np.all(np.isfinite(part)) for part in state.factor):
        return "the metric is not finite or not positive definite"
    if not np.all(np.isfinite(state.force)):
        return "the gradient of the log-density, or the drift, is not finite"
    return None
