"""Whether a step method leaves a posterior invariant, by what it does and not by how it works."""

from itertools import combinations, product
from typing import NamedTuple

import arviz as az
import numpy as np
from modes import INTERPRETED

__all__ = [
    "Proposals",
    "imbalance",
    "largest_z_score",
    "log_density",
    "log_flow",
    "proposals_at",
    "tuned",
    "walk",
]


def tuned(step, model, transitions=25):
    """The step after a short tuning phase, and where it has gone."""
    step.set_rng(20140604)
    point = walk(step, model.initial_point(), transitions)[-1]
    step.stop_tuning()
    return step, point


def walk(step, point, transitions):
    path = []
    for _ in range(transitions):
        point, _ = step.step(point)
        path.append(point)
    return path


def log_density(step, model):
    """The log-density of a model, compiled by PyMC, as a function of the vector that moves."""
    function, start = model.compile_logp(mode=INTERPRETED), model.initial_point()
    ends = np.cumsum([start[v.name].size for v in step.vars])

    def logp(x):
        parts = zip(step.vars, np.split(x, ends[:-1]), strict=True)
        return float(function({v.name: e.reshape(start[v.name].shape) for v, e in parts}))

    return logp


class Proposals(NamedTuple):
    """What a step does at a point x: it proposes N(mean, root rootᵀ)."""

    state: object
    scales: tuple
    mean: np.ndarray
    root: np.ndarray


def proposals_at(step, x):
    chain = step.chain
    chain.forget_point()
    state = chain.state_at(x)
    scales = chain.scales(chain.step_size(step.tune))
    noises = [np.zeros(len(x)), *np.eye(len(x))]
    mean, *columns = (step.kernel.propose(state, z, scales)[0].x for z in noises)
    return Proposals(state, scales, mean, np.transpose(columns) - mean[:, None])


def log_flow(step, logp, here, y):
    """Log of π(x) q(x, y) α(x, y)."""
    noise = np.linalg.solve(here.root, y - here.mean)
    proposed, log_ratio = step.kernel.propose(here.state, noise, here.scales)
    # The proposal is affine in the noise: its density is that of the mean and the root.
    np.testing.assert_allclose(proposed.x, y, rtol=1e-10, atol=1e-10)
    log_q = -0.5 * (noise @ noise) - np.linalg.slogdet(here.root * np.sqrt(2 * np.pi))[1]
    return logp(here.state.x) + log_q + min(0.0, log_ratio)


def imbalance(step, model, grid):
    """Largest |π(x)q(x,y)α(x,y) / π(y)q(y,x)α(y,x) − 1| over the pairs of a grid's points.

    Relative to the size of the flows' logarithms, whose rounding it contains, if that is
    more than one.

    All flows one way first, then the chain goes on for a while, then all flows back: a
    kernel that is still learning is not in balance either.
    """
    step, point = tuned(step, model)
    logp = log_density(step, model)
    pairs = list(combinations([np.array(x) for x in product(*grid)], 2))

    def flows(pairs):
        proposals = {x.tobytes(): proposals_at(step, x) for x, _ in pairs}
        return np.array([log_flow(step, logp, proposals[x.tobytes()], y) for x, y in pairs])

    there = flows(pairs)
    walk(step, point, 10)
    back = flows([(y, x) for x, y in pairs])
    return np.max(np.abs(np.expm1(there - back)) / np.maximum(1.0, np.abs(there)))


def largest_z_score(step, model, parameters, data, moments, transitions):
    """How far a chain in parameters and data is from the prior, in standard errors.

    Data given parameters, parameters given data by one draw, in turn: the parameters stay
    distributed as the prior (Geweke 2004). A small fault in every posterior adds up, since the
    data follow the parameters wherever these go.

    Parameters
    ----------
    parameters : callable
        The parameters at a point of the model.
    data : callable
        Draws data from a generator and the parameters.
    moments : dict
        Functions of the parameters, each with its expectation under the prior.
    """
    step, point = tuned(step, model, 100)
    rng = np.random.default_rng(7)
    chain = []
    for _ in range(transitions):
        chain.append(parameters(point))
        model.set_data("data", data(rng, *chain[-1]))
        point, _ = step.step(point)
    scores = []
    for function, expected in moments.values():
        values = function(*np.transpose(chain))
        error = values.std() / np.sqrt(float(az.ess(values[None], method="mean")))
        scores.append((values.mean() - expected) / error)
    return np.abs(scores).max()
