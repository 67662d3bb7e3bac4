"""The compiled kernel: transitions that leave the posterior invariant."""

import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs

from pymc_pmala.compile import compile_graph
from pymc_pmala.kernel.geometry import SymbolicGeometry
from pymc_pmala.kernel.integrators import INTEGRATORS, Scales
from pymc_pmala.kernel.loop import compiled_loop
from pymc_pmala.kernel.transition import transition_graph
from pymc_pmala.model.target import Target

__all__ = ["Info", "Kernel", "State"]

_log = logging.getLogger(__name__)
_NOT_MADE = object()
_ONE = Scales(1.0, 1.0)


class State(NamedTuple):
    """A point of a chain with the geometry needed for the next proposal.

    Attributes
    ----------
    x : ndarray
        The raveled point.
    logp : ndarray
        Log-density, a scalar.
    force : ndarray
        The covector f with drift A f.
    factor : tuple of ndarray
        The parts of the triangular factor L of the metric G = LLᵀ.
    log_det : float
        Log-determinant of G; not finite where G has no factor and has been replaced.
    """

    x: np.ndarray
    logp: np.ndarray
    force: np.ndarray
    factor: tuple[np.ndarray, ...]
    log_det: float

    @property
    def fault(self) -> str | None:
        """The reason why no proposal can be made from this state, or None."""
        if not np.isfinite(self.logp):
            return f"the log-density is {self.logp}"
        if not all(np.all(np.isfinite(part)) for part in self.factor):
            return "the metric is not finite or not positive definite"
        if not np.all(np.isfinite(self.force)):
            return "the gradient of the log-density, or the drift, is not finite"
        return None


@dataclass
class Info:
    """An account of some transitions.

    Attributes
    ----------
    transitions : int
        Number of transitions.
    acceptance : float
        Sum of the acceptance probabilities.
    accepted : int
        Number of accepted proposals.
    rejections : int
        Number of rejected proposals since the last accepted one.
    diverging : int
        Number of proposals without a finite geometry.
    divergence : tuple of two ndarray or None
        The point from which the first of these was made, and the proposed point.
    """

    transitions: int = 0
    acceptance: float = 0.0
    accepted: int = 0
    rejections: int = 0
    diverging: int = 0
    divergence: tuple[np.ndarray, np.ndarray] | None = None

    def add(
        self,
        log_acceptance: float,
        log_uniform: float,
        start: np.ndarray,
        proposal: np.ndarray,
        logp: float,
    ) -> bool:
        """Add one transition; return whether its proposal is accepted.

        The compiled loop does the same computation.
        """
        self.transitions += 1
        if not math.isfinite(log_acceptance):
            if not log_acceptance == logp == -math.inf:
                self.diverging += 1
                self.divergence = self.divergence or (start, proposal)
            self.rejections += 1
            return False
        self.acceptance += math.exp(min(0.0, log_acceptance))
        accepted = log_uniform < log_acceptance
        self.accepted += accepted
        self.rejections = 0 if accepted else self.rejections + 1
        return accepted


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
    dtype : str
    start : ndarray
        The model's initial point.
    factor : tuple of ndarray
        The default factor of a constant metric.
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
        inputs, outputs = transition_graph(geometry)
        self._transition: Any = compile_graph(inputs, outputs, target.model, **compile_kwargs)
        self._loop: Any = _NOT_MADE
        parts = self.factorization.identity() if factor is None else factor
        self.factor = tuple(part.astype(self.dtype) for part in parts)
        own = set(target.shared.values())
        self.data = [
            v for v in graph_inputs(outputs) if isinstance(v, SharedVariable) and v not in own
        ]

    def as_arrays(self, scales: Scales) -> Scales:
        """Convert scales to the arrays that the compiled function expects."""
        return Scales(*(np.asarray(scale, dtype=self.dtype) for scale in scales))

    def scales(self, step_size: float, integrator: str = "exponential") -> Scales:
        """Return the scales of a proposal with a given step size, for `run`."""
        return self.as_arrays(INTEGRATORS[integrator].scales(step_size))

    def init(self, x: np.ndarray, factor: tuple[np.ndarray, ...] | None = None) -> State:
        """Return the state at a point, computed by a transition that does not move.

        Parameters
        ----------
        x : ndarray
        factor : tuple of ndarray, optional
            The factor of a constant metric, ``self.factor`` by default. Ignored if the metric
            depends on the point.
        """
        x = np.array(x, dtype=self.dtype)
        zero = np.zeros_like(x)
        nothing = np.zeros((), dtype=self.dtype)
        nowhere = State(x, nothing, zero, factor or self.factor, math.nan)
        state, _ = self.propose(nowhere, zero, Scales(nothing, nothing))
        return state

    def propose(self, state: State, noise: np.ndarray, scales: Scales) -> tuple[State, float]:
        """Return the proposal from a state for given noise, and its log acceptance ratio."""
        x, logp, force, factor, _ = state
        log_acceptance, log_det, x, logp, force, *new_factor = self._transition(
            noise, *scales, x, logp, force, *factor
        )
        proposed = State(x, logp, force, tuple(new_factor) or factor, float(log_det))
        return proposed, float(log_acceptance)

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
        noises = np.ascontiguousarray(noises, dtype=self.dtype)
        if self._loop is _NOT_MADE:
            self._make_loop(state)
        if self._loop is not None:
            try:
                return self._run_compiled(state, noises, log_uniforms, scales)
            except Exception as error:
                if not _is_numba_error(error):
                    raise
                # The loop is compiled for certain types, and `pm.set_data` may change them.
                self._make_loop(state)
        if self._loop is not None:
            return self._run_compiled(state, noises, log_uniforms, scales)
        info = Info()
        for noise, log_uniform in zip(noises, log_uniforms, strict=True):
            proposed, ratio = self.propose(state, noise, scales)
            if info.add(ratio, log_uniform, state.x, proposed.x, float(proposed.logp)):
                state = proposed
        return state, info

    def _run_compiled(
        self, state: State, noises: np.ndarray, log_uniforms: np.ndarray, scales: Scales
    ) -> tuple[State, Info]:
        x, logp, force, factor, log_det = state
        done, (x, logp, force, *factor, log_det) = self._loop(
            noises, log_uniforms, *scales, x, logp, force, *factor, log_det, *self._held()
        )
        *counts, source, destination = done
        info = Info(len(noises), *counts)
        if info.diverging:
            info.divergence = source, destination
        return State(x, logp, force, tuple(factor), log_det), info

    def _held(self) -> list[Any]:
        """Return the values of the shared variables that the transition reads."""
        storage = getattr(self._transition, "input_storage", ())
        return [container.storage[0] for container in storage[6 + len(self.factor) :]]

    def _make_loop(self, state: State) -> None:
        """Compile the loop, if the transition is compiled by numba."""
        noise, scales = np.zeros_like(state.x), self.as_arrays(_ONE)
        self.propose(state, noise, scales)
        x, logp, force, factor, _ = state
        arguments = (noise, *scales, x, logp, force, *factor, *self._held())
        self._loop = compiled_loop(self._transition, arguments, len(factor), self.varies)
        if self._loop is None:
            return
        try:
            self._run_compiled(state, noise[None][:0], np.zeros(0), scales)
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
