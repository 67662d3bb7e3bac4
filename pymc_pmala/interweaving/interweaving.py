"""Hyperparameters that move with the standardised effects held, as expressions in x."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pymc_pmala.interweaving.registry import Standardisation
from pymc_pmala.model.factors import Factor

__all__ = ["Effects", "Interweaving", "Place"]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a variable is in x.

    Attributes
    ----------
    name : str
        Name of the random variable.
    start, stop : int
        Its elements in x.
    shape : tuple of int
        Its shape.
    part : TensorVariable
        The part of x, a vector, as all expressions read it.
    """

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    part: TensorVariable

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of one factor and how they are standardised.

    Attributes
    ----------
    place : Place
    map : Standardisation
        From the sampled values to what is held.
    held : TensorVariable or None
        Where the model has what is held, if it is written non-centred.
    read : callable or None
        Function from what is held to ``held``, if that is some elements of it.
    uses : tuple of str
        Names of the variables in the parameters of the map.
    """

    place: Place
    map: Standardisation
    held: TensorVariable | None
    read: Callable[[TensorVariable], TensorVariable] | None
    uses: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place.name}: {self.map.form} in {', '.join(self.uses)}"


@dataclass(frozen=True, eq=False)
class Interweaving:
    r"""A move of hyperparameters φ with the standardised effects held.

    In the coordinates y = (φ, z, others), where the standardised effects z replace the effects u,
    the density is :math:`\pi_y = \pi_x \, |\partial x / \partial y|`.

    Attributes
    ----------
    x : TensorVariable
        The vector of all sampled values.
    places : tuple of Place
        The variables, in their order in x.
    hyperparameters : tuple of str
        Names of the variables of which φ consists.
    standardised : tuple of Effects
        Factors after all others on whose effects their parameters depend.
    factors : list of Factor
        The factors whose density does not depend on φ in the coordinates y: those of the
        standardised effects, and those that φ and the effects enter only by what is held.
    """

    x: TensorVariable
    places: tuple[Place, ...]
    hyperparameters: tuple[str, ...]
    standardised: tuple[Effects, ...]
    factors: list[Factor]

    @property
    def positions(self) -> np.ndarray:
        """Elements of x that are φ."""
        parts = [np.arange(p.start, p.stop) for p in self.places if p.name in self.hyperparameters]
        return np.concatenate(parts)

    @property
    def effects(self) -> tuple[str, ...]:
        """Names of the factors whose effects are standardised."""
        return tuple(effects.place.name for effects in self.standardised)

    @property
    def explanation(self) -> tuple[str, ...]:
        """What is standardised and in which variables, one line for each factor."""
        return tuple(
            f"{e.place.name}: {e.map.form} in {', '.join(e.uses)}" for e in self.standardised
        )

    def carry(self, x: TensorVariable, phi: TensorVariable) -> TensorVariable:
        """Return the point that is reached from x when φ becomes ``phi`` and all z are held."""
        before = self._parts(x)
        after = dict(before)
        phi = pt.specify_shape(phi, (len(self.positions),))
        end = 0
        for place in self.places:
            if place.name in self.hyperparameters:
                after[place.part] = phi[end : end + place.size]
                end += place.size
        for effects in self.standardised:
            place = effects.place
            values = before[place.part].reshape(place.shape)
            z = effects.map.standardise(values, *_at(effects.map.parameters, before))
            moved = effects.map.restore(z, *_at(effects.map.parameters, after))
            after[place.part] = moved.reshape((place.size,))
            if effects.held is not None:
                after[effects.held] = z if effects.read is None else effects.read(z)
        return pt.concatenate([after[place.part] for place in self.places])

    def log_jacobian(self, x: TensorVariable) -> TensorVariable:
        r"""Return :math:`\log |\partial x / \partial y|` at x.

        With every z, only the effects of its own factor and of later ones change, so the matrix
        is triangular.
        """
        parts = self._parts(x)
        terms = [e.map.log_jacobian(*_at(e.map.parameters, parts)) for e in self.standardised]
        return pt.add(*terms) if len(terms) > 1 else terms[0]

    def _parts(self, x: TensorVariable) -> dict[Variable, Variable]:
        if x is self.x:
            return {place.part: place.part for place in self.places}
        return {place.part: x[place.start : place.stop] for place in self.places}


def _at(
    graphs: Sequence[TensorVariable], parts: Mapping[Variable, Variable]
) -> Sequence[TensorVariable]:
    """Evaluate expressions in the parts of x at another point."""
    changed = {old: new for old, new in parts.items() if old is not new}
    return clone_replace(list(graphs), changed, rebuild_strict=False) if changed else graphs
