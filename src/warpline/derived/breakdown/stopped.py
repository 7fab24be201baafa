"""Idle time of GPUs while the launching thread could run, but waits for the GIL or for a CPU core.

Both are OS waits (see `idle.os_waits`) with a fix of their own, and so a rule of their own where
they take a measurable part of the steps. The rule os-wait is about the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.host_lines import Lines, has_lines, running_lines
from warpline.derived.breakdown.lost_time import of_most_idle, waits_while_idle
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.idle.os_waits import GIL, PREEMPTED, Waits
from warpline.derived.idle.silences import process_of_threads
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.ops.tiling import Cuts, Grouped, by_group, cut
from warpline.schema.labels import GIL_STATES
from warpline.trace import Run, Trace

_HOLDING = next(state for state, label in GIL_STATES.items() if label == "Holding")
_REASONS = (GIL, PREEMPTED)


class Stopped(NamedTuple):
    """Times in which launching threads were kept from running for one reason.

    Attributes:
        waits: Of all processes.
        most: Of the process whose GPU is idle for the longest.
        ns: Their time per step.
        share: The same as a share of the step.
    """

    waits: Waits
    most: Waits
    ns: float
    share: float


class Other(NamedTuple):
    """What runs or holds the GIL meanwhile.

    Attributes:
        thread: The thread with the most time, a row of the thread table.
        ratio: The part of the time that is its.
        known: The part of the time in which it is recorded who it is.
        lines: Where that thread is.
    """

    thread: int
    ratio: float
    known: float
    lines: Lines


@derived
def stopped(run: Run, reason: int) -> Stopped:
    """Return when launching threads waited for a reason, GIL or PREEMPTED, while GPUs were idle."""
    waits = waits_while_idle(run, TimePart.OS_WAIT)
    waits = waits.taken(waits.name == reason)
    most, count = of_most_idle(run, TimePart.OS_WAIT, waits)
    ns = float((most.end_ns - most.start_ns).sum()) / count
    return Stopped(waits, most, ns, step_scope(run).share_of_all(ns))


def has_own_rule(run: Run, waits: Waits) -> BoolArray:
    """Return which waits are those of rules about the GIL and about preempted threads."""
    own = [each for each in _REASONS if stopped(run, each).share >= MEASURABLE_RATIO]
    return np.isin(waits.name, own)


@derived
def gil_holder(run: Run) -> Other | None:
    """Return which thread holds the GIL while the launching thread waits; None if unknown."""
    trace, waits = run.trace, stopped(run, GIL).most
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "state")
    rows = np.flatnonzero(columns["thread_id"].is_valid() & (columns["state"].values == _HOLDING))
    start, end, thread = (columns[key].values[rows] for key in ("start_ns", "end_ns", "thread_id"))
    thread, process = thread.astype(np.int64), process_of_threads(trace)
    held = _Runs(start, np.maximum(start, end), process[thread], thread)
    return _other(trace, waits, process[waits.thread], held)


@derived
def running_instead(run: Run) -> Other | None:
    """Return which thread runs on the core of the preempted launching thread; None if unknown."""
    trace, waits = run.trace, stopped(run, PREEMPTED).most
    columns = trace.columns("sched_event", "time_ns", "thread_id", "cpu", "is_sched_in")
    rows = np.flatnonzero(columns["thread_id"].is_valid())
    time, thread, core, begins = (column.values[rows] for column in columns.values())
    order = np.lexsort((time, thread))
    time, thread, core, begins = time[order], thread[order], core[order], begins[order]
    first = np.flatnonzero(begins[:-1] & ~begins[1:] & (thread[:-1] == thread[1:]))
    times = time[first], time[first + 1]
    runs = _Runs(*times, core[first].astype(np.int64), thread[first].astype(np.int64))
    left = np.flatnonzero(~begins)
    on = np.full(len(waits.thread), -1)
    for place in by_group(waits.thread):
        own = left[thread[left] == waits.thread[place[0]]]
        last = np.searchsorted(time[own], waits.start_ns[place], side="right") - 1
        on[place[last >= 0]] = core[own[last[last >= 0]]]
    return _other(trace, waits, on, runs)


class _Runs(NamedTuple):
    """Times of threads by what they exclude others from: a core, or the GIL of a process."""

    start_ns: I64
    end_ns: I64
    of: I64
    thread: I64


def _other(trace: Trace, waits: Waits, of: I64, runs: _Runs) -> Other | None:
    """Return the thread that had what waits are for, most of their time."""
    order = np.lexsort((runs.start_ns, runs.of))
    runs = _Runs(*(column[order] for column in runs))
    end = runs.end_ns.copy()
    same = runs.of[1:] == runs.of[:-1]
    end[:-1][same] = np.minimum(end[:-1][same], runs.start_ns[1:][same])
    spans = Grouped(waits.start_ns, waits.end_ns, of)
    inside = cut(spans, Grouped(runs.start_ns, end, runs.of))
    inside = Cuts(
        *(column[runs.thread[inside.row] != waits.thread[inside.span]] for column in inside)
    )
    ns = inside.end_ns - inside.start_ns
    total = float((waits.end_ns - waits.start_ns).sum())
    if not len(ns) or not total:
        return None
    sums = np.bincount(runs.thread[inside.row], ns)
    most = int(sums.argmax())
    rows = np.flatnonzero(runs.thread[inside.row] == most)
    times = union(inside.start_ns[rows], inside.end_ns[rows])
    lines = Lines((), 0.0)
    if has_lines(trace):
        lines = running_lines(
            trace, Grouped(times.start, times.end, np.full(len(times.start), most))
        )
    return Other(most, float(sums[most]) / total, float(ns.sum()) / total, lines)


def named_thread(trace: Trace, thread: int) -> str:
    """Return a thread in words: ``thread logger (12346)``, with its process if that is another."""
    columns = trace.columns("thread", "tid", "name_id", "process_id")
    tid, process = (int(columns[key].values[thread]) for key in ("tid", "process_id"))
    name = int(columns["name_id"].filled(-1)[thread])
    pid = int(trace.columns("process", "pid")["pid"].values[process])
    named = f"thread {trace.strings.text(name)} ({tid})" if name >= 0 else f"thread {tid}"
    own = process_of_threads(trace)[np.flatnonzero(working_threads(trace))]
    return named if process in own else f"{named} of process {pid}"
