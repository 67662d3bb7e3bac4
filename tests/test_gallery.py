"""PMALA with its default settings samples every model of the gallery, and correctly."""

import json
import logging
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
from gallery import GALLERY
from gallery_truth import REFERENCE, logp_change
from modes import INTERPRETED
from pymc.blocking import DictToArrayBijection

from pymc_pmala import PMALA

CHAINS, TUNE = 2, 200
# More where chains mix slowly, until there are enough effective draws to have power.
DRAWS = (400, 1600, 6400, 16_000)
ENOUGH = 100
# Too many for CI; `pytest --long` runs these too.
LONG = {
    "normal_mixture",
    "rice",
    "skew_normal",
    "ex_gaussian",
    "discrete_weibull",
    "ordered_probit",
    "zero_inflated_negative_binomial",
    "hurdle_poisson",
    "hurdle_gamma",
    "mixture_of_poissons",
    "mixture_of_different_families",
    "censored_weibull",
    "truncated_normal_likelihood",
    "truncated_gamma",
    "truncated_poisson",
    "custom_dist_by_logp",
    "custom_dist_by_dist",
    "custom_prior",
    "dirichlet_likelihood",
    "mv_normal_cov",
    "mv_normal_tau",
    "mv_student_t",
    "mv_normal_prior",
    "matrix_normal",
    "zero_sum_normal",
    "conditional_autoregression",
    "gp_marginal_likelihood",
    "gp_latent",
    "observed_random_walk",
    "autoregression",
    "garch",
    "conjugate_normal",
    "flat_priors",
    "uniform_bounds",
    "truncated_priors",
    "interpolated_prior",
    "priors_only",
    "skewed_priors_only",
    "hierarchical_centred",
    "hierarchical_non_centred",
    "missing_regressor",
    "several_observed_and_shared_parameters",
    "dims_and_coords",
    "total_size",
    "deterministic_functions",
    "norms_and_reductions",
    "potential",
    "data_containers",
    "curved_ridge",
    "scanned_recursion",
}
TRUTH = json.loads(REFERENCE.read_text())


def make_step(model):
    """PMALA for the continuous variables, interpreted; Metropolis for a discrete one."""
    kwargs = {"model": model, "compile_kwargs": {"mode": INTERPRETED}}
    # Interpreted, a transition takes longer than all that is done for a draw.
    ours = kwargs | {"thin": 1}
    discrete = [v for v in model.free_RVs if v.dtype.startswith("int")]
    if not discrete:
        return PMALA(**ours), []
    continuous = [v for v in model.free_RVs if v not in discrete]
    return PMALA(continuous, **ours), [pm.Metropolis(discrete, **kwargs)]


def begin(step, rng, n_draws):
    """What either version of PyMC does before a chain."""
    if hasattr(step, "setup_chain"):
        step.setup_chain(rng, TUNE, n_draws)
    else:
        step.set_rng(rng)
        step.tune = True


def sample(model, seed):
    """Draws of the raveled value variables and the statistics, by chain."""
    methods = make_step(model)
    for n_draws in DRAWS:
        draws, stats = run(model, *methods, seed, n_draws)
        squares = (draws - draws.mean(axis=(0, 1))) ** 2
        if min(monte_carlo_error(draws)[1].min(), monte_carlo_error(squares)[1].min()) > ENOUGH:
            break
    return draws, stats


def run(model, step, others, seed, n_draws):
    """All chains with a number of draws."""
    names = [v.name for v in step.vars]
    chains, stats = [], []
    for chain in range(CHAINS):
        point = model.initial_point()
        for i, method in enumerate([step, *others]):
            begin(method, np.random.default_rng([seed, chain, i]), n_draws)
        kept = []
        for t in range(TUNE + n_draws):
            if t == TUNE:
                for method in [step, *others]:
                    method.stop_tuning()
            for other in others:
                point, _ = other.step(point)
            point, stat = step.step(point)
            if t >= TUNE:
                kept.append(DictToArrayBijection.map({n: point[n] for n in names}).data)
                stats += stat
        chains.append(kept)
    return np.array(chains), {name: np.array([s[name] for s in stats]) for name in stats[0]}


def monte_carlo_error(draws):
    """Standard error of the mean of each parameter, and its effective sample size."""
    effective = [float(az.ess(d, method="mean")) for d in np.moveaxis(draws, -1, 0)]
    return draws.std(axis=(0, 1)) / np.sqrt(effective), np.array(effective)


def marks(name, entry):
    if entry.fast:
        return []
    return [pytest.mark.long if name in LONG else pytest.mark.slow]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=marks(n, entry)) for n, entry in GALLERY.items()]
)
@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_posterior_agrees_with_the_truth(name, caplog):
    model, truth = GALLERY[name].build(), TRUTH[name]
    np.testing.assert_allclose(
        logp_change(model), truth["logp_change"], rtol=1e-6, err_msg="stale truth"
    )
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        # What PyMC and pytensor say to each other, and of a missing BLAS.
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"pymc\.|pytensor\.")
        warnings.filterwarnings("ignore", message=".*BLAS")
        draws, stats = sample(model, seed=20140604)
    # With one transition for a draw, some are slow, and say so.
    messages = [record.getMessage() for record in caplog.records]
    assert not [message for message in messages if not message.startswith("Draws hardly move")]
    assert np.isfinite(draws).all()
    assert not stats["diverging"].any()
    # No upper bound: where the posterior is Gaussian, the proposal is exact.
    assert stats["accepted"].mean() > 0.1

    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    mean_error, effective = monte_carlo_error(draws)
    variance_error, effective_of_squares = monte_carlo_error((draws - mean) ** 2)
    assert (effective > ENOUGH).all()
    assert (effective_of_squares > ENOUGH).all()
    error = np.asarray(truth["error"])
    of_mean = (mean - truth["mean"]) / np.hypot(mean_error, error)
    of_sd = (sd - truth["sd"]) / np.hypot(variance_error / (2 * sd), error)
    np.testing.assert_array_less(abs(of_mean), 4.0, err_msg="means")
    np.testing.assert_array_less(abs(of_sd), 4.0, err_msg="sds")
