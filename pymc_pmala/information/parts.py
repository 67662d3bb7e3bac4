"""Expected information of distributions that are components of other distributions."""

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
    """Return the information of a component of a distribution at a given value.

    Parameters
    ----------
    factor : Factor
        The factor of the whole distribution.
    distribution : TensorVariable
        The component: a random variable that is not part of the model, whose inputs are
        functions of the sampled values.
    value : TensorVariable
        Value of the component: data, or a function of the sampled values.
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
    """Return elementwise information for the elements of ``value``."""
    part = replace(factor, value=value, scale=pt.constant(1.0))
    forms = [QuadraticForm(information, part) for information in informations]
    return [Information(form.coordinates, form.product) for form in forms]
