"""Ranges and calls as the native core reads them to find the work of each range.

It goes through both in order of their starts and finds the ranges that contain each call. That
replaces the pairs of `threads.launches_within`, with the same definition of "contains".
``native/core/src/range_sweep.h`` does so for each range, see `grouped` for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline import native
from warpline.derived.ranges.threads import range_threads
from warpline.ops.arrays import I32, I64
from warpline.trace import Trace


@dataclass(frozen=True)
class SweepInput:
    """Columns of `range` and `api_call`, rows in their total order.

    Attributes:
        range_start: Shape (ranges,).
        range_end: Shape (ranges,).
        range_thread: Shape (ranges,), -1 for a range that ends on another thread.
        call_start: Shape (calls,), empty if no calls were recorded.
        call_end: Shape (calls,).
        call_thread: Shape (calls,).
        threads: Rows of the thread table.
    """

    range_start: I64
    range_end: I64
    range_thread: I32
    call_start: I64
    call_end: I64
    call_thread: I32
    threads: int

    def structure(self) -> native.Launches:
        """Return the C structure. It refers to these arrays, which must outlive it."""
        return native.Launches(
            ranges=len(self.range_start),
            range_start=self.range_start.ctypes.data,
            range_end=self.range_end.ctypes.data,
            range_thread=self.range_thread.ctypes.data,
            calls=len(self.call_start),
            call_start=self.call_start.ctypes.data,
            call_end=self.call_end.ctypes.data,
            call_thread=self.call_thread.ctypes.data,
            threads=self.threads,
        )


_RANGE = ("start_ns", "end_ns", "thread_id", "end_thread_id", "domain_id", "name_id", "style")
_CALL = ("start_ns", "end_ns", "thread_id", "process_id", "correlation_id")
_OPERATION = ("start_ns", "end_ns", "process_id", "correlation_id")


def read_ahead(trace: Trace, *operations: str) -> None:
    """Load what sweeps of some GPU tables need, with one pass over the file per table.

    Args:
        trace: The trace.
        operations: GPU tables; those that were not recorded are skipped.
    """
    trace.columns("range", *_RANGE)
    if trace.has("api_call"):
        trace.columns("api_call", *_CALL)
    for table in operations:
        if trace.has(table):
            trace.columns(table, *_OPERATION, ordered=False)


def sweep_input(trace: Trace) -> SweepInput:
    """Return the input of a sweep. Raises MissingTableError without a `range` table."""
    ranges = trace.columns("range", "start_ns", "end_ns")
    calls: list[np.typing.NDArray[np.int64]] = [np.zeros(0, np.int64)] * 2
    call_thread = np.zeros(0, np.int32)
    if trace.has("api_call"):
        columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id")
        calls = [columns[name].values for name in ("start_ns", "end_ns")]
        call_thread = columns["thread_id"].values
    return SweepInput(
        range_start=np.ascontiguousarray(ranges["start_ns"].values),
        range_end=np.ascontiguousarray(ranges["end_ns"].values),
        range_thread=np.ascontiguousarray(range_threads(trace)),
        call_start=np.ascontiguousarray(calls[0]),
        call_end=np.ascontiguousarray(calls[1]),
        call_thread=np.ascontiguousarray(call_thread),
        threads=trace.row_count("thread") if trace.has("thread") else 0,
    )
