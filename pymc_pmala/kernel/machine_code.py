"""Calls from compiled code to a compiled function given by its address."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_new_ref
from numba.extending import intrinsic

__all__ = ["address_of", "call_at_signature"]


def address_of(compiled: Any) -> int:
    """Return the address of a function that numba has compiled.

    Parameters
    ----------
    compiled : CompileResult
        An overload of a dispatcher. It must be kept alive as long as the address is used.
    """
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


def call_at_signature(signature: Any) -> Callable:
    """Return an intrinsic function that calls the function at an address.

    Parameters
    ----------
    signature : Signature
        Numba's types of the arguments and of the result.
    """

    @intrinsic
    def call_at(typing_context, address, arguments):
        if tuple(arguments) != tuple(signature.args):
            # Numba then raises a typing error.
            return None

        def generate(context, builder, call, values):
            integer, packed = values
            convention = context.call_conv
            kind = convention.get_function_type(signature.return_type, signature.args)
            function = builder.inttoptr(integer, ir.PointerType(kind))
            status, result = convention.call_function(
                builder,
                function,
                signature.return_type,
                signature.args,
                cgutils.unpack_tuple(builder, packed),
            )
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return impl_ret_new_ref(context, builder, signature.return_type, result)

        return signature.return_type(types.intp, arguments), generate

    return call_at
