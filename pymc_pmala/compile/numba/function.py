"""Write a graph as one Python function for numba.

pytensor gives numba a function for each node. Numba infers types, optimises and emits machine code
for each of them, and then again for the function that calls them, into which it inlines them: some
400 functions and half a minute for a small hierarchical model. Here elementwise operations, sums,
slices and loops are written out, and functions are called only for the rest.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
from pytensor import config
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Variable
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_funcify_and_cache_key
from pytensor.scalar.basic import ScalarOp
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import Elemwise

from pymc_pmala.compile.numba import (  # noqa: F401 (they register their rules)
    arrays,
    linear_algebra,
    views,
)
from pymc_pmala.compile.numba.assembly import Library, assemble
from pymc_pmala.compile.numba.dispatch import write_node
from pymc_pmala.compile.numba.elementwise import (
    is_reduction,
    write_elementwise,
    write_reduction,
    write_scalars,
)
from pymc_pmala.compile.numba.loops import write_scan
from pymc_pmala.compile.numba.source import Source, is_scalar
from pymc_pmala.version import cache_version

__all__ = ["graph_function"]

# The name that pytensor gives such functions: it filters numba's warnings that they are not cached.
_NAME = "numba_funcified_fgraph"


def graph_function(fgraph: Any) -> tuple[Callable, str | None]:
    """Write a graph as one function.

    Parameters
    ----------
    fgraph : FunctionGraph
        After all rewrites.

    Returns
    -------
    function : callable
        To be compiled by numba.
    key : str or None
        Identifies the function in pytensor's cache; None if it cannot be cached.
    """
    source = Source()
    names = []
    for variable in fgraph.inputs:
        names.append(source.fresh("x"))
        source.declare(names[-1], variable)
        if is_scalar(variable) and hasattr(variable.type, "ndim"):
            number = source.fresh("s")
            source.put(f"{number} = {names[-1]}[()]")
            source.bind_scalar(variable, number)
        else:
            source.bind(variable, names[-1])
    write_graph(fgraph, source)
    results = [source.argument(output) for output in fgraph.outputs]
    source.put(f"return ({''.join(f'{name}, ' for name in results)})")
    text = "\n".join([f"def {_NAME}({', '.join(names)}):", *source.lines])
    # The strides of arrays follow from their types, also where the text does not show them.
    identity = f"{cache_version()}\n{text}\n{sorted(source.types.items())}"
    key = None
    if config.numba__cache and source.keys is not None:
        key = sha256("\n".join([identity, *source.keys]).encode()).hexdigest()
    library = Library(source.functions, source.routines, source.products)
    digest = sha256(identity.encode()).hexdigest()[:16]
    text, regions = assemble(text, digest, source.types, library)
    function = compile_numba_function_src(
        text,
        _NAME,
        {"__name__": __name__, "np": np, "math": math} | source.environment | regions,
        cache_key=key,
    )
    return function, key


def write_graph(fgraph: Any, source: Source) -> None:
    """Write all nodes of a graph in topological order."""
    nodes = list(fgraph.toposort())
    clients: dict[Variable, list[Apply]] = defaultdict(list)
    for node in nodes:
        for variable in node.inputs:
            clients[variable].append(node)
    outputs = set(fgraph.outputs)
    destroyed_roots = {
        _root(node.inputs[position])
        for node in nodes
        for positions in node.op.destroy_map.values()
        for position in positions
    }
    sums: dict[Variable, list[Apply]] = {
        variable: [node for node in users if is_reduction(node)]
        for variable, users in clients.items()
    }

    def stored(variable: Variable) -> bool:
        return variable in outputs or len(sums.get(variable, [])) < len(clients[variable])

    def destroyed(variable: Variable) -> bool:
        return _root(variable) in destroyed_roots

    absorbed: set[Apply] = set()
    for node in nodes:
        if node in absorbed:
            continue
        if isinstance(node.op, ScalarOp):
            write_scalars(node.op, node, source, node)
        elif isinstance(node.op, Elemwise):
            write_elementwise(node, source, sums, stored)
            if not is_scalar(node.outputs[0]):
                absorbed.update(n for output in node.outputs for n in sums.get(output, []))
        elif is_reduction(node) and not is_scalar(node.inputs[0]):
            write_reduction(node, source)
        elif isinstance(node.op, Scan) and write_scan(node, source, write_graph):
            pass
        elif _is_plain_graph(node.op):
            _write_inner(node, source)
        elif not write_node(node.op, node, source, destroyed):
            _call(node, source)


def _is_plain_graph(op: Any) -> bool:
    """Return whether an Op is an `OpFromGraph` without a numba implementation of its own."""
    find = numba_funcify_and_cache_key.dispatch
    return isinstance(op, OpFromGraph) and find(type(op)) is find(OpFromGraph)


def _write_inner(node: Apply, source: Source) -> None:
    """Write the inner graph of a node."""
    inner = node.op.fgraph
    for inner_node in inner.toposort():
        for variable in inner_node.outputs:
            # The same inner graph may have been written for another node.
            source.values.pop(variable, None)
    for variable, outer in zip(inner.inputs, node.inputs, strict=True):
        source.values[variable] = source.value(outer)
    write_graph(inner, source)
    given = [source.value(outer).name for outer in node.inputs]
    for variable, output in zip(inner.outputs, node.outputs, strict=True):
        value = source.value(variable)
        if is_scalar(output):
            source.bind_scalar(output, value.at(()))
        elif value.name is None or value.view is not None or value.name in given:
            # The outer graph takes the output for memory of its own.
            source.bind(output, source.copy(variable))
        else:
            source.bind(output, value.name)


def _root(variable: Variable) -> Variable:
    """Return the variable that owns the memory of a view."""
    node = variable.owner
    while node is not None and node.op.view_map:
        position = node.op.view_map.get(node.outputs.index(variable))
        if position is None:
            break
        variable = node.inputs[position[0]]
        node = variable.owner
    return variable


def _call(node: Apply, source: Source) -> None:
    """Write a call of pytensor's function for a node."""
    op = linear_algebra.with_routines(node.op) if isinstance(node.op, Scan) else node.op
    called = source.function(op, node)
    arguments = ", ".join(source.argument(variable) for variable in node.inputs)
    results = [source.fresh("r") for _ in node.outputs]
    source.put(f"{', '.join(results)} = {called}({arguments})")
    for variable, result in zip(node.outputs, results, strict=True):
        if is_scalar(variable):
            source.declare(result, variable)
            number = source.fresh("s")
            tensor = hasattr(variable.type, "ndim")
            source.put(f"{number} = {result}[()]" if tensor else f"{number} = {result}")
            source.bind_scalar(variable, number)
        else:
            source.declare(result, variable)
            source.bind(variable, result)
