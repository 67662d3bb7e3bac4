"""From statements of a written function to LLVM's language."""

import ast
import inspect
import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from textwrap import dedent
from types import MappingProxyType
from typing import Any, NamedTuple

from pymc_pmala.compile.numba.assembly.types import (
    FLOATS,
    IR,
    MEMORY,
    Array,
    ArrayType,
    Number,
    Unsupported,
    common_kind,
    kind_of,
)

__all__ = ["Code", "Emitter", "Library", "ScalarFunction"]

_ARITHMETIC = {
    ast.Add: ("fadd", "add"),
    ast.Sub: ("fsub", "sub"),
    ast.Mult: ("fmul", "mul"),
    ast.Div: ("fdiv", ""),
}
_LOGIC = {ast.BitAnd: "and", ast.BitOr: "or"}
_COMPARISONS = {
    ast.Lt: ("olt", "slt"),
    ast.LtE: ("ole", "sle"),
    ast.Gt: ("ogt", "sgt"),
    ast.GtE: ("oge", "sge"),
    ast.Eq: ("oeq", "eq"),
    ast.NotEq: ("une", "ne"),
}
_INTRINSICS = ("exp", "log", "sqrt", "sin", "cos")
_LIBRARY = ("log1p", "expm1", "tanh", "atan")
# Whether the BLAS is to transpose a matrix.
_YES, _NO = str(ord("t")), str(ord("n"))
_CASTS = ("float64", "float32", "int64", "int32", "int16", "int8")


NOTHING: Mapping[str, str] = MappingProxyType({})


def row_major(shape: Sequence[str]) -> tuple[str, ...]:
    """Return the strides of a contiguous array of known shape."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(str(step))
        step *= int(n)
    return tuple(reversed(strides))


def array_from(name: str, kind: ArrayType) -> Array:
    """Return the array that a function receives as a parameter."""
    shape = tuple(f"%{name}.d{axis}" if n is None else str(n) for axis, n in enumerate(kind.shape))
    if kind.is_fixed:
        strides = row_major(shape)
    else:
        strides = tuple(f"%{name}.s{axis}" for axis in range(len(shape)))
    return Array(kind.dtype, f"%{name}", name, shape, strides)


class ScalarFunction(NamedTuple):
    """A function of numbers that numba compiles.

    Attributes
    ----------
    dispatcher : Dispatcher
    arguments : tuple of str
        The kinds of its arguments.
    result : str
        The kind of its result.
    """

    dispatcher: Any
    arguments: tuple[str, ...]
    result: str


class Library(NamedTuple):
    """What the regions of a function call, by name.

    Attributes
    ----------
    functions : mapping of str to ScalarFunction
    routines : mapping of str to callable
        Python functions in the written language, which fill an array.
    products : set of str
        Those of them that are matrix products, for which the BLAS is called.
    """

    functions: Mapping[str, ScalarFunction]
    routines: Mapping[str, Callable]
    products: Set[str]


class Code:
    """The text of a module: declarations and routines that its regions share."""

    def __init__(self, library: Library):
        self.library = library
        self.declarations: dict[str, str] = {}
        self.routines: dict[str, str] = {}
        self.called: set[str] = set()

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Declare a function that is defined elsewhere."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def text(self) -> str:
        """Return the declarations and routines."""
        return "\n".join([*self.declarations.values(), *self.routines.values()])


class _Slot(NamedTuple):
    """A number that changes, in memory until LLVM puts it into a register."""

    kind: str
    address: str


class Emitter:
    """Translates statements into the body of a function.

    Parameters
    ----------
    code : Code
    tree : ast.AST
        The whole function, in which names that are assigned more than once are found.
    outside : callable
        Returns the type of a name that is defined elsewhere; None if that is unknown.
    """

    def __init__(self, code: Code, tree: ast.AST, outside: Callable[[str], Any]):
        self.code, self.outside = code, outside
        counts = Counter(
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        self.changing = {name for name, count in counts.items() if count > 1}
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.names: dict[str, Number | Array | _Slot] = {}
        self.parameters: dict[str, ArrayType | str] = {}
        # Arrays that may have gaps: those that the BLAS reads, and those that are written.
        self.operands: set[str] = set()
        self.written: set[str] = set()
        self.block = "start"
        self._count = 0
        self._scopes: list[list[str]] = [[]]

    @contextmanager
    def attempt(self):
        """Undo what was emitted within this context if it raises `Unsupported`."""
        lines, entry, block = len(self.lines), len(self.entry), self.block
        names, parameters = dict(self.names), dict(self.parameters)
        operands, written = set(self.operands), set(self.written)
        scopes = [[*scope] for scope in self._scopes]
        try:
            yield
        except Unsupported:
            del self.lines[lines:], self.entry[entry:]
            self.names, self.parameters, self._scopes = names, parameters, scopes
            self.operands, self.written = operands, written
            self.block = block
            raise

    # ---- Lines -----------------------------------------------------------------------

    def _fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}.{self._count}"

    def _put(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def _compute(self, kind: str, instruction: str) -> Number:
        name = f"%{self._fresh()}"
        self._put(f"{name} = {instruction}")
        return Number(kind, name)

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    # ---- Statements ------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> None:
        """Emit one statement."""
        if isinstance(node, ast.Assign):
            [target] = node.targets
            if isinstance(target, ast.Name):
                self._assign(target.id, self.number(node.value))
            elif isinstance(target, ast.Subscript):
                self._store(target, self.number(node.value))
            else:
                raise Unsupported(ast.dump(target))
        elif isinstance(node, ast.AugAssign):
            value = self.number(node.value)
            old = self.number(node.target)
            new = self._operate(type(node.op), old, value)
            if isinstance(node.target, ast.Name):
                self._assign(node.target.id, new)
            else:
                self._store(node.target, new)
        elif isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._procedure(node.value)
        else:
            raise Unsupported(type(node).__name__)

    def _assign(self, name: str, value: Number) -> None:
        if name not in self.changing:
            self.names[name] = value
            self._scopes[-1].append(name)
            return
        slot = self.names.get(name)
        if slot is None:
            if len(self._scopes) > 1:
                # What it was before the loop is not known here.
                self._scopes[-1].append(name)
            slot = _Slot(value.kind, f"%{self._fresh(name)}")
            self.entry.append(f"  {slot.address} = alloca {IR[value.kind]}")
            self.names[name] = slot
        if not isinstance(slot, _Slot) or common_kind(slot.kind, value.kind) != slot.kind:
            raise Unsupported(f"{name} changes its type")
        value = self._cast(value, slot.kind)
        self._put(f"store {IR[slot.kind]} {value.text}, ptr {slot.address}")

    def _store(self, target: Any, value: Number) -> None:
        array = self.array(target.value)
        if array.root in self.operands:
            raise Unsupported("writing into what has been copied")
        if self._may_have_gaps(array):
            self.written.add(array.root)
        address = self._address(array, target.slice)
        value = self._cast(value, kind_of(array.dtype))
        memory = MEMORY[array.dtype]
        if memory != IR[value.kind]:
            change = "zext" if value.kind == "b" else "trunc"
            value = self._compute(value.kind, f"{change} {IR[value.kind]} {value.text} to {memory}")
        self._put(f"store {memory} {value.text}, ptr {address}")

    def _loop(self, node: ast.For) -> None:
        match node:
            case ast.For(
                target=ast.Name(id=counter),
                iter=ast.Call(func=ast.Name(id="range"), args=([_] | [_, _]) as arguments),
                orelse=[],
            ):
                bounds = [self._integer(argument) for argument in arguments]
            case _:
                raise Unsupported("a loop")
        start, stop = bounds if len(bounds) == 2 else ("0", bounds[0])
        name, before = self._fresh("loop"), self.block
        index, following = f"%{name}.i", f"%{name}.n"
        if _is_literal(start) and _is_literal(stop):
            if int(start) >= int(stop):
                return
            self._put(f"br label %{name}")
        else:
            some = self._compute("b", f"icmp slt i64 {start}, {stop}")
            self._put(f"br i1 {some.text}, label %{name}, label %{name}.end")
        self._label(name)
        position = len(self.lines)
        self._scopes.append([counter])
        self.names[counter] = Number("i8", index)
        for statement in node.body:
            self.statement(statement)
        for local in self._scopes.pop():
            self.names.pop(local, None)
        phi = f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{name}.next ]"
        self.lines.insert(position, phi)
        self._put(f"br label %{name}.next")
        self._label(f"{name}.next")
        self._put(f"{following} = add nsw i64 {index}, 1")
        again = self._compute("b", f"icmp slt i64 {following}, {stop}")
        self._put(f"br i1 {again.text}, label %{name}, label %{name}.end")
        self._label(f"{name}.end")

    # ---- Numbers ---------------------------------------------------------------------

    def number(self, node: ast.expr) -> Number:
        """Emit an expression that is a number."""
        match node:
            case ast.Constant(value=bool(value)):
                return Number("b", "true" if value else "false")
            case ast.Constant(value=int(value)):
                return Number("i8", str(value))
            case ast.Constant(value=float(value)):
                return _real(value)
            case ast.Attribute(value=ast.Name(id="math"), attr=("inf" | "nan") as constant):
                return _real(getattr(math, constant))
            case ast.Name(id=name):
                return self._read(name)
            case ast.UnaryOp(op=op, operand=operand):
                return self._negate(op, self.number(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(type(op), self.number(left), self.number(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(type(op), self.number(left), self.number(right))
            case ast.BoolOp(op=op, values=values):
                word = "or" if isinstance(op, ast.Or) else "and"
                first, *others = [self._cast(self.number(value), "b") for value in values]
                for other in others:
                    first = self._compute("b", f"{word} i1 {first.text}, {other.text}")
                return first
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choose(self.number(test), self.number(body), self.number(orelse))
            case ast.Call():
                return self._call(node)
            case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=axis):
                return Number("i8", self.array(array).shape[ast.literal_eval(axis)])
            case ast.Subscript(value=array):
                return self._load(self.array(array), node.slice)
        raise Unsupported(ast.dump(node))

    def _integer(self, node: ast.expr) -> str:
        found = self.number(node)
        if found.kind != "i8":
            raise Unsupported("an index that is no integer")
        return found.text

    def _read(self, name: str) -> Number:
        found = self.names.get(name)
        if found is None:
            kind = self.outside(name)
            if not isinstance(kind, str):
                raise Unsupported(name)
            self.parameters[name] = kind
            found = self.names[name] = Number(kind, f"%{name}")
        if isinstance(found, _Slot):
            return self._compute(found.kind, f"load {IR[found.kind]}, ptr {found.address}")
        if isinstance(found, Array):
            raise Unsupported(f"{name} is an array")
        return found

    def _cast(self, value: Number, kind: str) -> Number:
        if value.kind == kind:
            return value
        old, new = IR[value.kind], IR[kind]
        if kind == "b":
            if value.kind in FLOATS:
                return self._compute("b", f"fcmp une {old} {value.text}, 0.0")
            return self._compute("b", f"icmp ne {old} {value.text}, 0")
        if kind in FLOATS and value.kind in FLOATS:
            change = "fpext" if kind == "f8" else "fptrunc"
        elif kind in FLOATS:
            change = "uitofp" if value.kind == "b" else "sitofp"
        else:
            change = "zext" if value.kind == "b" else "fptosi"
        return self._compute(kind, f"{change} {old} {value.text} to {new}")

    def _negate(self, op: ast.unaryop, value: Number) -> Number:
        if isinstance(op, ast.Not):
            truth = self._cast(value, "b")
            return self._compute("b", f"xor i1 {truth.text}, true")
        if not isinstance(op, ast.USub):
            raise Unsupported(type(op).__name__)
        if value.kind in FLOATS:
            return self._compute(value.kind, f"fneg {IR[value.kind]} {value.text}")
        number = self._cast(value, "i8")
        if _is_literal(number.text):
            return Number("i8", str(-int(number.text)))
        return self._compute("i8", f"sub i64 0, {number.text}")

    def _operate(self, op: type, left: Number, right: Number) -> Number:
        if op in _LOGIC:
            kind = common_kind(left.kind, right.kind)
            if kind in FLOATS:
                raise Unsupported("bits of real numbers")
            left, right = self._cast(left, kind), self._cast(right, kind)
            return self._compute(kind, f"{_LOGIC[op]} {IR[kind]} {left.text}, {right.text}")
        if op not in _ARITHMETIC:
            raise Unsupported(op.__name__)
        kind = common_kind(left.kind, right.kind)
        if kind not in FLOATS:
            kind = "f8" if op is ast.Div else "i8"
        left, right = self._cast(left, kind), self._cast(right, kind)
        of_reals, of_integers = _ARITHMETIC[op]
        if kind in FLOATS:
            return self._compute(kind, f"{of_reals} {IR[kind]} {left.text}, {right.text}")
        return self._integers(of_integers, left.text, right.text)

    def _integers(self, word: str, left: str, right: str) -> Number:
        """Compute with integers; what is known is computed at once."""
        if _is_literal(left) and _is_literal(right):
            a, b = int(left), int(right)
            return Number("i8", str({"add": a + b, "sub": a - b, "mul": a * b}[word]))
        if word == "mul" and "0" in (left, right):
            return Number("i8", "0")
        if word == "mul" and "1" in (left, right):
            return Number("i8", right if left == "1" else left)
        if word == "add" and "0" in (left, right):
            return Number("i8", right if left == "0" else left)
        return self._compute("i8", f"{word} nsw i64 {left}, {right}")

    def _compare(self, op: type, left: Number, right: Number) -> Number:
        if op not in _COMPARISONS:
            raise Unsupported(op.__name__)
        kind = common_kind(left.kind, right.kind)
        kind = "i8" if kind == "b" else kind
        left, right = self._cast(left, kind), self._cast(right, kind)
        of_reals, of_integers = _COMPARISONS[op]
        word = f"fcmp {of_reals}" if kind in FLOATS else f"icmp {of_integers}"
        return self._compute("b", f"{word} {IR[kind]} {left.text}, {right.text}")

    def _choose(self, test: Number, yes: Number, no: Number) -> Number:
        kind = common_kind(yes.kind, no.kind)
        test, yes, no = self._cast(test, "b"), self._cast(yes, kind), self._cast(no, kind)
        word = IR[kind]
        return self._compute(kind, f"select i1 {test.text}, {word} {yes.text}, {word} {no.text}")

    # ---- Calls -----------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Number:
        if node.keywords:
            raise Unsupported("keywords")
        match node.func:
            case ast.Attribute(value=ast.Name(id="math"), attr=name):
                [argument] = node.args
                return self._mathematics(name, self.number(argument))
            case ast.Attribute(value=ast.Name(id="np"), attr=dtype) if dtype in _CASTS:
                [argument] = node.args
                return self._to_dtype(self.number(argument), dtype)
            case ast.Name(id="abs"):
                [argument] = node.args
                return self._absolute(self.number(argument))
            case ast.Name(id=("max" | "min") as name):
                left, right = map(self.number, node.args)
                if {left.kind, right.kind} != {"i8"}:
                    raise Unsupported(name)
                op = ast.Gt if name == "max" else ast.Lt
                return self._choose(self._compare(op, left, right), left, right)
            case ast.Name(id=name) if name in self.code.library.functions:
                return self._numba(name, node.args)
        raise Unsupported(ast.dump(node.func))

    def _mathematics(self, name: str, value: Number) -> Number:
        value = value if value.kind in FLOATS else self._cast(value, "f8")
        kind = value.kind
        word = IR[kind]
        if name in _INTRINSICS:
            called = f"llvm.{name}.f{8 * int(kind[1])}"
        elif name in _LIBRARY:
            called = name if kind == "f8" else f"{name}f"
        else:
            raise Unsupported(name)
        self.code.declare(called, word, [word])
        return self._compute(kind, f"call {word} @{called}({word} {value.text})")

    def _absolute(self, value: Number) -> Number:
        if value.kind not in FLOATS:
            number = self._cast(value, "i8")
            negative = self._compare(ast.Lt, number, Number("i8", "0"))
            return self._choose(negative, self._negate(ast.USub(), number), number)
        called = f"llvm.fabs.f{8 * int(value.kind[1])}"
        word = IR[value.kind]
        self.code.declare(called, word, [word])
        return self._compute(value.kind, f"call {word} @{called}({word} {value.text})")

    def _to_dtype(self, value: Number, dtype: str) -> Number:
        number = self._cast(value, kind_of(dtype))
        memory = MEMORY[dtype]
        if memory in IR.values():
            return number
        small = self._compute("i8", f"trunc i64 {number.text} to {memory}")
        return self._compute("i8", f"sext {memory} {small.text} to i64")

    def _numba(self, name: str, nodes: Sequence[ast.expr]) -> Number:
        """Call a function that numba has compiled, which returns a status and fills a place."""
        _, kinds, result = self.code.library.functions[name]
        values = [
            self._cast(self.number(node), kind) for node, kind in zip(nodes, kinds, strict=True)
        ]
        place, failure = f"%{self._fresh('r')}", f"%{self._fresh('e')}"
        self.entry += [f"  {place} = alloca {IR[result]}", f"  {failure} = alloca ptr"]
        arguments = "".join(f", {IR[value.kind]} {value.text}" for value in values)
        self.code.called.add(name)
        words = ["ptr", "ptr", *[IR[kind] for kind in kinds]]
        # Numba's own name for it is known when the function is compiled.
        self.code.declarations[name] = f"declare i32 @<{name}>({', '.join(words)})"
        self._compute("i8", f"call i32 @<{name}>(ptr {place}, ptr {failure}{arguments})")
        return self._compute(result, f"load {IR[result]}, ptr {place}")

    def _procedure(self, node: ast.Call) -> None:
        match node.func:
            case ast.Name(id=name) if name in self.code.library.products:
                self._product(*map(self.array, node.args))
            case ast.Name(id=name) if name in self.code.library.routines:
                self._routine(name, node.args)
            case _:
                raise Unsupported(ast.dump(node.func))

    def _routine(self, name: str, nodes: Sequence[ast.expr]) -> None:
        """Call a routine, which is translated once for each combination of types."""
        function = self.code.library.routines[name]
        [tree] = ast.parse(dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        types: dict[str, ArrayType | str] = {}
        arguments = []
        for parameter, node in zip(tree.args.args, nodes, strict=True):
            if isinstance(node, ast.Name) and self.is_array(node.id):
                array = self.array(node)
                types[parameter.arg] = ArrayType(array.dtype, (None,) * len(array.shape))
                sizes = [f"i64 {n}" for n in [*array.shape, *array.strides]]
                arguments += [f"ptr {array.base}", *sizes]
            else:
                value = self.number(node)
                types[parameter.arg] = value.kind
                arguments.append(f"{IR[value.kind]} {value.text}")
        suffix = "_".join(
            f"{kind.dtype}{len(kind.shape)}" if isinstance(kind, ArrayType) else kind
            for kind in types.values()
        )
        called = f"pmala.{function.__name__}.{suffix}"
        if called not in self.code.routines:
            inner = Emitter(self.code, tree, types.get)
            # All parameters are declared, used or not.
            inner.parameters = dict(types)
            inner.names = {
                name: array_from(name, kind)
                if isinstance(kind, ArrayType)
                else Number(kind, f"%{name}")
                for name, kind in types.items()
            }
            for statement in tree.body:
                if not _is_docstring(statement):
                    inner.statement(statement)
            self.code.routines[called] = inner.text(called, "linkonce_odr")
        self._put(f"call void @{called}({', '.join(arguments)})")

    def _product(self, left: Array, right: Array, result: Array) -> None:
        """Multiply matrices by the BLAS, through numba's interface to it."""
        roots = {array.root for array in (left, right) if self._may_have_gaps(array)}
        if roots & self.written:
            raise Unsupported("a copy of what has been written")
        self.operands |= roots
        if right.shape[1] == "1" and right.strides[0] == "1":
            self._matrix_vector(left, right, result)
            return
        if left.shape[0] == "1" and left.strides[1] == "1":
            self._matrix_vector(_transposed(right), left, result)
            return
        # The BLAS reads and writes in Fortran order: it computes the transpose.
        turn_left, step_left = self._layout(left)
        turn_right, step_right = self._layout(right)
        of_right = self._pick(turn_right, _NO, _YES, "i8")
        of_left = self._pick(turn_left, _NO, _YES, "i8")
        one, zero = self._constant(left, "1.0"), self._constant(left, "0.0")
        self._blas(
            "numba_xxgemm",
            ["i8", of_right, "i8", of_left],
            ["i64", right.shape[1], "i64", left.shape[0], "i64", left.shape[1]],
            ["ptr", one, "ptr", right.base, "i64", step_right, "ptr", left.base],
            ["i64", step_left, "ptr", zero, "ptr", result.base, "i64", result.strides[0]],
            dtype=left.dtype,
        )

    def _matrix_vector(self, matrix: Array, vector: Array, result: Array) -> None:
        rows, columns = matrix.shape
        turn, step = self._layout(matrix)
        first, second = self._pick(turn, columns, rows), self._pick(turn, rows, columns)
        one, zero = self._constant(matrix, "1.0"), self._constant(matrix, "0.0")
        self._blas(
            "numba_xxgemv",
            ["i8", self._pick(turn, _YES, _NO, "i8"), "i64", first, "i64", second],
            ["ptr", one, "ptr", matrix.base, "i64", step, "ptr", vector.base],
            ["ptr", zero, "ptr", result.base],
            dtype=matrix.dtype,
        )

    def _blas(self, called: str, *parts: Sequence[str], dtype: str) -> None:
        letter = str(ord("d" if dtype == "float64" else "s"))
        flat = ["i8", letter, *[item for part in parts for item in part]]
        words, values = flat[::2], flat[1::2]
        self.code.declare(called, "i32", words)
        arguments = ", ".join(f"{w} {v}" for w, v in zip(words, values, strict=True))
        self._compute("i8", f"call i32 @{called}({arguments})")

    def _constant(self, array: Array, value: str) -> str:
        """Return the address of a constant of the type of an array."""
        word, place = MEMORY[array.dtype], f"%{self._fresh()}"
        self.entry += [f"  {place} = alloca {word}", f"  store {word} {value}, ptr {place}"]
        return place

    def _may_have_gaps(self, array: Array) -> bool:
        kind = self.parameters.get(array.root)
        return isinstance(kind, ArrayType) and not kind.contiguous

    def _layout(self, matrix: Array) -> tuple[str, str]:
        """Return whether a matrix is in C order, as a boolean, and the length of its rows."""
        first, second = matrix.strides
        rows, columns = matrix.shape
        if second == "1":
            return "true", self._larger(first, columns)
        if first == "1":
            return "false", self._larger(second, rows)
        if _is_literal(first) and _is_literal(second):
            raise Unsupported("a matrix with gaps")
        in_order = self._compute("b", f"icmp eq i64 {second}, 1").text
        return in_order, self._pick(
            in_order, self._larger(first, columns), self._larger(second, rows)
        )

    def _larger(self, a: str, b: str) -> str:
        """Return the larger of two integers: a matrix of one row may have any stride."""
        if _is_literal(a) and _is_literal(b):
            return max(a, b, key=int)
        left, right = Number("i8", a), Number("i8", b)
        return self._choose(self._compare(ast.Gt, left, right), left, right).text

    def _pick(self, test: str, yes: str, no: str, word: str = "i64") -> str:
        if test in ("true", "false"):
            return yes if test == "true" else no
        return self._compute("i8", f"select i1 {test}, {word} {yes}, {word} {no}").text

    # ---- Arrays ----------------------------------------------------------------------

    def is_array(self, name: str) -> bool:
        """Return whether a name is that of an array."""
        found = self.names.get(name)
        return isinstance(found, Array) or (
            found is None and isinstance(self.outside(name), ArrayType | ast.expr)
        )

    def array(self, node: ast.expr) -> Array:
        """Return the array that an expression names."""
        match node:
            case ast.Name(id=name):
                found = self.names.get(name)
                if found is None:
                    kind = self.outside(name)
                    if isinstance(kind, ast.expr):
                        found = self.array(kind)
                    elif isinstance(kind, ArrayType):
                        kind_of(kind.dtype)
                        self.parameters[name] = kind
                        found = array_from(name, kind)
                        self.names[name] = found
                if isinstance(found, Array):
                    return found
            case ast.Attribute(value=original, attr="T"):
                return _transposed(self.array(original))
            case ast.Call(func=ast.Attribute(value=original, attr="reshape"), args=[shape]):
                array = self.array(original)
                lengths = tuple(str(n) for n in ast.literal_eval(shape))
                if not all(map(_is_literal, array.shape)):
                    raise Unsupported("a shape that is not known")
                if array.strides != row_major(array.shape):
                    raise Unsupported("a reshaped array with gaps")
                return Array(array.dtype, array.base, array.root, lengths, row_major(lengths))
            case ast.Subscript(value=original, slice=index):
                return self._slice(self.array(original), index)
        raise Unsupported(ast.dump(node))

    def _slice(self, array: Array, index: ast.expr) -> Array:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if not any(isinstance(part, ast.Slice) for part in parts):
            raise Unsupported("an element as an array")
        start, shape, strides = Number("i8", "0"), [], []
        for axis, (n, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            part = parts[axis] if axis < len(parts) else ast.Slice()
            if isinstance(part, ast.Slice):
                if part.step is not None:
                    raise Unsupported("a step")
                first = self._integer(part.lower) if part.lower else "0"
                last = self._integer(part.upper) if part.upper else n
                if not (_is_literal(first) and _is_literal(last)):
                    raise Unsupported("a slice that is not known")
                shape.append(str(int(last) - int(first)))
                strides.append(stride)
            else:
                first = self._integer(part)
            offset = self._integers("mul", first, stride)
            start = self._integers("add", start.text, offset.text)
        base = self._element(array, start.text)
        return Array(array.dtype, base, array.root, tuple(shape), tuple(strides))

    def _address(self, array: Array, index: ast.expr) -> str:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if len(parts) != len(array.shape):
            raise Unsupported("a part of an array")
        position = Number("i8", "0")
        for part, stride in zip(parts, array.strides, strict=True):
            step = self._integers("mul", self._integer(part), stride)
            position = self._integers("add", position.text, step.text)
        return self._element(array, position.text)

    def _element(self, array: Array, position: str) -> str:
        if position == "0":
            return array.base
        memory = MEMORY[array.dtype]
        return self._compute(
            "i8", f"getelementptr inbounds {memory}, ptr {array.base}, i64 {position}"
        ).text

    def _load(self, array: Array, index: ast.expr) -> Number:
        kind, memory = kind_of(array.dtype), MEMORY[array.dtype]
        address = self._address(array, index)
        value = self._compute(kind, f"load {memory}, ptr {address}")
        if kind == "b":
            return self._compute("b", f"icmp ne i8 {value.text}, 0")
        if memory == IR[kind]:
            return value
        change = "zext" if array.dtype.startswith("u") else "sext"
        return self._compute(kind, f"{change} {memory} {value.text} to i64")

    # ---- The whole -------------------------------------------------------------------

    def kind(self, name: str) -> str | None:
        """Return the kind of a number that the statements have defined, or None."""
        found = self.names.get(name)
        defined = isinstance(found, Number | _Slot) and name not in self.parameters
        return found.kind if defined else None  # type: ignore[union-attr]

    def give(self, name: str) -> None:
        """Store a number where the parameter of this name, with ``.out`` behind it, points to."""
        value = self._read(name)
        word = IR[value.kind]
        if value.kind == "b":
            value, word = self._compute("b", f"zext i1 {value.text} to i8"), "i8"
        self._put(f"store {word} {value.text}, ptr %{name}.out")

    def text(
        self,
        symbol: str,
        linkage: str,
        local: Sequence[str] = (),
        given: Sequence[str] = (),
        entry: Sequence[str] = (),
        layouts: Mapping[str, str] = NOTHING,
    ) -> str:
        """Return the function.

        Parameters
        ----------
        symbol, linkage : str
        local : sequence of str
            Arrays that are no parameters.
        given : sequence of str
            Further parameters.
        entry : sequence of str
            Further lines at its beginning.
        layouts : mapping
            Arrays whose elements are in C order (``"C"``) or Fortran order (``"F"``), so that
            their strides follow from their lengths.
        """
        declared, lines = [], [*entry]
        for name, kind in self.parameters.items():
            if name in local:
                continue
            if isinstance(kind, str):
                declared.append(f"{IR[kind]} %{name}")
                continue
            declared.append(f"ptr %{name}")
            if kind.is_fixed:
                continue
            axes = range(len(kind.shape))
            declared += [f"i64 %{name}.d{axis}" for axis in axes]
            layout = layouts.get(name, "A")
            if layout == "A":
                declared += [f"i64 %{name}.s{axis}" for axis in axes]
                continue
            step = "1"
            for axis in reversed(axes) if layout == "C" else axes:
                lines.append(f"  %{name}.s{axis} = add i64 {step}, 0")
                n = f"%{name}.d{axis}" if kind.shape[axis] is None else kind.shape[axis]
                lines.append(f"  %{name}.n{axis} = mul i64 %{name}.s{axis}, {n}")
                step = f"%{name}.n{axis}"
        head = f"define {linkage} void @{symbol}({', '.join([*declared, *given])}) nounwind {{"
        body = ["entry:", *lines, *self.entry, "  br label %start", "start:", *self.lines]
        return "\n".join([head, *body, "  ret void", "}"])


def _transposed(array: Array) -> Array:
    return replace(array, shape=array.shape[::-1], strides=array.strides[::-1])


def _real(value: float) -> Number:
    return Number("f8", f"0x{struct.pack('>d', value).hex()}")


def _is_literal(text: str) -> bool:
    return not text.startswith("%")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
