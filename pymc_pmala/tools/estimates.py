"""Posterior means with less variance, from the draws of any sampler."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.arguments import check_flag, check_function, check_metric, context_model, shown
from pymc_pmala.metric import MetricChoice
from pymc_pmala.stack_traces import no_stack_traces
from pymc_pmala.tools.control_variates import Estimates, Series, control_means
from pymc_pmala.tools.corrections import find_corrections
from pymc_pmala.tools.posterior_draws import (
    element_labels,
    graph_draws,
    posterior_dataset,
    unconstrained_draws,
)

__all__ = [
    "corrected_estimates",
    "evaluated_series",
    "posterior_expectation",
    "posterior_mean",
    "variable_quantity",
]


class Quantity(NamedTuple):
    """A function of the variables of a model.

    Attributes
    ----------
    name : str
    labels : list of str
        Labels of its elements.
    draws : ndarray of shape (chain, draw, elements)
    graph : TensorVariable or None
        The function as an expression in the random variables of the model, if there is one.
    """

    name: str
    labels: list[str]
    draws: np.ndarray
    graph: TensorVariable | None


def posterior_mean(
    idata: Any,
    *,
    model: pm.Model | None = None,
    var_names: Sequence[str] | str | None = None,
    metric: MetricChoice = "fisher",
    progressbar: bool = True,
) -> pd.DataFrame:
    r"""Posterior means with control variates, from the draws of any sampler.

    The generator of a Langevin diffusion, applied to a smooth function f, has mean zero under the
    posterior:

    .. math:: E[\operatorname{tr}(A \nabla^2 f) + b \cdot \nabla f] = 0, \qquad
              b = A\nabla\log\pi + 2\Gamma .

    Added to f, such functions reduce the variance of its mean without changing the mean.

    Parameters
    ----------
    idata : InferenceData or DataTree
        The draws, as returned by `pymc.sample` or nutpie.
    model : pm.Model, optional
        The model that was sampled; taken from the ``with`` context by default.
    var_names : str or sequence of str, optional
        Variables of the posterior group; all by default.
    metric : {"fisher", "softabs", "identity"}, array or callable, default "fisher"
        The metric :math:`A^{-1}`, as for `PMALA`.
    progressbar : bool, default True
        Whether to show the progress if the evaluation takes more than two seconds.

    Returns
    -------
    pandas.DataFrame
        One row for each element, labelled as in `arviz.summary`, with the columns

        - ``mean`` and ``mcse``: the estimate and its Monte Carlo standard error;
        - ``mean_plain`` and ``mcse_plain``: those of the draws alone;
        - ``gain``: the ratio of the variances, that is, how many times as many draws the plain
          mean would need;
        - ``note``: if the estimate is the plain mean, why it is.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_pmala import posterior_mean
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=[0.3, 1.2, 0.8])
    ...     idata = pm.sample()  # doctest: +SKIP
    ...     posterior_mean(idata)  # doctest: +SKIP
    """
    model, dataset = _checked(idata, model, metric, progressbar)
    names = _names(var_names, dataset)
    quantities = [variable_quantity(dataset[name], model) for name in names]
    return _table(quantities, corrected_estimates(dataset, model, quantities, metric, progressbar))


def posterior_expectation(
    idata: Any,
    f: Callable[..., Any] | TensorVariable,
    *,
    model: pm.Model | None = None,
    metric: MetricChoice = "fisher",
    progressbar: bool = True,
) -> pd.DataFrame:
    """Posterior mean of a function of the variables, with control variates.

    Parameters
    ----------
    idata : InferenceData or DataTree
        The draws, as returned by `pymc.sample` or nutpie.
    f : callable or TensorVariable
        A function whose parameters have the names of variables of the posterior, for example
        ``lambda beta, sigma: beta[0] / sigma``. It is applied to the symbolic variables of the
        model, and should be written with operators and the functions of `pymc.math`. If this is not
        possible it is applied to each draw instead, with a smaller gain. An expression in
        the variables of the model is also accepted.
    model, metric, progressbar
        As for `posterior_mean`.

    Returns
    -------
    pandas.DataFrame
        One row for each element of the result, with the columns of `posterior_mean`.
    """
    model, dataset = _checked(idata, model, metric, progressbar)
    quantity = _function(f, dataset, model)
    estimates = corrected_estimates(dataset, model, [quantity], metric, progressbar)
    return _table([quantity], estimates)


def _checked(
    idata: Any, model: pm.Model | None, metric: MetricChoice, progressbar: bool
) -> tuple[pm.Model, xr.Dataset]:
    """Check the arguments that both functions have; return the model and the draws."""
    check_metric(metric)
    check_flag("progressbar", progressbar)
    return context_model(model), posterior_dataset(idata)


def _names(var_names: Any, dataset: xr.Dataset) -> list[str]:
    """Return the names of the variables to estimate."""
    known = sorted(map(str, dataset.data_vars))
    if var_names is None:
        return list(dataset.data_vars)
    names = [var_names] if isinstance(var_names, str) else var_names
    is_list = isinstance(names, Sequence | np.ndarray) and not isinstance(names, bytes)
    if not is_list or not np.size(names) or any(name not in known for name in np.ravel(names)):
        raise ValueError(
            f"var_names must be some of the variables of the posterior, {known}, but is "
            f"{shown(var_names)}."
        )
    return list(names)


def corrected_estimates(
    dataset: xr.Dataset,
    model: pm.Model,
    quantities: Sequence[Quantity],
    metric: MetricChoice = "fisher",
    progressbar: bool = False,
) -> Estimates:
    """Estimate the means of quantities from the draws in a posterior group."""
    series, reasons = evaluated_series(dataset, model, quantities, metric, progressbar)
    estimates = control_means(*series)
    owners = [q.name for q in quantities for _ in q.labels]
    notes = [
        reasons.get(owner, note) if note == "no gain" else note
        for owner, note in zip(owners, estimates.notes, strict=True)
    ]
    return estimates._replace(notes=notes)


@no_stack_traces()
def evaluated_series(
    dataset: xr.Dataset,
    model: pm.Model,
    quantities: Sequence[Quantity],
    metric: MetricChoice = "fisher",
    progressbar: bool = False,
) -> tuple[Series, dict[str, str]]:
    """Evaluate quantities and zero-mean functions at the draws in a posterior group.

    With them come, by name, the reasons why variables have no zero-mean functions of their own.
    """
    chains, length = dataset.sizes["chain"], dataset.sizes["draw"]
    draws = np.concatenate([q.draws for q in quantities], axis=2)
    functions = [(q.graph, q.draws.reshape(chains * length, -1)) for q in quantities]
    found = find_corrections(
        model, unconstrained_draws(dataset, model), functions, metric, progressbar
    )
    if found.differing:
        names = [quantities[i].name for i in found.differing]
        warnings.warn(
            f"The draws of {names} are not the values that the model has at the draws of its free "
            "variables. If its data have changed since sampling, restore them: otherwise the "
            "estimates are wrong.",
            stacklevel=5,
        )
    corrected = [draws + g.reshape(draws.shape) for g in found.generators]
    families = [family.reshape(chains, length, -1) for family in found.families]
    reasons = {
        model.values_to_rvs[v].name: found.held[v.name]
        for v in model.value_vars
        if v.name in found.held
    }
    return Series(draws, corrected, families), reasons


def variable_quantity(array: xr.DataArray, model: pm.Model) -> Quantity:
    """Return a variable of a posterior group as a quantity."""
    name = str(array.name)
    values = np.asarray(array.values, dtype=float)
    graph = model.named_vars.get(name)
    return Quantity(name, element_labels(array), values.reshape(*values.shape[:2], -1), graph)


def _function(
    f: Callable[..., Any] | TensorVariable, dataset: xr.Dataset, model: pm.Model
) -> Quantity:
    """Return a user's function of the variables as a graph, if possible, and its draws."""
    name = getattr(f, "name", None) or getattr(f, "__name__", "f")
    name = "f" if name == "<lambda>" else name
    graph, values = None, None
    if isinstance(f, TensorVariable):
        graph = f
        if not _is_of(f, model):
            raise ValueError(
                "f must be an expression in the variables of the model, but depends on others."
            )
    else:
        check_function("f", f)
        names = list(inspect.signature(f).parameters)
        unknown = [n for n in names if n not in dataset]
        if unknown or not names:
            raise ValueError(
                "f must be a function of variables of the posterior, "
                f"{sorted(map(str, dataset.data_vars))}, but its parameters are {names}."
            )
        graph = _symbolic(f, [model.named_vars.get(n) for n in names])
    if graph is None:
        columns = [dataset[n].values.reshape(-1, *dataset[n].shape[2:]) for n in names]
        values = np.array([np.asarray(f(*draw), float) for draw in zip(*columns, strict=True)])
    else:
        [values] = graph_draws([graph], dataset, model)
    array = xr.DataArray(
        values.reshape(dataset.sizes["chain"], dataset.sizes["draw"], *values.shape[1:]),
        dims=["chain", "draw", *[f"dim_{i}" for i in range(values.ndim - 1)]],
        name=name,
    )
    return variable_quantity(array, model)._replace(graph=graph)


def _is_of(graph: TensorVariable, model: pm.Model) -> bool:
    """Whether an expression depends on nothing but a model's variables and data."""
    roots = [v for v in ancestors([graph], blockers=model.basic_RVs) if v.owner is None]
    return all(
        isinstance(v, Constant | SharedVariable) and not isinstance(v.type, RandomType)
        for v in roots
    )


def _symbolic(f: Callable[..., Any], variables: Sequence[Any]) -> TensorVariable | None:
    """Apply a function to symbolic variables; None if it does not accept them."""
    if any(variable is None for variable in variables):
        return None
    try:
        return pt.as_tensor_variable(f(*variables))
    except Exception:
        # A user's function for numbers may fail in any way if it gets symbols.
        return None


def _table(quantities: Sequence[Quantity], estimates: Estimates) -> pd.DataFrame:
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (estimates.mcse_plain / estimates.mcse) ** 2
    columns = {
        "mean": estimates.mean,
        "mcse": estimates.mcse,
        "mean_plain": estimates.mean_plain,
        "mcse_plain": estimates.mcse_plain,
        "gain": gain,
        "note": estimates.notes,
    }
    return pd.DataFrame(columns, index=[label for q in quantities for label in q.labels])
