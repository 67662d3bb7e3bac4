"""Build a kernel from a model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_pmala.arguments import (
    check_compile_kwargs,
    check_mapping,
    check_metric,
    context_model,
    shown,
)
from pymc_pmala.factorization import find_factorization
from pymc_pmala.kernel.geometry import DRIFTS, symbolic_geometry
from pymc_pmala.kernel.kernel import Kernel
from pymc_pmala.metric import ConstantMetric, MetricChoice, build_metric
from pymc_pmala.metric.checks import constant_factor
from pymc_pmala.model.target import make_target
from pymc_pmala.stack_traces import no_stack_traces

__all__ = ["make_kernel"]


@no_stack_traces()
def make_kernel(
    model: pm.Model | None = None,
    *,
    vars: Sequence[Variable] | None = None,
    metric: MetricChoice = "fisher",
    drift: str = "gamma",
    initial_point: Mapping[str, np.ndarray] | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> Kernel:
    """Compile the transitions of a Langevin sampler for use in your own loop.

    Parameters
    ----------
    model : pm.Model, optional
        Taken from the ``with`` context by default.
    vars : sequence of variables, optional
        The variables to sample; all of them by default.
    metric : {"fisher", "softabs", "identity"}, array or callable, default "fisher"
        The metric, as for `PMALA`. An array is a constant metric, as for `MALA`.
    drift : {"gamma", "omega", "gradient"}, default "gamma"
        ``"gamma"`` is the drift of `PMALA`, ``"omega"`` that of `MMALA`, and ``"gradient"`` that of
        `SimplifiedMMALA` and `MALA`.
    initial_point : mapping of str to array, optional
        Values of the value variables; ``model.initial_point()`` by default.
    compile_kwargs : mapping, optional
        Passed to pytensor, for example ``{"mode": ...}``.

    Returns
    -------
    Kernel
        The compiled transitions. A kernel draws no random numbers, does no tuning, and does not
        depend on PyMC.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_pmala import make_kernel
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    >>> kernel = make_kernel(model)
    >>> rng = np.random.default_rng(1)
    >>> state, scales = kernel.init(kernel.start), kernel.scales(1.0)
    >>> noises, log_uniforms = rng.standard_normal((100, 1)), np.log(rng.random(100))
    >>> state, info = kernel.run(state, noises, log_uniforms, scales)
    >>> info.transitions
    100
    """
    if not isinstance(drift, str) or drift not in DRIFTS:
        raise ValueError(f"Unknown drift {shown(drift)}. Choose one of {list(DRIFTS)}.")
    check_metric(metric)
    check_mapping("initial_point", initial_point)
    check_compile_kwargs(compile_kwargs)
    target = make_target(context_model(model), vars, initial_point)
    chosen = build_metric(metric, target)
    factor = None
    if isinstance(chosen, ConstantMetric):
        factor = (constant_factor(chosen.matrix().eval(), target.dimension),)
    factorization = find_factorization(chosen, target.shared.values())
    geometry = symbolic_geometry(target, chosen, factorization, drift)
    kernel = Kernel(target, geometry, factor, **(compile_kwargs or {}))
    kernel.warm_up()
    return kernel
