"""From a graph to one function that numba compiles.

pytensor gives numba a function for each node. Numba types, lowers and optimises each of them, and
emits machine code for it, before it does the same with what it has inlined into the function that
calls them: some 400 functions and half a minute for a small hierarchy. Here elementwise operations,
sums, slices and loops are written out, and only what a library does is called.
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
from pymc_pmala.compile.numba.dispatch import write_node
from pymc_pmala.compile.numba.elementwise import (
    is_sum,
    write_elementwise,
    write_scalars,
    write_sum,
)
from pymc_pmala.compile.numba.loops import write_scan
from pymc_pmala.compile.numba.source import Source, is_scalar
from pymc_pmala.version import cache_version

__all__ = ["graph_function"]

# pytensor's name for such functions: it keeps numba from warning that one cannot be cached.
_NAME = "numba_funcified_fgraph"


def graph_function(fgraph: Any) -> tuple[Callable, str | None]:
    """A Python function for numba, and a key by which its compiled form can be cached."""
    source = Source()
    names = []
    for variable in fgraph.inputs:
        names.append(source.fresh("x"))
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
    key = None
    if config.numba__cache and source.keys is not None:
        parts = [str(cache_version()), text, *source.keys]
        key = sha256("\n".join(parts).encode()).hexdigest()
    function = compile_numba_function_src(
        text,
        _NAME,
        {"__name__": __name__, "np": np, "math": math} | source.environment,
        cache_key=key,
    )
    return function, key


def write_graph(fgraph: Any, source: Source) -> None:
    """Write all nodes of a graph, in their order."""
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
        variable: [node for node in users if is_sum(node)] for variable, users in clients.items()
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
        elif is_sum(node) and not is_scalar(node.inputs[0]):
            write_sum(node, source)
        elif isinstance(node.op, Scan) and write_scan(node, source, write_graph):
            pass
        elif _is_plain_graph(node.op):
            _write_inner(node, source)
        elif not write_node(node.op, node, source, destroyed):
            _call(node, source)


def _is_plain_graph(op: Any) -> bool:
    """Whether an Op is a graph, and pytensor has no other function for it."""
    find = numba_funcify_and_cache_key.dispatch
    return isinstance(op, OpFromGraph) and find(type(op)) is find(OpFromGraph)


def _write_inner(node: Apply, source: Source) -> None:
    """Write the graph within a node."""
    inner = node.op.fgraph
    for inner_node in inner.toposort():
        for variable in inner_node.outputs:
            # Another node may have the same graph.
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
            # To the graph around it this is memory of its own.
            source.bind(output, source.copy(variable))
        else:
            source.bind(output, value.name)


def _root(variable: Variable) -> Variable:
    """The variable whose memory a view looks at."""
    node = variable.owner
    while node is not None and node.op.view_map:
        position = node.op.view_map.get(node.outputs.index(variable))
        if position is None:
            break
        variable = node.inputs[position[0]]
        node = variable.owner
    return variable


def _call(node: Apply, source: Source) -> None:
    """Call the function that pytensor has for a node."""
    called = source.function(node.op, node)
    arguments = ", ".join(source.argument(variable) for variable in node.inputs)
    results = [source.fresh("r") for _ in node.outputs]
    source.put(f"{', '.join(results)} = {called}({arguments})")
    for variable, result in zip(node.outputs, results, strict=True):
        if is_scalar(variable):
            number = source.fresh("s")
            tensor = hasattr(variable.type, "ndim")
            source.put(f"{number} = {result}[()]" if tensor else f"{number} = {result}")
            source.bind_scalar(variable, number)
        else:
            source.bind(variable, result)
