"""Draws in the coordinates in which they were sampled, and the metric at each draw."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection, RaveledVars
from pytensor.graph.replace import clone_replace

from pymc_pmala.compile import compile_graph
from pymc_pmala.metric import MetricChoice, build_metric
from pymc_pmala.model.target import make_target
from pymc_pmala.stack_traces import no_stack_traces
from pymc_pmala.tools.local_geometry import full_matrix

__all__ = ["metric_along", "unconstrained_points"]

Point = dict[str, np.ndarray]


@no_stack_traces()
def unconstrained_points(
    idata: Any, model: pm.Model, where: Sequence[tuple[int, int]]
) -> list[Point]:
    """Values of the model's value variables at draws, by chain and draw."""
    natural = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    sampled = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        sampled.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    outputs = clone_replace(sampled, natural)
    forward = compile_graph(list(natural.values()), outputs, model, mode="interpreted")
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    posterior = [idata.posterior[rv.name].values for rv in model.free_RVs]
    points = []
    for chain, draw in where:
        values = [
            values[chain, draw].astype(rv.dtype)
            for rv, values in zip(model.free_RVs, posterior, strict=True)
        ]
        points.append(dict(zip(names, map(np.asarray, forward(*values)), strict=True)))
    return points


def metric_along(
    points: Sequence[Mapping[str, np.ndarray]], model: pm.Model, metric: MetricChoice
) -> Iterator[tuple[RaveledVars, np.ndarray]]:
    """Return the raveled continuous value variables and G at each point."""
    target = make_target(model, model.continuous_value_vars, points[0])
    with no_stack_traces():
        matrix = build_metric(full_matrix(metric, target.dimension), target).matrix()
        function = compile_graph([target.x], [matrix], model, mode="interpreted")
    for point in points:
        for variable, holder in target.shared.items():
            holder.set_value(point[variable.name])
        x = DictToArrayBijection.map({v.name: point[v.name] for v in target.variables})
        yield x, function(x.data.astype(target.x.dtype))[0]
