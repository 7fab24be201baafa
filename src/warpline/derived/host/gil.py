"""Who held Python's global interpreter lock (GIL), and who waited for whom."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32, I64
from warpline.ops.tiling import Grouped, by_group, sum_cuts, tile
from warpline.schema.labels import GIL_STATES
from warpline.trace import Trace

_HOLDING, _WAITING = (
    next(value for value, label in GIL_STATES.items() if label == wanted)
    for wanted in ("Holding", "Waiting")
)


class GilSpans(NamedTuple):
    """Times of one state.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int32, rows of the thread table.
        process: Shape (n,), int32, rows of the process table.
    """

    start_ns: I64
    end_ns: I64
    thread: I32
    process: I32


@derived
def holding(trace: Trace) -> GilSpans:
    """Return when threads held the GIL of their process."""
    return _spans(trace, _HOLDING)


@derived
def waiting(trace: Trace) -> GilSpans:
    """Return when threads waited for the GIL of their process."""
    return _spans(trace, _WAITING)


@derived
def waited_for(trace: Trace) -> I64:
    """Return how long threads waited for the GIL while each thread held it.

    Shape (threads, threads), int64: waiting threads by holding threads.
    """
    count = trace.row_count("thread")
    waits, holds = waiting(trace), holding(trace)
    start, end, process, thread = [], [], [], []
    for rows in by_group(holds.process):  # one holds it at a time, unless clocks disagree
        tiles = tile(holds.start_ns[rows], holds.end_ns[rows], np.zeros(len(rows), np.int64))
        start.append(tiles.start_ns)
        end.append(tiles.end_ns)
        process.append(holds.process[rows[tiles.owner]])
        thread.append(holds.thread[rows[tiles.owner]])
    if not start or not len(waits.thread):
        return np.zeros((count, count), np.int64)
    return sum_cuts(
        Grouped(waits.start_ns, waits.end_ns, waits.process),
        Grouped(np.concatenate(start), np.concatenate(end), np.concatenate(process)),
        np.concatenate(thread),
        count,
        slot=waits.thread,
        n_slots=count,
    )


def _spans(trace: Trace, state: int) -> GilSpans:
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "process_id", "state")
    rows = np.flatnonzero(columns["state"].filled(0) == state)
    start, end, thread, process = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id", "process_id")
    )
    return GilSpans(start, np.maximum(start, end), thread, process)
