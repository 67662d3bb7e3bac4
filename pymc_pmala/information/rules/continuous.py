"""Expected information of continuous univariate distributions, in closed form.

The coordinates are the location itself and the logarithms of the scale and the shape. If the
mean, or another function of the parameters, is orthogonal to the shape, it is used as a
coordinate: the information is then a sum of squares without cancellation.
"""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import (
    AsymmetricLaplaceRV,
    FlatRV,
    HalfCauchyRV,
    HalfFlatRV,
    HalfStudentTRV,
    InterpolatedRV,
    MoyalRV,
    WaldRV,
    WeibullBetaRV,
)
from pymc.distributions.custom import CustomSymbolicDistRV
from pytensor.tensor.random.basic import (
    BetaRV,
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
    ParetoRV,
    StudentTRV,
    TriangularRV,
    UniformRV,
    VonMisesRV,
)
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.information.links import log, log_odds, log_odds_weight
from pymc_pmala.information.patterns import is_constant
from pymc_pmala.information.registry import (
    Information,
    NoInformation,
    register_information,
)
from pymc_pmala.information.special import (
    bessel_ratio,
    student_t_shape,
    trigamma_excess,
    von_mises_concentration,
)
from pymc_pmala.model.factors import Factor, is_logit_normal

# E[(1 + (1 − w) log w)²] and E[(1 − w)² log w] for a standard exponential w.
_EXTREME_SCALE = np.pi**2 / 6 + (1 - np.euler_gamma) ** 2
_EXTREME_CROSS = 1 - np.euler_gamma


@register_information(FlatRV, HalfFlatRV)
def flat(factor: Factor) -> list[Information]:
    """Flat and HalfFlat: no information."""
    return []


@register_information(NormalRV)
def normal(factor: Factor) -> list[Information]:
    """Normal(μ, σ): 1/σ² on v − μ, 2 on log σ."""
    mu, sigma = factor.parameters
    return _location_scale(factor.value - mu, log(sigma), 1.0, 2.0)


@register_information(LogNormalRV)
def log_normal(factor: Factor) -> list[Information]:
    """LogNormal(μ, σ): 1/σ² on log v − μ, 2 on log σ."""
    mu, sigma = factor.parameters
    return _location_scale(log(factor.value) - mu, log(sigma), 1.0, 2.0)


@register_information(CustomSymbolicDistRV)
def logit_normal(factor: Factor) -> list[Information]:
    """LogitNormal(μ, σ): 1/σ² on logit v − μ, 2 on log σ.

    PyMC implements it as a `CustomDist`; other `CustomDist`s have no rule.
    """
    if not is_logit_normal(factor.op):
        raise NoInformation(f"{factor.name!r} is a CustomDist without an information rule.")
    mu, sigma = factor.parameters
    return _location_scale(log_odds(factor.value) - mu, log(sigma), 1.0, 2.0)


@register_information(LaplaceRV)
def laplace(factor: Factor) -> list[Information]:
    """Laplace(μ, b): 1/b² on v − μ, 1 on log b."""
    mu, b = factor.parameters
    return _location_scale(factor.value - mu, log(b), 1.0, 1.0)


@register_information(LogisticRV)
def logistic(factor: Factor) -> list[Information]:
    """Logistic(μ, s): 1/(3s²) on v − μ, (3 + π²)/9 on log s."""
    mu, s = factor.parameters
    return _location_scale(factor.value - mu, log(s), 1 / 3, (3 + np.pi**2) / 9)


@register_information(CauchyRV)
def cauchy(factor: Factor) -> list[Information]:
    """Cauchy(α, β): 1/(2β²) on v − α, 1/2 on log β.

    If free, 2/(β² + (v − α)²) on v − α; see `student_t`.
    """
    alpha, beta = factor.parameters
    distance, log_beta = factor.value - alpha, log(beta)
    if factor.observed:
        return _location_scale(distance, log_beta, 0.5, 0.5)
    weight = 2.0 / (pt.exp(2.0 * log_beta) + distance**2)
    return [Information(distance, weight), Information(log_beta, 0.5)]


@register_information(StudentTRV)
def student_t(factor: Factor) -> list[Information]:
    """StudentT(ν, μ, σ): (ν + 1)/((ν + 3)σ²) on v − μ; on (log σ, log ν) see below.

    If free, (ν + 1)/(νσ² + (v − μ)²) on v − μ: the expected precision, given v, of the normal
    distribution of which v is a scale mixture. It falls with the square of the slope of the
    log-density, so that the length of a step in the tail grows with the width of the tail. With a
    constant precision, the chain would stay in the tail for a long time at each visit.
    """
    nu, mu, sigma = factor.parameters
    log_sigma, log_nu = log(sigma), log(nu)
    nu = pt.exp(log_nu)
    distance = factor.value - mu
    if factor.observed:
        location = (nu + 1.0) / (nu + 3.0) * pt.exp(-2.0 * log_sigma)
    else:
        location = (nu + 1.0) / (nu * pt.exp(2.0 * log_sigma) + distance**2)
    return [Information(distance, location), _student_t_scale(log_sigma, log_nu)]


@register_information(HalfStudentTRV)
def half_student_t(factor: Factor) -> list[Information]:
    """HalfStudentT(ν, σ): as for the scale and shape of a StudentT, on log σ − log v."""
    nu, sigma = factor.parameters
    return [_student_t_scale(log(sigma) - log(factor.value), log(nu))]


@register_information(HalfNormalRV)
def half_normal(factor: Factor) -> list[Information]:
    """HalfNormal(σ): 2 on log v − log σ, a location; Var(v²/σ²) = 2."""
    _, sigma = factor.parameters
    return [Information(log(factor.value) - log(sigma), 2.0)]


@register_information(HalfCauchyRV)
def half_cauchy(factor: Factor) -> list[Information]:
    """HalfCauchy(β): 1/2 on log v − log β, a location; the score is cos 2θ with θ uniform."""
    (beta,) = factor.parameters
    return [Information(log(factor.value) - log(beta), 0.5)]


@register_information(ExponentialRV)
def exponential(factor: Factor) -> list[Information]:
    """Exponential(scale): 1 on log v − log scale, a location; Var(v/scale) = 1."""
    (scale,) = factor.parameters
    return [Information(log(factor.value) - log(scale), 1.0)]


@register_information(GammaRV)
def gamma(factor: Factor) -> list[Information]:
    """Gamma(α, scale): α on log v − log(mean), α²ψ'(α) − α on log α."""
    alpha, scale = factor.parameters
    return _gamma(log(factor.value) - log(scale), log(alpha))


@register_information(InvGammaRV)
def inverse_gamma(factor: Factor) -> list[Information]:
    """InverseGamma(α, β): as for a Gamma(α, 1/β) of 1/v."""
    alpha, beta = factor.parameters
    return _gamma(log(beta) - log(factor.value), log(alpha))


@register_information(WeibullBetaRV)
def weibull(factor: Factor) -> list[Information]:
    """Weibull(α, β), on (log v − log β, log α): [[α², α(1 − γ)], [·, π²/6 + (1 − γ)²]]."""
    alpha, beta = factor.parameters
    log_alpha = log(alpha)
    alpha = pt.exp(log_alpha)
    return [
        Information(
            (log(factor.value) - log(beta), log_alpha),
            ((alpha**2, alpha * _EXTREME_CROSS), (alpha * _EXTREME_CROSS, _EXTREME_SCALE)),
        )
    ]


@register_information(GumbelRV)
def gumbel(factor: Factor) -> list[Information]:
    """Gumbel(μ, β), on (v − μ, log β): [[1/β², (1 − γ)/β], [·, π²/6 + (1 − γ)²]]."""
    mu, beta = factor.parameters
    return [_skewed(factor.value - mu, log(beta), 1.0, _EXTREME_CROSS, _EXTREME_SCALE)]


@register_information(MoyalRV)
def moyal(factor: Factor) -> list[Information]:
    """Moyal(μ, σ), on (v − μ, log σ): w = exp(−(v − μ)/σ) has a χ²₁ distribution.

    [[1/(2σ²), E[(w − 1)² log w]/(4σ)], [·, E[(w − 1)² log² w]/4 − 1]].
    """
    mu, sigma = factor.parameters
    # E[w^k log w] and E[w^k log² w] from E[w^k] = 1, 1, 3 and the moments of log χ².
    first = -np.euler_gamma - np.log(2) + np.array([0.0, 2.0, 8 / 3])
    second = first**2 + np.pi**2 / 2 - np.array([0.0, 4.0, 40 / 9])
    square = np.array([1.0, -2.0, 3.0])
    cross, scale = square @ first / 4, square @ second / 4 - 1
    return [_skewed(factor.value - mu, log(sigma), 0.5, cross, scale)]


@register_information(AsymmetricLaplaceRV)
def asymmetric_laplace(factor: Factor) -> list[Information]:
    """AsymmetricLaplace(b, κ, μ), on (v − μ, log b, log κ), with t = tanh(log κ).

    [[b², 0, b/cosh(log κ)], [·, 1, −t], [·, ·, 2 − t²]].
    """
    b, kappa, mu = factor.parameters
    log_b, log_kappa = log(b), log(kappa)
    b = pt.exp(log_b)
    t = pt.tanh(log_kappa)
    sech = 2.0 * pt.sqrt(log_odds_weight(2.0 * log_kappa))
    return [
        Information(
            (factor.value - mu, log_b, log_kappa),
            ((b**2, 0.0, b * sech), (0.0, 1.0, -t), (b * sech, -t, 1.0 + sech**2)),
        )
    ]


@register_information(WaldRV)
def wald(factor: Factor) -> list[Information]:
    """Wald(μ, λ, α): λ/μ on log v − log μ, 1/2 on log v − log λ; v − α replaces v if shifted.

    The log-density of log v is ½ log φ − ½c − φ(cosh c − 1), c = log v − log μ, φ = λ/μ.
    """
    mu, lam, alpha = factor.parameters
    shifted = factor.value if is_constant(alpha, 0.0) else factor.value - alpha
    log_value, log_mu, log_lam = log(shifted), log(mu), log(lam)
    return [
        Information(log_value - log_mu, pt.exp(log_lam - log_mu)),
        Information(log_value - log_lam, 0.5),
    ]


@register_information(ParetoRV)
def pareto(factor: Factor) -> list[Information]:
    """Pareto(α, m).

    If free, under its interval transform v = m + eᵘ, on (u − log m, log α):
    [[α/(α + 2), α/(α + 1)], [·, 1]]. If observed, α² on log m and 1 on log α.
    """
    alpha, m = factor.parameters
    log_alpha, log_m = log(alpha), log(m)
    alpha = pt.exp(log_alpha)
    if factor.observed:
        return [Information(log_m, alpha**2), Information(log_alpha, 1.0)]
    cross = alpha / (alpha + 1.0)
    return [
        Information(
            (factor.unconstrained - log_m, log_alpha),
            ((alpha / (alpha + 2.0), cross), (cross, 1.0)),
        )
    ]


@register_information(BetaRV)
def beta(factor: Factor) -> list[Information]:
    """Beta(α, β), on (logit v − log α + log β, log α, log β).

    With n = α + β, m = α/n, w = m(1 − m), r = n/(n + 1) and e(x) = x²ψ'(x) − x:
    [[nwr, −wr, wr], [·, e(α) − m²e(n) − wr, w(r − e(n))], [·, ·, e(β) − (1 − m)²e(n) − wr]].
    """
    log_alpha, log_beta = map(log, factor.parameters)
    alpha, beta = pt.exp(log_alpha), pt.exp(log_beta)
    m, complement = pt.sigmoid(log_alpha - log_beta), pt.sigmoid(log_beta - log_alpha)
    n = alpha + beta
    r = n / (n + 1.0)
    stacked = trigamma_excess(pt.stack(pt.broadcast_arrays(alpha, beta, n)))
    excess_alpha, excess_beta, excess = stacked[0], stacked[1], stacked[2]
    w = m * complement
    alpha_alpha = excess_alpha - m**2 * excess - w * r
    beta_beta = excess_beta - complement**2 * excess - w * r
    cross = w * (r - excess)
    return [
        Information(
            (log_odds(factor.value) - log_alpha + log_beta, log_alpha, log_beta),
            (
                (n * w * r, -w * r, w * r),
                (-w * r, alpha_alpha, cross),
                (w * r, cross, beta_beta),
            ),
        )
    ]


@register_information(UniformRV)
def uniform(factor: Factor) -> list[Information]:
    """Uniform(a, b).

    If free, under its interval transform, the unconstrained value has a standard logistic
    density for any bounds, with E[s²] = 1/3. If observed, log(b − a) has score −1.
    """
    lower, upper = factor.parameters
    if factor.observed:
        return [Information(pt.log(upper - lower), 1.0)]
    return [Information(factor.unconstrained, 1.0 / 3.0)]


@register_information(InterpolatedRV, path="variance and bounds")
def interpolated(factor: Factor) -> list[Information]:
    """Interpolated(x, f): 1/Var on v and, as for a Uniform, 1/3 on the unconstrained value.

    This is an approximation, because PyMC's splines cannot be differentiated more than once.
    """
    points, density, _ = factor.parameters
    if factor.observed:
        return []
    mean = (points * density).sum(axis=-1) / density.sum(axis=-1)
    square = (points**2 * density).sum(axis=-1) / density.sum(axis=-1)
    return [
        Information(factor.value, 1.0 / (square - mean**2)),
        Information(factor.unconstrained, 1.0 / 3.0),
    ]


@register_information(TriangularRV)
def triangular(factor: Factor) -> list[Information]:
    """Triangular(a, c, b) with its mode at the fraction p = (c − a)/(b − a).

    If free, under its interval transform, on (u, logit p) with w = p(1 − p):
    [[1/2 + 5w/2, −2w], [·, w]]. If observed, w on logit p; the information about the ends of
    the support is infinite and is omitted.
    """
    lower, mode, upper = factor.parameters
    logit = pt.log(mode - lower) - pt.log(upper - mode)
    w = log_odds_weight(logit)
    if factor.observed:
        return [Information(logit, w)]
    return [Information((factor.unconstrained, logit), ((0.5 + 2.5 * w, -2.0 * w), (-2.0 * w, w)))]


@register_information(VonMisesRV)
def von_mises(factor: Factor) -> list[Information]:
    """VonMises(μ, κ): κA(κ) on v − μ, κ²(1 − A/κ − A²) on log κ, with A = I₁/I₀."""
    mu, kappa = factor.parameters
    log_kappa = log(kappa)
    kappa = pt.exp(log_kappa)
    return [
        Information(factor.unconstrained - mu, kappa * bessel_ratio(kappa)),
        Information(log_kappa, von_mises_concentration(kappa)),
    ]


def _location_scale(
    location: TensorVariable, log_scale: TensorVariable, weight: float, scale_weight: float
) -> list[Information]:
    """Information of a symmetric location-scale family: location and scale are orthogonal."""
    return [
        Information(location, weight * pt.exp(-2.0 * log_scale)),
        Information(log_scale, scale_weight),
    ]


def _skewed(
    location: TensorVariable, log_scale: TensorVariable, weight: float, cross: float, scale: float
) -> Information:
    """Information [[k/s², c/s], [c/s, k']] of a location-scale family without symmetry."""
    rate = pt.exp(-log_scale)
    return Information(
        (location, log_scale), ((weight * rate**2, cross * rate), (cross * rate, scale))
    )


def _student_t_scale(log_sigma: TensorVariable, log_nu: TensorVariable) -> Information:
    """Information of a Student-t distribution on (log σ, log ν).

    [[2ν/(ν + 3), −2ν/((ν + 1)(ν + 3))], [·, ν²R(ν)]].
    """
    nu = pt.exp(log_nu)
    scale = 2.0 * nu / (nu + 3.0)
    cross = -scale / (nu + 1.0)
    return Information((log_sigma, log_nu), ((scale, cross), (cross, student_t_shape(nu))))


def _gamma(log_ratio: TensorVariable, log_alpha: TensorVariable) -> list[Information]:
    """Information of a Gamma distribution of v/scale: mean and shape are orthogonal."""
    alpha = pt.exp(log_alpha)
    return [
        Information(log_ratio - log_alpha, alpha),
        Information(log_alpha, trigamma_excess(alpha)),
    ]
