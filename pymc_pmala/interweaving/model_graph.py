"""The expressions of a target, searched for effects and for what depends on them."""

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

import numpy as np
import pymc as pm
from pymc.logprob.transforms import LogTransform, Transform
from pytensor.graph.basic import Apply, Constant, Variable, clone_get_equiv
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors, graph_inputs, toposort

from pymc_pmala.interweaving.affine import Step, affine_steps
from pymc_pmala.interweaving.interweaving import Effects, Place
from pymc_pmala.interweaving.registry import Standardisation, standardisation
from pymc_pmala.model.factors import Factor
from pymc_pmala.model.target import Target

__all__ = ["ModelGraph"]


class ModelGraph:
    """The expressions of a target, in which equal expressions are one variable.

    Attributes
    ----------
    places : dict of str to Place
        The sampled variables.
    rules : dict of str to Standardisation
        How factors with parameters that depend on sampled values are standardised.
    constant : set of str
        Real variables whose parameters depend on no sampled value.
    """

    def __init__(self, target: Target):
        self.target = target
        places = list(_places(target))
        found = {f.name: r for f in target.factors if (r := _rule_of(f, target)) is not None}
        groups = [
            [place.part for place in places],
            *([*f.parameters] for f in target.factors),
            *(_variables_of(f) for f in target.factors),
            *([*r.parameters, *r.kept] for r in found.values()),
        ]
        merged = iter(_merged([graph for group in groups for graph in group]))
        parts, *rest = [[next(merged) for _ in group] for group in groups]
        self.places = {
            place.name: replace(place, part=part) for place, part in zip(places, parts, strict=True)
        }
        count = len(target.factors)
        parameters, self._variables, of_rules = (
            rest[:count],
            rest[count : 2 * count],
            rest[2 * count :],
        )
        self._ends = {
            graph
            for own, determining in zip(parameters, self._variables, strict=True)
            for graph in own or determining
        }
        self._clients = _clients(self._ends)
        self.rules = {}
        for (name, rule), graphs in zip(found.items(), of_rules, strict=True):
            count = len(rule.parameters)
            rule = rule._replace(parameters=tuple(graphs[:count]), kept=tuple(graphs[count:]))
            if self.used(rule.parameters):
                self.rules[name] = rule
        self.constant = {
            f.name
            for f, graphs in zip(target.factors, parameters, strict=True)
            if f.name in self.places and self._is_standard(f) and not self.used(graphs)
        }

    def used(
        self, graphs: Sequence[Variable], blockers: Sequence[Variable] = ()
    ) -> tuple[str, ...]:
        """Names of the variables in some expressions, other than by the blockers."""
        found = set(ancestors(graphs, blockers=blockers))
        return tuple(name for name, place in self.places.items() if place.part in found)

    def is_positive(self, name: str) -> bool:
        """Whether a variable is sampled by its logarithm."""
        return isinstance(_transform(self.target, name), LogTransform)

    def steps_from(self, name: str, avoid: Set[str]) -> list[Step]:
        """Return the steps by which the model makes effects σz or μ + σz of a variable z.

        Parameters
        ----------
        name : str
        avoid : set of str
            Variables that may not be in μ.
        """
        place = self.places[name]

        def accept(step: Step) -> bool:
            used = set(self.used(step.operands))
            if name in used:
                return False
            if step.log_slope is not None:
                return True
            # A location with more elements than there are effects is no hyperparameter.
            return used.isdisjoint(avoid) and sum(self.places[u].size for u in used) <= place.size

        steps = affine_steps(place.part, self._clients, self._ends, accept)
        while steps and not self.used(steps[-1].operands):
            steps.pop()
        scaled = any(step.log_slope and self.used(step.operands) for step in steps)
        return steps if scaled else []

    def unchanged(self, effects: Sequence[Effects], hyperparameters: Set[str]) -> list[Factor]:
        """Return the factors whose density does not depend on φ while z are held."""
        moved = hyperparameters | {e.place.name for e in effects}
        blockers = [e.held for e in effects if e.held is not None]
        free = {
            e.place.name
            for e in effects
            if e.held is None and moved.isdisjoint(self.used(e.map.kept, blockers))
        }
        return [
            factor
            for factor, graphs in zip(self.target.factors, self._variables, strict=True)
            if factor.name in free or moved.isdisjoint(self.used(graphs, blockers))
        ]

    def _is_standard(self, factor: Factor) -> bool:
        return not factor.observed and _transform(self.target, factor.name) is None


def _variables_of(factor: Factor) -> list[Variable]:
    """Return expressions that determine the density of a factor.

    They are its value and parameters: PyMC may rewrite the expressions of parameters in the
    log-density, which then are no longer equal to those of other factors.
    """
    if not factor.parameters or factor.transform is not None:
        return [factor.logp]
    return [factor.unconstrained, *factor.parameters]


def _transform(target: Target, name: str) -> Transform | None:
    return target.model.rvs_to_transforms[target.model[name]]


def _rule_of(factor: Factor, target: Target) -> Standardisation | None:
    """Return how a factor of a free variable under its default transform is standardised."""
    if factor.observed or factor.op is None or factor.transform is not None:
        return None
    if factor.name not in _names(target) or _is_missing_data(factor.name, target.model):
        return None
    return standardisation(factor)


def _is_missing_data(name: str, model: pm.Model) -> bool:
    """Whether a variable is the missing part of data: no effect, whatever its distribution."""
    whole = name.removesuffix("_unobserved")
    return whole != name and f"{whole}_observed" in model.named_vars


def _names(target: Target) -> list[str]:
    return [target.model.values_to_rvs[v].name for v in target.variables]


def _places(target: Target) -> Iterator[Place]:
    """Where the variables are in x."""
    end = 0
    for variable, name in zip(target.variables, _names(target), strict=True):
        shape = np.shape(target.point[variable.name])
        start, end = end, end + math.prod(shape)
        yield Place(name, start, end, shape, target.x[start:end])


def _merged(graphs: Sequence[Variable]) -> list[Variable]:
    """Return expressions in which equal subexpressions are the same variable."""
    inputs = [v for v in graph_inputs(graphs) if not isinstance(v, Constant)]
    copies = clone_get_equiv(inputs, graphs, copy_inputs=False, copy_orphans=False)
    fgraph = FunctionGraph(inputs, [copies[graph] for graph in graphs], clone=False)
    MergeOptimizer().rewrite(fgraph)
    return list(fgraph.outputs)


def _clients(graphs: Iterable[Variable]) -> dict[Variable, list[Apply]]:
    """Return the nodes that read each variable of some expressions."""
    clients: dict[Variable, list[Apply]] = {}
    for node in toposort(list(graphs)):
        for variable in dict.fromkeys(node.inputs):
            clients.setdefault(variable, []).append(node)
    return clients
