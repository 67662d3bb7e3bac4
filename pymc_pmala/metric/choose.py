"""The metric that a user chooses, and the contribution of each factor of a model to it."""

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.calculus.differentiation import has_opaque_op
from pymc_pmala.information import (
    NoInformation,
    QuadraticForm,
    factor_information,
    fallback_information,
)
from pymc_pmala.metric.checks import check_expression, check_shape
from pymc_pmala.metric.differences import (
    DifferencedExpressionMetric,
    DifferencedFisherMetric,
    LoopFisherMetric,
    by_differences,
)
from pymc_pmala.metric.expression import ExpressionMetric
from pymc_pmala.metric.fisher import FisherMetric
from pymc_pmala.metric.metric import ConstantMetric, FlooredMetric, Metric, SumMetric, identity
from pymc_pmala.metric.softabs import softabs_metric
from pymc_pmala.model.factors import Factor
from pymc_pmala.model.target import Target

__all__ = [
    "MetricChoice",
    "build_metric",
    "fisher_metric",
    "information_metric",
    "information_terms",
    "latent_information_varies",
]

MetricChoice = str | np.ndarray | Callable[[pm.Model, TensorVariable], TensorVariable]

# Largest graph of third derivatives that is worth compiling for a factor without a rule. A larger
# graph, for a log-density of a hundred operations, would take minutes.
_LARGEST = 600


def build_metric(choice: MetricChoice, target: Target) -> Metric:
    """Build the metric that a user chose, for a target."""
    x = target.x
    if isinstance(choice, str):
        if choice == "fisher":
            return fisher_metric(target)
        if choice == "softabs":
            return softabs_metric(x, target.logp)
        if choice == "identity":
            return ConstantMetric(x, identity(x))
        raise ValueError(
            f"Unknown metric {choice!r}. Choose 'fisher', 'softabs', 'identity', "
            "a positive-definite array, or a function `metric(model, x)`."
        )
    if callable(choice):
        matrix = check_expression(choice(target.model, x)).astype(x.dtype)
        check_shape(matrix, target.dimension)
        kind = DifferencedExpressionMetric if by_differences([matrix]) else ExpressionMetric
        return kind(x, matrix)
    return ConstantMetric(x, pt.as_tensor_variable(np.asarray(choice)))


def fisher_metric(target: Target) -> Metric:
    """Return the expected information of all factors of a target, with a floor."""
    return FlooredMetric(information_metric(target.x, target.factors))


def information_metric(x: TensorVariable, factors: Sequence[Factor]) -> Metric:
    """Sum of the information of factors with a rule and SoftAbs of the Hessian of the others."""
    forms: list[QuadraticForm] = []
    without_rule: list[Factor] = []
    for factor in factors:
        try:
            forms += factor_information(factor)
        except NoInformation:
            without_rule.append(factor)
            if not by_differences([factor.logp]):
                forms += fallback_information(factor)
    terms = information_terms(x, forms)
    if without_rule:
        logp = pt.add(*[factor.logp.sum() for factor in without_rule])
        terms.append(softabs_metric(x, logp, _LARGEST))
    return SumMetric(terms)


def latent_information_varies(target: Target) -> bool:
    """Whether the information of the free variables depends on the point.

    It does if a free variable has parameters that are sampled. The information of priors with
    constant parameters is constant in most cases.
    """
    latent = information_metric(target.x, [f for f in target.factors if not f.observed])
    product = latent.products(target.x.type("direction")[None])
    return target.x in graph_inputs([rewrite_graph(product)])


def information_terms(x: TensorVariable, forms: Sequence[QuadraticForm]) -> list[Metric]:
    """Group quadratic forms into metrics, each differentiated in the way its graph allows."""
    differenced = [form for form in forms if by_differences(form.coordinates)]
    plain = [form for form in forms if not by_differences(form.coordinates)]
    terms: list[Metric] = [FisherMetric(x, plain)]
    if differenced:
        coordinates = [c for form in differenced for c in form.coordinates]
        kind = DifferencedFisherMetric if has_opaque_op(coordinates) else LoopFisherMetric
        terms.append(kind(x, differenced))
    return terms
