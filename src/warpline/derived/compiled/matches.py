"""The call of compiled code that launched each GPU operation.

A range around each call of a compiled graph has the operations that its thread launched in it.
Operations of CUDA graphs were launched where their nodes were captured, and each replay has them
again. Where the capture was not recorded, the nodes of a replay within a range count in the order
of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.compiled.alignment import (
    NOWHERE,
    OPERATOR,
    Calls,
    Family,
    Launches,
    align,
    operator_family,
)
from warpline.derived.compiled.captured import captured_nodes, node_ids
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import kernels_named, names_of_operations
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.time_parts import TimePart
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I8, I64, Integers
from warpline.ops.group import factorize_rows
from warpline.ops.join import Lookup, lookup_rows
from warpline.ops.tree import enclosing
from warpline.schema.labels import COMPILED_KERNEL_KINDS
from warpline.schema.ranges import COMPILED_DOMAIN
from warpline.trace import Trace

_NAMELESS = OPERATOR - 1
_ON_CPU = next(number for number, kind in COMPILED_KERNEL_KINDS.items() if kind == "C++")
_TRITON = next(number for number, kind in COMPILED_KERNEL_KINDS.items() if kind == "Triton")
# Kernels that end what another one began: they are no product by themselves.
_HELPER = lazy_pattern(r"(?i)split_?k_?reduce")
_FAMILY_OF_PART = {
    TimePart.GEMM: Family.PRODUCT,
    TimePart.ATTENTION: Family.ATTENTION,
    TimePart.CONVOLUTION: Family.CONVOLUTION,
    TimePart.COLLECTIVE: Family.COLLECTIVE,
    TimePart.MEMSET: Family.SET,
    **{part: Family.COPY for part in TimePart if part.label.startswith("copy-")},
}


class _Ranges(NamedTuple):
    """Calls of compiled graphs.

    Attributes:
        start_ns, end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        graph: Shape (n,), int64, places in `_graphs`; -1 if the graph has no rows.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    graph: I64


class _Graph(NamedTuple):
    """A compiled graph: its calls that may launch something, and their rows of compiled_kernel."""

    calls: Calls
    row: I64


class _Items(NamedTuple):
    """What was launched in ranges: operations, or captured nodes.

    Attributes:
        range: Shape (n,), int64, places in `_Ranges`.
        time_ns: Shape (n,), int64, when it was launched or captured.
        number: Shape (n,), int64, which distinguishes what was launched at once.
        operation: Shape (n,), int64, an operation that shows its name.
    """

    range: I64
    time_ns: I64
    number: I64
    operation: I64


@derived
def compiled_rows(trace: Trace) -> Lookup:
    """Return the row of `compiled_kernel` of each GPU operation, shape (operations,)."""
    n_operations = len(operations(trace))
    row, found = np.zeros(n_operations, np.int64), np.zeros(n_operations, np.bool_)
    if not trace.has("compiled_kernel") or not trace.row_count("compiled_kernel"):
        return Lookup(row, found)
    ranges = _ranges(trace)
    if not len(ranges.graph) or not n_operations:
        return Lookup(row, found)
    nodes = captured_nodes(trace)
    captured, rest = _captured(trace, ranges, nodes)
    owner = _owners(trace, ranges, captured)
    if len(captured.operation):  # each operation of a captured node has the row of the node
        of_node = np.full(trace.row_count("graph_node"), NOWHERE)
        of_node[nodes.row[captured.operation]] = owner
        replayed = np.flatnonzero(nodes.found)
        own = of_node[nodes.row[replayed]]
        row[replayed[own != NOWHERE]], found[replayed[own != NOWHERE]] = own[own != NOWHERE], True
    launched = _launched(trace, ranges, rest)
    own = _owners(trace, ranges, launched)
    is_known = own != NOWHERE
    row[launched.operation[is_known]] = own[is_known]
    found[launched.operation[is_known]] = True
    return Lookup(row, found)


def _captured(trace: Trace, ranges: _Ranges, nodes: Lookup) -> tuple[_Items, I64]:
    """Return the nodes that were captured in ranges, and the operations of no captured node."""
    rest = np.flatnonzero(~nodes.found)
    replayed = np.flatnonzero(nodes.found)
    row, first = np.unique(nodes.row[replayed], return_index=True)
    if not len(row):
        nothing = np.zeros(0, np.int64)
        return _Items(nothing, nothing, nothing, nothing), rest
    columns = trace.columns("graph_node", "time_ns", "thread_id", "graph_node_id")
    time_ns, thread, number = (column.values[row] for column in columns.values())
    around = _around(ranges, time_ns, thread)
    inside = np.flatnonzero(around.found)
    items = _Items(
        around.row[inside],
        time_ns[inside].astype(np.int64),
        number[inside].astype(np.int64),
        replayed[first[inside]],
    )
    return items, rest


def _launched(trace: Trace, ranges: _Ranges, chosen: I64) -> _Items:
    """Return those of the chosen operations that were launched in ranges."""
    launch = launch_order(trace)
    known = chosen[launch.is_known[chosen]]
    around = _around(ranges, launch.time_ns[known], launch.thread[known])
    inside = known[around.found]
    return _Items(around.row[around.found], launch.time_ns[inside], node_ids(trace)[inside], inside)


def _around(ranges: _Ranges, time_ns: Integers, thread: Integers) -> Lookup:
    return enclosing(
        time_ns.astype(np.int64),
        ranges.start_ns,
        ranges.end_ns,
        point_group=thread.astype(np.int64),
        group=ranges.thread,
    )


def _ranges(trace: Trace) -> _Ranges:
    """Return the calls of compiled graphs."""
    nothing = np.zeros(0, np.int64)
    if not trace.has("range") or not trace.row_count("range"):
        return _Ranges(nothing, nothing, nothing, nothing)
    columns = trace.columns("range", "domain_id", "name_id")  # texts are known when they are loaded
    domain = trace.strings.find(COMPILED_DOMAIN)
    is_call = push_pop_ranges(trace) & (columns["domain_id"].filled(-1) == domain)
    row = np.flatnonzero(is_call) if domain is not None else nothing
    names = ("start_ns", "end_ns", "thread_id", "process_id", "name_id")
    start, end, thread, process, name = (
        column.filled(-1)[row].astype(np.int64)
        for column in trace.columns("range", *names).values()
    )
    graphs = trace.columns("compiled_kernel", "process_id", "graph_id")
    keys = tuple(column.values.astype(np.int64) for column in graphs.values())
    found = lookup_rows((process, name), keys)
    graph = np.where(found.found, _numbers(trace)[found.row], NOWHERE)
    return _Ranges(start, np.maximum(start, end), thread, graph)


@derived
def _numbers(trace: Trace) -> I64:
    """Return the number of the graph of each row of `compiled_kernel`."""
    columns = trace.columns("compiled_kernel", "process_id", "graph_id")
    codes = factorize_rows(*(column.values for column in columns.values())).codes
    return codes.astype(np.int64)


def _graphs(trace: Trace) -> list[_Graph]:
    columns = trace.columns("compiled_kernel", "position", "kernel_id", "kind")
    position, kernel, kind = (column.values.astype(np.int64) for column in columns.values())
    distinct, place = np.unique(kernel, return_inverse=True)
    families = [operator_family(text) for text in trace.strings.texts(distinct.tolist())]
    family = np.array(families, np.int8)[place]
    number = _numbers(trace)
    order = np.lexsort((position, number))
    order = order[kind[order] != _ON_CPU]
    graphs = []
    for graph in range(int(number.max(initial=-1)) + 1):
        rows = order[number[order] == graph]
        name = np.where(kind[rows] == _TRITON, kernel[rows], OPERATOR)
        graphs.append(_Graph(Calls(name, family[rows]), rows))
    return graphs


def _owners(trace: Trace, ranges: _Ranges, items: _Items) -> I64:
    """Return the row of `compiled_kernel` that each item belongs to, NOWHERE if none."""
    owner = np.full(len(items.operation), NOWHERE)
    graphs, names, families = _graphs(trace), _names(trace), _families(trace)
    known: dict[tuple[int, bytes, bytes], I64] = {}
    for own in _by_range(items):
        graph = int(ranges.graph[items.range[own[0]]])
        if graph < 0:
            continue
        launches = Launches(names[items.operation[own]], families[items.operation[own]])
        key = graph, launches.name.tobytes(), launches.family.tobytes()
        if key not in known:
            call = align(graphs[graph].calls, launches)
            known[key] = np.where(call == NOWHERE, NOWHERE, graphs[graph].row[call])
        owner[own] = known[key]
    return owner


def _by_range(items: _Items) -> Iterator[I64]:
    """Yield the places of the items of each range, in the order of their launches."""
    order = np.lexsort((items.operation, items.number, items.time_ns, items.range))
    bounds = np.flatnonzero(np.diff(items.range[order], prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield order[first:last]


def _names(trace: Trace) -> I64:
    """Return the name of each operation, a row of the string pool; _NAMELESS for no kernels."""
    names = names_of_operations(trace)
    return names.fact(names.distinct.astype(np.int64), otherwise=_NAMELESS)


def _families(trace: Trace) -> I8:
    """Return the family of each operation."""
    of_part = np.zeros(len(TimePart), np.int8)
    for part, family in _FAMILY_OF_PART.items():
        of_part[part] = family
    families: I8 = of_part[operation_categories(trace)]
    families[kernels_named(trace, lambda name: bool(_HELPER.search(name)))] = Family.OTHER
    return families
