"""Idle time of GPUs by the state of the CPU thread that launches the next operation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import measured_parts, step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.host.states import Reason, State, thread_states
from warpline.derived.idle.gaps import Gaps, Spans
from warpline.derived.idle.handovers import threads_to_launch
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, by_group, cut, rest
from warpline.trace import Run

NONE = -1


class HostIdle(NamedTuple):
    """Pieces of idle time of one cause, by window and start; they tile that time exactly.

    Attributes:
        window: Shape (n,), int64, indices of `measure_windows`.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, after the start.
        thread: Shape (n,), int64, the thread to launch, a row of the thread table; -1 if the launch
            is not recorded.
        state: Shape (n,), int64, members of `State`: what that thread did.
        reason: Shape (n,), int64, members of `Reason`.
        name: Shape (n,), int64, what it was blocked on, indices of the names of `thread_states`;
            -1 if unknown.
        stack: Shape (n,), int64, where it was blocked, rows of the stack table; -1 if unknown.
    """

    window: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    state: I64
    reason: I64
    name: I64
    stack: I64

    @property
    def ns(self) -> I64:
        """Shape (n,), int64, the length of each piece."""
        return self.end_ns - self.start_ns

    def taken(self, rows: I64 | BoolArray) -> HostIdle:
        """Return the selected pieces."""
        return HostIdle(*(column[rows] for column in self))

    def by_thread(self) -> Grouped:
        """Return when known threads were in these pieces, each moment of a thread once."""
        known = self.taken(self.thread >= 0)
        starts, ends, threads = ([np.zeros(0, np.int64)] for _ in range(3))
        for rows in by_group(known.thread):
            times = union(known.start_ns[rows], known.end_ns[rows])
            starts.append(times.start)
            ends.append(times.end)
            threads.append(np.full(len(times.start), known.thread[rows[0]]))
        return Grouped(*(np.concatenate(column) for column in (starts, ends, threads)))


@derived
def host_idle(run: Run, cause: TimePart) -> HostIdle:
    """Return the measured idle time of a cause, by the state of the thread to launch."""
    trace = run.trace
    pieces = measured_parts(run, cause)
    after = device_segments(trace).operation[pieces.row]
    call = np.append(operations(trace).call, NONE)[after]  # index -1 means no operation
    launched = np.flatnonzero(call >= 0)
    gaps = Gaps(after, pieces.start_ns, pieces.end_ns, after, after)
    spans = Spans(launched, pieces.start_ns[launched], pieces.end_ns[launched])
    spans, thread = threads_to_launch(trace, gaps, spans)
    unknown = np.flatnonzero(call < 0)
    piece = np.append(spans.gap, unknown)
    start = np.append(spans.start_ns, pieces.start_ns[unknown])
    end = np.append(spans.end_ns, pieces.end_ns[unknown])
    thread = np.append(thread, np.full(len(unknown), NONE))
    timeline, states = Grouped(start, end, thread), thread_states(trace)
    known = cut(
        timeline, Grouped(states.start_ns, states.end_ns, states.thread_id.astype(np.int64))
    )
    left = rest(timeline, known)
    span = np.append(known.span, left.span)
    blank = np.full(len(left.span), NONE)
    found = HostIdle(
        window=pieces.span[piece[span]],
        start_ns=np.append(known.start_ns, left.start_ns),
        end_ns=np.append(known.end_ns, left.end_ns),
        thread=thread[span],
        state=np.append(states.state[known.row].astype(np.int64), blank * 0 + State.NOT_RECORDED),
        reason=np.append(states.reason[known.row].astype(np.int64), blank * 0 + Reason.NONE),
        name=np.append(states.name[known.row].astype(np.int64), blank),
        stack=np.append(states.stack_id[known.row].astype(np.int64), blank),
    )
    return found.taken(np.lexsort((found.start_ns, found.window)))


def of_longest(run: Run, cause: TimePart) -> tuple[HostIdle, int]:
    """Return the idle time of the process and device with the most of a cause, and its steps."""
    idle, parts = host_idle(run, cause), step_partition(run)
    totals = [int(parts.ns[rank.windows, cause].sum()) for rank in parts.ranks]
    if not totals:
        return idle, 1
    windows = parts.ranks[int(np.argmax(totals))].windows
    return idle.taken(np.isin(idle.window, windows)), max(len(windows), 1)
