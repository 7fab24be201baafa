"""Whether launches and GPU work match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.analyses.diagnosis.capture_quality.problem import ROWS_SHOWN, grade, problem
from warpline.analyses.diagnosis.capture_quality.shares import recorded_window
from warpline.derived.idle.host_calls import numbers_of_texts
from warpline.derived.idle.kinds import CallKind, call_kind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.recorder import hints
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I32, I64, BoolArray, as_i64, joined
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.join import lookup_rows
from warpline.result import Evidence, Finding
from warpline.trace import Trace
from warpline.units import format_ratio, plural

_UNMATCHED_RATIO = {"medium": 0.05, "low": 0.01}
_UNSEEN = np.iinfo(np.int64).max


def unmatched(trace: Trace) -> Iterator[Finding]:
    """Report GPU work without its launches, and launches without their GPU work."""
    work = operations(trace)
    if not len(work):
        return
    if not trace.has("api_call") or not trace.row_count("api_call"):
        yield problem(
            "medium",
            "CUDA API calls were not recorded",
            "Causes of idle time and the ranges of GPU work are unknown.",
            Evidence("table api_call is empty"),
            hints(trace).api_calls,
            "warpline summary RECORDING lists api_call.",
        )
        return
    found = _unmatched(trace)
    yield from _cut_out(trace, found)
    yield from _without_launch(trace, found)
    yield from _without_work(trace, found)
    yield from _empty_graphs(trace, found)


class _Unmatched(NamedTuple):
    """Operations without a launch, and launches without an operation.

    Attributes:
        earlier: Shape (n,), int64, operations without a launch before all that have one, in their
            process and recorded window.
        unlaunched: Shape (n,), int64, other operations without a launch.
        later: Shape (n,), int64, rows of api_call: launches after all that have an operation.
        workless: Shape (n,), int64, rows of api_call: other launches of kernels.
        graphs: Shape (n,), int64, rows of api_call: other launches of CUDA graphs.
        n_operations: Number of operations, except page migrations, which nobody launches.
        n_launches: Number of launches, except those that a graph captured.
        n_graphs: Number of those that launched CUDA graphs.
    """

    earlier: I64
    unlaunched: I64
    later: I64
    workless: I64
    graphs: I64
    n_operations: int
    n_launches: int
    n_graphs: int


def _unmatched(trace: Trace) -> _Unmatched:
    work = operations(trace)
    columns = trace.columns("api_call", "start_ns", "process_id", "name_id")
    called, process = (as_i64(key, columns[key].values) for key in ("start_ns", "process_id"))
    kind = numbers_of_texts(trace, columns["name_id"].values, call_kind)
    is_graph = kind == CallKind.GRAPH_LAUNCH
    captured = _is_captured(trace, kind)
    launch = np.flatnonzero((is_graph | (kind == CallKind.LAUNCH)) & ~captured)
    launched = np.flatnonzero(work.call >= 0)
    known = work.call[launched]
    idle = _without_operations(trace, launch, known)

    # A recorded window may cut off work on both sides.
    windows = [recorded_window(trace, times) for times in (work.start_ns, called)]
    parts = factorize_rows(joined((work.process, process)), joined(windows))
    group, of_call = np.split(parts.codes, [len(work)])
    first = _least(work.start_ns[launched], group[launched], parts.n_groups)
    last = _least(-called[known], of_call[known], parts.n_groups)  # the latest, negated
    is_launched = operation_categories(trace) != TimePart.COPY_MANAGED
    lone = np.flatnonzero((work.call < 0) & is_launched)
    is_earlier = (work.start_ns[lone] < first[group[lone]]) & (first[group[lone]] < _UNSEEN)
    is_later = -called[idle] < last[of_call[idle]]
    is_later &= last[of_call[idle]] < _UNSEEN
    rest = idle[~is_later]
    return _Unmatched(
        earlier=lone[is_earlier],
        unlaunched=lone[~is_earlier],
        later=idle[is_later],
        workless=rest[~is_graph[rest]],
        graphs=rest[is_graph[rest]],
        n_operations=int(np.count_nonzero(is_launched)),
        n_launches=len(launch),
        n_graphs=int(np.count_nonzero(is_graph[launch])),
    )


def _least(values: I64, group: I32, n_groups: int) -> I64:
    """Return the least value of each group, _UNSEEN for none."""
    least = np.full(n_groups, _UNSEEN)
    if n_groups == 1:
        least[0] = values.min(initial=_UNSEEN)
    else:
        np.minimum.at(least, group, values)
    return least


def _without_operations(trace: Trace, launch: I64, known: I64) -> I64:
    """Return the successful launches that share no correlation id with a call that has work."""
    has_work = np.zeros(trace.row_count("api_call"), np.bool_)
    has_work[known] = True
    idle = launch[~has_work[launch]]
    if not len(idle):
        return idle
    columns = trace.columns("api_call", "process_id", "correlation_id", "return_value")
    idle = idle[columns["return_value"].filled(0)[idle] == 0]
    keys = [columns[key].filled(-1) for key in ("process_id", "correlation_id")]
    known = distinct_values(known)
    # Of nested calls for one launch, one has the work.
    found = lookup_rows([key[idle] for key in keys], [key[known] for key in keys]).found
    left: I64 = idle[~found]
    return left


def _is_captured(trace: Trace, kind: I8) -> BoolArray:
    """Return which calls are between the start and the end of a capture on their thread."""
    opens, closes = kind == CallKind.BEGIN_CAPTURE, kind == CallKind.END_CAPTURE
    captured = np.zeros(len(kind), np.bool_)
    if not opens.any():
        return captured
    thread = trace.columns("api_call", "thread_id")["thread_id"].values
    order = np.argsort(thread, kind="stable")  # calls of a thread ascend in start
    depth = np.cumsum(opens[order].astype(np.int64) - closes[order])
    begin = np.append(True, np.diff(thread[order]) != 0)
    before = np.where(begin, depth - opens[order] + closes[order], 0)
    of_thread = np.cumsum(begin) - 1
    captured[order] = depth > before[np.flatnonzero(begin)][of_thread]
    return captured


def _cut_out(trace: Trace, found: _Unmatched) -> Iterator[Finding]:
    """Report that the recording starts or ends while work is under way."""
    work = operations(trace)
    at_start = grade(len(found.earlier) / max(found.n_operations, 1), _UNMATCHED_RATIO)
    at_end = grade(len(found.later) / max(found.n_launches, 1), _UNMATCHED_RATIO)
    if not trace.is_whole or not (at_start or at_end):
        return
    said, windows = [], []
    if at_start:
        count = plural(len(found.earlier), "GPU operation was", "GPU operations were")
        said.append(f"{count} launched before the recording started.")
        start_ns, end_ns = work.start_ns[found.earlier], work.end_ns[found.earlier]
        windows.append((int(start_ns.min()), int(end_ns.max())))
    if at_end:
        count = plural(len(found.later), "launch", "launches")
        said.append(f"The GPU work of the last {count} is not in the recording.")
        times = trace.columns("api_call", "start_ns", "end_ns")
        start_ns, end_ns = (times[key].values[found.later] for key in ("start_ns", "end_ns"))
        windows.append((int(start_ns.min()), int(end_ns.max())))
    yield problem(
        "medium" if "medium" in (at_start, at_end) else "low",
        "The recording is part of a longer run",
        f"{' '.join(said)} Idle time there has no known cause.",
        Evidence(
            f"{len(found.earlier):,} operations at the start, {len(found.later):,} launches at the"
            " end",
            count=len(found.earlier) + len(found.later),
            windows_ns=tuple(windows),
        ),
        hints(trace).whole_steps,
        "Profile again: this finding is gone.",
    )


def _without_launch(trace: Trace, found: _Unmatched) -> Iterator[Finding]:
    work, rows = operations(trace), found.unlaunched
    ratio = len(rows) / max(found.n_operations, 1)
    severity = grade(ratio, _UNMATCHED_RATIO)
    if severity is None:
        return
    first = rows[np.argsort(work.start_ns[rows], kind="stable")[:ROWS_SHOWN]]
    times = zip(work.start_ns[first].tolist(), work.end_ns[first].tolist(), strict=True)
    yield problem(
        severity,
        "Launch calls of some GPU work are missing",
        f"{format_ratio(ratio)} of GPU operations have no recorded launch call. Their range and"
        " the cause of idle time before them are unknown.",
        Evidence(
            f"{len(rows):,} of {found.n_operations:,} operations have no launch call",
            count=len(rows),
            windows_ns=tuple(times),
        ),
        "Start recording before the work is launched. Record runtime and driver API calls.",
        "Profile again: this finding is gone.",
    )


def _without_work(trace: Trace, found: _Unmatched) -> Iterator[Finding]:
    ratio = len(found.workless) / max(found.n_launches, 1)
    severity = grade(ratio, _UNMATCHED_RATIO)
    if severity is not None:
        yield problem(
            severity,
            "GPU work of some launches is missing",
            f"{format_ratio(ratio)} of launches have no recorded GPU work. The GPU may have been"
            " busy where it appears idle.",
            _calls(trace, plural(len(found.workless), "launch", "launches"), found.workless),
            "Profile again without another profiler in the program. If records are dropped, record"
            " a shorter part of the run.",
            "Profile again: this finding is gone.",
        )


def _empty_graphs(trace: Trace, found: _Unmatched) -> Iterator[Finding]:
    ratio = len(found.graphs) / max(found.n_graphs, 1)
    severity = grade(ratio, _UNMATCHED_RATIO)
    if severity is not None:
        yield problem(
            severity,
            "CUDA graphs have no recorded operations",
            f"{len(found.graphs):,} of {found.n_graphs:,} launches of CUDA graphs have no recorded"
            " kernels. The GPU may have been busy where it appears idle.",
            _calls(
                trace, plural(len(found.graphs), "graph launch", "graph launches"), found.graphs
            ),
            hints(trace).graphs,
            "warpline stats -r breakdown RECORDING shows CUDA graphs or their kernels.",
        )


def _calls(trace: Trace, text: str, rows: I64) -> Evidence:
    first = rows[:ROWS_SHOWN]
    times = trace.columns("api_call", "start_ns", "end_ns")
    start, end = (times[key].values[first].tolist() for key in ("start_ns", "end_ns"))
    windows = tuple(zip(start, end, strict=True))
    text = f"{text} without GPU work"
    return Evidence(text, "api_call", tuple(first.tolist()), len(rows), windows)
