"""The PyMC models of the benchmarks, by family."""

from benchmarks.models.equations import (
    fitzhugh_nagumo,
    lotka_volterra,
)
from benchmarks.models.geometries import (
    funnel,
    ill_conditioned_covariance,
    ill_conditioned_gaussian,
)
from benchmarks.models.hierarchies import (
    beta_binomial_groups,
    binomial_groups,
    correlated_slopes,
    eight_schools,
    hierarchical_regression,
    independent_groups,
    item_response,
    poisson_glmm,
    survival_with_frailty,
    varying_slopes,
)
from benchmarks.models.mixtures import (
    dirichlet_multinomial,
    factor_analysis,
    gaussian_mixture,
)
from benchmarks.models.processes import (
    areal_counts,
    gaussian_process,
    hilbert_space_process,
    latent_process,
    splines,
)
from benchmarks.models.regressions import (
    censored_regression,
    dense_regression,
    group_comparison,
    horseshoe_regression,
    imputed_covariates,
    logistic_regression,
    negative_binomial_regression,
    ordered_logit,
    student_t_regression,
    truncated_regression,
    zero_inflated_poisson,
)
from benchmarks.models.series import (
    autoregression,
    change_point,
    change_point_moments,
    random_walk_volatility,
    stochastic_volatility,
    structural_trend,
)

__all__ = [
    "areal_counts",
    "autoregression",
    "beta_binomial_groups",
    "binomial_groups",
    "censored_regression",
    "change_point",
    "change_point_moments",
    "correlated_slopes",
    "dense_regression",
    "dirichlet_multinomial",
    "eight_schools",
    "factor_analysis",
    "fitzhugh_nagumo",
    "funnel",
    "gaussian_mixture",
    "gaussian_process",
    "group_comparison",
    "hierarchical_regression",
    "hilbert_space_process",
    "horseshoe_regression",
    "ill_conditioned_covariance",
    "ill_conditioned_gaussian",
    "imputed_covariates",
    "independent_groups",
    "item_response",
    "latent_process",
    "logistic_regression",
    "lotka_volterra",
    "negative_binomial_regression",
    "ordered_logit",
    "poisson_glmm",
    "random_walk_volatility",
    "splines",
    "stochastic_volatility",
    "structural_trend",
    "student_t_regression",
    "survival_with_frailty",
    "truncated_regression",
    "varying_slopes",
    "zero_inflated_poisson",
]
