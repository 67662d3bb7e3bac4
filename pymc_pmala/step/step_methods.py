"""PyMC step methods: PMALA, MMALA, SimplifiedMMALA and MALA."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import RandomGenerator
from pytensor.graph.basic import Variable

from pymc_pmala.arguments import shown
from pymc_pmala.step.langevin import Langevin

__all__ = ["MALA", "MMALA", "PMALA", "SimplifiedMMALA"]


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
        Random variables or value variables to sample; all by default. The others keep the
        values that other step methods give them.
    metric : {"adapt", "fisher", "softabs", "identity"}, array or callable, default "adapt"
        ``"fisher"`` is the expected information :math:`\sum_f J_f^T K_f J_f` of the
        model's factors f at the point, as in [1]_. ``"adapt"`` replaces the information of the
        data by its average over the tuning draws; only that of the free variables, which changes
        with their scale parameters, is computed at the point. ``"softabs"`` makes the Hessian of
        the negative log-density positive definite by applying SoftAbs to its eigenvalues. An
        array is a constant metric, or its diagonal. A callable ``metric(model, x)`` returns a
        d × d pytensor expression in the raveled value variables ``x``.
    integrator : {"exponential", "euler"}, default "exponential"
        ``"euler"`` proposes :math:`N(x + \tfrac{h}{2} A\nabla\log\pi + h\Gamma,\; hA)`, as
        in [1]_. ``"exponential"`` proposes
        :math:`N(x + (1-\rho)(A\nabla\log\pi + 2\Gamma),\; (1-\rho^2) A)` with
        :math:`\rho = e^{-h/2}`, which is exact where the posterior is Gaussian.
    step_size : float, optional
        The step size h with which tuning starts; found by a short search by default.
    target_accept : float, optional
        Target acceptance rate of tuning. The default depends on the integrator and the
        dimension.
    adapt_step_size : bool, default True
        Whether to tune the step size.
    step_size_jitter : float, default 0.0
        The step size of each draw is h times a random number, uniform in 1 ± this value.
    thin : int, optional
        Number of transitions per recorded draw after tuning, made in one compiled call. The
        statistics cover all of them. By default, tuning finds the number that makes draws
        nearly independent, at most 32. A chain that mixes slowly loses little by this, and
        PyMC has fewer draws to process. With ``"euler"``, the proposal of the paper, the
        default is 1.
    interweave : bool or sequence of variables, optional
        Whether the hyperparameters of a hierarchy also move with the standardised effects held,
        in further exact moves [2]_. By default, tuning decides whether and how often. A list names
        the hyperparameters that move, or the effects that are standardised.
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    initial_point : dict, optional
        A point that gives the shapes of the variables; ``model.initial_point()`` by default.
    compile_kwargs : dict, optional
        Passed to pytensor, for example ``{"mode": ...}``.
    rng : int or numpy.random.Generator, optional
        Seed. `pm.sample` sets one for each chain.
    blocked : bool, default True
        Whether to update all variables in one transition, or each of them separately.

    References
    ----------
    .. [1] T. Xifara, C. Sherlock, S. Livingstone, S. Byrne and M. Girolami (2014).
       Langevin diffusions and the Metropolis-adjusted Langevin algorithm.
       Statistics & Probability Letters 91, 14–19.
    .. [2] Y. Yu and X.-L. Meng (2011). To center or not to center: that is not the question – an
       ancillarity–sufficiency interweaving strategy (ASIS) for boosting MCMC efficiency.
       Journal of Computational and Graphical Statistics 20, 531–570.

    Notes
    -----
    The algorithm of the paper to the letter is
    ``PMALA(metric="fisher", integrator="euler", thin=1, interweave=False)``.

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
    default_metric = "adapt"


class MMALA(Langevin):
    r"""Manifold MALA with the drift published by Girolami & Calderhead.

    The same as `PMALA`, with
    :math:`\Omega_i = |G|^{-1/2} \sum_j \partial_j (A_{ij} |G|^{1/2})` instead of Γ
    [1]_. The two agree if G is a Hessian, as in generalised linear models with
    canonical link. Otherwise the diffusion of MMALA does not leave the posterior invariant,
    and the Metropolis step has to reject more proposals.

    The parameters are those of `PMALA`, but ``metric`` is ``"fisher"`` by default.

    References
    ----------
    .. [1] M. Girolami and B. Calderhead (2011). Riemann manifold Langevin and Hamiltonian
       Monte Carlo methods. J. R. Statist. Soc. B 73, 123–214.
    """

    name = "mmala"
    drift = "omega"


class SimplifiedMMALA(Langevin):
    r"""Manifold MALA without the derivatives of the metric.

    The same as `PMALA` with Γ = 0: with Euler's integrator, the proposal has mean
    :math:`x + \tfrac{h}{2} A(x) \nabla\log\pi` and covariance :math:`hA(x)` [1]_.
    Transitions are cheaper, but more proposals are rejected where the geometry changes fast.

    The parameters are those of `PMALA`, but ``metric`` is ``"fisher"`` by default.

    References
    ----------
    .. [1] M. Girolami and B. Calderhead (2011). Riemann manifold Langevin and Hamiltonian
       Monte Carlo methods. J. R. Statist. Soc. B 73, 123–214.
    """

    name = "simplified_mmala"
    drift = "gradient"


class MALA(Langevin):
    r"""Pre-conditioned Metropolis-adjusted Langevin algorithm.

    With Euler's integrator, the proposal has mean
    :math:`x + \tfrac{h}{2} A \nabla\log\pi` and covariance :math:`hA`, with a constant A
    [1]_, [2]_. The exponential integrator is that of `PMALA`. A transition needs one gradient.

    Parameters
    ----------
    vars : sequence of variables, optional
        As for `PMALA`.
    metric : {"adapt", "identity"} or array, default "adapt"
        :math:`G = A^{-1}`. ``"adapt"`` averages the model's Fisher information over the
        tuning draws and freezes it when tuning ends. With the exponential integrator, the
        covariance of the noise is the average of :math:`G^{-1}`, unless the metric has blocks
        or a band. This keeps chains from getting stuck in long tails.
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
    default_metric = "adapt"
    metrics = ("adapt", "identity")
    varies = False

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
                f"{shown(metric)}. For other metrics, use PMALA, MMALA or SimplifiedMMALA."
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
            interweave=False,
            model=model,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            rng=rng,
            blocked=blocked,
        )
