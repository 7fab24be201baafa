"""The rows of each process and thread: samples, ranges, operators, CUDA API and OS calls, marks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.work.ranks import UNKNOWN, rank_of_process
from warpline.ops.arrays import I64
from warpline.trace import Trace
from warpline.viewer.forward_links import forward_links
from warpline.viewer.lanes import lanes
from warpline.viewer.names import MERGED, Names, category
from warpline.viewer.rows import Events, Row, lane_label, narrow, split
from warpline.viewer.sample_rows import sample_rows

_NO_THREAD = -1
_UNKNOWN = "nothread"


class _Source(NamedTuple):
    """A table of CPU intervals or instants.

    Attributes:
        table: Its name.
        key: Suffix of its rows' ids.
        kind: Kind of the rows.
        label: Label of the rows.
        category: Category of the events.
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
    _Source("api_call", "api", "api", "CUDA API", "cuda-api"),
    _Source("library_call", "library", "os", "library calls", "os-call"),
    _Source("overhead", "overhead", "os", "profiler", "profiler"),
    _Source("os_call", "os", "os", "OS calls", "os-call"),
)


def host_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the rows of all processes and threads with recorded events.

    In a process, threads are sorted by the number of CUDA API calls, then of ranges. Events
    without a thread come last.
    """
    by_thread: dict[int, list[Row]] = {}
    for row in sample_rows(trace, names):
        assert row.thread is not None
        by_thread.setdefault(row.thread, []).append(row)
    for source in _SOURCES:
        for row in _rows_of(trace, names, source):
            by_thread.setdefault(_NO_THREAD if row.thread is None else row.thread, []).append(row)
    unknown = by_thread.pop(_NO_THREAD, [])
    if by_thread:
        yield from _processes(trace, by_thread)
    if unknown:
        yield Row(_UNKNOWN, None, "unknown thread", "group")
        yield from unknown


def _processes(trace: Trace, by_thread: dict[int, list[Row]]) -> Iterator[Row]:
    columns = trace.columns("thread", "process_id", "tid", "name_id")
    owners, tids, titles = (columns[key].to_list() for key in columns)
    by_process: dict[int, list[int]] = {}
    for thread in by_thread:
        by_process.setdefault(owners[thread], []).append(thread)
    labels = _process_labels(trace)
    for process in sorted(by_process):
        group = f"process{process}"
        yield Row(group, None, labels[process], "group", process=process)
        ranked = sorted(by_process[process], key=lambda each: (*_weight(by_thread[each]), each))
        for place, thread in enumerate(ranked):
            title = titles[thread]
            text = f"thread {tids[thread]}"
            yield Row(
                f"thread{thread}",
                group,
                text if title is None else f"{text} · {trace.strings.text(title)}",
                "group",
                process=process,
                thread=thread,
                is_collapsed=place > 0 and not _weight(by_thread[thread])[0],
            )
            yield from by_thread[thread]


def _weight(rows: list[Row]) -> tuple[int, int]:
    """Return the numbers of CUDA API calls and ranges of a thread, negated for sorting."""
    calls = sum(len(row.events) for row in rows if row.kind == "api")
    ranges = sum(len(row.events) for row in rows if row.kind in {"range", "op"})
    return -calls, -ranges


def _process_labels(trace: Trace) -> list[str]:
    columns = trace.columns("process", "pid", "name_id", "host_id")
    has_hosts = len({each for each in columns["host_id"].to_list() if each is not None}) > 1
    labels = []
    ranks = rank_of_process(trace).tolist()
    values = (columns[key].to_list() for key in columns)
    for rank, pid, name, host in zip(ranks, *values, strict=True):
        label = ("" if rank == UNKNOWN else f"rank {rank} · ") + f"process {pid}"
        label += "" if name is None else f" · {trace.strings.text(name)}"
        label += f" on {trace.strings.text(host)}" if host is not None and has_hosts else ""
        labels.append(label)
    return labels


def _rows_of(trace: Trace, names: Names, source: _Source) -> Iterator[Row]:
    if not trace.has(source.table) or not trace.row_count(source.table):
        return
    rows = _chosen(trace, source)
    if not len(rows):
        return
    is_instant = source.kind == "mark"
    keys = ("time_ns",) if is_instant else ("start_ns", "end_ns")
    columns = trace.columns(source.table, *keys, "thread_id", "name_id")
    if len(rows) < trace.row_count(source.table):
        columns = {key: column.take(rows) for key, column in columns.items()}
    start, end = columns[keys[0]].values, columns[keys[-1]].values
    if bool((end < start).any()):
        end = np.maximum(start, end)
    thread = columns["thread_id"].filled(_NO_THREAD).astype(np.int64)
    name = names.add_all(columns["name_id"].filled(-1), category(source.category))
    depth = lanes(start, end, thread).astype(np.int64)
    links = forward_links(trace, source.table, rows)
    events = Events(start, end, name, narrow(rows), links=links)
    merged = partial(names.add, MERGED, category(source.category))
    for lane in split(events, thread, depth, merged):
        owner = _UNKNOWN if lane.group == _NO_THREAD else f"thread{lane.group}"
        tail = f".{lane.depth}" if lane.depth else ""
        yield Row(
            f"{owner}/{source.key}{tail}",
            owner,
            lane_label(source.label, lane),
            source.kind,
            None if lane.merged else source.table,
            thread=None if lane.group == _NO_THREAD else lane.group,
            depth=lane.depth,
            events=lane.events,
        )


def _chosen(trace: Trace, source: _Source) -> I64:
    """Return the table rows of this source."""
    if source.table != "range":
        return np.arange(trace.row_count(source.table))
    pushed = push_pop_ranges(trace)
    return np.flatnonzero(pushed if source.key == "range" else ~pushed)
