"""Whether CUDA graphs run the kernels that the program also launched one by one.

A graph is captured from code that ran before: warm-up steps, which launch the same kernels in the
same order. What was captured runs in every replay, so a difference shows that the graph is not the
step that it replaces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.graph_safety.scope import NO_STEP, checked_steps
from warpline.derived.graph_safety.sequences import (
    first_difference,
    occurrences,
    occurs_in_other_order,
)
from warpline.derived.idle.host_calls import numbers_of_texts
from warpline.derived.idle.kinds import CallKind, call_kind
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64
from warpline.trace import Run, Trace


class GraphNodes(NamedTuple):
    """The kernels of a CUDA graph, and the same ones launched one by one.

    Attributes:
        launches: How often the graph was launched.
        first_call: Row of api_call that launched it first.
        kernels: Kernels of a launch.
        eager_runs: How often the same kernels were launched one by one, in the same order.
        is_reordered: Whether they were launched, but in another order only.
        first_difference: The first node that differs from the launches most like it; -1 if none
            does, or nothing is alike.
        node_name: The kernel of that node; empty for none.
        eager_name: The kernel that was launched in its place; empty for none.
    """

    launches: int
    first_call: int
    kernels: int
    eager_runs: int
    is_reordered: bool = False
    first_difference: int = -1
    node_name: str = ""
    eager_name: str = ""


@derived
def graph_nodes(trace: Trace) -> tuple[GraphNodes, ...]:
    """Return what CUDA graphs run, by their first launch; graphs of the same kernels are one.

    None for graphs that were traced at graph level: they have no rows for their kernels.
    """
    work = operations(trace)
    kernels = work.of_table("kernel")
    kernels = kernels[work.call[kernels] >= 0]
    if not len(kernels):
        return ()
    node = trace.columns("kernel", "graph_node_id")["graph_node_id"]
    is_node = node.is_valid()[work.row[kernels]]
    name = names_of_operations(trace).number
    eager = kernels[~is_node]
    eager = eager[np.lexsort((work.start_ns[eager], work.call[eager]))]
    groups: dict[bytes, list[I64]] = {}
    for own in _launches(trace, kernels[is_node]):
        groups.setdefault(np.sort(name[own]).tobytes(), []).append(own)
    found = []
    for launches in groups.values():
        own = launches[0]
        others = eager[work.process[eager] == work.process[own[0]]]
        found.append(_compared(trace, own, name[others], len(launches)))
    return tuple(sorted(found, key=lambda each: each.first_call))


def captured_ratio(run: Run) -> float:
    """Return the share of the operations of included steps that CUDA graphs launch."""
    trace = run.trace
    call = operations(trace).call
    call = call[call >= 0]
    if not len(call):
        return 0.0
    call = call[checked_steps(run).of_call[call] != NO_STEP]
    names = trace.columns("api_call", "name_id")["name_id"].values[call]
    is_graph = numbers_of_texts(trace, names, call_kind) == CallKind.GRAPH_LAUNCH
    return float(is_graph.mean()) if len(call) else 0.0


def _launches(trace: Trace, nodes: I64) -> list[I64]:
    """Return the nodes of each launch of a graph, in the order in which they were captured."""
    work = operations(trace)
    node = trace.columns("kernel", "graph_node_id")["graph_node_id"].values
    nodes = nodes[np.lexsort((node[work.row[nodes]], work.call[nodes]))]
    bounds = np.flatnonzero(np.diff(work.call[nodes], prepend=-1))
    return [part for part in np.split(nodes, bounds[1:]) if len(part)]


def _compared(trace: Trace, own: I64, eager: I32, launches: int) -> GraphNodes:
    work, names = operations(trace), names_of_operations(trace)
    by_node: I32 = names.number[own]
    by_start: I32 = names.number[own[np.argsort(work.start_ns[own], kind="stable")]]
    runs = max(occurrences(order, eager) for order in (by_node, by_start))
    nodes = GraphNodes(launches, int(work.call[own[0]]), len(own), runs)
    if runs:
        return nodes
    if occurs_in_other_order(by_node, eager):
        return nodes._replace(is_reordered=True)
    at, other = max(first_difference(order, eager) for order in (by_node, by_start))
    if at < 0:
        return nodes

    def text(number: int) -> str:
        return trace.strings.text(int(names.distinct[number]))

    return nodes._replace(
        first_difference=at,
        node_name=text(int(by_node[at])) if at < len(own) else "",
        eager_name=text(other) if other >= 0 else "",
    )
