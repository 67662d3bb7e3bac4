"""Standardised effects of univariate distributions, in their unconstrained coordinates."""

from pymc.distributions.continuous import (
    AsymmetricLaplaceRV,
    HalfCauchyRV,
    HalfStudentTRV,
    MoyalRV,
    SkewNormalRV,
    WeibullBetaRV,
)
from pytensor.tensor.random.basic import (
    CauchyRV,
    ExponentialRV,
    GammaRV,
    GumbelRV,
    HalfNormalRV,
    InvGammaRV,
    LaplaceRV,
    LogisticRV,
    LogNormalRV,
    NormalRV,
    StudentTRV,
)

from pymc_pmala.information.links import log
from pymc_pmala.interweaving.registry import (
    Standardisation,
    location_scale,
    register_standardisation,
)
from pymc_pmala.model.factors import Factor

_LOG = "location–scale of the logarithm"


@register_standardisation(NormalRV, LaplaceRV, CauchyRV, LogisticRV, GumbelRV, MoyalRV)
def location_and_scale(factor: Factor) -> Standardisation:
    """Families with a location and a scale: z = (v − μ)/σ."""
    location, scale = factor.parameters
    return location_scale(factor.unconstrained, location, log(scale))


@register_standardisation(StudentTRV)
def student_t(factor: Factor) -> Standardisation:
    """StudentT(ν, μ, σ): z = (v − μ)/σ has ν degrees of freedom still."""
    nu, mu, sigma = factor.parameters
    return location_scale(factor.unconstrained, mu, log(sigma), kept=(nu,))


@register_standardisation(SkewNormalRV)
def skew_normal(factor: Factor) -> Standardisation:
    """SkewNormal(μ, σ, α): z = (v − μ)/σ has the skewness α still."""
    mu, sigma, alpha = factor.parameters
    return location_scale(factor.unconstrained, mu, log(sigma), kept=(alpha,))


@register_standardisation(AsymmetricLaplaceRV)
def asymmetric_laplace(factor: Factor) -> Standardisation:
    """AsymmetricLaplace(b, κ, μ), where b is a rate: z = b(v − μ) has the asymmetry κ still."""
    b, kappa, mu = factor.parameters
    return location_scale(factor.unconstrained, mu, -log(b), kept=(kappa,))


@register_standardisation(LogNormalRV)
def log_normal(factor: Factor) -> Standardisation:
    """LogNormal(μ, σ): z = (log v − μ)/σ."""
    mu, sigma = factor.parameters
    return location_scale(factor.unconstrained, mu, log(sigma), form=_LOG)


@register_standardisation(HalfNormalRV)
def half_normal(factor: Factor) -> Standardisation:
    """HalfNormal(σ): z = log v − log σ."""
    _, sigma = factor.parameters
    return location_scale(factor.unconstrained, log(sigma), form="scale")


@register_standardisation(HalfCauchyRV, ExponentialRV)
def scale_alone(factor: Factor) -> Standardisation:
    """HalfCauchy(β) and Exponential(scale): z = log v − log β."""
    (scale,) = factor.parameters
    return location_scale(factor.unconstrained, log(scale), form="scale")


@register_standardisation(HalfStudentTRV, GammaRV, InvGammaRV)
def shape_and_scale(factor: Factor) -> Standardisation:
    """HalfStudentT(ν, σ), Gamma(α, scale) and InverseGamma(α, β): z = log v − log(scale)."""
    shape, scale = factor.parameters
    return location_scale(factor.unconstrained, log(scale), kept=(shape,), form="scale")


@register_standardisation(WeibullBetaRV)
def weibull(factor: Factor) -> Standardisation:
    """Weibull(α, β): z = α (log v − log β)."""
    alpha, beta = factor.parameters
    return location_scale(factor.unconstrained, log(beta), -log(alpha), form=_LOG)
