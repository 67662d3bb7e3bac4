"""A chain from its start through arrival and tuning to its draws."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_

import numpy as np
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state
from pytensor.compile.sharedvalue import SharedVariable

from pymc_pmala.kernel.integrators import Integrator, Scales
from pymc_pmala.kernel.kernel import Info, Kernel, State
from pymc_pmala.metric import is_floored
from pymc_pmala.step.adaptation import Mixing, MixingState, StepSizeAdaptation, StepSizeState
from pymc_pmala.step.arrival import LOOKS, MOST_MOVES, Arrival, start_nearby
from pymc_pmala.step.diagnosis import Diagnosis, DiagnosisState
from pymc_pmala.step.preconditioning import Preconditioning, PreconditioningState

__all__ = ["Chain", "ChainState", "Draw", "Fault", "Options"]

_log = logging.getLogger("pymc")


@dataclass(frozen=True)
class Options:
    """The user's options for a chain; see `PMALA`."""

    integrator: Integrator
    step_size: float | None
    target_accept: float
    adapt_step_size: bool
    step_size_jitter: float
    thin: int | None


@dataclass(frozen=True)
class Draw:
    """A draw and an account of its transitions.

    Attributes
    ----------
    state : State
    info : Info
        What its transitions did.
    step_size : float
    floored : float
        Whether some direction is informed only by the metric's floor; NaN if this is not checked.
    replaced : bool
        Whether the metric is not finite or not positive definite here and has been replaced.
    warning : SamplerWarning or None
    """

    state: State
    info: Info
    step_size: float
    floored: float
    replaced: bool
    warning: SamplerWarning | None


class Fault(Exception):
    """Raised if a chain cannot start from a point, with the reason."""


@dataclass_state
class ChainState(DataClassState):
    """Everything that the next draw of a chain depends on, except the point itself."""

    started: bool
    divergences: int
    transitions: int
    arrival_moves: int
    step_size_adaptation: StepSizeState
    mixing: MixingState
    diagnosis: DiagnosisState
    preconditioning: PreconditioningState


class Chain(WithSamplingState):
    """One chain: what it has learned so far, and how it makes its next draw.

    Parameters
    ----------
    kernel : Kernel
    preconditioning : Preconditioning
    arrival : Arrival
    options : Options
    shared : sequence of SharedVariable
        The variables that are sampled by other step methods.
    sizes : mapping of str to int
        Number of coordinates of each variable, in order.
    """

    _state_class = ChainState

    # The state at the current point, and what it depends on apart from the point.
    _state: State | None
    _fault: str | None
    _surroundings: list[bytes]
    _data_used: list[object]
    # The last step size and its scales.
    _scaled_step: float
    _last_scales: Scales

    def __init__(
        self,
        kernel: Kernel,
        preconditioning: Preconditioning,
        arrival: Arrival,
        options: Options,
        shared: Sequence[SharedVariable],
        sizes: Mapping[str, int],
    ):
        self.kernel, self.preconditioning, self.arrival = kernel, preconditioning, arrival
        self.options, self.shared, self.sizes = options, shared, sizes
        largest = options.integrator.largest_step
        self.step_size_adaptation = StepSizeAdaptation(
            options.target_accept, max(largest, options.step_size or largest)
        )
        self.diagnosis = Diagnosis(options.target_accept if options.adapt_step_size else None)
        self.restart()

    def restart(self) -> None:
        """Discard what earlier chains have learned."""
        self.started = False
        self.divergences = 0
        self.transitions = self.options.thin or 1
        self.arrival_moves: int = 0
        self.mixing = Mixing(self.kernel.dimension)
        self.step_size_adaptation.restart(self.options.step_size or 1.0)
        self.diagnosis.restart()
        self.preconditioning.restart()
        self.forget_point()

    def forget_point(self) -> None:
        """Discard the stored geometry, so that the next draw computes it again."""
        self._state, self._fault = None, None
        self._surroundings, self._data_used = [], []
        self._scaled_step = math.nan

    def freeze(self) -> None:
        """Freeze what has been learned during tuning."""
        self.diagnosis.tuned = self.mixing.count
        if self.options.thin is None:
            self.transitions = self.mixing.transitions
        # During tuning it describes transitions, from here on draws.
        self.mixing = Mixing(self.kernel.dimension)

    # ---- A draw ----------------------------------------------------------------------

    def draw(self, x: np.ndarray, rng: np.random.Generator, tuning: bool) -> Draw:
        """Make the transitions of one draw.

        Parameters
        ----------
        x : ndarray
            The current point.
        rng : numpy.random.Generator
        tuning : bool

        Raises
        ------
        Fault
            If the chain cannot start from this point.
        """
        state = self.state_at(x)
        if not self.started:
            state = self._start(state, rng, tuning)
        if tuning and self.options.adapt_step_size and self.mixing.count in LOOKS:
            state = self._arrive(state, rng)
        if not self.started:
            self._find_first_step(state, rng)
        start = state.x
        step_size = self.step_size(tuning)
        if self.options.step_size_jitter:
            jitter = self.options.step_size_jitter
            # The size does not depend on the point, so the posterior stays invariant.
            step_size *= rng.uniform(1.0 - jitter, 1.0 + jitter)
        warning, floored = None, math.nan
        if self._fault:
            # Another step method has moved the chain to a point from which no proposal can be
            # made, so it stays there.
            info = Info()
            info.add(math.nan, 0.0, state.x, state.x, math.nan)
        else:
            count = 1 if tuning else self.transitions
            state, info = self.kernel.run(state, *self._noise(count, rng), self.scales(step_size))
            if tuning:
                self.mixing.update(start, state.x)
                state = self._learn(state, info)
        if not tuning:
            self.divergences += info.diverging
            warning, floored = self._diagnose(x, state, step_size, info)
        self._state = state
        return Draw(state, info, step_size, floored, self._is_replaced(state), warning)

    def _noise(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw the normal numbers and the logarithms of uniform numbers for some transitions."""
        kernel = self.kernel
        noises = rng.standard_normal((count, kernel.dimension), kernel.dtype)
        return noises, np.log1p(-rng.random(count))

    def _learn(self, state: State, info: Info) -> State:
        if self.options.adapt_step_size:
            self.step_size_adaptation.update(info.acceptance)
        return self.preconditioning.learn(state)

    def step_size(self, tuning: bool) -> float:
        """Return the current step size during tuning, and the frozen one after it."""
        adaptation = self.step_size_adaptation
        return adaptation.current if tuning else adaptation.averaged

    def scales(self, step_size: float) -> Scales:
        """Return the scales of the integrator as arrays, for the compiled function."""
        if step_size != self._scaled_step:
            scales = self.options.integrator.scales(step_size)
            self._scaled_step = step_size
            self._last_scales = self.kernel.as_arrays(scales)
        return self._last_scales

    def state_at(self, x: np.ndarray) -> State:
        """Return the state at a point, or that of the last draw if nothing has changed."""
        # PyMC overwrites points in place, so values have to be compared.
        x = x.astype(self.kernel.dtype, copy=False)
        surroundings = [s.get_value(borrow=True).tobytes() for s in self.shared]
        data = [d.container.storage[0] for d in self.kernel.data]
        if (
            self._state is None
            or x.tobytes() != self._state.x.tobytes()
            or surroundings != self._surroundings
            or not all(map(is_, data, self._data_used))
        ):
            self._state = self.kernel.init(x, self.preconditioning.factor)
            self._fault = self._state.fault
            self._surroundings, self._data_used = surroundings, data
        return self._state

    # ---- Start and arrival -----------------------------------------------------------

    def _start(self, state: State, rng: np.random.Generator, tuning: bool) -> State:
        """Return a state from which the chain can start, with the metric to use there."""
        if self._fault and tuning:
            state = start_nearby(self.kernel, state, self.preconditioning, rng)
            if state.fault is None:
                _log.info("Since %s at the initial point, the chain starts nearby.", self._fault)
            self._fault = state.fault
        if self._fault:
            raise Fault(self._fault)
        return self.preconditioning.learn(state)

    def _arrive(self, state: State, rng: np.random.Generator) -> State:
        """Move to the typical set from a state that may be far from it."""
        while self.arrival_moves < MOST_MOVES:
            found = self.arrival.move(state, rng)
            if found is None:
                break
            self.arrival_moves += 1
            self.preconditioning.forget()
            state = self.preconditioning.learn(found)
            self.started, self.mixing = False, Mixing(self.kernel.dimension)
        return state

    def _find_first_step(self, state: State, rng: np.random.Generator) -> None:
        """Halve the step size until a proposal from this state has a fair chance of acceptance."""
        self.started = True
        if self.options.step_size is not None:
            return
        kernel = self.kernel
        step_size = min(1.0, self.options.integrator.largest_step)
        for _ in range(30):
            noise = rng.standard_normal(kernel.dimension, kernel.dtype)
            _, log_acceptance = kernel.propose(state, noise, self.scales(step_size))
            if log_acceptance > math.log(0.25):
                break
            step_size /= 2.0
        self.step_size_adaptation.restart(step_size)

    # ---- Diagnosis -------------------------------------------------------------------

    def _is_replaced(self, state: State) -> bool:
        """Whether the metric at a state has no factor and has been replaced."""
        return self.kernel.varies and not math.isfinite(state.log_det)

    def _diagnose(
        self, x: np.ndarray, state: State, step_size: float, info: Info
    ) -> tuple[SamplerWarning | None, float]:
        """Return a warning about the draw or None, and whether only the floor informs a direction.

        The latter is NaN if it is not checked at this draw.
        """
        diagnosis, floored = self.diagnosis, math.nan
        could_grow = step_size < 0.25 * self.options.integrator.largest_step
        warning = diagnosis.observe(info, could_grow)
        warning = warning or diagnosis.observe_replacement(self._is_replaced(state))
        if diagnosis.wants_jump:
            self.mixing.update(x, state.x)
        if warning is None and diagnosis.wants_mixing:
            correlations = self.mixing.correlations
            warning = diagnosis.judge_mixing(correlations, self.sizes, self.transitions)
        if diagnosis.wants_metric:
            factorization = self.kernel.factorization
            pivots, diagonal = factorization.diagonals(state.factor)
            if self.preconditioning.has_floor:
                floored = float(is_floored(pivots, diagonal))
                warning = warning or diagnosis.observe_floor(bool(floored))
            if self.kernel.varies:
                force = state.force[factorization.order]
                warning = warning or diagnosis.observe_metric(diagonal, force, self.sizes)
        return warning, floored
