"""The model as a sampler sees it: a log-density and its factors in one raveled vector."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection
from pymc.pytensorf import make_shared_replacements
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import Subtensor, get_constant_idx
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.arguments import check_mapping, check_variables, context_model
from pymc_pmala.model.factors import Factor, factors_in, model_factors
from pymc_pmala.model.variables import STEP_ADVICE, complete_point, continuous_value_vars
from pymc_pmala.stack_traces import no_stack_traces

__all__ = ["Target", "elements_used", "make_target"]


@dataclass(frozen=True, eq=False)
class Target:
    """The log-posterior of a model as a function of one vector x.

    Attributes
    ----------
    model : pm.Model
    variables : list of TensorVariable
        The sampled value variables, in the order in which they are raveled into x.
    x : TensorVariable
        The raveled value variables.
    factors : list of Factor
        The terms of the log-posterior that depend on ``x``.
    logp : TensorVariable
        The whole log-posterior, a scalar.
    point : dict of str to ndarray
        Values of all value variables of the model.
    shared : dict of Variable to SharedVariable
        Shared variables that hold the values of the variables that are not sampled.
    """

    model: pm.Model
    variables: list[TensorVariable]
    x: TensorVariable
    factors: list[Factor]
    logp: TensorVariable
    point: dict[str, np.ndarray]
    shared: dict[Variable, SharedVariable]

    @property
    def dimension(self) -> int:
        """Number of elements of x."""
        return self.x.type.shape[0]

    @property
    def start(self) -> np.ndarray:
        """Value of x at ``point``."""
        return self.ravel(self.point)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the elements of x, for instance ``"theta[0]"``."""
        return tuple(
            f"{v.name}[{', '.join(map(str, place))}]" if place else v.name
            for v in self.variables
            for place in np.ndindex(np.shape(self.point[v.name]))
        )

    @property
    def transformed(self) -> np.ndarray:
        """Whether each element of x is transformed."""
        model = self.model
        transforms = [model.rvs_to_transforms[model.values_to_rvs[v]] for v in self.variables]
        sizes = [self.point[v.name].size for v in self.variables]
        return np.repeat([transform is not None for transform in transforms], sizes)

    def ravel(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Value of x at a point of the model."""
        raveled = DictToArrayBijection.map({v.name: point[v.name] for v in self.variables})
        return raveled.data.astype(self.x.dtype)

    def express(self, graphs: Sequence[Variable]) -> list[Variable]:
        """Express graphs of the model's random variables as functions of x."""
        values = self.model.replace_rvs_by_values(list(graphs))
        known = _slices(self.x, self.variables, self.point) | self.shared
        return clone_replace(values, known, rebuild_strict=False)


@no_stack_traces()
def make_target(
    model: pm.Model,
    vars: Sequence[Variable] | None = None,
    point: Mapping[str, np.ndarray] | None = None,
    advice: str = STEP_ADVICE,
) -> Target:
    """Make the target of a model, or of some of its variables given the others.

    Parameters
    ----------
    model : pm.Model
    vars : sequence of Variable, optional
        Random variables or value variables to sample; all by default.
    point : mapping of str to array, optional
        Values of value variables. Missing ones are taken from the initial point of the model.
    advice : str
        Advice in the error message if a discrete variable is listed.
    """
    model = context_model(model)
    check_variables(vars, model)
    check_mapping("point", point)
    variables = continuous_value_vars(vars, model, advice)
    values = complete_point(point, model)
    shared = make_shared_replacements(values, variables, model)
    x, slices = _split_vector(variables, values)
    factors = factors_in(model_factors(model), slices | shared)
    logp = pt.add(*[factor.logp.sum() for factor in factors])
    factors = [factor for factor in factors if x in ancestors([factor.logp])]
    return Target(model, variables, x, factors, logp, values, shared)


def elements_used(graph: TensorVariable, x: TensorVariable) -> np.ndarray:
    """Positions in x of the value variables that a graph depends on."""
    used = np.zeros(x.type.shape[0], dtype=bool)
    for variable in ancestors([graph]):
        node = variable.owner
        if node is not None and x in node.inputs:
            if not isinstance(node.op, Subtensor):
                return np.arange(len(used))
            used[tuple(get_constant_idx(node.op.idx_list, node.inputs))] = True
    return np.flatnonzero(used)


def _split_vector(
    value_vars: Sequence[TensorVariable], point: Mapping[str, np.ndarray]
) -> tuple[TensorVariable, dict[Variable, Variable]]:
    """Create a vector of known length, and express each value variable as a part of it."""
    size = sum(math.prod(np.shape(point[v.name])) for v in value_vars)
    dtype = np.result_type(*[v.dtype for v in value_vars]).name
    x = pt.vector("x", shape=(size,), dtype=dtype)
    return x, _slices(x, value_vars, point)


def _slices(
    x: TensorVariable, value_vars: Sequence[TensorVariable], point: Mapping[str, np.ndarray]
) -> dict[Variable, Variable]:
    """Each value variable as a part of a vector."""
    slices: dict[Variable, Variable] = {}
    start = 0
    for variable in value_vars:
        shape = np.shape(point[variable.name])
        stop = start + math.prod(shape)
        slices[variable] = x[start:stop].reshape(shape).astype(variable.dtype)
        start = stop
    return slices
