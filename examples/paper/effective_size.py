"""Effective sample size as in the paper and in Girolami & Calderhead (2011)."""

import numpy as np

__all__ = ["effective_size"]


def effective_size(draws: np.ndarray) -> float:
    """Estimate the effective sample size of one chain by Geyer's (1992) monotone sequence.

    The sums Γ_j = ρ_{2j} + ρ_{2j+1} of the biased autocorrelation are made decreasing by a
    running minimum and added while positive. The effective size is n/τ with τ = −1 + 2ΣΓ_j, but
    at least 1. It is 0 for a chain that never moves.
    """
    n = len(draws)
    centred = draws - draws.mean()
    if not centred.any():
        return 0.0
    transform = np.fft.rfft(centred, 2 * n)
    covariance = np.fft.irfft(np.abs(transform) ** 2)[:n]
    correlation = covariance / covariance[0]
    pairs = np.minimum.accumulate(correlation[: n - n % 2].reshape(-1, 2).sum(axis=1))
    return n / max(1.0, 2.0 * pairs[pairs > 0].sum() - 1.0)
