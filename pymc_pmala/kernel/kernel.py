"""The compiled kernel: transitions that leave the posterior invariant."""

import logging
import math
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs

from pymc_pmala.compile import compile_graph
from pymc_pmala.kernel.checks import (
    check_constants,
    check_integrator,
    check_rows,
    check_scales,
    check_state,
    check_step_size,
    checked_noise,
    checked_vector,
)
from pymc_pmala.kernel.geometry import SymbolicGeometry
from pymc_pmala.kernel.integrators import INTEGRATORS, Scales
from pymc_pmala.kernel.loop import compiled_loop
from pymc_pmala.kernel.state import Info, Noise, Record, State
from pymc_pmala.kernel.transition import transition_graph
from pymc_pmala.model.target import Target

__all__ = ["Info", "Kernel", "Noise", "Record", "State"]

_log = logging.getLogger(__name__)
_NOT_MADE = object()
_MAIN, _HYPER = np.array(False), np.array(True)


class Kernel:
    """Metropolis–Hastings transitions with a given geometry.

    Parameters
    ----------
    target : Target
        The density that the transitions leave invariant.
    geometry : SymbolicGeometry
        The force and the metric of the proposals.
    factor : tuple of ndarray, optional
        The factor of a constant metric; the identity by default.
    **compile_kwargs
        Passed to pytensor, for example ``mode=...``.

    Attributes
    ----------
    dimension : int
    hyper_dimension : int
        Number of hyperparameters that interweaving moves; 0 without interweaving.
    dtype : str
    start : ndarray
        The model's initial point.
    constants : tuple of ndarray
        What `init` uses by default: the factor of a constant metric, or zero for averaged
        information.
    factorization : Factorization
        Defines the meaning of the parts of a factor.
    varies : bool
        Whether the metric depends on the point.
    data : list of SharedVariable
        Inputs of the target other than the variables of the model, such as `pm.Data`.
    """

    def __init__(
        self,
        target: Target,
        geometry: SymbolicGeometry,
        factor: tuple[np.ndarray, ...] | None = None,
        **compile_kwargs: Any,
    ):
        self.dimension, self.dtype = target.dimension, target.x.dtype
        self.start = target.start
        self.factorization = geometry.factorization
        self.varies = geometry.factor is not None
        self.hyper_dimension = 0 if geometry.hyper is None else len(geometry.hyper.positions)
        inputs, outputs = transition_graph(geometry)
        self._transition: Any = compile_graph(inputs, outputs, target.model, **compile_kwargs)
        self._inputs = len(inputs)
        self._loop: Any = _NOT_MADE
        identity = [part.astype(self.dtype) for part in self.factorization.identity()]
        self._identity = tuple(identity)
        if self.varies:
            averaged = identity if geometry.averaged else []
            self.constants = tuple(map(np.zeros_like, averaged))
        else:
            self.constants = tuple(part.astype(self.dtype) for part in factor or identity)
        own = set(target.shared.values())
        self.data = [
            v for v in graph_inputs(outputs) if isinstance(v, SharedVariable) and v not in own
        ]

    def as_arrays(self, scales: Scales) -> Scales:
        """Convert scales to the arrays that the compiled function expects."""
        return Scales(*(np.asarray(scale, dtype=self.dtype) for scale in scales))

    def scales(self, step_size: float, integrator: str = "exponential") -> Scales:
        """Return the scales of a proposal with a given step size, for `run`."""
        check_step_size(step_size)
        check_integrator(integrator)
        return self.as_arrays(INTEGRATORS[integrator].scales(step_size))

    # ---- One transition --------------------------------------------------------------

    def init(self, x: np.ndarray, constants: tuple[np.ndarray, ...] | None = None) -> State:
        """Return the state at a point, computed by a transition that does not move.

        Parameters
        ----------
        x : ndarray
        constants : tuple of ndarray, optional
            The factor of a constant metric, or the averaged information of a metric that contains
            such; ``self.constants`` by default.
        """
        x = checked_vector("x", x, self.dimension, self.dtype)
        zero, nothing = np.zeros_like(x), np.zeros((), dtype=self.dtype)
        constants = self.constants if constants is None else constants
        check_constants(constants, self.constants)
        factor, averaged = (self._identity, constants) if self.varies else (constants, ())
        hyper: tuple[np.ndarray, ...] = ()
        if self.hyper_dimension:
            none = np.zeros(self.hyper_dimension, dtype=self.dtype)
            hyper = none, np.eye(len(none), dtype=self.dtype), nothing
        log_det = math.nan if self.varies else self.log_det(factor)
        half_log_det = nothing if self.varies else None
        nowhere = State(x, nothing, zero, factor, log_det, half_log_det, averaged, hyper)
        state, _ = self.propose(nowhere, zero, Scales(nothing, nothing))
        return state

    def log_det(self, factor: tuple[np.ndarray, ...]) -> float:
        """Return log |G| for the factor of a constant metric."""
        pivots, _ = self.factorization.diagonals(factor)
        return float(np.log(pivots).sum())

    def propose(self, state: State, noise: np.ndarray, scales: Scales) -> tuple[State, float]:
        """Return the proposal from a state for given noise, and its log acceptance ratio."""
        none = np.zeros(self.hyper_dimension, dtype=self.dtype)
        noise = checked_vector("noise", noise, self.dimension, self.dtype)
        return self._call(state, noise, scales, _MAIN, none)

    def propose_hyper(self, state: State, noise: np.ndarray, scales: Scales) -> tuple[State, float]:
        """Return the proposal of an interweaving move, and its log acceptance ratio."""
        noise = checked_vector("noise", noise, self.hyper_dimension, self.dtype)
        return self._call(state, np.zeros_like(state.x), scales, _HYPER, noise)

    def _call(
        self,
        state: State,
        noise: np.ndarray,
        scales: Scales,
        is_hyper: np.ndarray,
        hyper_noise: np.ndarray,
    ) -> tuple[State, float]:
        check_state(state)
        check_scales("scales", scales)
        inputs = self._transition_inputs(state, noise, scales, is_hyper, hyper_noise)
        log_ratio, x, logp, force, *rest = self._transition(*inputs)
        proposed = state._replace(x=x, logp=logp, force=force)
        count = len(state.factor)
        if self.varies:
            proposed = proposed._replace(
                factor=tuple(rest[:count]),
                half_log_det=rest[count],
                log_det=float(rest[count + 1]),
            )
        if state.hyper:
            proposed = proposed._replace(hyper=tuple(rest[-3:]))
        return proposed, float(log_ratio)

    def _transition_inputs(
        self,
        state: State,
        noise: np.ndarray,
        scales: Scales,
        is_hyper: np.ndarray,
        hyper_noise: np.ndarray,
    ) -> list[Any]:
        x, logp, force, factor, _, half_log_det, averaged, hyper = state
        inputs = [noise, *scales, x, logp, force, *factor]
        if half_log_det is not None:
            inputs += [half_log_det, *averaged]
        return [*inputs, is_hyper, hyper_noise, *hyper] if hyper else inputs

    # ---- Many transitions ------------------------------------------------------------

    def run(
        self, state: State, noises: np.ndarray, log_uniforms: np.ndarray, scales: Scales
    ) -> tuple[State, Info]:
        """Make one transition for each row of noise; return the last state and an account.

        Parameters
        ----------
        state : State
        noises : ndarray of shape (n, d)
            Standard normal numbers.
        log_uniforms : ndarray of shape (n,)
            Logarithms of uniform random numbers between 0 and 1.
        scales : Scales
            The scales for a step size: ``kernel.scales(step_size)``.
        """
        noise = self._checked("noises", Noise(noises, log_uniforms), self.dimension)
        count = len(noise.normals)
        if not count:
            return state, Info()
        state, record = self.draws(state, count, noise, scales)
        return state, record.info(0, count)

    def draws(
        self,
        state: State,
        per_draw: int,
        noise: Noise,
        scales: Scales,
        every: int = 1,
        hyper_noise: Noise | None = None,
        hyper_scales: Scales | None = None,
    ) -> tuple[State, Record]:
        """Make draws of several transitions each in one call of compiled code.

        Parameters
        ----------
        state : State
        per_draw : int
            Number of transitions per draw.
        noise : Noise
            One row for each transition. If it is empty, only interweaving moves are made.
        scales : Scales
        every : int
            An interweaving move follows every so many transitions; it must divide ``per_draw``.
        hyper_noise : Noise, optional
            One row for each interweaving move; without it, there are none.
        hyper_scales : Scales, optional
            The scales of the interweaving moves.
        """
        check_state(state)
        noise = self._checked("noise", noise, self.dimension)
        hyper_noise = self._no_hyper_noise() if hyper_noise is None else hyper_noise
        hyper_noise = self._checked("hyper_noise", hyper_noise, self.hyper_dimension)
        check_rows(per_draw, every, len(noise.normals), len(hyper_noise.normals))
        hyper_scales = scales if hyper_scales is None else hyper_scales
        check_scales("scales", scales)
        check_scales("hyper_scales", hyper_scales)
        arguments = per_draw, every, noise, scales, hyper_noise, hyper_scales
        if self._loop is _NOT_MADE:
            self._make_loop(state)
        if self._loop is not None:
            try:
                return self._compiled_draws(state, *arguments)
            except Exception as error:
                if not _is_numba_error(error):
                    raise
                # The loop is compiled for certain types, and `pm.set_data` may change them.
                self._make_loop(state)
        if self._loop is not None:
            return self._compiled_draws(state, *arguments)
        return self._python_draws(state, *arguments)

    def _checked(self, name: str, noise: Noise, dimension: int) -> Noise:
        return checked_noise(name, noise, dimension, self.dtype)

    def _no_hyper_noise(self) -> Noise:
        return Noise(np.zeros((0, self.hyper_dimension), dtype=self.dtype), np.zeros(0))

    def _compiled_draws(
        self,
        state: State,
        per_draw: int,
        every: int,
        noise: Noise,
        scales: Scales,
        hyper_noise: Noise,
        hyper_scales: Scales,
    ) -> tuple[State, Record]:
        x, logp, force, factor, log_det, half_log_det, averaged, hyper = state
        of_hyper: tuple[Any, ...] = ()
        if hyper:
            no_noise = np.zeros_like(x), np.zeros(self.hyper_dimension, dtype=self.dtype)
            of_hyper = *hyper_noise, *hyper_scales, *no_noise, _MAIN, _HYPER
        of_metric = () if half_log_det is None else (half_log_det,)
        of_state = x, logp, force, *factor, *of_metric, *hyper, log_det, *averaged
        count = max(len(noise.normals), len(hyper_noise.normals) * every) // per_draw
        record = self._empty_record(count)
        x, logp, force, *parts, log_det = self._loop(
            per_draw, every, *record, *noise, *scales, *of_hyper, *of_state, *self._shared_values()
        )
        split = len(factor)
        if of_metric:
            half_log_det = parts.pop(split)
        new_factor, new_hyper = tuple(parts[:split]), tuple(parts[split:])
        new = State(x, logp, force, new_factor, log_det, half_log_det, averaged, new_hyper)
        return new, record

    def _empty_record(self, count: int) -> Record:
        xs, sources, destinations = np.empty((3, count, self.dimension), dtype=self.dtype)
        return Record(xs, np.zeros((count, 7)), sources, destinations)

    def _python_draws(
        self,
        state: State,
        per_draw: int,
        every: int,
        noise: Noise,
        scales: Scales,
        hyper_noise: Noise,
        hyper_scales: Scales,
    ) -> tuple[State, Record]:
        """Do what the compiled loop does, one transition after the other."""
        hyper_moves = iter(zip(*hyper_noise, strict=True))
        count = max(len(noise.normals), len(hyper_noise.normals) * every) // per_draw
        record = self._empty_record(count)
        xs, numbers, sources, destinations = record
        for draw in range(count):
            account = numbers[draw]
            for i in range(draw * per_draw, (draw + 1) * per_draw):
                if len(noise.normals):
                    proposed, ratio = self.propose(state, noise.normals[i], scales)
                    account[4] += 1
                    if math.isfinite(ratio):
                        account[2] += math.exp(min(0.0, ratio))
                        if noise.log_uniforms[i] < ratio:
                            state = proposed
                            account[3:5] = account[3] + 1, 0
                    elif not ratio == proposed.logp == -math.inf:
                        account[5] += 1
                        if account[5] == 1:
                            sources[draw], destinations[draw] = state.x, proposed.x
                if len(hyper_noise.normals) and (i + 1) % every == 0:
                    normals, log_uniform = next(hyper_moves)
                    proposed, ratio = self.propose_hyper(state, normals, hyper_scales)
                    if math.isfinite(ratio):
                        account[6] += math.exp(min(0.0, ratio))
                        if log_uniform < ratio:
                            state = proposed
            xs[draw] = state.x
            account[:2] = state.logp, state.log_det
        return state, record

    # ---- Compilation -----------------------------------------------------------------

    def _shared_values(self) -> list[Any]:
        """Return the values of the shared variables that the transition reads."""
        storage = getattr(self._transition, "input_storage", ())
        return [container.storage[0] for container in storage[self._inputs :]]

    def _make_loop(self, state: State) -> None:
        """Compile the loop, if the transition is compiled by numba."""
        # Without drift and noise the proposal is the point, so that nothing can overflow.
        scales = self.as_arrays(Scales(0.0, 1.0))
        self.propose(state, np.zeros_like(state.x), scales)
        none = np.zeros(self.hyper_dimension, dtype=self.dtype)
        inputs = self._transition_inputs(state, np.zeros_like(state.x), scales, _MAIN, none)
        self._loop = compiled_loop(
            self._transition,
            (*inputs, *self._shared_values()),
            len(state.factor),
            len(state.averaged),
            len(state.hyper),
            self.varies,
        )
        if self._loop is None:
            return
        nothing = Noise(np.zeros((0, self.dimension), dtype=self.dtype), np.zeros(0))
        try:
            self._compiled_draws(state, 1, 1, nothing, scales, self._no_hyper_noise(), scales)
        except Exception as error:
            if not _is_numba_error(error):
                raise
            # The transitions can still be called one by one.
            _log.debug("The loop over transitions could not be compiled: %s", error)
            self._loop = None

    def warm_up(self) -> None:
        """Call the functions once, since numba compiles at the first call."""
        self._make_loop(self.init(self.start))

    def __getstate__(self) -> dict[str, Any]:
        """Omit the loop, which is made again when it is needed."""
        return {name: value for name, value in vars(self).items() if name != "_loop"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the kernel; the loop is made at the next call."""
        vars(self).update(state, _loop=_NOT_MADE)


def _is_numba_error(error: Exception) -> bool:
    # Numba takes a second to import, and PyMC 5 does not need it.
    from numba.core.errors import NumbaError

    return isinstance(error, NumbaError)
