"""What findings about lost CPU time share: their evidence, their changes, and in how many steps."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from warpline.derived.breakdown.host_idle import host_idle
from warpline.derived.breakdown.partition import measured_parts, step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.os_waits import ASLEEP, GIL, NO_NAME, PREEMPTED, Waits, os_waits
from warpline.derived.idle.preemption import preempted_in_calls
from warpline.derived.idle.silences import ThreadTimes, process_of_threads
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.steps.slow import slow_steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, by_group, cut
from warpline.result import Evidence
from warpline.result.changes import RemoveHostTime
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

OFF_CPU = "off the CPU"
# What a thread is while no function is known that waits.
UNNAMED = {NO_NAME: OFF_CPU, GIL: "waiting for the GIL", PREEMPTED: "preempted", ASLEEP: "asleep"}
_SHOWN = 5
_NAMED = 3  # functions
MOST_STEPS = 0.5  # of the steps: a wait in fewer steps does not affect the median step
_LEAST_SLOW = 2  # steps: what happens once is not in a saving per step
_CONCENTRATED = 0.8  # of the time


def longest_first(text: str, times: ThreadTimes) -> Evidence:
    """Return times of threads as evidence, the longest first."""
    longest = np.argsort(times.start_ns - times.end_ns, kind="stable")[:_SHOWN]
    windows = zip(times.start_ns[longest].tolist(), times.end_ns[longest].tolist(), strict=True)
    return Evidence(f"{text}, longest first", None, (), len(times.thread), tuple(windows))


def without(times: ThreadTimes, remaining: Estimate) -> tuple[RemoveHostTime, ...]:
    """Return the changes that remove times of threads, except for a share that may remain."""
    threads = distinct_values(times.thread).tolist()
    of_threads = [(thread, times.taken(times.thread == thread)) for thread in threads]
    return tuple(
        RemoveHostTime(thread, own.start_ns, own.end_ns, remaining) for thread, own in of_threads
    )


def how_often(run: Run, cause: TimePart) -> tuple[bool, str]:
    """Return whether steps that wait for a cause are simulated, as a saving requires.

    And a sentence after a space if few steps have nearly all of the time, else an empty one. If
    most steps wait, typical ones do. Otherwise, slow steps must take a measurable part of the time.
    """
    parts, scope = step_partition(run), step_scope(run)
    idle_ns = parts.ns[:, cause]
    length = parts.windows.end_ns - parts.windows.start_ns
    many, count = scope.affected((idle_ns >= MEASURABLE_RATIO * length) & (idle_ns > 0))
    if not scope.has_steps:
        return True, ""
    if many > MOST_STEPS * count:
        return True, _concentration(run, cause)
    is_simulated = many >= _LEAST_SLOW and bool(slow_steps(run).is_slow.any())
    return is_simulated, f" Affects only {many:,} of {plural(count, 'step')}."


def _concentration(run: Run, cause: TimePart) -> str:
    """Return a sentence if few steps have nearly all idle time of a cause, of the longest rank."""
    parts = step_partition(run)
    each = [parts.ns[rank.windows, cause] for rank in parts.ranks]
    idle_ns = max(each, key=lambda ns: int(ns.sum()))
    above = idle_ns[idle_ns > idle_ns.mean()]
    ratio = float(above.sum()) / max(float(idle_ns.sum()), 1.0)
    if ratio < _CONCENTRATED or len(above) > MOST_STEPS * len(idle_ns):
        return ""
    steps = plural(len(idle_ns), "step")
    return f" {format_ratio(ratio)} of that is in {len(above):,} of {steps}."


def waits_while_idle(run: Run, cause: TimePart) -> Waits:
    """Return the parts of OS waits during which a device was idle for a cause, by process."""
    trace = run.trace
    pieces = measured_parts(run, cause)
    process = operations(trace).process[device_segments(trace).operation[pieces.row]]
    nothing = np.zeros(0, np.int64)
    starts, ends, groups = [nothing], [nothing], [nothing]
    for rows in by_group(process):
        idle = union(pieces.start_ns[rows], pieces.end_ns[rows])
        starts.append(idle.start)
        ends.append(idle.end)
        groups.append(np.full(len(idle.start), process[rows[0]], np.int64))
    idle_times = Grouped(*(np.concatenate(column) for column in (starts, ends, groups)))
    waits = os_waits(trace)
    of_process = process_of_threads(trace)[waits.thread]
    inside = cut(Grouped(waits.start_ns, waits.end_ns, of_process), idle_times)
    outside_calls = waits.taken(inside.span)._replace(
        start_ns=inside.start_ns, end_ns=inside.end_ns
    )
    return _with_those_in_calls(run, cause, outside_calls)


def _with_those_in_calls(run: Run, cause: TimePart, waits: Waits) -> Waits:
    """Return waits with the times in which the thread to launch was preempted in a call."""
    inside = preempted_in_calls(run.trace)
    if cause != TimePart.OS_WAIT or not len(inside.thread):
        return waits
    cuts = cut(Grouped(*inside), host_idle(run, cause).by_thread())
    reason = np.full(len(cuts.span), PREEMPTED)
    more = Waits(cuts.start_ns, cuts.end_ns, inside.thread[cuts.span], reason)
    return Waits(*(np.concatenate(pair) for pair in zip(waits, more, strict=True)))


def of_most_idle(run: Run, cause: TimePart, waits: Waits) -> tuple[Waits, int]:
    """Return the waits of the process whose device is idle for the longest, and its steps.

    All waits if processes share the device's windows.
    """
    parts, count = step_partition(run), step_scope(run).count
    totals = [int(parts.ns[rank.windows, cause].sum()) for rank in parts.ranks]
    if not totals or (most := parts.ranks[int(np.argmax(totals))]).process < 0:
        return waits, count
    own = process_of_threads(run.trace)[waits.thread] == most.process
    return waits.taken(own), len(most.windows)


def by_function(trace: Trace, waits: Waits) -> list[tuple[str, int]]:
    """Return the functions that waited and the sums of their times, the longest first."""
    length = waits.end_ns - waits.start_ns
    spent: Counter[str] = Counter()
    for rows in by_group(waits.name):
        number = int(waits.name[rows[0]])
        name = UNNAMED.get(number) or _function(trace.strings.text(number))
        spent[name] += int(length[rows].sum())
    return spent.most_common()


def listed_functions(trace: Trace, waits: Waits, count: int) -> str:
    """Return the functions that waited most, each with its time per step, of so many steps."""
    named = by_function(trace, waits)[:_NAMED]
    return ", ".join(f"{name} {format_ns(ns / count)}" for name, ns in named)


def _function(name: str) -> str:
    """Return the name of a function, without the object in Python's ``<built-in method ...>``."""
    python = re.match(r"<(?:built-in (?:function|method)|method) '?(\w+)", name)
    return python[1] if python else name
