"""Build a chain for a target from its metric, geometry and kernel."""

from typing import Any

from pytensor.gradient import NullTypeGradError
from pytensor.graph.utils import MethodNotDefined

from pymc_pmala.interweaving import Interweaving
from pymc_pmala.kernel.geometry import symbolic_geometry
from pymc_pmala.kernel.kernel import Kernel
from pymc_pmala.metric import MetricChoice
from pymc_pmala.model.target import Target
from pymc_pmala.step.arguments import without_gradient
from pymc_pmala.step.arrival import Arrival
from pymc_pmala.step.chain import Chain, Options
from pymc_pmala.step.preconditioning import choose_preconditioning

__all__ = ["build_chain"]


def build_chain(
    target: Target,
    metric: MetricChoice,
    drift: str,
    varies: bool,
    interweaving: Interweaving | None,
    options: Options,
    **compile_kwargs: Any,
) -> Chain:
    """Build a chain for a target; compile its functions and call them once.

    Parameters
    ----------
    target : Target
    metric : str, array or callable
        As for `PMALA`.
    drift : {"gamma", "omega", "gradient"}
        See `symbolic_geometry`.
    varies : bool
        Whether the metric ``"adapt"`` keeps the information of free variables at the point.
    interweaving : Interweaving or None
    options : Options
    **compile_kwargs
        Passed to pytensor.
    """
    separate = options.integrator.is_exact_for_gaussians
    try:
        preconditioning = choose_preconditioning(metric, target, varies, separate, **compile_kwargs)
        geometry = symbolic_geometry(
            target,
            preconditioning.metric,
            preconditioning.factorization,
            drift,
            averages=preconditioning.averages,
            interweaving=interweaving,
        )
    except (NotImplementedError, NullTypeGradError, MethodNotDefined) as error:
        raise _no_gradient(target, metric, error) from error
    factor = None if preconditioning.averages else preconditioning.constants
    kernel = Kernel(target, geometry, factor, **compile_kwargs)
    # Numba compiles at the first call. Processes forked later need not compile again.
    kernel.warm_up()
    arrival = Arrival(kernel, preconditioning, target.transformed)
    sizes = {v.name: target.point[v.name].size for v in target.variables}
    return Chain(kernel, preconditioning, arrival, options, list(target.shared.values()), sizes)


def _no_gradient(target: Target, metric: MetricChoice, error: Exception) -> ValueError:
    """Explain to the user which derivative is missing."""
    names = without_gradient(target.model, target.variables)
    if not names:
        return ValueError(
            f"The metric {metric!r} needs derivatives beyond the gradient, which an Op of the "
            f"model does not implement ({error}). Choose metric='identity' or a constant array, or "
            "register the information of the distribution with "
            "`pymc_pmala.register_information`."
        )
    return ValueError(
        f"Langevin samplers need gradients, but the log-density cannot be differentiated "
        f"with respect to {names}. Implement the gradient of the Ops that depend on them, or "
        "sample these variables with another step method, for example "
        "`step=[PMALA([a, b]), pm.Slice([c])]`. For a `pm.Simulator`, use `pm.sample_smc`."
    )
