"""What the GPU's wait for input is: the lines that prepare data, and the workers that run them.

While the launching thread runs, it prepares data itself. While it waits, other threads and
processes do, such as the workers of a DataLoader.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.fault_time import FaultTime, fault_time
from warpline.derived.breakdown.host_idle import of_longest
from warpline.derived.breakdown.host_lines import (
    Lines,
    has_lines,
    joined,
    own_blocked_lines,
    running_lines,
)
from warpline.derived.host.samples import has_samples
from warpline.derived.host.states import State, thread_states
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.idle.silences import process_of_threads
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, cut
from warpline.trace import Run, Trace

_LEAST_WORK = 0.1  # of the worker that runs most: a process that runs less is no worker
_RUNS = 0.5  # of the stall


class Loading(NamedTuple):
    """What happens while GPUs wait for input.

    Attributes:
        lines: Where data is prepared; the time is that of the stall, or longer if several workers
            are at work at a time.
        preempted_ns: Time in which threads that prepare data could run but were not scheduled.
        workers: Number of processes that prepare data.
        off_cpu: Number of these that are blocked for most of the stall.
        faults: How much of the CPU time of all these threads is in page faults.
    """

    lines: Lines
    preempted_ns: float
    workers: int
    off_cpu: int
    faults: FaultTime


@derived
def loading(run: Run) -> Loading | None:
    """Return what happens during waits for input; None without samples and context switches.

    Of the process whose GPU waits longest.
    """
    trace = run.trace
    if not has_lines(trace) and not has_samples(trace, "sched_event"):
        return None
    idle, _ = of_longest(run, TimePart.INPUT)
    known = idle.taken(idle.thread >= 0)
    runs = known.state == State.RUNNING
    own_times = known.taken(runs).by_thread()
    own = running_lines(trace, own_times)
    waits = known.taken(~runs)
    stall = union(waits.start_ns, waits.end_ns)
    others = np.flatnonzero(~working_threads(trace))
    times = _repeated(stall.start, stall.end, others)
    run_times = _while(State.RUNNING, trace, times)
    running = running_lines(trace, run_times)
    both = zip(own_times, run_times, strict=True)
    faults = fault_time(trace, Grouped(*(np.concatenate(pair) for pair in both)))
    ready = _while(State.RUNNABLE, trace, times)
    blocked = own_blocked_lines(trace, times)
    workers, off_cpu = _workers(trace, others, times, int((stall.end - stall.start).sum()))
    lines = joined([own, running, blocked] if has_lines(trace) else [Lines((), 0.0)])
    # Other threads are mostly idle: what counts is the time in which data is prepared.
    preempted_ns = float((ready.end_ns - ready.start_ns).sum())
    whole_ns = max(lines.named_ns + preempted_ns, float(idle.ns.sum()))
    return Loading(lines._replace(ns=whole_ns), preempted_ns, workers, off_cpu, faults)


def _repeated(start: I64, end: I64, threads: I64) -> Grouped:
    """Return the same times of each thread."""
    count = len(threads)
    return Grouped(np.tile(start, count), np.tile(end, count), np.repeat(threads, len(start)))


def _while(state: State, trace: Trace, times: Grouped) -> Grouped:
    """Return the parts of times in which the threads are in a state."""
    states = thread_states(trace)
    rows = np.flatnonzero(states.state == state)
    runs = Grouped(
        states.start_ns[rows], states.end_ns[rows], states.thread_id[rows].astype(np.int64)
    )
    parts = cut(times, runs)
    return Grouped(parts.start_ns, parts.end_ns, times.group[parts.span])


def _workers(trace: Trace, others: I64, times: Grouped, stall_ns: int) -> tuple[int, int]:
    """Return how many processes that launch nothing prepare data, and how many are blocked."""
    process, count = process_of_threads(trace), trace.row_count("process")
    in_stall = np.zeros(count)
    for state in (State.RUNNING, State.RUNNABLE):  # a preempted worker has work
        part = _while(state, trace, times)
        in_stall += np.bincount(process[part.group], part.end_ns - part.start_ns, count)
    low, high = trace.span()
    ever = _while(State.RUNNING, trace, _repeated(np.array([low]), np.array([high]), others))
    overall = np.bincount(process[ever.group], ever.end_ns - ever.start_ns, count)
    overall[distinct_values(process[working_threads(trace)])] = 0.0
    work = np.flatnonzero(overall >= max(_LEAST_WORK * float(overall.max(initial=0.0)), 1.0))
    return len(work), int(np.count_nonzero(in_stall[work] < _RUNS * stall_ns))
