"""When launching threads could run but had no CPU core, inside and outside of CUDA API calls.

A thread that is preempted in a launch launches later. One that is preempted in a call that waits
for the GPU waits anyway while the GPU is busy: there, only idle time of all GPUs of the process is
due to the missing core.
"""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_calls import host_calls
from warpline.derived.idle.os_waits import PREEMPTED, os_waits, thread_waits
from warpline.derived.idle.silences import ThreadTimes, joined, process_of_threads
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.interval import union
from warpline.ops.tiling import Cuts, Grouped, by_group, cut, rest
from warpline.trace import Trace


@derived
def preempted_in_calls(trace: Trace) -> ThreadTimes:
    """Return when launching threads were preempted inside of CUDA API calls."""
    waits = thread_waits(trace)
    waits = waits.taken(waits.name == PREEMPTED)
    if not len(waits.thread):
        return joined([])
    calls = host_calls(trace)
    inside = cut(
        Grouped(waits.start_ns, waits.end_ns, waits.thread),
        Grouped(calls.start_ns, calls.end_ns, calls.thread),
    )
    return ThreadTimes(inside.start_ns, inside.end_ns, waits.thread[inside.span])


def preempted(trace: Trace, waiting: ThreadTimes) -> ThreadTimes:
    """Return when preemption delayed launches, in any order.

    Args:
        trace: The trace.
        waiting: Calls that wait for the GPU.
    """
    inside, outside = preempted_in_calls(trace), os_waits(trace)
    outside = outside.taken(outside.name == PREEMPTED)
    parts = [ThreadTimes(*outside[:3])]
    if len(inside.thread):
        spans = Grouped(*inside)
        in_waits = cut(spans, _united(Grouped(*waiting)))
        parts += [_of(inside, rest(spans, in_waits)), _idle(trace, _of(inside, in_waits))]
    return joined(parts)


def _idle(trace: Trace, times: ThreadTimes) -> ThreadTimes:
    """Return the parts of times in which no GPU works for the thread's process."""
    work = operations(trace)
    process = process_of_threads(trace)[times.thread]
    spans = Grouped(times.start_ns, times.end_ns, process)
    busy = _united(Grouped(work.start_ns, work.end_ns, work.process))
    return _of(times, rest(spans, cut(spans, busy)))


def _of(times: ThreadTimes, pieces: Cuts) -> ThreadTimes:
    return ThreadTimes(pieces.start_ns, pieces.end_ns, times.thread[pieces.span])


def _united(spans: Grouped) -> Grouped:
    """Return the union of each group's spans."""
    parts = [
        (union(spans.start_ns[rows], spans.end_ns[rows]), rows) for rows in by_group(spans.group)
    ]
    nothing: I64 = np.zeros(0, np.int64)
    return Grouped(
        np.concatenate([nothing, *(times.start for times, _ in parts)]),
        np.concatenate([nothing, *(times.end for times, _ in parts)]),
        np.concatenate(
            [nothing, *(np.full(len(times.start), spans.group[rows[0]]) for times, rows in parts)]
        ),
    )
