"""The factors of a PyMC model's log-posterior."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomSymbolicDistRV
from pymc.distributions.distribution import PartialObservedRV
from pymc.distributions.transforms import ChainedTransform, _default_transform, logodds
from pymc.logprob.transforms import IntervalTransform, LogTransform, Transform
from pymc.variational.minibatch_rv import MinibatchRandomVariable, get_scaling
from pytensor.graph.basic import Variable, equal_computations
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "Factor",
    "OwnTransform",
    "distribution_parameters",
    "factors_in",
    "is_logit_normal",
    "model_factors",
]


class OwnTransform(NamedTuple):
    """A custom transform, from the sampled value to the default coordinates.

    Attributes
    ----------
    sampled : TensorVariable
        The value variable u.
    log_jacobian : TensorVariable
        Logarithm of the Jacobian determinant of ``Factor.unconstrained`` with respect to u.
    stretch : TensorVariable
        The elementwise derivative of ``Factor.unconstrained`` by u, if the default coordinates are
        logarithms and an unbounded tail may be stretched; otherwise the constant 0.
    """

    sampled: TensorVariable
    log_jacobian: TensorVariable
    stretch: TensorVariable


@dataclass(frozen=True, eq=False)
class Factor:
    """One term of the log-posterior: a random variable given its parameters.

    Attributes
    ----------
    name : str
        Name of the random variable (or potential) in the model.
    op : Op or None
        The distribution; rules are dispatched on its type. None for a potential.
    value : TensorVariable
        Value of the variable on its natural (constrained) scale: the data, or a function
        of the unconstrained value.
    unconstrained : TensorVariable
        The value after the *default* transform of the distribution; the data if observed.
    parameters : tuple of TensorVariable
        The parameters of the distribution, as functions of the sampled values.
    logp : TensorVariable
        Elementwise log-density of the factor, including the log-Jacobian.
    observed : bool
        Whether the value is data.
    scale : TensorVariable
        Factor by which the log-density is multiplied (``total_size``).
    transform : OwnTransform, optional
        How ``unconstrained`` depends on the sampled value, if the transform is not the default.
    """

    name: str
    op: Any
    value: TensorVariable
    unconstrained: TensorVariable
    parameters: tuple[TensorVariable, ...]
    logp: TensorVariable
    observed: bool
    scale: TensorVariable
    transform: OwnTransform | None = None


def model_factors(model: pm.Model) -> list[Factor]:
    """Return the factors of a model's log-posterior, in terms of its value variables."""
    return [
        *_rv_factors(model),
        *_partially_observed_factors(model),
        *_potential_factors(model),
    ]


def _rv_factors(model: pm.Model) -> list[Factor]:
    rvs = [rv for rv in model.basic_RVs if not isinstance(rv.owner.op, PartialObservedRV)]
    logps = model.logp(vars=rvs, sum=False)
    factors = [_rv_factor(model, rv, logp) for rv, logp in zip(rvs, logps, strict=True)]
    # Replaced together, so that variables shared by several factors stay shared.
    graphs = [graph for factor in factors for graph in _graphs(factor)]
    remaining = iter(model.replace_rvs_by_values(graphs))
    return [_with_graphs(factor, remaining) for factor in factors]


def _rv_factor(model: pm.Model, rv: TensorVariable, logp: TensorVariable) -> Factor:
    """Factor of a random variable, with parameters that still depend on random variables."""
    base = _without_minibatch(rv)
    unconstrained, transform = model.rvs_to_values[rv], None
    if rv in model.free_RVs and (own := _own_transform(model, rv)) is not None:
        unconstrained, transform = own
    return Factor(
        name=rv.name,
        op=base.owner.op,
        value=rv,
        unconstrained=unconstrained,
        parameters=tuple(distribution_parameters(base)),
        logp=logp,
        observed=rv in model.observed_RVs,
        scale=_minibatch_scale(rv, rv),
        transform=transform,
    )


def _own_transform(
    model: pm.Model, rv: TensorVariable
) -> tuple[TensorVariable, OwnTransform] | None:
    """Return the default coordinates of a variable with a custom transform, else None.

    PyMC applies a custom transform on top of the default one, unless the default is disabled.
    """
    u, inputs = model.rvs_to_values[rv], rv.owner.inputs
    used = model.rvs_to_transforms[rv]
    default = logodds if is_logit_normal(rv.owner.op) else _default_transform(rv.owner.op, rv)
    if used is None and default is None:
        return None
    if used is not None and default is not None and _equal(used, default, u, inputs):
        return None
    if isinstance(used, ChainedTransform) and isinstance(used.transform_list[0], type(default)):
        rest = ChainedTransform(used.transform_list[1:])
        log_jacobian = rest.log_jac_det(u, *inputs).sum()
        return rest.backward(u, *inputs), OwnTransform(u, log_jacobian, pt.constant(0.0))
    value, log_jacobian, stretch = u, pt.constant(0.0), pt.constant(0.0)
    if used is None and isinstance(default, LogTransform):
        # Near zero, the information about the logarithm, pulled back, is sufficient.
        return default.forward(u, *inputs), OwnTransform(u, log_jacobian, 1.0 / u)
    if used is not None:
        value, log_jacobian = used.backward(u, *inputs), used.log_jac_det(u, *inputs).sum()
    if default is None:
        return value, OwnTransform(u, log_jacobian, stretch)
    unconstrained = default.forward(value, *inputs)
    log_jacobian = log_jacobian - default.log_jac_det(unconstrained, *inputs).sum()
    if isinstance(default, LogTransform) and _may_stretch(used):
        stretch = pt.exp(used.log_jac_det(u, *inputs)) / value
    return unconstrained, OwnTransform(u, log_jacobian, stretch)


def _may_stretch(used: Transform | None) -> bool:
    """Return whether a transform has an unbounded tail that is not an exponential's."""
    return used is not None and used.ndim_supp == 0 and not isinstance(used, IntervalTransform)


def is_logit_normal(op: Op) -> bool:
    """Whether a distribution is PyMC's LogitNormal, a `CustomDist` with a default transform."""
    return isinstance(op, CustomSymbolicDistRV) and type(op).__name__ == "LogitNormal"


def _equal(
    first: Transform, second: Transform, u: TensorVariable, inputs: Sequence[Variable]
) -> bool:
    """Whether two transforms are the same function of u."""
    if type(first) is not type(second):
        return False
    return equal_computations([first.backward(u, *inputs)], [second.backward(u, *inputs)])


def _partially_observed_factors(model: pm.Model) -> list[Factor]:
    """Return one factor for the observed and unobserved parts of a multivariate variable."""
    nodes = {rv.owner: None for rv in model.basic_RVs if isinstance(rv.owner.op, PartialObservedRV)}
    factors = []
    for node in nodes:
        whole, mask = node.inputs
        logps = model.logp(vars=node.outputs, sum=False)
        observed, missing, *parameters = model.replace_rvs_by_values(
            [*node.outputs, *distribution_parameters(whole)]
        )
        value = pt.zeros(mask.shape, dtype=whole.dtype)[mask].set(missing)[~mask].set(observed)
        factors.append(
            Factor(
                name=node.outputs[0].name,
                op=whole.owner.op,
                value=value,
                unconstrained=value,
                parameters=tuple(parameters),
                logp=pt.concatenate([logp.ravel() for logp in logps]),
                observed=False,
                scale=pt.constant(1.0),
            )
        )
    return factors


def _potential_factors(model: pm.Model) -> list[Factor]:
    if not model.potentials:
        return []
    logps = model.logp(vars=model.potentials, sum=False)
    return [
        Factor(
            name=potential.name,
            op=None,
            value=logp,
            unconstrained=logp,
            parameters=(),
            logp=logp,
            observed=True,
            scale=pt.constant(1.0),
        )
        for potential, logp in zip(model.potentials, logps, strict=True)
    ]


def _without_minibatch(rv: TensorVariable) -> TensorVariable:
    while isinstance(rv.owner.op, MinibatchRandomVariable):
        rv = rv.owner.inputs[0]
    return rv


def _minibatch_scale(rv: TensorVariable, value: TensorVariable) -> TensorVariable:
    if not isinstance(rv.owner.op, MinibatchRandomVariable):
        return pt.constant(1.0)
    _, *total_size = rv.owner.inputs
    return get_scaling(total_size, value.shape)


def distribution_parameters(rv: TensorVariable) -> list[TensorVariable]:
    """Return the tensor parameters of a random variable, without generators and sizes.

    The list is empty for a variable that is a graph of several variables, such as the
    marginalised variables of pymc-extras. Such a factor has no information rule.
    """
    node = rv.owner
    if not hasattr(node.op, "dist_params"):
        return []
    if hasattr(node.op, "extended_signature") and node.op.extended_signature is None:
        return [v for v in node.inputs if isinstance(v.type, pt.TensorType)]
    return list(node.op.dist_params(node))


def factors_in(
    factors: Sequence[Factor], replacements: Mapping[Variable, Variable]
) -> list[Factor]:
    """Replace variables in factors; variables shared by several factors stay shared."""
    graphs = [graph for factor in factors for graph in _graphs(factor)]
    remaining = iter(clone_replace(graphs, replacements, rebuild_strict=False))
    return [_with_graphs(factor, remaining) for factor in factors]


def _graphs(factor: Factor) -> list[Variable]:
    graphs = [factor.logp, factor.value, factor.unconstrained, factor.scale, *factor.parameters]
    return [*graphs, *(factor.transform or ())]


def _with_graphs(factor: Factor, graphs: Iterator[Variable]) -> Factor:
    logp, value, unconstrained, scale = (next(graphs) for _ in range(4))
    return replace(
        factor,
        logp=logp,
        value=value,
        unconstrained=unconstrained,
        scale=scale,
        parameters=tuple(next(graphs) for _ in factor.parameters),
        transform=factor.transform and OwnTransform(*(next(graphs) for _ in factor.transform)),
    )
