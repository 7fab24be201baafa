"""What takes longer in slow steps than usual: operations, idle time, calls and ranges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.host_lines import line_samples
from warpline.derived.breakdown.partition import window_segments
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.idle.silences import process_of_threads
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.steps.times import Steps
from warpline.derived.summaries.call_names import function_names, recorded_once
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import distinct_values, factorize, factorize_rows, group_stats
from warpline.schema.labels import COPY_KINDS
from warpline.trace import Trace

# Differences below this share of the step's extra time are omitted, and all but the largest ones.
_LEAST_PART = 0.01
_MOST_ROWS = 12


class StepItems(NamedTuple):
    """Durations, each belonging to a step and a named item.

    Attributes:
        step: Shape (n,), int64.
        item: Shape (n,), int64, indices into `names`.
        ns: Shape (n,), int64.
        names: Place, kind and name of each item.
    """

    step: I64
    item: I64
    ns: I64
    names: tuple[tuple[str, str, str], ...]


class Differences(NamedTuple):
    """The differences of slow steps."""

    step: I64
    item: I64
    slow_ns: I64
    usual_ns: F64


def usual_period_ns(run_steps: Steps) -> F64:
    """Return for each step the median period of the included steps of its loop."""
    usual = np.zeros(len(run_steps), np.float64)
    for loop in distinct_values(run_steps.loop).tolist():
        own = run_steps.loop == loop
        counted = own & run_steps.included & (run_steps.slowest_window >= 0)
        usual[own] = np.median(run_steps.period_ns[counted]) if counted.any() else np.inf
    return usual


def device_items(trace: Trace, run_steps: Steps) -> StepItems:
    """Return the operations and idle causes of each step's period on its slowest device."""
    chosen = run_steps.slowest_window[run_steps.slowest_window >= 0]
    pieces = window_segments(trace, run_steps.windows(chosen))
    segments = device_segments(trace)
    part, operation = segments.part[pieces.row], segments.operation[pieces.row]
    codes, names = _operation_names(trace)
    busy = is_busy(part)
    item = np.where(busy, codes[operation], len(names) + part.astype(np.int64))
    named = [*names, *(("device", "idle", part.label) for part in TimePart)]
    step = run_steps.window_step[chosen][pieces.span]
    return StepItems(step, item, pieces.end_ns - pieces.start_ns, tuple(named))


def _operation_names(trace: Trace) -> tuple[I64, list[tuple[str, str, str]]]:
    """Return a number for each of `operations`, and place, kind and name of each number."""
    work = operations(trace)
    codes = np.zeros(len(work) + 1, np.int64)  # one more, for index -1
    names: list[tuple[str, str, str]] = []
    for table in DEVICE_TABLES:
        places = work.of_table(table)
        if not len(places):
            continue
        rows = work.row[places]
        if table == "kernel":
            ids = trace.columns(table, "short_name_id")["short_name_id"].values[rows]
            numbers, distinct = number_texts(ids, len(trace.strings))
            own = numbers.astype(np.int64)
            texts = [("kernel", text) for text in trace.strings.texts(distinct.tolist())]
        elif table == "memcpy":
            groups = factorize(trace.columns(table, "kind")["kind"].values[rows])
            kinds, own = groups.uniques, groups.codes.astype(np.int64)
            texts = [("copy", COPY_KINDS.get(kind, "Unknown")) for kind in kinds.tolist()]
        else:
            own = np.zeros(len(rows), np.int64)
            texts = [("graph", "graph")] if table == "graph_launch" else [("memset", "memset")]
        codes[places] = own + len(names)
        names += [("device", kind, text) for kind, text in texts]
    return codes, names


def call_items(trace: Trace, run_steps: Steps) -> StepItems:
    """Return the calls of each step's process that began in the step."""
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return _nothing()
    calls = trace.columns("api_call", "start_ns", "end_ns", "process_id", "thread_id")
    start, end = calls["start_ns"].values, calls["end_ns"].values
    step = _step_at(run_steps, start, calls["process_id"].values, calls["thread_id"].values)
    rows = recorded_once(trace, np.flatnonzero(step >= 0))
    names = function_names(trace, rows)
    texts = tuple(("host", "call", text) for text in names.values)
    return StepItems(step[rows], names.codes.astype(np.int64), (end - start)[rows], texts)


def range_items(trace: Trace, run_steps: Steps) -> StepItems:
    """Return the ranges directly inside the ranges of steps."""
    if not trace.has("range") or not run_steps.has_ranges:
        return _nothing()
    nesting = range_nesting(trace)
    columns = trace.columns("range", "start_ns", "end_ns", "process_id", "thread_id", "name_id")
    start, end = columns["start_ns"].values, columns["end_ns"].values
    thread = columns["thread_id"].values
    step = _step_at(run_steps, start, columns["process_id"].values, thread)
    parent = nesting.parent
    inside = (step >= 0) & nesting.has_parent & (thread == run_steps.thread[step])
    inside &= (start[parent] == run_steps.host_start_ns[step]) & (
        end[parent] == run_steps.host_end_ns[step]
    )
    rows = np.flatnonzero(inside & columns["name_id"].is_valid())
    codes, distinct = number_texts(columns["name_id"].values[rows], len(trace.strings))
    texts = tuple(("host", "range", text) for text in trace.strings.texts(distinct.tolist()))
    return StepItems(step[rows], codes.astype(np.int64), (end - start)[rows], texts)


def line_items(trace: Trace, run_steps: Steps) -> StepItems:
    """Return where launching threads were in each step, by the samples that began in it."""
    samples = line_samples(trace)
    if samples is None:
        return _nothing()
    process = process_of_threads(trace)[samples.thread]
    step = _step_at(run_steps, samples.time_ns, process, samples.thread)
    rows = np.flatnonzero(step >= 0)
    texts = tuple(("host", "line", text) for text in samples.texts)
    return StepItems(step[rows], samples.line[rows], samples.ns[rows], texts)


def _step_at(run_steps: Steps, time_ns: I64, process: I64, thread: I64) -> I64:
    """Return the step at each CPU time, which lasts until the next step starts; -1 for none."""
    step = np.full(len(time_ns), -1)
    first = np.flatnonzero(np.diff(run_steps.loop, prepend=-1))
    ends = np.append(first, len(run_steps))[1:]
    several = np.bincount(run_steps.process[first]) > 1
    for low, high in zip(first.tolist(), ends.tolist(), strict=True):
        own = process == run_steps.process[low]
        if several[run_steps.process[low]]:
            own &= thread == run_steps.thread[low]
        rows = np.flatnonzero(own)
        place = np.searchsorted(run_steps.host_start_ns[low:high], time_ns[rows], side="right") - 1
        inside = (place >= 0) & (place < high - low - 1)  # the last one has no period
        step[rows[inside]] = low + place[inside]
    return step


def _nothing() -> StepItems:
    nothing = np.zeros(0, np.int64)
    return StepItems(nothing, nothing, nothing, ())


def differences(run_steps: Steps, times: StepItems, slow: I64, usual_ns: F64) -> Differences:
    """Return what took longer in slow steps than in the included steps of their loop."""
    n_items = max(len(times.names), 1)
    loop_item = run_steps.loop[times.step] * n_items + times.item
    cells = factorize_rows(loop_item, times.step)
    ns = np.bincount(cells.codes, times.ns, minlength=cells.n_groups).astype(np.int64)
    step, item = times.step[cells.first], times.item[cells.first]
    counted = run_steps.included & (run_steps.slowest_window >= 0)
    medians = _medians(run_steps.loop[step] * n_items + item, ns, counted[step], run_steps, n_items)
    usual = medians[run_steps.loop[step] * n_items + item]
    extra = ns - usual
    least = _LEAST_PART * (run_steps.period_ns - usual_ns)[step]
    rows = np.flatnonzero(np.isin(step, slow) & (extra > 0) & (extra >= least))
    rank = np.zeros(len(run_steps), np.int64)
    rank[slow] = np.arange(len(slow))
    rows = rows[np.lexsort((item[rows], -extra[rows], rank[step[rows]]))]
    begins = np.flatnonzero(np.diff(step[rows], prepend=-1))
    place = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    rows = rows[place < _MOST_ROWS]
    return Differences(step[rows], item[rows], ns[rows], usual[rows])


def _medians(key: I64, ns: I64, counted: BoolArray, run_steps: Steps, n_items: int) -> F64:
    """Return the median of each loop's items over the counted steps; absent items count as 0."""
    n_loops = int(run_steps.loop[-1]) + 1
    rows = np.flatnonzero(counted)
    stats = group_stats(key[rows], ns[rows], n_loops * n_items)
    has_period = run_steps.included & (run_steps.slowest_window >= 0)
    n_steps = np.repeat(np.bincount(run_steps.loop[has_period], minlength=n_loops), n_items)
    absent = n_steps - stats.count  # this many zeros precede the sorted values
    ordered = np.append(stats.ordered, 0)
    middle = []
    for place in ((n_steps - 1) // 2, n_steps // 2):
        inside = (place >= absent) & (stats.count > 0)
        at = np.where(inside, stats.starts[:-1] + place - absent, len(ordered) - 1)
        middle.append(ordered[at])
    medians: F64 = (middle[0] + middle[1]) / 2
    return medians
