"""Nodes of CUDA graphs, as they were captured."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.join import Lookup, lookup_rows
from warpline.trace import Trace

_NONE = -1
_NODE_TABLES = DEVICE_TABLES[:3]
_MOST_CLONES = 4  # of clones


@derived
def node_ids(trace: Trace) -> I64:
    """Return the graph node of each operation, shape (operations,), -1 for none."""
    work = operations(trace)
    ids = np.full(len(work), _NONE)
    for table in _NODE_TABLES:
        places = work.of_table(table)
        if len(places):
            column = trace.columns(table, "graph_node_id")["graph_node_id"]
            ids[places] = column.filled(_NONE)[work.row[places]]
    return ids


@derived
def captured_nodes(trace: Trace) -> Lookup:
    """Return the row of `graph_node` of each operation's node as it was captured.

    Shape (operations,). Graphs that are instantiated, or captured into another one, have clones of
    captured nodes; a clone's original was created where the work was captured.
    """
    wanted = node_ids(trace)
    if not trace.has("graph_node") or not trace.row_count("graph_node"):
        return Lookup(np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_))
    columns = trace.columns("graph_node", "process_id", "graph_node_id", "original_graph_node_id")
    process, number, original = (column.filled(_NONE) for column in columns.values())
    keys = (process, number)
    row, found = lookup_rows((operations(trace).process, wanted), keys, duplicates="last")
    found = found & (wanted >= 0)
    for _ in range(_MOST_CLONES):
        cloned = np.flatnonzero(found & (original[row] >= 0))
        wanted_keys = (process[row[cloned]], original[row[cloned]])
        source = lookup_rows(wanted_keys, keys, duplicates="last")
        if not source.found.any():
            break
        row[cloned[source.found]] = source.row[source.found]
    return Lookup(row, found)
