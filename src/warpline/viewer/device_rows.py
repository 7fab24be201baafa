"""The rows of each GPU: busy and idle time, phases, streams, memory, counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from warpline.derived.breakdown.segments import IDLE_CAUSES, PARTS, device_segments
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranks.names import UNKNOWN, rank_of_process
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I64
from warpline.ops.tree import enclosing
from warpline.schema.tables import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Trace
from warpline.viewer.counter_rows import device_counters
from warpline.viewer.lanes import lanes
from warpline.viewer.names import Names, category
from warpline.viewer.projected import projected
from warpline.viewer.rows import Events, Link, Row, split

_SHOWN_PHASES = 6
_NOT_OF_HOST = ("dependency", "communication-wait", "tail", "unknown")
_OF_HOST = [PARTS.index(cause) for cause in IDLE_CAUSES if cause not in _NOT_OF_HOST]


def device_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the rows of all GPUs that worked or have counters, in the order of the device table."""
    count = trace.row_count("device") if trace.has("device") else 0
    states = _by_device(_states(trace, names))
    phases = _by_device(_phases(trace, names))
    streams = _by_device(_streams(trace, names))
    counters = _by_device(device_counters(trace, names))
    for device in range(count):
        parts = (states, phases, streams, counters)
        rows = [row for part in parts for row in part.get(device, ())]
        if rows:
            yield Row(f"gpu{device}", None, device_label(trace, device), "group", device=device)
            yield from rows


def device_label(trace: Trace, device: int) -> str:
    """Return what a user calls a device: its index and product, and its rank if it has one."""
    columns = trace.columns("device", "gpu_index", "name_id")
    index = int(columns["gpu_index"].values[device])
    name = columns["name_id"].to_list()[device]
    label = f"GPU {index}" + ("" if name is None else f" · {trace.strings.text(name)}")
    work = operations(trace)
    users = np.unique(work.process[work.device == device])
    ranks = rank_of_process(trace)[users]
    if len(ranks) == 1 and int(ranks[0]) != UNKNOWN:
        return f"rank {int(ranks[0])} · {label}"
    return label


def _by_device(rows: Iterator[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        assert row.device is not None
        found.setdefault(row.device, []).append(row)
    return found


def _states(trace: Trace, names: Names) -> Iterator[Row]:
    segments = device_segments(trace)
    of_part = np.array([names.add(part, place) for place, part in enumerate(PARTS)], np.int64)
    events = Events(
        segments.start_ns,
        segments.end_ns,
        of_part[segments.part],
        links={"blame": _blame(trace)},
    )
    no_lane = np.zeros(len(segments), np.int64)
    for device, _, found in split(events, segments.device, no_lane):
        yield Row(
            f"gpu{device}/state",
            f"gpu{device}",
            "busy / idle",
            "state",
            device=device,
            events=found,
        )


def _blame(trace: Trace) -> Link:
    """Return the host call that an idle device waited for, where the host was what it waited for.

    It is the call that ran on the launching thread in the middle of the idle time, as a wait or
    an allocation does; without one, the call that launched what ended the time.
    """
    segments, work = device_segments(trace), operations(trace)
    row = np.zeros(len(segments), np.int64)
    valid = np.zeros(len(segments), np.bool_)
    of_host = np.isin(segments.part, _OF_HOST)
    idle = np.flatnonzero(of_host & (segments.operation >= 0))
    if not len(idle) or not trace.has("api_call") or not trace.row_count("api_call"):
        return Link(row, valid)
    call = work.call[segments.operation[idle]]
    idle, call = idle[call >= 0], call[call >= 0]
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id")
    start, end = columns["start_ns"].values, columns["end_ns"].values
    thread = columns["thread_id"].values.astype(np.int64)
    middle = segments.start_ns[idle] + (segments.end_ns - segments.start_ns)[idle] // 2
    running = enclosing(
        middle, start, np.maximum(start, end), point_group=thread[call], group=thread
    )
    row[idle] = np.where(running.found, running.row, call)
    valid[idle] = True
    return Link(row, valid)


def _phases(trace: Trace, names: Names) -> Iterator[Row]:
    found = projected(trace)
    if not len(found.range):
        return
    ids = trace.columns("range", "name_id")["name_id"].filled(-1)[found.range]
    events = Events(found.start_ns, found.end_ns, names.add_all(ids, category("nvtx")), found.range)
    lane = lanes(found.start_ns, found.end_ns, found.device).astype(np.int64)
    for device, depth, part in split(events, found.device, lane):
        yield Row(
            f"gpu{device}/phase{depth}",
            f"gpu{device}",
            "phases",
            "phase",
            "range",
            device=device,
            depth=depth,
            events=part,
            is_collapsed=depth >= _SHOWN_PHASES,
        )


def _streams(trace: Trace, names: Names) -> Iterator[Row]:
    work = operations(trace)
    events = Events(
        work.start_ns,
        work.end_ns,
        _operation_names(trace, names),
        work.row,
        work.table.astype(np.int64),
        {"launch": Link(np.maximum(work.call, 0), work.call >= 0)},
    )
    cell = work.device * (int(work.stream.max(initial=0)) + 1) + work.stream
    lane = lanes(work.start_ns, work.end_ns, cell).astype(np.int64)
    for _, depth, part in split(events, cell, lane):
        assert part.row is not None
        assert part.table is not None
        yield _stream_row(trace, work, part, depth)


def _stream_row(trace: Trace, work: Operations, part: Events, depth: int) -> Row:
    assert part.table is not None
    assert part.row is not None
    place = np.flatnonzero((work.table == part.table[0]) & (work.row == part.row[0]))[0]
    device, stream, process = (
        int(column[place]) for column in (work.device, work.stream, work.process)
    )
    is_mixed = bool((part.table != part.table[0]).any())
    end = f".{depth}" if depth else ""
    return Row(
        f"gpu{device}/stream{stream}{end}",
        f"gpu{device}",
        _stream_label(trace, device, stream, process),
        "stream",
        None if is_mixed else DEVICE_TABLES[int(part.table[0])],
        device,
        process,
        stream=stream,
        depth=depth,
        events=part if is_mixed else replace(part, table=None),
    )


def _stream_label(trace: Trace, device: int, stream: int, process: int) -> str:
    native = int(trace.columns("stream", "native_id")["native_id"].values[stream])
    work = operations(trace)
    users = np.unique(work.process[work.device == device])
    if len(users) == 1:
        return f"stream {native}"
    pid = int(trace.columns("process", "pid")["pid"].values[process])
    return f"stream {native} · process {pid}"


def _operation_names(trace: Trace, names: Names) -> I64:
    work, categories = operations(trace), operation_categories(trace).astype(np.int64)
    found = np.zeros(len(work), np.int64)
    kernels = work.of_table("kernel")
    if len(kernels):
        columns = trace.columns("kernel", "name_id", "short_name_id")
        full, short = (columns[key].values[work.row[kernels]] for key in columns)
        found[kernels] = names.add_all(full, categories[kernels], short)
    copies = work.of_table("memcpy")
    if len(copies):
        found[copies] = _copy_names(trace, names, work.row[copies], categories[copies])
    for table, text in (("memset", "[CUDA memset]"), ("graph_launch", "CUDA graph")):
        for place in np.unique(categories[work.of_table(table)]).tolist():
            found[work.of_table(table)] = names.add(text, place)
    return found


def _copy_names(trace: Trace, names: Names, rows: I64, categories: I64) -> I64:
    """Return names such as nsys's, drawn with the kinds of memory."""
    columns = trace.columns("memcpy", "kind", "src_memory", "dst_memory")
    kind, source, target = (columns[key].filled(-1)[rows].astype(np.int64) for key in columns)
    keys = np.stack((kind, source, target, categories), axis=1)
    distinct, codes = np.unique(keys, axis=0, return_inverse=True)
    numbers = []
    for direction, one, other, place in distinct.tolist():
        text = COPY_KINDS.get(direction, f"kind {direction}")
        memories = [MEMORY_KINDS[memory] for memory in (one, other) if memory in MEMORY_KINDS]
        label = f"{text} ({' to '.join(memories)})" if memories else text
        numbers.append(names.add(f"[CUDA memcpy {text}]", place, label))
    return np.array(numbers, np.int64)[codes.reshape(-1)]
