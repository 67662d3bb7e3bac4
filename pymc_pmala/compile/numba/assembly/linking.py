"""Translated regions as functions that numba can call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from pymc_pmala.compile.numba.assembly.emitter import Emitter, ScalarFunction
from pymc_pmala.compile.numba.assembly.types import ArrayType

__all__ = ["Output", "make_intrinsic", "without_gaps"]

_NUMBA = {"f8": types.float64, "f4": types.float32, "i8": types.int64, "b": types.boolean}


class Output(NamedTuple):
    """A number that a region computes for what follows it."""

    name: str
    kind: str


def make_intrinsic(
    symbol: str,
    emitter: Emitter,
    parameters: Mapping[str, ArrayType | str | None],
    outputs: Sequence[Output],
    entry: Sequence[str],
    local: Sequence[str],
) -> Callable:
    """Return a function for numba that runs a region.

    Parameters
    ----------
    symbol : str
        Its name for LLVM.
    emitter : Emitter
        It has translated the statements.
    parameters : mapping
        The types of what the function takes; None for memory.
    outputs : sequence of Output
        What it returns.
    entry : sequence of str
        Lines that give local arrays their memory.
    local : sequence of str
        The names of these.
    """
    for output in outputs:
        emitter.give(output.name)
    given = ["ptr %memory" for kind in parameters.values() if kind is None]
    given += [f"ptr %{output.name}.out" for output in outputs]
    functions = {name: emitter.code.library.functions[name] for name in emitter.code.called}
    result = types.Tuple([_NUMBA[output.kind] for output in outputs]) if outputs else types.void

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values: list[Any] = []
        for kind, numba_type, value in zip(
            parameters.values(), signature.args, arguments, strict=True
        ):
            if isinstance(kind, str):
                values.append(context.cast(builder, value, numba_type, _NUMBA[kind]))
            else:
                values += _array_values(context, builder, kind, numba_type, value)
        places = [
            cgutils.alloca_once(builder, context.get_data_type(_NUMBA[output.kind]))
            for output in outputs
        ]
        values += places
        layouts = {
            parameter: numba_type.layout
            for parameter, numba_type in zip(parameters, signature.args, strict=True)
            if isinstance(numba_type, types.Array)
        }
        # Numba compiles the function again for arrays in another order.
        name = ".".join([symbol, *layouts.values()])
        # A weak symbol, since the function is linked before it is called from anywhere.
        region = emitter.text(name, "weak_odr", local, given, entry, layouts)
        _add_module(context, f"{emitter.code.text()}\n{region}\n", functions)
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        called = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(called, values)
        if not outputs:
            return context.get_dummy_value()
        found = [
            context.data_model_manager[_NUMBA[output.kind]].from_data(builder, builder.load(place))
            for output, place in zip(outputs, places, strict=True)
        ]
        return context.make_tuple(builder, result, found)

    def typed(*arguments: Any) -> tuple[Any, Callable]:
        return result(*arguments), codegen

    names = ", ".join(f"a{i}" for i in range(len(parameters)))
    # Numba wants to know the number of parameters.
    scope = {"typed": typed}
    exec(f"def region(context, {names}): return typed({names})", scope)
    return intrinsic(scope["region"])


def without_gaps(array: np.ndarray) -> np.ndarray:
    """Return an array whose matrices the BLAS can read, for use in compiled code."""
    return np.asarray(array)


@overload(without_gaps)
def _without_gaps(array):
    if array.layout == "A" or (array.layout == "F" and array.ndim > 2):
        return lambda array: np.ascontiguousarray(array)
    return lambda array: array


def _array_values(
    context: Any, builder: Any, kind: ArrayType | None, numba_type: Any, value: Any
) -> list[Any]:
    """Return the address, lengths and strides of an array, as a region takes them."""
    array = context.make_array(numba_type)(context, builder, value)
    if kind is None or kind.is_fixed:
        return [array.data]
    bytes_each = context.get_abi_sizeof(context.get_data_type(numba_type.dtype))
    size = context.get_constant(types.intp, bytes_each)
    lengths = cgutils.unpack_tuple(builder, array.shape)
    shape = [
        n if known is None else context.get_constant(types.intp, known)
        for n, known in zip(lengths, kind.shape, strict=True)
    ]
    if numba_type.layout != "A":
        return [array.data, *shape]
    strides = cgutils.unpack_tuple(builder, array.strides)
    return [array.data, *shape, *[builder.sdiv(stride, size) for stride in strides]]


def _add_module(context: Any, text: str, functions: Mapping[str, ScalarFunction]) -> None:
    """Add the text to what is being compiled, with the functions of numba that it calls."""
    library = context.active_code_library
    for name, (dispatcher, kinds, result) in functions.items():
        # Cached functions take any number of arguments, and pass them on.
        signature = context.typing_context.resolve_function_type(
            types.Dispatcher(dispatcher), tuple(_NUMBA[kind] for kind in kinds), {}
        )
        compiled = dispatcher.get_compile_result(signature)
        if signature.return_type != _NUMBA[result]:
            raise TypeError(f"{name} returns {signature.return_type}, not {_NUMBA[result]}")
        library.add_linking_library(compiled.library)
        text = text.replace(f"@<{name}>", f'@"{compiled.fndesc.llvm_func_name}"')
    module = llvm.parse_assembly(text)
    module.verify()
    codegen = context.codegen()
    module.triple = llvm.get_process_triple()
    module.data_layout = str(codegen.target_data)
    library.add_llvm_module(module)
