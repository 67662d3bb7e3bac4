"""Expected information of distributions that are parts of others."""

from collections.abc import Sequence
from dataclasses import replace

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import _default_transform
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.registry import Information, QuadraticForm, factor_information
from pymc_pmala.model.factors import Factor, distribution_parameters

__all__ = ["nested_information", "over"]


def nested_information(
    factor: Factor, distribution: TensorVariable, value: TensorVariable
) -> list[Information]:
    """Information of a distribution that is a part of another, at a given value of it.

    Parameters
    ----------
    factor : Factor
        The whole.
    distribution : TensorVariable
        A random variable outside of the model, whose inputs are functions of the sampled
        values.
    value : TensorVariable
        Its value, data or a function of the sampled values.
    """
    node = distribution.owner
    unconstrained, logp = value, pm.logp(distribution, value)
    transform = _default_transform(node.op, distribution)
    if transform is not None and not factor.observed:
        unconstrained = transform.forward(value, *node.inputs)
        logp = logp + transform.log_jac_det(unconstrained, *node.inputs)
    part = replace(
        factor,
        op=node.op,
        value=value,
        unconstrained=unconstrained,
        parameters=tuple(distribution_parameters(distribution)),
        logp=logp,
        scale=pt.constant(1.0),
    )
    return [Information(form.coordinates, form.product) for form in factor_information(part)]


def over(
    factor: Factor, value: TensorVariable, informations: Sequence[Information]
) -> list[Information]:
    """Elementwise information, whose elements are those of ``value``."""
    part = replace(factor, value=value, scale=pt.constant(1.0))
    forms = [QuadraticForm(information, part) for information in informations]
    return [Information(form.coordinates, form.product) for form in forms]
