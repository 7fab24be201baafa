"""GPU busy time: unions of intervals, so that overlapping operations count once."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.frozen import frozen
from warpline.ops.arrays import I64, Integers, as_i64, joined
from warpline.ops.interval import clip, covered_by_group
from warpline.schema.labels import GRAPH_LEVELS
from warpline.trace import Trace

DEVICE_TABLES = ("kernel", "memcpy", "memset", "graph_launch")
WHOLE_GRAPH = next(value for value, label in GRAPH_LEVELS.items() if label == "Graph")


@frozen
class DeviceWork:
    """GPU operations of one or several tables.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        device_id: Shape (n,), int64, rows of the device table.
    """

    start_ns: I64
    end_ns: I64
    device_id: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    def busy_ns(self, group: Integers, n_groups: int) -> I64:
        """Return for each group the time during which at least one of its operations runs.

        Times on different GPUs add up.

        Args:
            group: Shape (n,), group numbers in ``[0, n_groups)``.
            n_groups: Number of groups.
        """
        n_devices = int(self.device_id.max()) + 1 if len(self) else 1
        cell = np.asarray(group, np.int64) * n_devices + self.device_id
        by_cell = covered_by_group(self.start_ns, self.end_ns, cell, n_groups * n_devices)
        busy: I64 = by_cell.reshape(n_groups, n_devices).sum(axis=1)
        return busy


def device_work(trace: Trace, *tables: str, clipped: bool = True) -> DeviceWork:
    """Return the operations of some tables, rows in the order of unordered columns.

    Args:
        trace: The trace.
        tables: Names from `DEVICE_TABLES`; all of them if empty. Tables that were not recorded
            are skipped. Graph launches count only if traced at graph level: with node-level
            tracing, their operations have rows.
        clipped: Whether to clip operations to the time covered by the trace.
    """
    parts = [_rows_of(trace, table) for table in tables or DEVICE_TABLES if trace.has(table)]
    nothing = np.zeros(0, np.int64)
    start, end, device = (joined([*(part[place] for part in parts), nothing]) for place in range(3))
    if clipped:
        start, end = clip(start, end, *trace.span())
    return DeviceWork(start, end, as_i64("device", device))


def has_device_work(trace: Trace) -> bool:
    """Return whether there are any operations, as in `device_work`."""
    tables = [table for table in DEVICE_TABLES if trace.has(table)]
    if any(trace.row_count(table) for table in tables if table != "graph_launch"):
        return True
    return "graph_launch" in tables and bool(len(device_work(trace, "graph_launch")))


def _rows_of(trace: Trace, table: str) -> tuple[I64, I64, I64]:
    columns = trace.columns(table, "start_ns", "end_ns", "device_id", ordered=False)
    start, end, device = (columns[name].values for name in ("start_ns", "end_ns", "device_id"))
    if table != "graph_launch":
        return start, end, device
    level = trace.columns(table, "level", ordered=False)["level"].values
    whole = np.flatnonzero(level == WHOLE_GRAPH)
    return start[whole], end[whole], device[whole]


@derived
def device_busy_ns(trace: Trace) -> I64:
    """Return the busy time of each GPU, shape (devices,), int64 ns.

    A GPU is busy while at least one kernel, copy, memset or CUDA graph of any process runs on it.
    """
    work = device_work(trace)
    return work.busy_ns(work.device_id, trace.row_count("device") if trace.has("device") else 0)
