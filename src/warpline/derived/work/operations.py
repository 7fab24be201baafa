"""All GPU operations of a trace in one list, from all tables."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.work.busy import DEVICE_TABLES, WHOLE_GRAPH
from warpline.derived.work.launches import launch_calls
from warpline.frozen import frozen
from warpline.ops.arrays import I8, I64, Integers, as_i64, is_repeated, repeated, taken
from warpline.trace import Trace

_COLUMNS = ("start_ns", "end_ns", "device_id", "stream_id", "process_id")


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


@derived
def operations(trace: Trace) -> Operations:
    """Return the GPU operations of a trace, of all GPUs, streams and processes.

    Graph launches count only if traced at graph level. Rows that end before their start get zero
    length. Nothing is clipped.
    """
    parts = [_of_table(trace, place, name) for place, name in enumerate(DEVICE_TABLES)]
    # Column by column, and each of its parts is dropped at once: all together take three times
    # the memory of the result.
    columns = [_joined([part.pop(0) for part in parts]) for _ in range(len(parts[0]))]
    start, end, device = columns[:3]
    order = np.lexsort((end, start) if is_repeated(device) else (end, start, device))
    for place, column in enumerate(columns):
        columns[place] = taken(column, order)
    return Operations(*columns)


def _joined(parts: list[Integers]) -> Integers:
    """Return the parts as one column, without memory for a value that is the same everywhere."""
    parts = [part for part in parts if len(part)]
    values = {int(part[0]) if is_repeated(part) else None for part in parts}
    if len(values) == 1 and None not in values:
        return repeated(parts[0][:1], sum(map(len, parts)))
    return np.concatenate(parts or [np.zeros(0, np.int64)])


def _of_table(trace: Trace, place: int, name: str) -> list[I64]:
    if not trace.has(name):
        nothing = np.zeros(0, np.int64)
        return [*(nothing for _ in _COLUMNS), nothing.astype(np.int8), nothing, nothing]
    columns = trace.columns(name, *_COLUMNS)
    rows = np.arange(len(columns["start_ns"]))
    if name == "graph_launch":
        level = trace.columns(name, "level")["level"].values
        rows = np.flatnonzero(level == WHOLE_GRAPH)
    start, end, *owners = (
        as_i64(column, taken(columns[column].values, rows)) for column in _COLUMNS
    )
    calls = launch_calls(trace)[name]
    call = np.where(calls.found[rows], calls.row[rows], -1)
    return [start, np.maximum(start, end), *owners, np.full(len(rows), place, np.int8), rows, call]
