"""The rows of each GPU: busy and idle time, phases, streams, memory, metrics, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from warpline.derived.breakdown.segments import device_segments
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.texts import kernel_names
from warpline.derived.time_parts import IDLE, NOT_OF_CPU, TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import UNKNOWN, rank_of_process
from warpline.ops.arrays import I32, I64
from warpline.ops.group import distinct_values
from warpline.ops.tree import enclosing
from warpline.presentation.kernel_names import short_names
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Trace
from warpline.viewer.lanes import lanes
from warpline.viewer.memory_rows import memory_rows
from warpline.viewer.names import MERGED, Names, category
from warpline.viewer.projected import phase_lanes, projected
from warpline.viewer.rows import Events, Link, Row, lane_label, narrow, split
from warpline.viewer.sampled_rows import gpu_state_rows, metric_rows

_SHOWN_PHASES = 6
_OF_HOST = [cause for cause in IDLE if cause not in NOT_OF_CPU]


def device_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the rows of all GPUs with work or samples, in the order of the device table."""
    count = trace.row_count("device") if trace.has("device") else 0
    states = _by_device(_states(trace, names))
    phases = _by_device(_phases(trace, names))
    streams = _by_device(_streams(trace, names))
    memory = _by_device(memory_rows(trace, names))
    metrics = _by_device(metric_rows(trace, names))
    health = _by_device(gpu_state_rows(trace, names))
    for device in range(count):
        parts = (states, phases, streams, memory, metrics, health)
        rows = [row for part in parts for row in part.get(device, ())]
        if rows:
            yield Row(f"gpu{device}", None, device_label(trace, device), "group", device=device)
            yield from rows


def device_label(trace: Trace, device: int) -> str:
    """Return the label of a device: its index and product name, after its rank, if any."""
    columns = trace.columns("device", "gpu_index", "name_id")
    index = int(columns["gpu_index"].values[device])
    name = columns["name_id"].to_list()[device]
    label = f"GPU {index}" + ("" if name is None else f" · {trace.strings.text(name)}")
    work = operations(trace)
    users = distinct_values(work.process[work.device == device])
    ranks = rank_of_process(trace)[users]
    if len(ranks) == 1 and int(ranks[0]) != UNKNOWN:
        return f"rank {int(ranks[0])} · {label}"
    return label


def _by_device(rows: Iterator[Row]) -> dict[int, list[Row]]:
    by_device: dict[int, list[Row]] = {}
    for row in rows:
        assert row.device is not None
        by_device.setdefault(row.device, []).append(row)
    return by_device


def _states(trace: Trace, names: Names) -> Iterator[Row]:
    segments = device_segments(trace)
    of_part = np.array([names.add(part.label, int(part)) for part in TimePart], np.int32)
    events = Events(
        segments.start_ns,
        segments.end_ns,
        of_part[segments.part],
        links={"blame": _blame(trace)},
    )
    no_lane = np.zeros(len(segments), np.int64)
    merged = partial(names.add, MERGED, category("unknown"))
    for lane in split(events, segments.device, no_lane, merged):
        device = f"gpu{lane.group}"
        yield Row(
            f"{device}/state",
            device,
            "busy / idle",
            "state",
            device=lane.group,
            events=lane.events,
        )


def _blame(trace: Trace) -> Link:
    """Return the CUDA API call that an idle device waited for, if the CPU caused the idle time.

    It is the call in progress on the launching thread in the middle of the idle time, such as a
    synchronization or an allocation; otherwise, the call that launched the next operation.
    """
    segments, work = device_segments(trace), operations(trace)
    row = np.zeros(len(segments), np.int32)
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
    phases = projected(trace)
    if not len(phases.range):
        return
    ids = trace.columns("range", "name_id")["name_id"].filled(-1)[phases.range]
    events = Events(
        phases.start_ns,
        phases.end_ns,
        names.add_all(ids, category("nvtx")),
        narrow(phases.range),
    )
    merged = partial(names.add, MERGED, category("nvtx"))
    for lane in split(events, phases.device, phase_lanes(phases), merged):
        yield Row(
            f"gpu{lane.group}/phase{lane.depth}",
            f"gpu{lane.group}",
            lane_label("phases", lane),
            "phase",
            None if lane.merged else "range",
            device=lane.group,
            depth=lane.depth,
            events=lane.events,
            is_collapsed=lane.depth >= _SHOWN_PHASES,
        )


def _streams(trace: Trace, names: Names) -> Iterator[Row]:
    work = operations(trace)
    events = Events(
        work.start_ns,
        work.end_ns,
        _operation_names(trace, names),
        narrow(work.row),
        work.table,
        {"launch": Link(narrow(np.maximum(work.call, 0)), work.call >= 0)},
    )
    count = int(work.stream.max(initial=0)) + 1
    cell = work.device.astype(np.int64) * count + work.stream
    cells, first = np.unique(cell, return_index=True)
    process = dict(zip(cells.tolist(), work.process[first].tolist(), strict=True))
    labels = _stream_labels(trace)
    depth = lanes(work.start_ns, work.end_ns, cell).astype(np.int64)
    merged = partial(names.add, MERGED, category("unknown"))
    for lane in split(events, cell, depth, merged):
        device, stream = divmod(lane.group, count)
        part = lane.events
        table = part.table
        is_mixed = table is None or bool((table != table[0]).any())
        yield Row(
            f"gpu{device}/stream{stream}" + (f".{lane.depth}" if lane.depth else ""),
            f"gpu{device}",
            lane_label(labels(device, stream, process[lane.group]), lane),
            "stream",
            None if is_mixed or table is None else DEVICE_TABLES[int(table[0])],
            device,
            process[lane.group],
            stream=stream,
            depth=lane.depth,
            events=part if is_mixed else part.without_table(),
        )


def _stream_labels(trace: Trace) -> Callable[[int, int, int], str]:
    """Return a function that labels a stream by device, stream, and process."""
    work = operations(trace)
    native = trace.columns("stream", "native_id")["native_id"].values if len(work) else ()
    pids = trace.columns("process", "pid")["pid"].values if len(work) else ()
    users = distinct_values(work.device << 32 | work.process) >> 32
    is_shared = dict(zip(*np.unique(users, return_counts=True), strict=True))

    def label(device: int, stream: int, process: int) -> str:
        text = f"stream {int(native[stream])}"
        return text if is_shared[device] == 1 else f"{text} · process {int(pids[process])}"

    return label


def _operation_names(trace: Trace, names: Names) -> I32:
    work, categories = operations(trace), operation_categories(trace).astype(np.int64)
    name = np.zeros(len(work), np.int32)
    kernels = work.of_table("kernel")
    if len(kernels):
        ids = trace.columns("kernel", "name_id")["name_id"].filled(-1)[work.row[kernels]]
        name[kernels] = names.add_all(ids, categories[kernels], _short_names(trace))
    copies = work.of_table("memcpy")
    if len(copies):
        name[copies] = _copy_names(trace, names, work.row[copies], categories[copies])
    for table, text in (("memset", "[CUDA memset]"), ("graph_launch", "CUDA graph")):
        for place in np.unique(categories[work.of_table(table)]).tolist():
            name[work.of_table(table)] = names.add(text, place)
    return name


def _short_names(trace: Trace) -> dict[int, str]:
    """Return the short name of each kernel by the row of its name in the string pool."""
    rows = kernel_names(trace)[1].tolist()
    texts = trace.strings.texts(rows)
    short = short_names(texts)
    return {row: short[text] for row, text in zip(rows, texts, strict=True)}


def _copy_names(trace: Trace, names: Names, rows: I64, categories: I64) -> I64:
    """Return names as in nsys, with labels that include the memory kinds if they are the same."""
    columns = trace.columns("memcpy", "kind", "src_memory", "dst_memory")
    kind, source, target = (columns[key].filled(-1)[rows].astype(np.int64) for key in columns)
    keys = np.stack((kind, source, target, categories), axis=1)
    distinct, codes = np.unique(keys, axis=0, return_inverse=True)
    kinds = Counter((direction, place) for direction, _, _, place in distinct.tolist())
    numbers = []
    for direction, one, other, place in distinct.tolist():
        label = text = COPY_KINDS.get(direction, f"kind {direction}")
        memories = [MEMORY_KINDS[memory] for memory in (one, other) if memory in MEMORY_KINDS]
        if memories and kinds[direction, place] == 1:
            label = f"{text} ({' to '.join(memories)})"
        numbers.append(names.add(f"[CUDA memcpy {text}]", place, label))
    return np.array(numbers, np.int64)[codes.reshape(-1)]
