"""A chain from its start through arrival and tuning to its draws."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import NamedTuple

import numpy as np
import scipy
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state
from pytensor.compile.sharedvalue import SharedVariable

from pymc_pmala.kernel.integrators import Integrator, Scales
from pymc_pmala.kernel.kernel import Info, Kernel, Noise, State
from pymc_pmala.metric import is_floored
from pymc_pmala.step.adaptation import (
    Mixing,
    MixingState,
    Schedule,
    StepSizeAdaptation,
    StepSizeState,
)
from pymc_pmala.step.ahead import Block, BlockSize
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
    interweave: bool | None = None

    @property
    def adapts_schedule(self) -> bool:
        """Whether tuning finds the moves that make one draw."""
        return self.thin is None or self.interweave is None


class Draw(NamedTuple):
    """A draw during tuning, with an account of its transition.

    Attributes
    ----------
    state : State
    info : Info
        What the transition did.
    steps : int
        Number of evaluations of the log-density and its geometry.
    step_size : float
    """

    state: State
    info: Info
    steps: int
    step_size: float


class Fault(Exception):
    """Raised if a chain cannot start from a point, with the reason."""


@dataclass_state
class ChainState(DataClassState):
    """Everything that the next draw of a chain depends on, except the point itself."""

    started: bool
    divergences: int
    transitions: int
    every: int
    arrival_moves: int
    step_size_adaptation: StepSizeState
    hyper_step_size: StepSizeState
    mixing: MixingState
    diagnosis: DiagnosisState
    preconditioning: PreconditioningState


def _as_noise(normals: np.ndarray, width: int) -> Noise:
    """Return rows of normal numbers, of which the last column becomes uniform numbers."""
    rows = normals.reshape((-1, width))
    return Noise(rows[:, :-1], scipy.special.log_ndtr(rows[:, -1].astype(float)))


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
    # Draws made ahead, and warnings about draws that have been handed out already.
    block: Block | None
    _warnings: list[SamplerWarning]

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
        largest = max(largest, options.step_size or largest)
        self.step_size_adaptation = StepSizeAdaptation(options.target_accept, largest)
        self.hyper_step_size = StepSizeAdaptation(options.target_accept, largest)
        self.diagnosis = Diagnosis(options.target_accept if options.adapt_step_size else None)
        self.restart()

    def restart(self) -> None:
        """Discard what earlier chains have learned."""
        self.started = False
        self.divergences = 0
        # Also with `thin`: tuning learns from single transitions.
        self.transitions = 1
        self.every = min(1, self.kernel.hyper_dimension)
        self.arrival_moves: int = 0
        self.mixing = Mixing(self.kernel.dimension)
        self.step_size_adaptation.restart(self.options.step_size or 1.0)
        self.hyper_step_size.restart(self.options.step_size or 1.0)
        self.diagnosis.restart()
        self.preconditioning.restart()
        self.forget_point()

    def forget_point(self) -> None:
        """Discard the stored geometry, so that the next draw computes it again."""
        self._state, self._fault = None, None
        self.block, self._warnings = None, []
        self._surroundings, self._data_used = [], []
        self._block_size = BlockSize()

    def freeze(self) -> None:
        """Freeze what has been learned during tuning."""
        self.diagnosis.tuned = self.mixing.count
        if self.options.adapts_schedule:
            may_interweave = self.kernel.hyper_dimension > 0
            must_interweave = may_interweave and self.options.interweave is True
            found = self.mixing.schedule(may_interweave, must_interweave)
            self.transitions, self.every = found
        if self.options.thin is not None:
            self.transitions = self.options.thin
            if self.every and self.transitions % self.every:
                self.every = 1
        # During tuning it describes transitions, from here on draws.
        self.mixing = Mixing(self.kernel.dimension)

    # ---- A draw while tuning -----------------------------------------------------------

    def tune(self, x: np.ndarray, rng: np.random.Generator) -> Draw:
        """Make one transition, and learn from it.

        Parameters
        ----------
        x : ndarray
            The current point.
        rng : numpy.random.Generator

        Raises
        ------
        Fault
            If the chain cannot start from this point.
        """
        state, steps = self.state_at(x), 0
        if not self.started:
            state, steps = self._start(state, rng, tuning=True)
        if self.options.adapt_step_size and self.mixing.count in LOOKS:
            state, spent = self._arrive(state, rng)
            steps += spent
        if not self.started:
            steps += self._find_first_step(state, rng)
        if self._fault:
            return self._stay(state)
        step_size = self._jittered(self.step_size_adaptation.current, rng)
        start, scales = state.x, self.scales(step_size)
        noise, hyper_noise = self._noise(1, rng)
        state, record = self.kernel.draws(state, 1, noise, scales)
        info, after, then = record.info(0, 1), state.x, None
        if self.options.adapt_step_size:
            self.step_size_adaptation.update(info.acceptance)
        if hyper_noise is not None:
            state, acceptance = self._interweave(state, hyper_noise)
            info = info._replace(hyper_acceptance=acceptance)
            then, steps = state.x, steps + 1
        self.mixing.update(start, after, then)
        state, spent = self.preconditioning.learn(state, self.kernel)
        self._state = state
        return Draw(state, info, 1 + steps + spent, step_size)

    def _interweave(self, state: State, noise: Noise) -> tuple[State, float]:
        """Move the hyperparameters with the standardised effects held, and tune the step size."""
        scales = self.scales(self.hyper_step_size.current)
        nothing = Noise(np.zeros((0, self.kernel.dimension)), np.zeros(0))
        state, record = self.kernel.draws(state, 1, nothing, scales, 1, noise, scales)
        acceptance = record.info(0, 1).hyper_acceptance
        if self.options.adapt_step_size:
            self.hyper_step_size.update(acceptance)
        return state, acceptance

    def _jittered(self, step_size: float, rng: np.random.Generator) -> float:
        jitter = self.options.step_size_jitter
        # The size does not depend on the point, so the posterior stays invariant.
        return step_size * rng.uniform(1.0 - jitter, 1.0 + jitter) if jitter else step_size

    def _noise(self, draws: int, rng: np.random.Generator) -> tuple[Noise, Noise | None]:
        """Draw the random numbers of some draws, for transitions and for interweaving moves.

        Every draw takes its numbers in turn, so that draws do not depend on how many of them are
        made at once. A uniform number is Φ of a normal one.
        """
        kernel, moves = self.kernel, self.schedule.hyper_moves
        width, hyper_width = kernel.dimension + 1, kernel.hyper_dimension + 1
        split = self.transitions * width
        normals = rng.standard_normal((draws, split + moves * hyper_width), kernel.dtype)
        main = _as_noise(normals[:, :split], width)
        return main, _as_noise(normals[:, split:], hyper_width) if moves else None

    @property
    def schedule(self) -> Schedule:
        """The moves that make one draw."""
        return Schedule(self.transitions, self.every)

    def scales(self, step_size: float) -> Scales:
        """Return the scales of the integrator as arrays, for the compiled function."""
        return self.kernel.as_arrays(self.options.integrator.scales(step_size))

    def step_size(self, tuning: bool) -> float:
        """Return the current step size during tuning, and the frozen one after it."""
        adaptation = self.step_size_adaptation
        return adaptation.current if tuning else adaptation.averaged

    def _stay(self, state: State) -> Draw:
        """Stay at a point from which no proposal can be made.

        Another step method has moved the chain there.
        """
        info = Info(1, 0.0, 0, 1, 1, (state.x, state.x))
        return Draw(state, info, 1, self.step_size_adaptation.averaged)

    # ---- Draws after tuning ------------------------------------------------------------

    def draw(self, x: np.ndarray, rng: np.random.Generator, ahead: bool) -> Block | Draw:
        """Make the next draw after tuning, and possibly some more in the same call.

        Parameters
        ----------
        x : ndarray
            The current point.
        rng : numpy.random.Generator
        ahead : bool
            Whether further draws may be made ahead.

        Returns
        -------
        Block or Draw
            A draw if the chain must stay at a point to which another step method has moved it.

        Raises
        ------
        Fault
            If the chain cannot start from this point.
        """
        self.settle(rng)
        state, before = self.state_at(x), 0
        if not self.started:
            state, before = self._start(state, rng, tuning=False)
            before += self._find_first_step(state, rng)
        if self._fault:
            self.divergences += 1
            return self._stay(state)
        if self.diagnosis.is_first_draw and self.options.adapt_step_size:
            self.diagnosis.is_far = self.arrival.is_far(state)
            before += 1
        generator = dict(rng.bit_generator.state)
        step_size = self._jittered(self.step_size_adaptation.averaged, rng)
        may_repeat = ahead and not self.options.step_size_jitter
        size = self._block_size.next(self.diagnosis.until_metric) if may_repeat else 1
        noise, hyper_noise = self._noise(size, rng)
        end, record = self.kernel.draws(
            state,
            self.transitions,
            noise,
            self.scales(step_size),
            self.every,
            hyper_noise,
            self.scales(self.hyper_step_size.averaged),
        )
        self._block_size.record(size)
        self.block = Block(state.x, record, end, step_size, generator, before)
        return self.block

    @property
    def steps(self) -> int:
        """Number of evaluations of the log-density and its geometry per draw after tuning."""
        return self.transitions + self.schedule.hyper_moves

    def settle(self, rng: np.random.Generator) -> None:
        """Abandon the draws that have not been handed out, and take back their random numbers."""
        block = self.block
        if block is None:
            return
        if not block.is_exhausted:
            self._observe(block)
            rng.bit_generator.state = block.generator
            self._noise(block.taken, rng)
            # If data or points change with every draw, nothing should be made in vain.
            self._block_size = BlockSize()
        self.block = None

    def has_same_data(self) -> bool:
        """Whether the data are those of the last evaluation."""
        return all(map(is_, self._current_data(), self._data_used))

    def _current_data(self) -> list[object]:
        return [d.container.storage[0] for d in self.kernel.data]

    def state_at(self, x: np.ndarray) -> State:
        """Return the state at a point, or that of the last draw if nothing has changed."""
        # PyMC overwrites points in place, so values have to be compared.
        x = x.astype(self.kernel.dtype, copy=False)
        surroundings = [s.get_value(borrow=True).tobytes() for s in self.shared]
        data = self._current_data()
        if (
            self._state is None
            or x.tobytes() != self._state.x.tobytes()
            or surroundings != self._surroundings
            or not all(map(is_, data, self._data_used))
        ):
            self._state = self.kernel.init(x, self.preconditioning.constants)
            self._fault = self._state.fault
            self._surroundings, self._data_used = surroundings, data
        return self._state

    # ---- Start and arrival -----------------------------------------------------------

    def _start(self, state: State, rng: np.random.Generator, tuning: bool) -> tuple[State, int]:
        """Return a state from which the chain can start, with the metric to use there.

        Also returns the number of evaluations.
        """
        steps = 0
        if self._fault and tuning:
            state, steps = start_nearby(self.kernel, state, self.preconditioning, rng)
            if state.fault is None:
                _log.info("Since %s at the initial point, the chain starts nearby.", self._fault)
            self._fault = state.fault
        if self._fault:
            raise Fault(self._fault)
        state, spent = self.preconditioning.learn(state, self.kernel)
        return state, steps + spent

    def _arrive(self, state: State, rng: np.random.Generator) -> tuple[State, int]:
        """Move to the typical set from a state that may be far from it; count the evaluations."""
        steps = 0
        while self.arrival_moves < MOST_MOVES:
            found, spent = self.arrival.move(state, rng)
            steps += spent
            if found is None:
                break
            self.arrival_moves += 1
            self.preconditioning.forget()
            state, spent = self.preconditioning.learn(found, self.kernel)
            steps += spent
            self.started, self.mixing = False, Mixing(self.kernel.dimension)
        return state, steps

    def _find_first_step(self, state: State, rng: np.random.Generator) -> int:
        """Halve the step size until a proposal from this state has a fair chance of acceptance.

        Returns the number of proposals.
        """
        self.started = True
        if self.options.step_size is not None:
            return 0
        kernel = self.kernel
        step_size, count = min(1.0, self.options.integrator.largest_step), 0
        for _ in range(30):
            count += 1
            noise = rng.standard_normal(kernel.dimension, kernel.dtype)
            _, log_acceptance = kernel.propose(state, noise, self.scales(step_size))
            if log_acceptance > math.log(0.25):
                break
            step_size /= 2.0
        self.step_size_adaptation.restart(step_size)
        return count

    # ---- Diagnosis -------------------------------------------------------------------

    def is_replaced(self, log_det: float) -> bool:
        """Whether the metric has no factor at a point and has been replaced."""
        return self.kernel.varies and not math.isfinite(log_det)

    def complete(self) -> tuple[SamplerWarning | None, float]:
        """Judge the draws of a block after the last of them.

        Returns
        -------
        warning : SamplerWarning or None
            If there are several, the others follow with the next blocks.
        floored : float
            Whether some direction is informed only by the metric's floor at the last draw; NaN if
            this is not checked.
        """
        block = self.block
        assert block is not None
        self._observe(block)
        self._state = block.end
        floored = self._observe_metric(block.end) if self.diagnosis.wants_metric else math.nan
        return (self._warnings.pop(0) if self._warnings else None), floored

    def _observe(self, block: Block) -> None:
        """Judge the draws of a block that have been handed out."""
        diagnosis, count = self.diagnosis, self.transitions
        could_grow = block.step_size < 0.25 * self.options.integrator.largest_step
        before = block.start
        for x, numbers in zip(block.record.x, block.numbers[: block.taken], strict=False):
            _, log_det, acceptance, accepted, rejections, diverging, _ = numbers
            self.divergences += int(diverging)
            replaced = self.is_replaced(log_det)
            found = diagnosis.observe(
                acceptance / count, accepted, rejections, could_grow, replaced
            )
            if diagnosis.wants_jump:
                self.mixing.update(before, x)
                if found is None and diagnosis.wants_mixing:
                    found = diagnosis.judge_mixing(self.mixing.correlations, self.sizes, count)
            self._warn(found)
            before = x

    def _observe_metric(self, state: State) -> float:
        """Judge the metric at a draw; return whether its floor is at work, NaN if it has none."""
        factorization, floored = self.kernel.factorization, math.nan
        pivots, diagonal = factorization.diagonals(state.factor)
        if self.preconditioning.has_floor:
            floored = float(is_floored(pivots, diagonal))
            self._warn(self.diagnosis.observe_floor(bool(floored)))
        if self.kernel.varies:
            force = state.force[factorization.order]
            self._warn(self.diagnosis.observe_metric(diagonal, force, self.sizes))
        return floored

    def _warn(self, warning: SamplerWarning | None) -> None:
        if warning is not None:
            self._warnings.append(warning)
