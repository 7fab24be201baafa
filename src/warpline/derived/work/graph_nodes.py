"""The nodes of CUDA graphs that operations ran, as they were captured."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.join import Lookup, lookup_rows
from warpline.trace import Trace

_NODE_TABLES = DEVICE_TABLES[:3]
_MOST_CLONES = 4  # of clones
_UNKNOWN = -1


@derived
def captured_nodes(trace: Trace) -> Lookup:
    """Return the row of `graph_node` of each operation's node as it was captured.

    Shape (operations,); nothing is found for operations outside CUDA graphs.
    """
    work = operations(trace)
    if not trace.has("graph_node") or not trace.row_count("graph_node"):
        return Lookup(np.zeros(len(work), np.int64), np.zeros(len(work), np.bool_))
    wanted = np.full(len(work), _UNKNOWN)
    for table in _NODE_TABLES:
        places = work.of_table(table)
        if len(places):
            ids = trace.columns(table, "graph_node_id")["graph_node_id"]
            wanted[places] = ids.filled(_UNKNOWN)[work.row[places]]
    columns = trace.columns("graph_node", "process_id", "graph_node_id", "original_graph_node_id")
    process, number, original = (column.filled(_UNKNOWN) for column in columns.values())
    keys = (process, number)
    found = lookup_rows((work.process, wanted), keys, duplicates="last")
    found.found[wanted < 0] = False
    # Graphs that are instantiated, or captured into another one, have clones of captured nodes.
    for _ in range(_MOST_CLONES):
        cloned = np.flatnonzero(found.found & (original[found.row] >= 0))
        row = found.row[cloned]
        source = lookup_rows((process[row], original[row]), keys, duplicates="last")
        if not source.found.any():
            break
        found.row[cloned[source.found]] = source.row[source.found]
    return found
