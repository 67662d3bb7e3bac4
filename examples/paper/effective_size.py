"""Effective sample size as in the paper and in Girolami & Calderhead (2011)."""

import numpy as np

__all__ = ["effective_size"]


def effective_size(draws: np.ndarray) -> float:
    """Geyer's (1992) initial monotone sequence estimate of one chain of one quantity.

    Γ_j = ρ_{2j} + ρ_{2j+1} of the biased autocorrelation, made decreasing by a running
    minimum and summed while positive; τ = −1 + 2ΣΓ_j, at least 1; n/τ. A chain that never
    moves has none.
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
