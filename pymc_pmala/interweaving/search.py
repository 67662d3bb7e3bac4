"""Which factors of a model can be standardised, and which variables then are hyperparameters."""

from collections.abc import Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter

import pymc as pm
from pytensor.graph.basic import Variable

from pymc_pmala.interweaving.affine import Step, held_effects
from pymc_pmala.interweaving.interweaving import Effects, Interweaving
from pymc_pmala.interweaving.model_graph import ModelGraph
from pymc_pmala.interweaving.registry import Standardisation
from pymc_pmala.model.target import Target
from pymc_pmala.stack_traces import no_stack_traces

__all__ = ["find_interweaving"]


@no_stack_traces()
def find_interweaving(
    target: Target, choice: bool | Sequence[Variable | str] = True
) -> Interweaving | None:
    """Return the move of a model's hyperparameters with standardised effects held, if any.

    Parameters
    ----------
    target : Target
    choice : bool or sequence of Variable or str
        True for all hyperparameters and effects, False for none. Of a list of variables, effects
        select the factors that are standardised, and hyperparameters select those that move;
        all, if the list has none of their kind. A variable that is both, an effect and a
        parameter of other effects, is taken as an effect.

    Raises
    ------
    ValueError
        If a listed variable is neither an effect nor a hyperparameter.
    """
    if choice is False or (choice is not True and not len(choice)):
        return None
    graph = ModelGraph(target)
    centred, written = _candidates(graph)
    effects = _in_order(graph, centred, written)
    hyperparameters = _parameters_of(effects)
    if choice is not True:
        standardised = {e.place.name for e in effects}
        listed = _listed(choice, target.model, standardised, hyperparameters)
        if listed & standardised:
            centred = {name: found for name, found in centred.items() if name in listed}
            written = {name: steps for name, steps in written.items() if name in listed}
            effects = _in_order(graph, centred, written)
            hyperparameters = _parameters_of(effects)
        hyperparameters = (hyperparameters & listed) or hyperparameters
    effects = _moving(effects, hyperparameters)
    if not effects:
        return None
    chosen = hyperparameters & _parameters_of(effects)
    return Interweaving(
        target.x,
        tuple(graph.places.values()),
        tuple(name for name in graph.places if name in chosen),
        tuple(effects),
        graph.unchanged(effects, chosen),
    )


def _candidates(graph: ModelGraph) -> tuple[dict[str, Standardisation], dict[str, list[Step]]]:
    """Return all effects that can be standardised, without circles among them."""
    written: dict[str, list[Step]] = {}
    for name in graph.places:
        if name in graph.constant and (steps := graph.steps_from(name, frozenset())):
            written[name] = steps
    centred = dict(graph.rules)
    while True:
        try:
            effects = _in_order(graph, centred, written)
        except CycleError as error:
            _break_circle(graph, written, frozenset(error.args[1]))
            continue
        parameters = {name for e in effects for name in e.uses}
        scales = [name for name in centred if name in parameters and graph.is_positive(name)]
        if not scales:
            return centred, written
        # A scale that is an effect itself would move with its own hyperparameters only.
        for name in scales:
            del centred[name]


def _break_circle(
    graph: ModelGraph, written: dict[str, list[Step]], circle: frozenset[str]
) -> None:
    """Hold less of an effect that is added to another one, such as τ₁z₁ instead of τ₁z₁ + τ₂z₂."""
    for name in circle & set(written):
        shorter = graph.steps_from(name, circle - {name})
        if shorter and len(shorter) < len(written[name]):
            written[name] = shorter
        else:
            del written[name]


def _in_order(
    graph: ModelGraph,
    centred: Mapping[str, Standardisation],
    written: Mapping[str, Sequence[Step]],
) -> list[Effects]:
    """Return the effects, each after those on which its parameters depend."""
    last = {name: steps[-1] for name, steps in written.items()}
    held = {name: s.output if s.shown is None else s.shown for name, s in last.items()}
    maps = {**centred, **{name: held_effects(steps) for name, steps in written.items()}}
    blockers = list(held.values())
    uses = {name: graph.used(found.parameters, blockers) for name, found in maps.items()}
    order = TopologicalSorter({name: [u for u in uses[name] if u in maps] for name in maps})
    return [
        Effects(
            place=graph.places[name],
            map=maps[name],
            held=held.get(name),
            read=last[name].read if name in last else None,
            uses=uses[name],
        )
        for name in order.static_order()
    ]


def _parameters_of(effects: Sequence[Effects]) -> set[str]:
    """Names of the variables on which effects depend and that are not effects themselves."""
    return {name for e in effects for name in e.uses} - {e.place.name for e in effects}


def _moving(effects: Sequence[Effects], hyperparameters: Set[str]) -> list[Effects]:
    """Return the effects that move with some hyperparameters, given in order."""
    moved, found = set(hyperparameters), []
    for e in effects:
        if not moved.isdisjoint(e.uses):
            moved.add(e.place.name)
            found.append(e)
    return found


def _listed(
    choice: Sequence[Variable | str],
    model: pm.Model,
    effects: Set[str],
    hyperparameters: Set[str],
) -> set[str]:
    """Names of the random variables in a user's list."""
    names = {v if isinstance(v, str) else model.values_to_rvs.get(v, v).name for v in choice}
    unknown = sorted(map(str, names - effects - hyperparameters))
    if unknown:
        possible = "nothing in this model"
        if effects:
            possible = f"hyperparameters {sorted(hyperparameters)} and effects {sorted(effects)}"
        raise ValueError(
            f"interweave lists {unknown}, which interweaving cannot move. It can move {possible}."
        )
    return names
