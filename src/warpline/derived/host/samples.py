"""How much time each sample of a thread stands for.

Samples of Warpline have it. In exports of nsys, a sample stands for a fixed amount of CPU time that
is not recorded: with context switches, all samples share the time on the CPU of the threads that
were sampled; without, a sample stands for the median time between samples of a thread.
"""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.host.switches import switched_times
from warpline.derived.host.thread_rows import all_threads
from warpline.ops.arrays import I64, Integers
from warpline.trace import Trace

CPU_SAMPLES, PYTHON_SAMPLES = "cpu_sample", "python_sample"
NO_THREAD = -1


def has_samples(trace: Trace, table: str) -> bool:
    """Return whether there are rows in ``cpu_sample``, ``python_sample`` or ``sched_event``."""
    return trace.has(table) and trace.row_count(table) > 0


@derived
def weights(trace: Trace, table: str) -> I64:
    """Return the time that each sample stands for in ns, shape (rows,), int64.

    Args:
        trace: The trace.
        table: ``cpu_sample`` (time on the CPU) or ``python_sample`` (time, running or not).
    """
    if table == PYTHON_SAMPLES:
        return trace.columns(table, "period_ns")["period_ns"].values
    columns = trace.columns(table, "period_ns", "cycles")
    period = columns["period_ns"]
    known = period.is_valid()
    if known.all():
        return period.values
    # Software clocks count one per sample, and some samples of hardware counters have none.
    cycles = np.maximum(columns["cycles"].values, 1).astype(np.float64)
    # A part of a recording has the weights of the whole, so that parts sum to it.
    estimated = np.rint(cycles * _ns_per_cycle(trace.unfiltered())).astype(np.int64)
    return np.where(known, period.filled(0), estimated)


def median_gap_ns(thread: Integers, time: I64) -> I64:
    """Return the median time between samples of each thread, shape (threads,), int64.

    Args:
        thread: Shape (n,), rows of the thread table, ascending.
        time: Shape (n,), ascending within a thread.

    A thread with a single sample has 0.
    """
    count = int(thread.max(initial=-1)) + 1
    same = thread[1:] == thread[:-1]
    gaps, owner = np.diff(time)[same], thread[1:][same]
    order = np.lexsort((gaps, owner))
    gaps, owner = gaps[order], owner[order]
    first, last = (np.searchsorted(owner, np.arange(count), side) for side in ("left", "right"))
    median = np.zeros(count, np.int64)
    some = last > first
    median[some] = gaps[(first + (last - first - 1) // 2)[some]]
    return median


def _ns_per_cycle(trace: Trace) -> float:
    columns = trace.columns(CPU_SAMPLES, "time_ns", "thread_id", "cycles")
    cycles = np.maximum(columns["cycles"].values, 1).astype(np.float64)
    thread = columns["thread_id"].filled(NO_THREAD).astype(np.int64)
    running = switched_times(trace, all_threads(trace))
    sampled = np.isin(running.thread, thread)
    on_cpu = running.is_running & sampled
    total_ns = int((running.end_ns - running.start_ns)[on_cpu].sum())
    shared = np.isin(thread, running.thread)
    if total_ns and shared.any():
        return float(total_ns / cycles[shared].sum())
    order = np.lexsort((columns["time_ns"].values, thread))
    order = order[thread[order] >= 0]
    time = columns["time_ns"].values[order]
    same = thread[order][1:] == thread[order][:-1]
    gaps = np.diff(time)[same]
    return float(np.median(gaps) / np.median(cycles)) if len(gaps) else 0.0
