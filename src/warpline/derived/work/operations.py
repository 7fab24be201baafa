"""All GPU operations of a trace in one list, from all tables."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.work.busy import DEVICE_TABLES, WHOLE_GRAPH
from warpline.derived.work.launches import launch_calls
from warpline.frozen import frozen
from warpline.ops.arrays import I8, I64, Integers, as_i64, is_repeated, joined, repeated, taken
from warpline.trace import Trace

_COLUMNS = ("start_ns", "end_ns", "device_id", "stream_id", "process_id")
_PLACE_OF_TABLE = len(_COLUMNS)


@frozen
class Operations:
    """Kernels, copies, memsets and graph-level CUDA graphs, by GPU, start and end.

    Attributes:
        start_ns: Shape (n,), int64, start on the GPU.
        end_ns: Shape (n,), int64, end on the GPU, never before the start.
        device: Shape (n,), int64, rows of the device table.
        stream: Shape (n,), int64, rows of the stream table.
        process: Shape (n,), int64, rows of the process table.
        table: Shape (n,), int8, places in `DEVICE_TABLES`.
        row: Shape (n,), int64, rows of that table in its total order.
        call: Shape (n,), int64, the launch call, rows of api_call in its total order; -1 if
            unknown.
    """

    start_ns: I64
    end_ns: I64
    device: I64
    stream: I64
    process: I64
    table: I8
    row: I64
    call: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    def of_table(self, name: str) -> I64:
        """Return the positions of one table's operations in this list, ascending."""
        return np.flatnonzero(self.table == DEVICE_TABLES.index(name))

    def bounds_of_devices(self) -> list[tuple[int, int]]:
        """Return for each device its first operation and the one after its last."""
        if is_repeated(self.device):
            return [(0, len(self))] if len(self) else []
        bounds = np.flatnonzero(np.diff(self.device, prepend=-1)).tolist()
        return list(zip(bounds, [*bounds[1:], len(self)], strict=True))


@derived
def operations(trace: Trace) -> Operations:
    """Return the GPU operations of a trace, of all GPUs, streams and processes.

    Graph launches count only if traced at graph level. Rows that end before their start get zero
    length. Nothing is clipped.
    """
    parts = [_of_table(trace, place, name) for place, name in enumerate(DEVICE_TABLES)]
    # Column by column, and each of its parts is dropped at once: all together take three times
    # the memory of the result.
    columns = [joined([part.pop(0) for part in parts]) for _ in range(len(parts[0]))]
    order = _order(*columns[:3])
    for place, column in enumerate(columns):
        in_order = taken(column, order)  # in the type of its table, so that less is moved
        columns[place] = in_order if place == _PLACE_OF_TABLE else as_i64("operations", in_order)
    return Operations(*columns)


def _order(start: Integers, end: Integers, device: Integers) -> I64:
    """Return the rows by device, start and end, those that are alike as they are."""
    if not is_repeated(device):
        return np.lexsort((end, start, device))
    # Each table is in that order, so a stable sort by start merges them.
    order = np.argsort(start, kind="stable")
    ascending = start[order]
    ties = ascending[1:] == ascending[:-1]
    tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
    rows = order[tied]
    order[tied] = rows[np.lexsort((end[rows], ascending[tied]))]
    return order


def _of_table(trace: Trace, place: int, name: str) -> list[Integers]:
    if not trace.has(name):
        nothing = np.zeros(0, np.int64)
        return [*(nothing for _ in _COLUMNS), nothing.astype(np.int8), nothing, nothing]
    of_table, calls = trace.columns(name, *_COLUMNS), launch_calls(trace)[name]
    start, end, *owners = (of_table[column].values for column in _COLUMNS)
    call = np.where(calls.found, calls.row, -1)
    columns = [start, np.maximum(start, end), *owners]
    rows = np.arange(len(start))
    if name == "graph_launch":
        level = trace.columns(name, "level")["level"].values
        rows = np.flatnonzero(level == WHOLE_GRAPH)
        columns, call = [taken(column, rows) for column in columns], call[rows]
    return [*columns, repeated(np.array([place], np.int8), len(rows)), rows, call]
