"""The training steps of a process, for questions about its memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.blocks import Timeline, replayed
from warpline.derived.memory.passes import passes_of, step_starts
from warpline.derived.steps.times import steps
from warpline.ops.arrays import I64
from warpline.trace import Run


class MemorySteps(NamedTuple):
    """Steps of a process on the CPU, in order.

    Attributes:
        number: Shape (n,), int64, the number of each.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, at most the start of the next one.
    """

    number: I64
    start_ns: I64
    end_ns: I64

    def __len__(self) -> int:
        return len(self.number)


@derived
def memory_steps(run: Run, number: int) -> MemorySteps:
    """Return the steps of the process of a timeline; none if they are not known.

    They are those of the recording or, if it has none as in a snapshot, begin at the first forward
    pass after another pass.

    Args:
        run: The trace and its steps.
        number: Place in `Replayed.timelines`.
    """
    timeline = replayed(run.trace).timelines[number]
    found = steps(run)
    own = np.flatnonzero(found.process == timeline.process)
    if len(own):
        own = own[np.argsort(found.host_start_ns[own], kind="stable")]
        start, end = found.host_start_ns[own], found.host_end_ns[own]
        return MemorySteps(found.index[own], start, np.minimum(end, np.append(start[1:], end[-1])))
    start = step_starts(passes_of(run.trace, timeline.process))
    last = max(int(timeline.time_ns[-1]), int(start[-1]) if len(start) else 0)
    return MemorySteps(np.arange(len(start)), start, np.append(start[1:], last)[: len(start)])


def events_at(timeline: Timeline, time_ns: I64) -> I64:
    """Return the last event of a timeline up to each time; the first one for earlier times."""
    before = np.searchsorted(timeline.time_ns, time_ns, side="right") - 1
    found: I64 = np.maximum(before, 0)
    return found


def peaks_within(timeline: Timeline, start_ns: I64, end_ns: I64) -> I64:
    """Return the event with the most allocated bytes in each interval, as bytes are at its start.

    Shape (intervals,), int64, places in the timeline.
    """
    first = events_at(timeline, start_ns)
    last = np.maximum(events_at(timeline, end_ns), first)
    return np.array(
        [
            begin + int(np.argmax(timeline.allocated_bytes[begin : end + 1]))
            for begin, end in zip(first.tolist(), last.tolist(), strict=True)
        ],
        np.int64,
    )
