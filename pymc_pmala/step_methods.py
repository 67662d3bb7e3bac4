"""PyMC step methods: PMALA, MMALA, SimplifiedMMALA and MALA."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from pymc_pmala.adaptation import MetricAverage, MetricAverageState
from pymc_pmala.compilation import compile_graph
from pymc_pmala.factorization import Averaged, Dense, Factorization
from pymc_pmala.geometry import metric_pieces
from pymc_pmala.information import RaveledModel
from pymc_pmala.langevin import Langevin, LangevinState
from pymc_pmala.metrics import FlooredMetric, Metric, build_metric
from pymc_pmala.proposal import State

__all__ = ["MALA", "MMALA", "PMALA", "SimplifiedMMALA"]

# Points from the start of tuning after each of which MALA's preconditioner is factorised anew.
_EVERY_POINT = 50


class PMALA(Langevin):
    r"""Position-dependent Metropolis-adjusted Langevin algorithm.

    Proposes from a discretisation of the diffusion

    .. math:: dX = \left(\tfrac12 A \nabla\log\pi + \Gamma\right) dt + A^{1/2} dW,
              \qquad \Gamma_i = \tfrac12 \sum_j \partial_j A_{ij}, \quad A = G^{-1}

    whose invariant density is the posterior π, and accepts with the Metropolis–Hastings
    probability [1]_. G is the expected Fisher information of the model, derived from its
    graph, or a metric of your own.

    Parameters
    ----------
    vars : sequence of variables, optional
        Random variables or value variables to sample; all by default. Others are held at
        the values that other step methods give them.
    metric : {"fisher", "softabs", "identity"}, array or callable, default "fisher"
        ``"fisher"`` is the expected information :math:`\sum_f J_f^T K_f J_f` of the
        model's factors. ``"softabs"`` makes the Hessian of the negative log-density positive
        definite by the SoftAbs of its eigenvalues. An array is a constant metric, or its
        diagonal. A callable ``metric(model, x)`` returns a d × d pytensor expression in the
        raveled value variables ``x``.
    integrator : {"exponential", "euler"}, default "exponential"
        ``"euler"`` proposes :math:`N(x + \tfrac{h}{2} A\nabla\log\pi + h\Gamma,\; hA)`, as
        in [1]_. ``"exponential"`` proposes
        :math:`N(x + (1-\rho)(A\nabla\log\pi + 2\Gamma),\; (1-\rho^2) A)` with
        :math:`\rho = e^{-h/2}`, which is exact where the posterior is Gaussian.
    step_size : float, optional
        h, where tuning starts; found by a short search if not given.
    target_accept : float, optional
        Acceptance rate to tune for; depends on the integrator and the dimension if not
        given.
    adapt_step_size : bool, default True
        Whether to tune the step size.
    step_size_jitter : float, default 0.0
        Each draw's step is h times a number uniform in 1 ± this.
    thin : int, optional
        Transitions for each recorded draw after tuning; statistics are of all of them.
        If not given, tuning finds how many make draws nearly independent, 32 at most: it
        costs a chain that mixes slowly nothing, and saves PyMC's own work for a draw. With
        ``"euler"``, the paper's proposal to the letter, it is 1. If given, all but the last
        run in one compiled loop, which takes its time to compile.
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    initial_point : dict, optional
        A point that gives the variables' shapes; ``model.initial_point()`` by default.
    compile_kwargs : dict, optional
        Passed to pytensor, ``{"mode": ...}`` for instance.
    rng : int or numpy.random.Generator, optional
        Seed; `pm.sample` sets its own for each chain.
    blocked : bool, default True
        Whether to update all variables in one transition, or each in one of its own.

    References
    ----------
    .. [1] T. Xifara, C. Sherlock, S. Livingstone, S. Byrne and M. Girolami (2014).
       Langevin diffusions and the Metropolis-adjusted Langevin algorithm.
       Statistics & Probability Letters 91, 14–19.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_pmala import PMALA
    >>> with pm.Model():
    ...     mu = pm.Normal("mu")
    ...     sigma = pm.HalfNormal("sigma")
    ...     y = pm.Normal("y", mu, sigma, observed=[1.2, 0.7, 2.1])
    ...     idata = pm.sample(step=PMALA())  # doctest: +SKIP
    """

    name = "pmala"
    drift = "gamma"


class MMALA(Langevin):
    r"""Manifold MALA with the drift as published by Girolami & Calderhead.

    As `PMALA`, with
    :math:`\Omega_i = |G|^{-1/2} \sum_j \partial_j (A_{ij} |G|^{1/2})` in the place of Γ
    [1]_. The two agree where G is a Hessian, as for generalised linear models with
    canonical link; elsewhere the diffusion behind MMALA does not keep the posterior, and
    its Metropolis step has the more to reject.

    Parameters are those of `PMALA`.

    References
    ----------
    .. [1] M. Girolami and B. Calderhead (2011). Riemann manifold Langevin and Hamiltonian
       Monte Carlo methods. J. R. Statist. Soc. B 73, 123–214.
    """

    name = "mmala"
    drift = "omega"


class SimplifiedMMALA(Langevin):
    r"""Manifold MALA without the derivatives of the metric.

    As `PMALA` with Γ = 0: mean :math:`x + \tfrac{h}{2} A(x) \nabla\log\pi`, covariance
    :math:`hA(x)` [1]_. Cheaper by transition; farther from the posterior before the
    Metropolis step where the geometry changes fast.

    Parameters are those of `PMALA`.

    References
    ----------
    .. [1] M. Girolami and B. Calderhead (2011). Riemann manifold Langevin and Hamiltonian
       Monte Carlo methods. J. R. Statist. Soc. B 73, 123–214.
    """

    name = "simplified_mmala"
    drift = "gradient"


@dataclass_state
class MALAState(LangevinState):
    """With the preconditioner that tuning has learned so far."""

    factor: tuple[np.ndarray, ...]
    metric_average: MetricAverageState


class MALA(Langevin):
    r"""Pre-conditioned Metropolis-adjusted Langevin algorithm.

    Mean :math:`x + \tfrac{h}{2} A \nabla\log\pi`, covariance :math:`hA`, with a constant
    A [1]_, [2]_; or the exponential integrator's. One gradient per transition.

    Parameters
    ----------
    vars : sequence of variables, optional
        As for `PMALA`.
    metric : {"adapt", "identity"} or array, default "adapt"
        :math:`G = A^{-1}`. ``"adapt"`` averages the model's Fisher information over the
        tuning draws and freezes it when tuning ends. With the exponential integrator, and
        unless the metric has blocks or a band, noise is drawn with the average of
        :math:`G^{-1}` for its covariance, which keeps chains from sticking in long tails.
    integrator, step_size, target_accept, adapt_step_size, step_size_jitter, thin
        As for `PMALA`.
    model, initial_point, compile_kwargs, rng, blocked
        As for `PMALA`.

    References
    ----------
    .. [1] G. O. Roberts and J. S. Rosenthal (1998). Optimal scaling of discrete
       approximations to Langevin diffusions. J. R. Statist. Soc. B 60, 255–268.
    .. [2] G. O. Roberts and O. Stramer (2002). Langevin diffusions and Metropolis-Hastings
       algorithms. Methodology and Computing in Applied Probability 4, 337–357.
    """

    name = "mala"
    drift = "gradient"
    _state_class = MALAState

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        metric: str | np.ndarray = "adapt",
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
        if callable(metric) or (isinstance(metric, str) and metric not in ("adapt", "identity")):
            raise ValueError(
                f"MALA takes metric='adapt', metric='identity' or a constant array, not "
                f"{metric!r}. For a metric that varies use PMALA, MMALA or SimplifiedMMALA."
            )
        super().__init__(
            vars,
            metric=metric,
            integrator=integrator,
            step_size=step_size,
            target_accept=target_accept,
            adapt_step_size=adapt_step_size,
            step_size_jitter=step_size_jitter,
            thin=thin,
            model=model,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            rng=rng,
            blocked=blocked,
        )

    def _compile(
        self,
        model: pm.Model,
        point: dict[str, np.ndarray],
        shared: dict[Variable, SharedVariable],
        compile_kwargs: dict[str, Any],
    ) -> None:
        self._learned: Metric | None = None
        self._pieces: Any = None
        self._factorise: Any = None
        super()._compile(model, point, shared, compile_kwargs)
        if self._learned is None:
            return
        self._has_floor = isinstance(self._learned, FlooredMetric)
        pieces = metric_pieces(self._learned, self._factorization)
        inputs = [piece.type() for piece in pieces]
        factor = self._factorization.factor(inputs)
        log_det = 2.0 * self._factorization.half_log_det(factor)
        self._pieces = compile_graph([self._learned.x], pieces, model, **compile_kwargs)
        self._factorise = compile_graph(inputs, [log_det, *factor], model, **compile_kwargs)
        # A graph, of no use once compiled and a burden to pickle.
        self._learned = None

    def _build_metric(
        self, model: pm.Model, raveled: RaveledModel, compile_kwargs: dict[str, Any]
    ) -> Metric:
        self._adapts = isinstance(self.metric, str) and self.metric == "adapt"
        if not self._adapts:
            return super()._build_metric(model, raveled, compile_kwargs)
        self._learned = build_metric("fisher", model, raveled)
        return build_metric("identity", model, raveled)

    def _find_factorization(self, metric: Metric, start: np.ndarray) -> Factorization:
        found = super()._find_factorization(self._learned or metric, start)
        # Euler's proposal is the textbook's, with one matrix.
        separate = self._adapts and self.integrator == "exponential" and isinstance(found, Dense)
        return Averaged(found.dimension) if separate else found

    def _constant_factor(self, metric: Metric) -> tuple[np.ndarray, ...]:
        if not self._adapts:
            return super()._constant_factor(metric)
        return tuple(part.astype(self._dtype) for part in self._factorization.identity())

    def _warm_up(self, x: np.ndarray) -> None:
        super()._warm_up(x)
        if self._adapts:
            self._factorise(*self._pieces(x))

    def reset_tuning(self) -> None:
        """Forget what earlier chains have learned."""
        super().reset_tuning()
        self.metric_average = MetricAverage()
        if self._adapts:
            self.factor = tuple(p.astype(self._dtype) for p in self._factorization.identity())

    def _state_at(self, x: np.ndarray) -> State:
        state = super()._state_at(x)
        if not self.started:
            self._learn_metric()
        return self._state or state

    def _renewed(self, state: State) -> State:
        # On the way home the metrics of places left behind are of no use.
        self.metric_average = MetricAverage()
        self._learn_metric()
        return self._state or state

    def _learn(self, acceptance: float) -> None:
        super()._learn(acceptance)
        self._learn_metric()

    def _learn_metric(self) -> None:
        """Take in the information at the current point, and precondition with the mean."""
        if not self._adapts or self._state is None:
            return
        self.metric_average.update(self._pieces(self._state.x))
        # One more point among many changes little.
        if self.metric_average.count > _EVERY_POINT and self.metric_average.count % 4:
            return
        log_det, *factor = self._factorise(*self.metric_average.mean)
        if not np.isfinite(log_det):
            return
        # In the order of the identity before it: numba compiles anew for another.
        self.factor = tuple(np.ascontiguousarray(part) for part in factor)
        self._state = self._state._replace(factor=self.factor)
        self._log_det = float(log_det)
