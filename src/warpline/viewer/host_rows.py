"""The rows of each process and thread: ranges, operators, CUDA calls, OS calls, marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranks.names import UNKNOWN, rank_of_process
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace
from warpline.viewer.lanes import lanes
from warpline.viewer.names import Names, category
from warpline.viewer.rows import Events, Row, split

_NO_THREAD = -1


class _Source(NamedTuple):
    """A table of host intervals, or of instants.

    Attributes:
        table: Its name.
        key: What its rows' ids end in.
        kind: Of the rows.
        label: Of the rows.
        category: Of the events.
    """

    table: str
    key: str
    kind: str
    label: str
    category: str


_SOURCES = (
    _Source("range", "range", "range", "ranges", "nvtx"),
    _Source("range", "startend", "range", "start/end ranges", "nvtx"),
    _Source("mark", "mark", "mark", "marks", "nvtx"),
    _Source("op", "op", "op", "operators", "operator"),
    _Source("python_frame", "python", "op", "Python", "python"),
    _Source("api_call", "api", "api", "CUDA calls", "cuda-api"),
    _Source("overhead", "overhead", "os", "profiler", "profiler"),
    _Source("os_call", "os", "os", "OS calls", "os-call"),
)


def host_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the rows of all processes and their threads that did anything that was recorded.

    The thread that made most CUDA calls, else had most ranges, comes first in its process.
    """
    by_thread: dict[int, list[Row]] = {}
    for source in _SOURCES:
        for row in _rows_of(trace, names, source):
            by_thread.setdefault(_NO_THREAD if row.thread is None else row.thread, []).append(row)
    threads = trace.columns("thread", "process_id", "tid", "name_id") if by_thread else {}
    by_process: dict[int, list[int]] = {}
    for thread in by_thread:
        if thread != _NO_THREAD:
            owner = int(threads["process_id"].values[thread])
            by_process.setdefault(owner, []).append(thread)
    for process in sorted(by_process):
        group = f"process{process}"
        label = _process_label(trace, process)
        yield Row(group, None, label, "group", process=process)
        ranked = sorted(by_process[process], key=lambda each: (*_weight(by_thread[each]), each))
        for place, thread in enumerate(ranked):
            tid = int(threads["tid"].values[thread])
            name = threads["name_id"].to_list()[thread]
            text = f"thread {tid}" + ("" if name is None else f" · {trace.strings.text(name)}")
            yield Row(
                f"thread{thread}",
                group,
                text,
                "group",
                process=process,
                thread=thread,
                is_collapsed=place > 0 and not _weight(by_thread[thread])[0],
            )
            yield from by_thread[thread]


def _weight(rows: list[Row]) -> tuple[int, int]:
    """Return how many CUDA calls and ranges a thread has, negated so that most come first."""
    calls = sum(len(row.events) for row in rows if row.kind == "api")
    ranges = sum(len(row.events) for row in rows if row.kind in {"range", "op"})
    return -calls, -ranges


def _process_label(trace: Trace, process: int) -> str:
    columns = trace.columns("process", "pid", "name_id", "host_id")
    name, host = (columns[key].to_list()[process] for key in ("name_id", "host_id"))
    rank = int(rank_of_process(trace)[process])
    label = "" if rank == UNKNOWN else f"rank {rank} · "
    label += f"process {int(columns['pid'].values[process])}"
    if name is not None:
        label += f" · {trace.strings.text(name)}"
    hosts = {each for each in columns["host_id"].to_list() if each is not None}
    return (
        f"{label} on {trace.strings.text(host)}" if host is not None and len(hosts) > 1 else label
    )


def _rows_of(trace: Trace, names: Names, source: _Source) -> Iterator[Row]:
    if not trace.has(source.table) or not trace.row_count(source.table):
        return
    rows = _chosen(trace, source)
    if not len(rows):
        return
    is_instant = source.kind == "mark"
    keys = ("time_ns",) if is_instant else ("start_ns", "end_ns")
    columns = trace.columns(source.table, *keys, "thread_id", "name_id")
    start = columns[keys[0]].values[rows]
    end = np.maximum(start, columns[keys[-1]].values[rows])
    thread = columns["thread_id"].values[rows].astype(np.int64)
    name = names.add_all(columns["name_id"].filled(-1)[rows], category(source.category))
    lane = lanes(start, end, thread).astype(np.int64)
    for owner, depth, part in split(Events(start, end, name, rows), thread, lane):
        tail = f".{depth}" if depth else ""
        yield Row(
            f"thread{owner}/{source.key}{tail}",
            f"thread{owner}",
            source.label,
            source.kind,
            source.table,
            thread=owner,
            depth=depth,
            events=part,
        )


def _chosen(trace: Trace, source: _Source) -> I64:
    """Return the rows of the table that belong here: those whose thread is known."""
    valid: BoolArray = trace.columns(source.table, "thread_id")["thread_id"].is_valid()
    if source.table == "range":
        pushed = push_pop_ranges(trace)
        valid = valid & (pushed if source.key == "range" else ~pushed)
    return np.flatnonzero(valid)
