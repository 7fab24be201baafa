"""os-wait: the CPU sleeps, is blocked, or is off the CPU while the GPU waits for it."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.host_idle import of_longest
from warpline.derived.breakdown.host_lines import Lines, blocked_lines, has_lines, line_hint
from warpline.derived.breakdown.lost_time import (
    UNNAMED,
    by_function,
    how_often,
    listed_functions,
    longest_first,
    of_most_idle,
    waits_while_idle,
    without,
)
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.breakdown.stopped import has_own_rule
from warpline.derived.host.states import Reason
from warpline.derived.idle.os_waits import Waits
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.ranges.names import range_names
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.ops.arrays import I64
from warpline.ops.tiling import Grouped, by_group
from warpline.ops.tree import enclosing
from warpline.result import Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "os-wait"
TITLE = "The CPU sleeps or is blocked while the GPU is idle"

_MOST = 0.5
_LEAST_FAULTS = 0.1
_FIX_FAULTS = (
    " Read mapped files before they are used, in another thread: madvise(MADV_WILLNEED) or"
    " MAP_POPULATE."
)
# A sleep goes; a wait for a lock or for I/O may become shorter only.
_REMAINING = Estimate(0.0, 0.0, 0.5)


@rule(name=NAME, title=TITLE)
def os_wait(run: Run) -> list[Finding]:
    """Idle time of the GPU while the thread that launches work waits in the operating system.

    What it finds: Idle time of the cause os-wait (see breakdown) of at least 5% of the step:
        sleeps, waits for locks, threads, processes and I/O, and time off the CPU.
    Why it matters: The CPU does not launch work while it waits, and faster code does not help.
    How it is found: OS calls, waiting functions of Python, context switches, and long times without
        CPU samples, on threads that launch work and while they make no CUDA API calls. Waits before
        a host-to-device copy are input-bound instead, except for sleeps, locks and output.
    What to do: Remove the wait, or let another thread wait.
    Limits: Needs OS calls or context switches in the recording (nsys: --trace=osrt, --cpuctxsw).
        Off the CPU, a thread may also wait for a page of memory or, where switches have no state
        of the thread, be preempted. Lines of the program need samples (-s process-tree
        --python-sampling=true). Waits for the GIL and for a CPU core have rules of their own,
        gil-contention and cpu-oversubscribed.
    Source: Warpline; the functions are those of POSIX that wait.
    """
    scope, trace = step_scope(run), run.trace
    idle_ns = scope.idle_ns(TimePart.OS_WAIT)
    if scope.share_of_all(idle_ns) < MEASURABLE_RATIO:
        return []
    waits = waits_while_idle(run, TimePart.OS_WAIT)
    others = has_own_rule(run, waits)
    if others.any():
        elsewhere, count = of_most_idle(run, TimePart.OS_WAIT, waits.taken(others))
        idle_ns -= float((elsewhere.end_ns - elsewhere.start_ns).sum()) / count
        waits = waits.taken(~others)
    share = scope.share_of_all(idle_ns)
    if share < MEASURABLE_RATIO:
        return []
    times = ThreadTimes(waits.start_ns, waits.end_ns, waits.thread)
    often, where = how_often(run, TimePart.OS_WAIT)
    most, count = of_most_idle(run, TimePart.OS_WAIT, waits)
    lines = _lines(trace, most)
    seen = _most(trace, most, count, lines)
    return [
        Finding(
            NAME,
            severity_of(share) if often else "low",
            f"The {seen.what} while the GPU is idle {format_ratio(share)} of the time",
            f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}) while the launching"
            f" thread sleeps, is blocked, or is off the CPU{seen.listed}.{seen.inside}"
            f"{_waiting(lines, count, scope.each)}{where}",
            (longest_first(plural(len(waits.thread), "wait"), times),),
            "Remove sleeps and polling from the loop. Move file and network I/O, logging, and"
            " checkpoints to another thread or process. Hold locks that the launching thread"
            " needs only briefly. If it is preempted, start fewer threads and processes than CPU"
            f" cores.{_for_faults(run)}{line_hint(trace)}",
            "Profile again: `warpline stats -r breakdown` shows less idle time of the cause"
            " os-wait.",
            changes=without(times, _REMAINING) if often else (),
            share=share,
            on_devices=() if others.any() else scope.idle_on_devices(TimePart.OS_WAIT),
        )
    ]


class _Seen(NamedTuple):
    """Parts of sentences: who waits in what, the functions, and the range."""

    what: str
    listed: str
    inside: str


def _lines(trace: Trace, waits: Waits) -> Lines:
    times = Grouped(waits.start_ns, waits.end_ns, waits.thread)
    return blocked_lines(trace, times) if has_lines(trace) else Lines((), 0.0)


def _for_faults(run: Run) -> str:
    """Return what to do about page faults that wait for a disk, after a space; empty if few."""
    idle, _ = of_longest(run, TimePart.OS_WAIT)
    in_faults_ns = idle.ns[idle.reason == Reason.PAGE_FAULT].sum()
    return _FIX_FAULTS if in_faults_ns > _LEAST_FAULTS * idle.ns.sum() else ""


def _waiting(lines: Lines, count: int, each: str) -> str:
    """Return a sentence about the lines of the program that wait; empty if unknown."""
    listed = ", ".join(
        f"{format_ns(line.ns / count)}{each} in {line.text}" for line in lines.most()
    )
    return f" {listed}." if listed else ""


def _most(trace: Trace, waits: Waits, count: int, lines: Lines) -> _Seen:
    """Return on what the CPU waits, and in which range."""
    length = waits.end_ns - waits.start_ns
    total = max(int(length.sum()), 1)
    named = by_function(trace, waits)
    what = "CPU sleeps or is blocked"
    if named and named[0][1] > _MOST * total:
        is_unnamed = named[0][0] in UNNAMED.values()
        what = f"{'launching thread is' if is_unnamed else 'CPU waits in'} {named[0][0]}"
    if line := lines.main(_MOST):
        what = f"CPU waits in {line.text}"
    listed = listed_functions(trace, waits, count)
    return _Seen(what, f": {listed}" if listed else "", _range(trace, waits, length, total))


def _range(trace: Trace, waits: Waits, length: I64, total: int) -> str:
    """Return a sentence about the range with most of the waiting time, if one has."""
    if not trace.has("range") or not trace.row_count("range"):
        return ""
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end = (columns[name].values for name in ("start_ns", "end_ns"))
    around = enclosing(
        waits.start_ns,
        start,
        np.maximum(start, end),
        point_group=waits.thread,
        group=columns["thread_id"].filled(-1).astype(np.int64),
    )
    names = range_names(trace)
    spent: Counter[str] = Counter()
    codes = names.codes[around.row[around.found]]
    inside = length[around.found]
    for rows in by_group(codes):
        text = names.texts[codes[rows[0]]]
        if text:
            spent[re.sub(r"\d+", "*", text)] += int(inside[rows].sum())
    if not spent or spent.most_common(1)[0][1] <= _MOST * total:
        return ""
    ((name, ns),) = spent.most_common(1)
    return f" {format_ratio(ns / total)} of it is in range {name}."
