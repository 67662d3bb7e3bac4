"""Types of the language in which functions are written: numbers and arrays."""

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "FLOATS",
    "IR",
    "MEMORY",
    "Array",
    "ArrayType",
    "Number",
    "Unsupported",
    "common_kind",
    "kind_of",
]


class Unsupported(Exception):
    """Raised for what is left to numba."""


IR = {"f8": "double", "f4": "float", "i8": "i64", "b": "i1"}
"""LLVM's type of each kind of number: real numbers, integers and booleans."""

FLOATS = ("f8", "f4")

MEMORY = {
    "float64": "double",
    "float32": "float",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint32": "i32",
    "uint16": "i16",
    "uint8": "i8",
    "bool": "i8",
}
"""LLVM's type of the elements of arrays."""


def kind_of(dtype: str) -> str:
    """Return the kind of the numbers that elements of an array are read as."""
    if dtype not in MEMORY:
        raise Unsupported(dtype)
    return {"float64": "f8", "float32": "f4", "bool": "b"}.get(dtype, "i8")


def common_kind(*kinds: str) -> str:
    """Return the kind to which numba promotes numbers of different kinds."""
    if set(kinds) == {"f4", "i8"}:
        return "f8"
    return next(kind for kind in IR if kind in kinds)


class Number(NamedTuple):
    """A number: its kind, and a literal or the name of a value."""

    kind: str
    text: str


@dataclass(frozen=True)
class ArrayType:
    """What is known of an array when the function is written.

    Attributes
    ----------
    dtype : str
    shape : tuple of int or None
    contiguous : bool
        Whether its elements surely are in C order without gaps.
    """

    dtype: str
    shape: tuple[int | None, ...]
    contiguous: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether only its address has to be known when the function is called."""
        return self.contiguous and None not in self.shape


@dataclass(frozen=True)
class Array:
    """An array in a region.

    Attributes
    ----------
    dtype : str
    base : str
        Address of its first element.
    root : str
        Name of the array that owns the memory.
    shape, strides : tuple of str
        In elements: literals or names of values.
    """

    dtype: str
    base: str
    root: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]
