"""The base class of the Langevin step methods, which implements PyMC's interface."""

import inspect
import logging
import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection, PointType, RaveledVars, StatsType
from pymc.exceptions import SamplingError
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import WithSamplingState, dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable

from pymc_pmala.announcement import announced_if_slow
from pymc_pmala.arguments import check_metric
from pymc_pmala.interweaving import find_interweaving
from pymc_pmala.kernel.integrators import INTEGRATORS
from pymc_pmala.kernel.kernel import Kernel
from pymc_pmala.metric import MetricChoice
from pymc_pmala.model.target import make_target
from pymc_pmala.stack_traces import no_stack_traces
from pymc_pmala.step.adaptation import target_acceptance
from pymc_pmala.step.ahead import Block
from pymc_pmala.step.arguments import check_arguments, check_options, check_state
from pymc_pmala.step.build import build_chain
from pymc_pmala.step.chain import ChainState, Draw, Fault, Options
from pymc_pmala.step.diagnosis import divergence
from pymc_pmala.step.interruption import Run, is_interrupt
from pymc_pmala.step.statistics import STATISTICS, progress_columns, progress_update

__all__ = ["Langevin", "LangevinState"]

_log = logging.getLogger("pymc")
# Stands for the default metric of each class, which its signature shows.
_OF_CLASS: Any = object()


def _fixed() -> Any:
    """Return a state field that identifies the sampler and must match when it is restored."""
    return field(metadata={"frozen": True})


@dataclass_state
class LangevinState(StepMethodState):
    """Everything that the next draw of a chain depends on, except the point itself."""

    name: str = _fixed()
    metric_kind: str = _fixed()
    integrator: str = _fixed()
    target_accept: float = _fixed()
    dimension: int = _fixed()
    hyper_dimension: int = _fixed()
    tune: bool
    chain: ChainState


def _bytes(point: PointType) -> bytes:
    """The values of a point, to be compared: PyMC overwrites points in place."""
    return b"".join([value.tobytes() for value in point.values()])


class Ready(NamedTuple):
    """A draw that has been made ahead.

    Attributes
    ----------
    point : dict
    statistics : dict
    values : bytes
        The values of the point, as `_bytes` gives them.
    """

    point: PointType
    statistics: dict[str, Any]
    values: bytes


def _points(xs: np.ndarray, layout: tuple) -> list[PointType]:
    """Return the rows of a matrix as points of the model."""
    columns, start = {}, 0
    for name, shape, size, dtype in layout:
        part = xs[:, start : start + size].astype(dtype)
        columns[name] = part.reshape((len(xs), *shape))
        start += size
    # With the ellipsis, scalars stay arrays.
    return [{name: column[i, ...] for name, column in columns.items()} for i in range(len(xs))]


class Langevin(ArrayStepShared):
    """Base class of the Metropolis-adjusted Langevin step methods; see `PMALA`.

    Attributes
    ----------
    kernel : Kernel
        The compiled transitions.
    chain : Chain
        The current chain, with everything that it has learned.
    """

    name: ClassVar[str]
    default_blocked = True
    default_tune_steps = 300
    drift: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]] = ("fisher", "adapt", "softabs", "identity")
    default_metric: ClassVar[str] = "fisher"
    varies: ClassVar[bool] = True
    stats_dtypes_shapes = STATISTICS
    _state_class = LangevinState

    # Draws made ahead with their statistics, the last one first, and the point handed out last.
    _ready: list[Ready]
    _handed_out: bytes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Expose the signature of ``__init__``, which PyMC's ``__new__`` would hide."""
        super().__init_subclass__(**kwargs)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(
            [p.replace(default=cls.default_metric) if p.name == "metric" else p for p in parameters]
        )

    def __new__(cls, vars=None, *args, **kwargs):
        """Create one step for all variables, or one for each of them with ``blocked=False``."""
        check_arguments(cls, vars, kwargs)
        if vars is None:
            return super().__new__(cls, *args, **kwargs)
        return super().__new__(cls, vars, *args, **kwargs)

    @no_stack_traces()
    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        metric: MetricChoice = _OF_CLASS,
        integrator: str = "exponential",
        step_size: float | None = None,
        target_accept: float | None = None,
        adapt_step_size: bool = True,
        step_size_jitter: float = 0.0,
        thin: int | None = None,
        interweave: bool | Sequence[Variable] | None = None,
        model: pm.Model | None = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        rng: RandomGenerator = None,
        blocked: bool = True,
    ):
        metric = self.default_metric if metric is _OF_CLASS else metric
        check_options(integrator, step_size, target_accept, step_size_jitter, thin)
        check_metric(metric, self.metrics)
        target = make_target(pm.modelcontext(model), vars, initial_point)
        super().__init__(target.variables, target.shared, blocked=blocked, rng=rng)
        self.metric = metric
        self.integrator = integrator
        # The chains of the paper record every transition.
        thin = 1 if thin is None and integrator == "euler" else thin
        options = Options(
            integrator=INTEGRATORS[integrator],
            step_size=step_size,
            target_accept=target_accept or target_acceptance(integrator, target.dimension),
            adapt_step_size=adapt_step_size,
            step_size_jitter=step_size_jitter,
            thin=thin,
            interweave=None if interweave is None else bool(interweave),
        )
        with announced_if_slow(f"{type(self).__name__} is deriving its metric and compiling."):
            interweaving = find_interweaving(target, True if interweave is None else interweave)
            self.chain = build_chain(
                target,
                metric,
                self.drift,
                self.varies,
                interweaving,
                options,
                **(compile_kwargs or {}),
            )
        self._run = Run()
        # Draws can be made ahead only where no other step method moves the chain.
        self._may_run_ahead = not target.shared
        self.reset_tuning()

    @property
    def kernel(self) -> Kernel:
        """The compiled transitions."""
        return self.chain.kernel

    def __repr__(self) -> str:
        """Show the metric, integrator, step size and dimension."""
        chain = self.chain
        # Before the chain starts, the only step size is the user's.
        step_size = (
            f"{chain.step_size(self.tune):.3g}" if chain.started else chain.options.step_size
        )
        return (
            f"{type(self).__name__}(metric={self.metric_kind}, integrator={self.integrator!r}, "
            f"step_size={step_size}, dimension={self.dimension})"
        )

    @property
    def metric_kind(self) -> str:
        """A short description of the metric."""
        if callable(self.metric):
            return getattr(self.metric, "__name__", type(self.metric).__name__)
        if isinstance(self.metric, str):
            return repr(self.metric)
        return f"array of shape {np.shape(self.metric)}"

    @property
    def target_accept(self) -> float:
        """Target acceptance rate of the step size adaptation."""
        return self.chain.options.target_accept

    @property
    def dimension(self) -> int:
        """Number of sampled coordinates."""
        return self.kernel.dimension

    @property
    def hyper_dimension(self) -> int:
        """Number of coordinates that interweaving moves."""
        return self.kernel.hyper_dimension

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make one draw. Ctrl-C ends this chain and all later ones, also within compiled code."""
        try:
            if self._run.is_over:
                raise KeyboardInterrupt
            result = self._take(point) or super().step(point)
        except BaseException as error:
            if not is_interrupt(error):
                raise
            self._run.interrupt()
            raise KeyboardInterrupt from error
        self._run.drawn += 1
        return result

    def _take(self, point: PointType) -> tuple[PointType, StatsType] | None:
        """Hand out a draw that has been made ahead, if the chain continues from the last one."""
        if not self._ready or self.tune:
            return None
        if _bytes(point) != self._handed_out or not self.chain.has_same_data():
            return None
        new, stats = self._next_ready()
        return new, [stats]

    def _next_ready(self) -> tuple[PointType, dict[str, Any]]:
        """Take the next of the draws that are ready."""
        new, stats, self._handed_out = self._ready.pop()
        assert self.chain.block is not None
        self.chain.block.taken += 1
        if not self._ready:
            warning, stats["metric_floored"] = self.chain.complete()
            stats["warning"] = warning or stats["warning"]
        return new, stats

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, StatsType]:
        """Make the transitions of one draw; return the new point and the statistics."""
        self._ready = []
        layout = q0.point_map_info
        drawn: Draw | Block
        try:
            if self.tune:
                drawn = self.chain.tune(q0.data, self.rng)
            else:
                drawn = self.chain.draw(q0.data, self.rng, self._may_run_ahead)
        except Fault as fault:
            self._refuse(fault)
            raise
        if isinstance(drawn, Draw):
            # A copy, so that changes to the draw cannot affect the point stored with the geometry.
            new = RaveledVars(drawn.state.x.copy(), layout)
            return new, [self._tuning_statistics(drawn, layout)]
        self._ready = self._make_ready(drawn, layout)
        new, stats = self._next_ready()
        return DictToArrayBijection.map(new), [stats]

    def _make_ready(self, block: Block, layout: tuple) -> list[Ready]:
        """Return the points and statistics of a block's draws, the last one first."""
        chain, count = self.chain, self.chain.transitions
        hyper_moves = chain.schedule.hyper_moves
        of_block = {
            "n_transitions": count,
            "n_steps": chain.steps,
            "step_size": block.step_size,
            "step_size_bar": chain.step_size_adaptation.averaged,
            "metric_floored": math.nan,
        }
        numbers, divergences = block.numbers, chain.divergences
        points = _points(block.record.x, layout)
        xs = block.record.x
        if all(np.dtype(dtype) == xs.dtype for _, _, _, dtype in layout):
            values = [row.tobytes() for row in xs]
        else:
            values = list(map(_bytes, points))
        varies = chain.kernel.varies
        ready = []
        for i, (logp, log_det, acceptance, accepted, _, diverging, hyper) in enumerate(numbers):
            divergences += int(diverging)
            stats = {
                "mean_tree_accept": acceptance / count,
                "accepted": accepted / count,
                "interweaving_accept": hyper / hyper_moves if hyper_moves else math.nan,
                "diverging": diverging > 0,
                "divergences": divergences,
                "log_det_metric": log_det,
                "metric_replaced": varies and not math.isfinite(log_det),
                "model_logp": logp,
                "warning": None,
                **of_block,
            }
            if diverging:
                ends = block.record.sources[i], block.record.destinations[i]
                stats["warning"] = self._divergence(ends, divergences, layout)
            ready.append(Ready(points[i], stats, values[i]))
        ready[0].statistics["n_steps"] += block.evaluations
        return ready[::-1]

    def _tuning_statistics(self, draw: Draw, layout: tuple) -> dict[str, Any]:
        info, state, chain = draw.info, draw.state, self.chain
        warning = None
        if info.divergence is not None:
            warning = self._divergence(info.divergence, chain.divergences, layout)
        return {
            "mean_tree_accept": info.acceptance,
            "accepted": float(info.accepted),
            "interweaving_accept": info.hyper_acceptance if chain.every else math.nan,
            "diverging": info.diverging > 0,
            "divergences": chain.divergences,
            "log_det_metric": state.log_det,
            "metric_replaced": chain.is_replaced(state.log_det),
            "model_logp": float(state.logp),
            "warning": warning,
            "n_transitions": 1,
            "n_steps": draw.steps,
            "step_size": draw.step_size,
            "step_size_bar": chain.step_size_adaptation.averaged,
            "metric_floored": math.nan,
        }

    def _refuse(self, fault: Fault) -> None:
        """Raise the error of a chain that cannot start."""
        message = (
            f"{type(self).__name__} cannot start from the current point: {fault} there. "
            "Look for missing values in the data, inspect the model with `model.debug()`, or "
            "start elsewhere with `pm.sample(initvals=...)`."
        )
        if self._run.has_draws:
            # Raising an error would lose the earlier chains.
            _log.error("%s The chains drawn so far are returned.", message)
            raise KeyboardInterrupt
        raise SamplingError(message)

    def _divergence(
        self, ends: tuple[np.ndarray, np.ndarray], count: int, layout: tuple
    ) -> SamplerWarning:
        """Return the warning about the given number of divergences so far."""
        # As in PyMC, only the points of the first 100 divergences are kept.
        if self.tune or count > 100:
            return divergence(self.tune, None, None)
        source, destination = _points(np.array(ends), layout)
        return divergence(self.tune, source, destination)

    def reset_tuning(self) -> None:
        """Discard what earlier chains have learned."""
        self.tune = True
        self._ready, self._handed_out = [], b""
        self.chain.restart()

    def stop_tuning(self) -> None:
        """Freeze what has been learned during tuning."""
        super().stop_tuning()
        self.chain.freeze()

    def _settle(self) -> None:
        """Abandon the draws that are ready, so that the state is that after the last draw."""
        self._ready = []
        self.chain.settle(self.rng)

    def __reduce__(self):
        """Pickle what sampling needs, without the model, which plain pickle cannot handle."""
        self._settle()
        state = {k: v for k, v in vars(self).items() if not k.endswith("__newargs")}
        return object.__new__, (type(self),), state

    @property
    def sampling_state(self) -> LangevinState:
        """Everything that the next draw depends on, except the point; used to resume a chain."""
        self._settle()
        return super().sampling_state

    @sampling_state.setter
    def sampling_state(self, state: LangevinState) -> None:
        check_state(self, state)
        WithSamplingState.sampling_state.fset(self, state)
        self._ready = []
        self.chain.forget_point()
        self._run.restore(state)

    def end_chain(self) -> None:
        """Declare that the KeyboardInterrupt of a callback ends only this chain, not the run."""
        self._run.complete()

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Start a chain (PyMC 6.3 and later)."""
        self._start_chain(rng, tune + draws)

    def set_rng(self, rng: RandomGenerator) -> None:
        """Start a chain of unknown length (PyMC before 6.3)."""
        self._start_chain(rng, 0)

    def _start_chain(self, rng: RandomGenerator, length: int) -> None:
        self.rng = get_random_generator(rng, copy=False)
        self.reset_tuning()
        self._run.begin(length)

    @staticmethod
    def competence(var, has_grad):
        """Return COMPATIBLE for continuous variables, so that NUTS remains PyMC's default."""
        if var.dtype in continuous_types and has_grad:
            return Competence.COMPATIBLE
        return Competence.INCOMPATIBLE

    @staticmethod
    def _progressbar_config(n_chains=1):
        return progress_columns(n_chains)

    @staticmethod
    def _make_progressbar_update_functions():
        return (progress_update(),)
