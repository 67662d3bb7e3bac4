"""The source code of a function while it is written: names, values, arrays, nested loops."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.link.numba.dispatch.basic import (
    cache_key_for_constant,
    numba_funcify_ensure_cache,
    numba_typify,
)
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.type import DenseTensorType

from pymc_pmala.compile.numba.assembly import ArrayType, ScalarFunction
from pymc_pmala.compile.numba.scalars import literal

__all__ = ["At", "Source", "Value", "is_scalar"]

_KINDS = {"float64": "f8", "float32": "f4", "int64": "i8"}

At = Callable[[Sequence[str]], str]


@dataclass
class Value:
    """How to read a variable.

    Attributes
    ----------
    at : callable
        Takes the source code of indices and returns that of an element.
    name : str, optional
        Name of an array with these elements.
    view : str, optional
        Source code of such an array, if it can be had without a copy.
    length : callable, optional
        Takes an axis and returns its length, if the variable's static shape does not tell it.
    """

    at: At
    name: str | None = None
    view: str | None = None
    length: Callable[[int], int | str] | None = None


@dataclass
class Source:
    """A function while it is written.

    0-d tensors are plain numbers in it. Views are not arrays, but other ways of reading one.

    Attributes
    ----------
    lines : list of str
    environment : dict
        Global names that the function uses.
    keys : list of str or None
        Cache keys of the globals; None if the function cannot be cached.
    values : dict
        How each variable is read.
    depth : int
        Level of indentation.
    types : dict
        Types of the names that are not assigned in the function, or by what it calls.
    functions : dict
        The functions of numbers among the globals.
    routines : dict
        The globals that fill an array, as Python functions that can be translated.
    products : set
        Those of them that are matrix products.
    """

    lines: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    keys: list[str] | None = field(default_factory=list)
    values: dict[Variable, Value] = field(default_factory=dict)
    depth: int = 1
    types: dict[str, ArrayType | str] = field(default_factory=dict)
    functions: dict[str, ScalarFunction] = field(default_factory=dict)
    routines: dict[str, Callable] = field(default_factory=dict)
    products: set[str] = field(default_factory=set)
    _count: int = 0
    _functions: dict[tuple[Any, ...], str] = field(default_factory=dict)
    # Where arrays of known shape are allocated: before the outermost loop being written.
    _outside: tuple[list[str], int] | None = None

    def put(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        """Return a name that has not been used."""
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: Any, key: str | None) -> str:
        """Return a name for a global; without a key the function will not be cached."""
        name = self.fresh("c")
        self.environment[name] = value
        if isinstance(value, np.ndarray):
            contiguous = value.flags.c_contiguous
            self.types[name] = ArrayType(value.dtype.name, value.shape, contiguous)
        if key is None:
            self.keys = None
        elif self.keys is not None:
            self.keys.append(key)
        return name

    def function(self, op: Any, node: Apply) -> str:
        """Return a name for pytensor's function for a node, the same one for equal nodes."""
        kind = (op, *[v if isinstance(v, Constant) else v.type for v in node.inputs])
        if kind not in self._functions:
            called, key = numba_funcify_ensure_cache(op, node=node)
            self._functions[kind] = name = self.constant(called, key)
            variables = [*node.inputs, *node.outputs]
            kinds = [known for variable in variables if (known := _kind(variable))]
            is_of_numbers = len(kinds) == len(variables) and len(node.outputs) == 1
            if isinstance(called, Dispatcher) and is_of_numbers:
                self.functions[name] = ScalarFunction(called, tuple(kinds[:-1]), kinds[-1])
        return self._functions[kind]

    def declare(self, name: str, variable: Variable) -> None:
        """Note the type of a name that holds an array with the elements of a variable."""
        if isinstance(variable.type, DenseTensorType):
            self.types[name] = ArrayType(variable.type.dtype, variable.type.shape)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent what is written within this context."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def loop(self, header: str) -> Iterator[None]:
        """Write a loop; its arrays are allocated before it, its names forgotten after it."""
        kept, outside = self.values, self._outside
        # Copied, because an array made for a variable within the loop is not defined after it.
        self.values = {variable: replace(value) for variable, value in kept.items()}
        before, depth = self.lines, self.depth
        if outside is None:
            self._outside = (before, depth)
        self.lines = []
        self.put(header)
        with self.indented():
            yield
        body, self.lines = self.lines, before
        self.lines += body
        self.values, self._outside = kept, outside

    # ---- Reading ---------------------------------------------------------------------

    def value(self, variable: Variable) -> Value:
        """Return how to read a variable."""
        if variable not in self.values:
            assert isinstance(variable, Constant), variable
            number = _number(variable)
            if number is not None:
                self.values[variable] = Value(lambda _: number)
            else:
                data = numba_typify(variable.data, variable=variable)
                name = self.constant(data, cache_key_for_constant(variable.data))
                self.values[variable] = Value(lambda i: f"{name}[{', '.join(i)}]", name)
        return self.values[variable]

    def scalar(self, variable: Variable) -> str:
        """Return the source code of a 0-d variable."""
        return self.value(variable).at(())

    def array(self, variable: Variable) -> str:
        """Return the name of an array with the elements of a variable."""
        value = self.value(variable)
        if value.name is None:
            if value.view is not None:
                value.name = self.fresh("v")
                self.put(f"{value.name} = {value.view}")
            else:
                value.name = name = self.copy(variable)
                # The arrays that it was copied from may be overwritten later.
                value.at = lambda i: f"{name}[{', '.join(i)}]"
        return value.name

    def own_array(self, variable: Variable) -> str:
        """Return the name of an array with the elements of a variable that may be overwritten."""
        name = self.array(variable)
        # Globals are read-only.
        return self.copy(variable) if name in self.environment else name

    def argument(self, variable: Variable) -> str:
        """Return what one of pytensor's functions is called with for a variable."""
        if isinstance(variable.type, ScalarType):
            return self.scalar(variable)
        if isinstance(variable, Constant) and not (
            isinstance(variable.type, DenseTensorType) and variable.type.ndim
        ):
            data = numba_typify(variable.data, variable=variable)
            return self.constant(data, cache_key_for_constant(variable.data))
        if is_scalar(variable):
            name = self.allocate([], variable.type.dtype)
            self.put(f"{name}[()] = {self.scalar(variable)}")
            return name
        return self.array(variable)

    def copy(self, variable: Variable) -> str:
        """Return the name of a new array with the elements of a variable."""
        lengths = self.lengths(variable)
        name = self.allocate(lengths, variable.type.dtype)
        at = self.value(variable).at
        with self.nest(lengths) as indices:
            self.put(f"{name}[{', '.join(indices)}] = {at(indices)}")
        return name

    def lengths(self, variable: Variable) -> list[int | str]:
        """Return the shape of a variable; lengths that are not known are source code."""
        if is_scalar(variable):
            return []
        return [self.length(variable, axis) for axis in range(variable.type.ndim)]

    def known_lengths(self, variable: Variable) -> list[int] | None:
        """Return the shape of a variable, or None if it is not completely known."""
        lengths = self.lengths(variable)
        known = [n for n in lengths if not isinstance(n, str)]
        return known if len(known) == len(lengths) else None

    def length(self, variable: Variable, axis: int) -> int | str:
        """Return the length of one axis."""
        known = variable.type.shape[axis]
        if known is not None:
            return known
        value = self.value(variable)
        if value.length is not None:
            return value.length(axis)
        return f"{self.array(variable)}.shape[{axis}]"

    # ---- Writing ---------------------------------------------------------------------

    def allocate(self, lengths: Sequence[int | str], dtype: str) -> str:
        """Return the name of a new, uninitialised array."""
        name = self.fresh("a")
        shape = "".join(f"{n}, " for n in lengths)
        line = f"{name} = np.empty(({shape}), np.{dtype})"
        if self._outside is not None and all(isinstance(n, int) for n in lengths):
            lines, depth = self._outside
            lines.append("    " * depth + line)
        else:
            self.put(line)
        return name

    @contextmanager
    def nest(self, lengths: Sequence[int | str]) -> Iterator[list[str]]:
        """Open nested loops over all elements and yield the source code of their indices."""
        indices = []
        depth, lines = self.depth, len(self.lines)
        for n in lengths:
            indices.append("0" if n == 1 else self.open_loop(n))
        yield indices
        self.depth = depth
        if 0 in lengths:
            del self.lines[lines:]

    def open_loop(self, length: int | str) -> str:
        """Begin a loop and return its index; resetting `depth` ends it."""
        index = self.fresh("i")
        self.put(f"for {index} in range({length}):")
        self.depth += 1
        return index

    def bind(
        self, variable: Variable, name: str, lengths: Sequence[int | str] | None = None
    ) -> None:
        """Read a variable from an array, whose shape the variable's type may not know."""
        length = None if lengths is None else lengths.__getitem__
        self.values[variable] = Value(lambda i: f"{name}[{', '.join(i)}]", name, length=length)

    def bind_scalar(self, variable: Variable, source: str) -> None:
        """Read a 0-d variable as a name or a literal."""
        self.values[variable] = Value(lambda _: source)

    def compute(self, expression: str) -> str:
        """Assign an expression to a new name and return it."""
        name = self.fresh("s")
        self.put(f"{name} = {expression}")
        return name

    def bind_view(
        self,
        variable: Variable,
        at: At,
        length: Callable[[int], int | str],
        view: str | None = None,
    ) -> None:
        """Read a variable from others, without a copy; a number is read at once."""
        if is_scalar(variable):
            self.bind_scalar(variable, self.compute(at(())))
        else:
            self.values[variable] = Value(at, view=view, length=length)


def is_scalar(variable: Variable) -> bool:
    """Return whether a variable is a number: of a scalar type, or a 0-d tensor."""
    kind = variable.type
    return isinstance(kind, ScalarType) or (isinstance(kind, DenseTensorType) and kind.ndim == 0)


def _kind(variable: Variable) -> str | None:
    """Return the kind of a number that numba's functions take and return, or None."""
    is_number = isinstance(variable.type, ScalarType)
    return _KINDS.get(variable.type.dtype) if is_number else None


def _number(variable: Constant) -> str | None:
    """Return the literal of a constant with one element, or None."""
    if isinstance(variable.type, DenseTensorType):
        return literal(variable.data.reshape(())) if variable.data.size == 1 else None
    return literal(variable.data) if isinstance(variable.type, ScalarType) else None
