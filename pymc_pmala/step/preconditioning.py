"""What the metric of a chain is at a point: the point's own, the same everywhere, or learned."""

from abc import abstractmethod
from typing import Any

import numpy as np
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Averaged, Dense, Factorization, find_factorization
from pymc_pmala.kernel.geometry import metric_pieces
from pymc_pmala.kernel.kernel import State
from pymc_pmala.metric import ConstantMetric, FlooredMetric, Metric, MetricChoice, build_metric
from pymc_pmala.metric.checks import constant_factor
from pymc_pmala.model.target import Target
from pymc_pmala.step.adaptation import MetricAverage, MetricAverageState

__all__ = [
    "Constant",
    "Learned",
    "PositionDependent",
    "Preconditioning",
    "PreconditioningState",
    "choose_preconditioning",
]

# Points from the start of tuning after each of which the mean is factorised anew.
_EVERY_POINT = 50


@dataclass_state
class PreconditioningState(DataClassState):
    """Of a metric that is not learned: nothing."""


class Preconditioning(WithSamplingState):
    """What the metric is at the points of a chain.

    Attributes
    ----------
    metric : Metric
        In symbolic form, as the kernel's graph needs it. It does not travel with a pickle.
    factorization : Factorization
    has_floor : bool
        Whether there may be directions that only the metric's floor holds.
    factor : tuple of ndarray or None
        The factor of a metric that is the same at every point; None if each has its own.
    """

    _state_class = PreconditioningState
    metric: Metric
    factorization: Factorization
    has_floor: bool = False
    factor: tuple[np.ndarray, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the graph, which is of no use once compiled and a burden to pickle."""
        return {name: value for name, value in vars(self).items() if name != "metric"}

    def restart(self) -> None:
        """Forget what earlier chains have learned."""

    def forget(self) -> None:
        """Forget the points seen so far, but not the factor that they gave."""

    @abstractmethod
    def learn(self, state: State) -> State:
        """Take in the metric at a state; the state with the metric that is used from now on."""


class PositionDependent(Preconditioning):
    """A metric of its own at every point."""

    def __init__(self, metric: Metric, target: Target):
        self.metric = metric
        self.has_floor = isinstance(metric, FlooredMetric)
        self.factorization = find_factorization(metric, target.start, target.shared.values())

    def learn(self, state: State) -> State:
        """There is nothing to learn."""
        return state


class Constant(Preconditioning):
    """One metric, given by the user."""

    def __init__(self, metric: ConstantMetric, target: Target):
        self.metric = metric
        self.factorization = Dense(target.dimension)
        factor = constant_factor(metric.matrix().eval(), target.dimension)
        self.factor = (factor.astype(target.x.dtype),)

    def learn(self, state: State) -> State:
        """There is nothing to learn."""
        return state


@dataclass_state
class LearnedState(PreconditioningState):
    """The preconditioner that tuning has learned so far."""

    factor: tuple[np.ndarray, ...]
    average: MetricAverageState


class Learned(Preconditioning):
    """The mean of the Fisher metric over the points of tuning.

    Parameters
    ----------
    target : Target
    separate : bool
        Whether noise may be drawn with the mean of G⁻¹ for its covariance, and not with the
        inverse of the mean of G. Euler's proposal is the textbook's, with one matrix.
    **compile_kwargs
        Passed to pytensor.
    """

    _state_class = LearnedState

    def __init__(self, target: Target, separate: bool, **compile_kwargs: Any):
        # The kernel is handed the factor: its graph has a constant metric, whichever it is.
        self.metric = build_metric("identity", target)
        learned = build_metric("fisher", target)
        self.has_floor = isinstance(learned, FlooredMetric)
        found = find_factorization(learned, target.start, target.shared.values())
        if separate and isinstance(found, Dense):
            found = Averaged(found.dimension)
        self.factorization = found
        pieces = metric_pieces(learned, found)
        inputs = [piece.type() for piece in pieces]
        factor = found.factor(inputs)
        log_det = 2.0 * found.half_log_det(factor)
        self._pieces = compile_graph([target.x], pieces, target.model, **compile_kwargs)
        self._factorise = compile_graph(inputs, [log_det, *factor], target.model, **compile_kwargs)
        self._identity = tuple(part.astype(target.x.dtype) for part in found.identity())
        self.restart()
        # Numba compiles at the first call, once for all processes forked later.
        self._factorise(*self._pieces(target.start))

    def restart(self) -> None:
        """Forget what earlier chains have learned."""
        self.average = MetricAverage()
        self.factor = self._identity

    def forget(self) -> None:
        """Forget the points seen so far: on the way home they are of no use."""
        self.average = MetricAverage()

    def learn(self, state: State) -> State:
        """Take in the information at a point, and precondition with the mean."""
        self.average.update(self._pieces(state.x))
        # One more point among many changes little.
        if self.average.count > _EVERY_POINT and self.average.count % 4:
            return state
        log_det, *factor = self._factorise(*self.average.mean)
        if not np.isfinite(log_det):
            return state
        # In the order of the identity before it: numba compiles anew for another.
        self.factor = tuple(np.ascontiguousarray(part) for part in factor)
        return state._replace(factor=self.factor, log_det=float(log_det))


def choose_preconditioning(
    choice: MetricChoice, target: Target, separate: bool, **compile_kwargs: Any
) -> Preconditioning:
    """The preconditioning that a user's choice of a metric stands for; see `Learned`."""
    if isinstance(choice, str) and choice == "adapt":
        return Learned(target, separate, **compile_kwargs)
    metric = build_metric(choice, target)
    if isinstance(metric, ConstantMetric):
        return Constant(metric, target)
    return PositionDependent(metric, target)
