"""Filters of a trace. For each table, a filter returns a mask of the rows to keep, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from warpline.frozen import frozen
from warpline.ops.interval import overlap_mask, union
from warpline.ops.join import lookup_rows
from warpline.schema import TableSpec

if TYPE_CHECKING:
    from warpline.trace.trace import Trace

BoolArray = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
_INT64 = np.iinfo(np.int64)


class Filter(Protocol):
    """Selects rows of a trace."""

    def keep(self, trace: Trace, spec: TableSpec) -> BoolArray | None:
        """Return a mask of the rows to keep, in the table's total order; None keeps all."""
        ...


@frozen
class Window:
    """Keeps rows that overlap ``[start_ns, end_ns)``, and rows without times; None is unbounded."""

    start_ns: int | None
    end_ns: int | None

    def keep(self, trace: Trace, spec: TableSpec) -> BoolArray | None:
        """See Filter."""
        if spec.start is None or spec.end is None:
            return None
        times = trace.columns(spec.name, spec.start, spec.end)
        low = _INT64.min if self.start_ns is None else self.start_ns
        high = _INT64.max if self.end_ns is None else self.end_ns
        start, end = times[spec.start], times[spec.end]
        if start.valid is None and end.valid is None:
            return overlap_mask(start.values, end.values, low, high)
        is_timed = start.is_valid() & end.is_valid()
        ends = np.where(is_timed, end.values, start.values)
        return overlap_mask(start.values, ends, low, high) | ~is_timed


@frozen
class ProcessFilter:
    """Keeps rows of the given processes, which are rows of the process table."""

    rows: tuple[int, ...]

    def keep(self, trace: Trace, spec: TableSpec) -> BoolArray | None:
        """See Filter."""
        if spec.has("process_id"):
            return _matches(trace, spec, "process_id", self.rows)
        if spec.has("thread_id"):
            owner = trace.columns("thread", "process_id")["process_id"].values
            threads = np.flatnonzero(np.isin(owner, self.rows))
            return _matches(trace, spec, "thread_id", tuple(threads.tolist()))
        return None


@frozen
class DeviceFilter:
    """Keeps rows of the given devices, which are rows of the device table."""

    rows: tuple[int, ...]

    def keep(self, trace: Trace, spec: TableSpec) -> BoolArray | None:
        """See Filter."""
        return _matches(trace, spec, "device_id", self.rows) if spec.has("device_id") else None


@frozen
class StreamFilter:
    """Keeps rows of the given streams, which are rows of the stream table."""

    rows: tuple[int, ...]

    def keep(self, trace: Trace, spec: TableSpec) -> BoolArray | None:
        """See Filter."""
        return _matches(trace, spec, "stream_id", self.rows) if spec.has("stream_id") else None


@frozen
class Excluded:
    """Drops events in some CPU time intervals, and GPU operations launched from them.

    A GPU operation belongs to the time of the call that launched it, no matter when it ran. GPU
    operations without a recorded call, and CPU events, belong to the time at which they start.
    Rows without times are kept.

    Attributes:
        start_ns: Start of each interval, shape (n,), int64.
        end_ns: End of each interval, shape (n,), int64.
        process_id: Process of each interval, a row of the process table, shape (n,).
    """

    start_ns: I64
    end_ns: I64
    process_id: I64

    def keep(self, trace: Trace, spec: TableSpec) -> BoolArray | None:
        """See Filter."""
        if spec.start is None:
            return None
        start = trace.columns(spec.name, spec.start)[spec.start]
        begin = start.values
        process = _process_of_rows(trace, spec)
        if spec.has("correlation_id") and spec.name != "api_call" and trace.has("api_call"):
            begin = _launch_time(trace, spec, begin)
        keep = np.ones(len(begin), np.bool_)
        for owner in set(self.process_id.tolist()):
            of_owner = self.process_id == owner
            inside = _inside(begin, self.start_ns[of_owner], self.end_ns[of_owner])
            keep &= ~(inside if process is None else inside & (process == owner))
        return keep if start.valid is None else keep | ~start.valid


def _inside(points: I64, start: I64, end: I64) -> BoolArray:
    """Return the mask of points that lie in an interval."""
    merged = union(start, end)
    if not len(merged.start):
        return np.zeros(len(points), np.bool_)
    before = np.searchsorted(merged.start, points, side="right") - 1
    return (before >= 0) & (points < merged.end[before])


def _launch_time(trace: Trace, spec: TableSpec, begin: I64) -> I64:
    """Return the start of each row's call, or of the row if its call was not recorded."""
    calls = trace.columns("api_call", "start_ns", "process_id", "correlation_id")
    rows = trace.columns(spec.name, "process_id", "correlation_id")
    index, found = lookup_rows(
        (rows["process_id"].values.astype(np.int64), rows["correlation_id"].filled(-1)),
        (calls["process_id"].values.astype(np.int64), calls["correlation_id"].filled(-2)),
    )
    time = begin.copy()
    time[found] = calls["start_ns"].values[index[found]]
    return time


def _process_of_rows(trace: Trace, spec: TableSpec) -> npt.NDArray[np.int32] | None:
    if spec.has("process_id"):
        return trace.columns(spec.name, "process_id")["process_id"].filled(-1)
    if spec.has("thread_id") and not spec.column("thread_id").nullable:
        owner = trace.columns("thread", "process_id")["process_id"].values
        return owner[trace.columns(spec.name, "thread_id")["thread_id"].values]
    return None


def _matches(trace: Trace, spec: TableSpec, column: str, rows: tuple[int, ...]) -> BoolArray:
    data = trace.columns(spec.name, column)[column]
    return np.isin(data.filled(-1), rows)
