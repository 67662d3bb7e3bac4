"""The metric G(x) of a target: products with it and contractions of its derivative."""

from pymc_pmala.metric.choose import (
    MetricChoice,
    build_metric,
    fisher_metric,
    information_metric,
    information_terms,
    latent_information_varies,
)
from pymc_pmala.metric.differences import (
    DifferencedExpressionMetric,
    DifferencedFisherMetric,
    LoopFisherMetric,
)
from pymc_pmala.metric.expression import ExpressionMetric
from pymc_pmala.metric.fisher import FisherMetric
from pymc_pmala.metric.metric import (
    ConstantMetric,
    FlooredMetric,
    Metric,
    SumMetric,
    add_floor,
    is_floored,
)
from pymc_pmala.metric.softabs import SoftAbsMetric, softabs_metric

__all__ = [
    "ConstantMetric",
    "DifferencedExpressionMetric",
    "DifferencedFisherMetric",
    "ExpressionMetric",
    "FisherMetric",
    "FlooredMetric",
    "LoopFisherMetric",
    "Metric",
    "MetricChoice",
    "SoftAbsMetric",
    "SumMetric",
    "add_floor",
    "build_metric",
    "fisher_metric",
    "information_metric",
    "information_terms",
    "is_floored",
    "latent_information_varies",
    "softabs_metric",
]
