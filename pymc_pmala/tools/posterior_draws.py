"""Draws of a posterior group, on the natural scale and in the coordinates of the sampler."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.distributions.transforms import _default_transform
from pymc.vartypes import continuous_types
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.arguments import check_draws
from pymc_pmala.compile import compile_graph

__all__ = [
    "element_labels",
    "fixed_variables",
    "graph_draws",
    "posterior_dataset",
    "unconstrained_draws",
]


def posterior_dataset(idata: Any) -> xr.Dataset:
    """Posterior group of ``InferenceData`` or ``DataTree``, with chains and draws first."""
    check_draws(idata, "posterior")
    group = idata.posterior
    dataset = group.to_dataset() if isinstance(group, xr.DataTree) else group
    return dataset.transpose("chain", "draw", ...)


def element_labels(array: xr.DataArray) -> list[str]:
    """Labels of the elements of a variable, as in `arviz.summary`."""
    dims = [dim for dim in array.dims if dim not in ("chain", "draw")]
    places = [
        array.coords[dim].values if dim in array.coords else range(array.sizes[dim]) for dim in dims
    ]
    if not dims:
        return [str(array.name)]
    shape = [len(place) for place in places]
    return [
        f"{array.name}[{', '.join(str(p[i]) for p, i in zip(places, index, strict=True))}]"
        for index in np.ndindex(*shape)
    ]


def unconstrained_draws(dataset: xr.Dataset, model: pm.Model) -> dict[str, np.ndarray]:
    """Draws of all value variables by name, with chains and draws in one axis.

    Values are mapped from their natural scale by the forward transforms, which may depend on other
    variables of the same draw.
    """
    missing = [rv.name for rv in model.free_RVs if rv.name not in dataset]
    if missing:
        raise ValueError(
            f"The posterior has no draws of {missing}. Keep all free variables of the model, that "
            "is, do not restrict `var_names` in `pm.sample`."
        )
    transformed = [rv for rv in model.free_RVs if model.rvs_to_transforms[rv] is not None]
    outputs = [model.rvs_to_transforms[rv].forward(rv, *rv.owner.inputs) for rv in transformed]
    mapped = graph_draws(outputs, dataset, model)
    found = {rv.name: values for rv, values in zip(transformed, mapped, strict=True)}
    values_of = model.rvs_to_values
    return {
        values_of[rv].name: found.get(rv.name, _flat(dataset[rv.name])).astype(values_of[rv].dtype)
        for rv in model.free_RVs
    }


def graph_draws(
    graphs: Sequence[TensorVariable], dataset: xr.Dataset, model: pm.Model
) -> list[np.ndarray]:
    """Values of graphs of the model's random variables at all draws, in one axis."""
    if not graphs:
        return []
    inputs = {rv: rv.type(rv.name) for rv in model.free_RVs}
    known = inputs | {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    outputs = clone_replace(list(graphs), known, rebuild_strict=False)
    function = compile_graph(list(inputs.values()), outputs, model, mode="interpreted")
    columns = [_flat(dataset[rv.name]).astype(rv.dtype) for rv in inputs]
    with np.errstate(all="ignore"):
        found = [function(*map(np.asarray, draw)) for draw in zip(*columns, strict=True)]
    return [np.array(values) for values in zip(*found, strict=True)]


def _flat(array: xr.DataArray) -> np.ndarray:
    values = np.asarray(array.values)
    return values.reshape(-1, *values.shape[2:])


def fixed_variables(model: pm.Model) -> dict[str, str]:
    """Value variables without zero-mean functions of their own, and why, by name."""
    found = {}
    for rv in model.free_RVs:
        value = model.rvs_to_values[rv]
        if value.dtype not in continuous_types:
            found[value.name] = "discrete"
        elif model.rvs_to_transforms[rv] is None and _is_bounded(rv):
            found[value.name] = "bounded, without a transform"
    return found


def _is_bounded(rv: TensorVariable) -> bool:
    """Whether a distribution has a bounded support, for which PyMC has a transform."""
    return _default_transform(rv.owner.op, rv) is not None
