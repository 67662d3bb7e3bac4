"""The metric along a chain: position-dependent, constant, or averaged during tuning."""

from abc import abstractmethod
from typing import Any

import numpy as np
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

from pymc_pmala.compile import compile_graph
from pymc_pmala.factorization import Averaged, Dense, Factorization, find_factorization
from pymc_pmala.kernel.geometry import metric_pieces
from pymc_pmala.kernel.kernel import Kernel, State
from pymc_pmala.metric import (
    ConstantMetric,
    FlooredMetric,
    Metric,
    MetricChoice,
    build_metric,
    information_metric,
    latent_information_varies,
)
from pymc_pmala.metric.checks import constant_factor
from pymc_pmala.model.target import Target
from pymc_pmala.step.adaptation import MetricAverage, MetricAverageState

__all__ = [
    "Constant",
    "Learned",
    "PartlyAveraged",
    "PositionDependent",
    "Preconditioning",
    "PreconditioningState",
    "choose_preconditioning",
]

# Number of points at the start of tuning after each of which the mean is factorised again.
_EVERY_POINT = 50
# Number of points at the start of tuning after each of which the mean is used, and then the number
# of points between two uses.
_FEW_POINTS = 8


@dataclass_state
class PreconditioningState(DataClassState):
    """The empty state of a metric that is not learned."""


class Preconditioning(WithSamplingState):
    """The metric at the points of a chain.

    Attributes
    ----------
    metric : Metric
        The symbolic metric, from which the kernel's graph is built. It is not pickled.
    factorization : Factorization
    has_floor : bool
        Whether some directions may be informed only by the metric's floor.
    averages : bool
        Whether the metric contains averaged information.
    constants : tuple of ndarray or None
        The factor of a metric that is the same at every point, or the averaged information;
        None if there is neither.
    """

    _state_class = PreconditioningState
    metric: Metric
    factorization: Factorization
    has_floor: bool = False
    averages: bool = False
    constants: tuple[np.ndarray, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omit the graph, which is not needed after compilation and expensive to pickle."""
        return {name: value for name, value in vars(self).items() if name != "metric"}

    def restart(self) -> None:
        """Discard what earlier chains have learned."""

    def forget(self) -> None:
        """Discard the points seen so far, but keep the factor computed from them."""

    @abstractmethod
    def learn(self, state: State, kernel: Kernel) -> tuple[State, int]:
        """Add the information at a state.

        Returns
        -------
        state : State
            The state with the metric to use from now on.
        evaluations : int
            Number of evaluations of the geometry that this took.
        """


class PositionDependent(Preconditioning):
    """A metric that is different at every point."""

    def __init__(self, metric: Metric, target: Target):
        self.metric = metric
        self.has_floor = isinstance(metric, FlooredMetric)
        self.factorization = find_factorization(metric, target.shared.values())

    def learn(self, state: State, kernel: Kernel) -> tuple[State, int]:
        """There is nothing to learn."""
        return state, 0


class Constant(Preconditioning):
    """A constant metric given by the user."""

    def __init__(self, metric: ConstantMetric, target: Target):
        self.metric = metric
        self.factorization = Dense(target.dimension)
        factor = constant_factor(metric.matrix().eval(), target.dimension)
        self.constants = (factor.astype(target.x.dtype),)

    def learn(self, state: State, kernel: Kernel) -> tuple[State, int]:
        """There is nothing to learn."""
        return state, 0


@dataclass_state
class LearnedState(PreconditioningState):
    """The preconditioner that tuning has learned so far."""

    constants: tuple[np.ndarray, ...]
    average: MetricAverageState


class Learned(Preconditioning):
    """The mean of the Fisher metric over the tuning draws.

    Parameters
    ----------
    target : Target
    separate : bool
        Whether the covariance of the noise may be the mean of G⁻¹ instead of the inverse of the
        mean of G. Euler's proposal uses one matrix for both, as in the literature.
    **compile_kwargs
        Passed to pytensor.
    """

    _state_class = LearnedState

    def __init__(self, target: Target, separate: bool, **compile_kwargs: Any):
        # The factor is an input of the kernel, whose graph therefore contains no metric. Any
        # constant metric will do here.
        self.metric = build_metric("identity", target)
        learned = build_metric("fisher", target)
        self.has_floor = isinstance(learned, FlooredMetric)
        found = find_factorization(learned, target.shared.values())
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
        # Numba compiles at the first call. Processes forked later need not compile again.
        self._factorise(*self._pieces(target.start))

    def restart(self) -> None:
        """Discard what earlier chains have learned."""
        self.average = MetricAverage()
        self.constants = self._identity

    def forget(self) -> None:
        """Discard the points seen so far, which lie outside the typical set."""
        self.average = MetricAverage()

    def learn(self, state: State, kernel: Kernel) -> tuple[State, int]:
        """Add the information at a state, and precondition with the mean."""
        self.average.update(self._pieces(state.x))
        # Far from the posterior the information may not be finite.
        if not self.average.count:
            return state, 1
        # A single point among many changes the mean only slightly.
        if self.average.count > _EVERY_POINT and self.average.count % 4:
            return state, 1
        log_det, *factor = self._factorise(*self.average.mean)
        if not np.isfinite(log_det):
            return state, 1
        # C order, like that of the identity: numba would compile again for another order.
        self.constants = tuple(np.ascontiguousarray(part) for part in factor)
        return state._replace(factor=self.constants, log_det=kernel.log_det(self.constants)), 1


class PartlyAveraged(Preconditioning):
    r"""Information of the data averaged over the tuning draws, that of the hierarchy at the point.

    .. math:: G(x) = \frac1n \sum_t \sum_{f \text{ observed}} J_f^T K_f J_f (x_t)
              + \sum_{f \text{ latent}} J_f^T K_f J_f (x)

    The information of data varies little over a posterior, and one that varies with every effect
    costs acceptance for each of them. The information of free variables, by contrast, varies with
    their scale parameters over orders of magnitude. Derivatives are needed only of the second sum.

    Parameters
    ----------
    target : Target
    **compile_kwargs
        Passed to pytensor.
    """

    _state_class = LearnedState
    averages = True

    def __init__(self, target: Target, **compile_kwargs: Any):
        observed, latent = (
            FlooredMetric(
                information_metric(target.x, [f for f in target.factors if f.observed == wanted])
            )
            for wanted in (True, False)
        )
        self.metric, self.has_floor = latent, True
        whole = build_metric("fisher", target)
        self.factorization = find_factorization(whole, target.shared.values())
        pieces = metric_pieces(observed, self.factorization)
        self._pieces = compile_graph([target.x], pieces, target.model, **compile_kwargs)
        identity = self.factorization.identity()
        self._nothing = tuple(np.zeros_like(part, dtype=target.x.dtype) for part in identity)
        self.restart()
        # Numba compiles at the first call. Processes forked later need not compile again.
        self._pieces(target.start)

    def restart(self) -> None:
        """Discard what earlier chains have learned."""
        self.average = MetricAverage()
        self.constants = self._nothing

    def forget(self) -> None:
        """Discard the points seen so far, which lie outside the typical set."""
        self.average = MetricAverage()

    def learn(self, state: State, kernel: Kernel) -> tuple[State, int]:
        """Add the information of the data at a state, and use the mean from now on."""
        self.average.update(self._pieces(state.x))
        count = self.average.count
        # Each use takes an evaluation, and a single point among many changes the mean little. Far
        # from the posterior the information may not be finite.
        if not count or (count > _FEW_POINTS and count % _FEW_POINTS):
            return state, 1
        self.constants = tuple(np.ascontiguousarray(part) for part in self.average.mean)
        return kernel.init(state.x, self.constants), 2


def choose_preconditioning(
    choice: MetricChoice, target: Target, varies: bool, separate: bool, **compile_kwargs: Any
) -> Preconditioning:
    """Return the preconditioning for a user's choice of the metric.

    Parameters
    ----------
    choice : str, array or callable
    target : Target
    varies : bool
        Whether ``"adapt"`` keeps the information of free variables at the point.
    separate : bool
        See `Learned`.
    **compile_kwargs
        Passed to pytensor.
    """
    if isinstance(choice, str) and choice == "adapt":
        if varies and latent_information_varies(target):
            return PartlyAveraged(target, **compile_kwargs)
        return Learned(target, separate, **compile_kwargs)
    metric = build_metric(choice, target)
    if isinstance(metric, ConstantMetric):
        return Constant(metric, target)
    return PositionDependent(metric, target)
