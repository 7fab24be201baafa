"""step_differences: work that took longer than usual in the slowest steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import window_segments
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.steps.ranges import STEP_ARGUMENT, run_of
from warpline.derived.steps.times import Steps
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.summaries.call_names import function_names
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.errors import UsageError
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import factorize, factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.schema.labels import COPY_KINDS
from warpline.trace import Trace
from warpline.units import Unit, format_ns

NAME = "step_differences"
TITLE = "Differences of the slowest steps"
FIELDS = (
    Field("step_extra_ns", Unit.NS, "Extra time of the step.", "Step Extra (ns)", digits=1),
    Field("extra_ns", Unit.NS, "Extra time of this item in the step.", "Extra (ns)", digits=1),
    Field("slow_ns", Unit.NS, "Time of this item in the step.", "Here (ns)"),
    Field("usual_ns", Unit.NS, "Median over the analyzed steps.", "Usual (ns)", digits=1),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("index", Unit.NONE, "Number of the slow step.", "No."),
    Field("step", Unit.NONE, "Name of the slow step.", "Step"),
    Field("place", Unit.NONE, "Whether this is GPU or CPU time.", "Where"),
    Field("kind", Unit.NONE, "Kernel, copy, idle cause, call, range...", "Kind"),
    Field("name", Unit.NONE, "Name of the item.", "Name"),
)
ARGUMENTS = {**STEP_ARGUMENT, "top": "number of slowest steps: top=N (default: 3)"}
_TOP = 3
# Differences below this share of the step's extra time are omitted, and all but the largest ones.
_LEAST_PART = 0.01
_MOST_ROWS = 12
# Periods above the median times this are slow.
_LEAST_EXTRA = 1.02


class _Times(NamedTuple):
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


class _Rows(NamedTuple):
    """The differences of slow steps."""

    step: I64
    item: I64
    slow_ns: I64
    usual_ns: F64


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments=ARGUMENTS,
    missing_hint="profile a program that uses a GPU with --trace=cuda,nvtx",
)
def step_differences(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Work that took longer than usual in the slowest steps.

    What it measures: For the slowest steps: operations and idle time on their slowest GPU, CUDA
        API calls, and ranges inside the step, each compared with its median over the analyzed
        steps.
    Why it matters: A few slow steps delay every process that waits for them. The differences show
        whether a kernel, a copy, a synchronization or CPU work is the reason.
    How it is computed: As in table breakdown, each moment of the step's period on its slowest GPU
        belongs to one operation or one cause of idle time, and so to exactly one row. Calls, and
        ranges directly inside the step's range, are CPU time of the step in which they began.
        Their rows may account for the same time again. Differences below 1% of the step's extra
        time are omitted, as are all but the 12 largest of a step.
    Limits: If a step is slow because of another process, the table only shows that it waited.
        Steps within 2% of the median are not slow. With few steps, the median is uncertain.
    Source: Warpline.
    """
    run_steps = find_steps(run_of(trace, arguments))
    if not len(run_steps):
        return Skipped(NAME, "no steps found", "mark each step with a range")
    if not run_steps.included[run_steps.slowest_window >= 0].any():
        return Skipped(NAME, "no step has both a start and an end", "record more steps")
    usual_ns = _usual_ns(run_steps)
    slow = _slow_steps(run_steps, usual_ns, _top(arguments))
    parts = [_on_device(trace, run_steps), _calls(trace, run_steps), _ranges(trace, run_steps)]
    rows = [_differences(run_steps, part, slow, usual_ns) for part in parts]
    columns = _columns(trace, run_steps, usual_ns, parts, rows)
    key = ("pid", "index", "place", "kind", "name")
    notes = _notes(run_steps, slow, usual_ns)
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, columns, key, notes)


def _top(arguments: Arguments) -> int:
    named = [text.partition("=")[2] for text in arguments if text.startswith("top=")]
    if not named:
        return _TOP
    text = named[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(
            f"{text!r} is not a number of steps", hint="use for example step_differences:top=5"
        )
    return int(text)


def _usual_ns(run_steps: Steps) -> F64:
    """Return for each step the median period of the included steps of its loop."""
    usual = np.zeros(len(run_steps), np.float64)
    for loop in np.unique(run_steps.loop).tolist():
        own = run_steps.loop == loop
        counted = own & run_steps.included & (run_steps.slowest_window >= 0)
        usual[own] = np.median(run_steps.period_ns[counted]) if counted.any() else np.inf
    return usual


def _slow_steps(run_steps: Steps, usual_ns: F64, top: int) -> I64:
    """Return the steps with the most extra time, slowest first."""
    extra = run_steps.period_ns - usual_ns
    slow = np.flatnonzero(run_steps.period_ns > _LEAST_EXTRA * usual_ns)
    return slow[np.argsort(-extra[slow], kind="stable")][:top]


def _on_device(trace: Trace, run_steps: Steps) -> _Times:
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
    return _Times(step, item, pieces.end_ns - pieces.start_ns, tuple(named))


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


def _calls(trace: Trace, run_steps: Steps) -> _Times:
    """Return the calls of each step's process that began in the step."""
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return _nothing()
    calls = trace.columns("api_call", "start_ns", "end_ns", "process_id", "thread_id")
    start, end = calls["start_ns"].values, calls["end_ns"].values
    step = _step_at(run_steps, start, calls["process_id"].values, calls["thread_id"].values)
    rows = np.flatnonzero(step >= 0)
    names = function_names(trace, rows)
    texts = tuple(("host", "call", text) for text in names.values)
    return _Times(step[rows], names.codes.astype(np.int64), (end - start)[rows], texts)


def _ranges(trace: Trace, run_steps: Steps) -> _Times:
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
    return _Times(step[rows], codes.astype(np.int64), (end - start)[rows], texts)


def _step_at(run_steps: Steps, time_ns: I64, process: I64, thread: I64) -> I64:
    """Return the step at each CPU time, which lasts until the next step starts; -1 for none."""
    step = np.full(len(time_ns), -1)
    first = np.flatnonzero(np.diff(run_steps.loop, prepend=-1))
    ends = np.append(first[1:], len(run_steps))
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


def _nothing() -> _Times:
    nothing = np.zeros(0, np.int64)
    return _Times(nothing, nothing, nothing, ())


def _differences(run_steps: Steps, times: _Times, slow: I64, usual_ns: F64) -> _Rows:
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
    return _Rows(step[rows], item[rows], ns[rows], usual[rows])


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


def _columns(
    trace: Trace, run_steps: Steps, usual_ns: F64, parts: list[_Times], rows: list[_Rows]
) -> dict[str, Values]:
    step, slow_ns, usual = (np.concatenate([part[at] for part in rows]) for at in (0, 2, 3))
    names = [
        times.names[item]
        for times, part in zip(parts, rows, strict=True)
        for item in part.item.tolist()
    ]
    whole = run_steps.period_ns[step] - usual_ns[step]
    place = np.repeat(np.arange(len(rows)), [len(part.step) for part in rows])
    order = np.lexsort((-(slow_ns - usual), place, step, -whole))
    pids = trace.columns("process", "pid")["pid"].values
    texts = [[names[row][at] for row in order.tolist()] for at in range(3)]
    step, slow_ns, usual = step[order], slow_ns[order], usual[order]
    return {
        "step_extra_ns": Numbers(whole[order]),
        "extra_ns": Numbers(slow_ns - usual),
        "slow_ns": Numbers(slow_ns),
        "usual_ns": Numbers(usual),
        "pid": Numbers(pids[run_steps.process[step]]),
        "index": Numbers(run_steps.index[step]),
        "step": Texts(run_steps.label.codes[step], run_steps.label.values),
        "place": _texts(texts[0]),
        "kind": _texts(texts[1]),
        "name": _texts(texts[2]),
    }


def _texts(texts: list[str]) -> Texts:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return Texts(np.array([places[text] for text in texts], np.int32), [*places])


def _notes(run_steps: Steps, slow: I64, usual_ns: F64) -> tuple[str, ...]:
    usual = format_ns(float(np.median(usual_ns[np.isfinite(usual_ns)])))
    if not len(slow):
        return (f"no step is more than {_LEAST_EXTRA - 1:.0%} above the median of {usual}",)
    reasons = dict(run_steps.excluded)
    labels, is_numbered = run_steps.label.to_list(), len(run_steps.label.values) == len(run_steps)
    listed = [
        f"{labels[step]}"
        + ("" if is_numbered else f" no. {run_steps.index[step]}")
        + f" ({format_ns(int(run_steps.period_ns[step]))}"
        + (f", excluded: {reasons[step]})" if step in reasons else ")")
        for step in slow.tolist()
    ]
    slowest = "slowest step" if len(slow) == 1 else f"{len(slow)} slowest steps"
    return (f"the {slowest}: {', '.join(listed)}; median {usual}",)
