"""Differential equations, solved by classical Runge–Kutta steps inside a Scan."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

__all__ = ["fitzhugh_nagumo", "lotka_volterra"]

# Pelts of hares and lynxes that the Hudson's Bay Company collected, in thousands, 1900–1920
# (Howard 2009, "Modeling basics").
HARES = """
    30.0 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22.0 25.4 27.1
    40.3 57.0 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7
"""
LYNXES = """
    4.0 6.1 9.8 35.2 59.4 41.7 19.0 13.0 8.3 9.1 7.4
    8.0 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6
"""
PELTS = np.array([np.fromstring(numbers, sep=" ") for numbers in (HARES, LYNXES)])


def fitzhugh_nagumo(times: np.ndarray, observed: np.ndarray, **prior) -> pm.Model:
    """The paper's second experiment: Exponential priors with mean 3, noise of sd 0.5.

    A Scan makes one classical Runge–Kutta step between two observations. As in the paper, chains
    start at the true parameters, since the posterior has other modes. The options are passed to
    the priors, for example ``default_transform=None`` for the natural scale.
    """

    def slopes(v, r, a, b, c):
        return c * (v - v**3 / 3 + r), -(v - a + b * r) / c

    with pm.Model() as model:
        truth = {"a": 0.2, "b": 0.2, "c": 3.0}
        a, b, c = (pm.Exponential(name, 1 / 3, initval=truth[name], **prior) for name in "abc")
        start = [pt.constant(value, dtype="float64") for value in (-1.0, 1.0)]
        states = _runge_kutta(slopes, start, [a, b, c], times[1] - times[0], len(times) - 1)
        mean = pt.stack([pt.concatenate([s[None], p]) for s, p in zip(start, states, strict=True)])
        pm.Normal("y", mean, 0.5, observed=observed)
    return model


def lotka_volterra(steps_per_year: int = 10) -> pm.Model:
    """Hares and lynxes with log-normal noise; rates, initial populations and noise are unknown."""
    years = PELTS.shape[1]

    def slopes(hares, lynxes, birth, predation, death, growth):
        return (birth - predation * lynxes) * hares, (growth * hares - death) * lynxes

    with pm.Model() as model:
        birth, death = (pm.LogNormal(name, -0.5, 0.5) for name in ("birth", "death"))
        predation, growth = (pm.LogNormal(name, -3.5, 0.5) for name in ("predation", "growth"))
        start = pm.LogNormal("start", np.log(10), 1, shape=2)
        sigma = pm.LogNormal("sigma", -1, 1, shape=2)
        rates = [birth, predation, death, growth]
        steps = steps_per_year * (years - 1)
        paths = _runge_kutta(slopes, [start[0], start[1]], rates, 1 / steps_per_year, steps)
        yearly = [
            pt.concatenate([start[i, None], path[steps_per_year - 1 :: steps_per_year]])
            for i, path in enumerate(paths)
        ]
        pm.LogNormal("pelts", pt.log(pt.stack(yearly)), sigma[:, None], observed=PELTS)
    return model


def _runge_kutta(slopes, start, parameters, step: float, count: int):
    """Return the states after each of `count` classical Runge–Kutta steps of two equations."""

    def advance(v, r, *rest):
        k1 = slopes(v, r, *rest)
        k2 = slopes(v + step / 2 * k1[0], r + step / 2 * k1[1], *rest)
        k3 = slopes(v + step / 2 * k2[0], r + step / 2 * k2[1], *rest)
        k4 = slopes(v + step * k3[0], r + step * k3[1], *rest)
        return [
            y + step / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i, y in enumerate((v, r))
        ]

    return pytensor.scan(
        advance,
        outputs_info=start,
        non_sequences=parameters,
        n_steps=count,
        return_updates=False,
    )
