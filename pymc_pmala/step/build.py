"""How a chain is put together for a target: metric, geometry, kernel."""

from typing import Any

from pytensor.gradient import NullTypeGradError
from pytensor.graph.utils import MethodNotDefined

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
    target: Target, metric: MetricChoice, drift: str, options: Options, **compile_kwargs: Any
) -> Chain:
    """A chain for a target, its functions compiled and called once.

    Parameters
    ----------
    target : Target
    metric : str, array or callable
        As for `PMALA`; ``"adapt"`` is learned.
    drift : {"gamma", "omega", "gradient"}
        See `symbolic_geometry`.
    options : Options
    **compile_kwargs
        Passed to pytensor.
    """
    separate = options.integrator.is_exact_for_gaussians
    try:
        preconditioning = choose_preconditioning(metric, target, separate, **compile_kwargs)
        geometry = symbolic_geometry(
            target, preconditioning.metric, preconditioning.factorization, drift
        )
    except (NotImplementedError, NullTypeGradError, MethodNotDefined) as error:
        raise _no_gradient(target, metric, error) from error
    kernel = Kernel(target, geometry, preconditioning.factor, **compile_kwargs)
    # Numba compiles at the first call, once for all processes forked later.
    kernel.warm_up()
    arrival = Arrival(kernel, preconditioning, target.transformed)
    sizes = {v.name: target.point[v.name].size for v in target.variables}
    return Chain(kernel, preconditioning, arrival, options, list(target.shared.values()), sizes)


def _no_gradient(target: Target, metric: MetricChoice, error: Exception) -> ValueError:
    """What to tell the user when a derivative is missing."""
    names = without_gradient(target.model, target.variables)
    if not names:
        return ValueError(
            f"The metric {metric!r} needs derivatives beyond the gradient, which "
            f"an Op of this model does not have ({error}). Choose metric='identity' or "
            "a constant array, or give the distribution its information with "
            "`pymc_pmala.register_information`."
        )
    return ValueError(
        f"Langevin samplers need gradients, but the log-density cannot be differentiated "
        f"with respect to {names}. Give the Ops that depend on them a gradient, or give "
        "these variables another step method, for example "
        "`step=[PMALA([a, b]), pm.Slice([c])]`; for a `pm.Simulator`, use "
        "`pm.sample_smc`."
    )
