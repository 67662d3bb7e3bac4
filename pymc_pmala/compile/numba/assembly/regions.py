"""The parts of a written function that are translated, and what is left of it for numba."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from pymc_pmala.compile.numba.assembly.emitter import Code, Emitter, Library
from pymc_pmala.compile.numba.assembly.linking import Output, make_intrinsic, without_gaps
from pymc_pmala.compile.numba.assembly.types import MEMORY, ArrayType, Unsupported

__all__ = ["assemble"]

# Arrays of more bytes than this, and all that follow after so many bytes, are not on the stack.
_LARGEST, _MOST = 4096, 32_768
_ALIGNMENT = 64


def assemble(
    text: str,
    digest: str,
    types: Mapping[str, ArrayType | str],
    library: Library,
) -> tuple[str, dict[str, Any]]:
    """Translate what can be translated of a function.

    Parameters
    ----------
    text : str
        The source code of the function.
    digest : str
        Identifies the text and the types: the names of the translated parts contain it.
    types : mapping
        The types of its parameters and globals, and of what is returned by functions that it
        calls.
    library : Library

    Returns
    -------
    text : str
        The source code of a function that calls the translated parts.
    environment : dict
        These parts, by name.
    """
    [tree] = ast.parse(text).body
    assert isinstance(tree, ast.FunctionDef)
    plan = _Plan(tree, dict(types), library)
    return plan.write(digest)


@dataclass
class _Region:
    """Consecutive statements that are translated."""

    emitter: Emitter
    code: Code

    def names(self, views: Mapping[str, ast.Assign]) -> set[str]:
        """Return the names of arrays and numbers from outside."""
        return set(self.emitter.parameters)


@dataclass
class _Rest:
    """A statement that is left to numba."""

    statement: ast.stmt

    def names(self, views: Mapping[str, ast.Assign]) -> set[str]:
        """Return all names in the statement, with those of arrays that it views."""
        return set(_names(self.statement, views))


@dataclass
class _Plan:
    """A function divided into regions and the rest.

    Attributes
    ----------
    tree : ast.FunctionDef
    types : dict
        Types of names; for a view of an array its expression.
    library : Library
    items : list
        Regions and other statements in order.
    allocations, views : dict
        Statements that make arrays of known shape, and views of arrays, by name. They are
        written where numba needs them.
    """

    tree: ast.FunctionDef
    types: dict[str, Any]
    library: Library
    items: list[_Region | _Rest] = field(default_factory=list)
    allocations: dict[str, ast.Assign] = field(default_factory=dict)
    views: dict[str, ast.Assign] = field(default_factory=dict)

    def __post_init__(self) -> None:
        region: _Region | None = None
        for statement in self.tree.body:
            if self._is_declaration(statement):
                continue
            if region is None:
                code = Code(self.library)
                region = _Region(Emitter(code, self.tree, self.types.get), code)
            try:
                with region.emitter.attempt():
                    region.emitter.statement(statement)
            except Unsupported:
                self._close(region)
                self.items.append(_Rest(statement))
                region = None

    def _close(self, region: _Region) -> None:
        if not region.emitter.lines:
            return
        self.items.append(region)
        for name in region.emitter.names:
            kind = region.emitter.kind(name)
            if kind is not None:
                self.types[name] = kind

    def _is_declaration(self, statement: ast.stmt) -> bool:
        """Whether a statement makes an array or a view, of which the type is noted."""
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="np"), attr="empty"),
                    args=[ast.Tuple(elts=lengths), ast.Attribute(attr=dtype)],
                ),
            ):
                shape = tuple(map(_literal, lengths))
                known = None not in shape
                self.types[name] = ArrayType(dtype, shape, contiguous=True)
                if known:
                    self.allocations[name] = statement
                return known
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_view(value):
                root = _root(value)
                if root in self.types and not isinstance(self.types[root], str):
                    self.types[name] = value
                    self.views[name] = statement
                    return True
        return False

    # ---- Writing ---------------------------------------------------------------------

    def write(self, digest: str) -> tuple[str, dict[str, Any]]:
        """Return the source code of what is left, and the regions that it calls."""
        users: dict[str, list[_Region | _Rest]] = {}
        for item in self.items:
            for name in item.names(self.views):
                users.setdefault(name, []).append(item)
        written: set[str] = set()
        lines: list[str] = []
        environment: dict[str, Any] = {"without_gaps": without_gaps}
        for position, item in enumerate(self.items):
            if isinstance(item, _Rest):
                for name in _names(item.statement, {}):
                    lines += self._needed(name, written)
                lines.append(ast.unparse(item.statement))
                continue
            local = [
                name
                for name in item.emitter.parameters
                if name in self.allocations and len(users[name]) == 1
            ]
            names = [name for name in item.emitter.parameters if name not in local]
            for name in names:
                lines += self._needed(name, written)
            arguments = [self._argument(name, item) for name in names]
            outputs = self._outputs(item, self.items[position + 1 :])
            called = f"region_{position}"
            entry, size = self._memory(local)
            if size:
                lines.append(f"memory_{position} = np.empty(({size},), np.uint8)")
                names.append(f"memory_{position}")
                arguments.append(names[-1])
            environment[called] = make_intrinsic(
                f"pmala.{digest}.{position}",
                item.emitter,
                {name: item.emitter.parameters.get(name) for name in names},
                outputs,
                entry,
                local,
            )
            results = "".join(f"{output.name}, " for output in outputs)
            call = f"{called}({', '.join(arguments)})"
            lines.append(f"{results}= {call}" if results else call)
        head = f"def {self.tree.name}({ast.unparse(self.tree.args)}):"
        body = [f"    {line}" for text in lines for line in text.splitlines()]
        return "\n".join([head, *body]), environment

    def _argument(self, name: str, region: _Region) -> str:
        """Return what a region is called with: what the BLAS reads has no gaps."""
        return f"without_gaps({name})" if name in region.emitter.operands else name

    def _needed(self, name: str, written: set[str]) -> Iterator[str]:
        """Write the statements that make an array or a view, if they have not been written."""
        statement = self.allocations.get(name) or self.views.get(name)
        if statement is None or name in written:
            return
        written.add(name)
        for other in _names(statement.value, {}):
            yield from self._needed(other, written)
        yield ast.unparse(statement)

    def _outputs(self, region: _Region, later: list[_Region | _Rest]) -> list[Output]:
        """Return the numbers that a region computes for what comes after it."""
        wanted = set().union(*[item.names(self.views) for item in later])
        kinds = {name: region.emitter.kind(name) for name in region.emitter.names}
        return [Output(name, kind) for name, kind in kinds.items() if kind and name in wanted]

    def _memory(self, local: list[str]) -> tuple[list[str], int]:
        """Return the lines that give local arrays their memory, and the bytes that they need."""
        lines, on_stack, elsewhere = [], 0, 0
        for name in local:
            kind = self.types[name]
            count = prod(kind.shape)
            size = count * np.dtype(kind.dtype).itemsize
            if size <= _LARGEST and on_stack + size <= _MOST:
                on_stack += size
                lines.append(
                    f"  %{name} = alloca [{max(count, 1)} x {MEMORY[kind.dtype]}], "
                    f"align {_ALIGNMENT}"
                )
            else:
                lines.append(f"  %{name} = getelementptr i8, ptr %memory, i64 {elsewhere}")
                elsewhere += -(-size // _ALIGNMENT) * _ALIGNMENT
        return lines, elsewhere


def _literal(node: ast.expr) -> int | None:
    """Return the integer that an expression is, or None."""
    match node:
        case ast.Constant(value=int(value)):
            return value
    return None


def _names(node: ast.AST, views: Mapping[str, ast.Assign]) -> Iterator[str]:
    """Yield the names in a statement, and those of arrays that it views."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
            if part.id in views:
                yield from _names(views[part.id].value, views)


def _is_view(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="T"):
            return True
        case ast.Call(func=ast.Attribute(attr="reshape")):
            return True
        case ast.Subscript(slice=ast.Slice()):
            return True
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return any(isinstance(part, ast.Slice) for part in parts)
    return False


def _root(node: ast.expr) -> str | None:
    """Return the name of what an expression views."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return None
    return node.id
