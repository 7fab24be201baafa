"""Snapshots of the caching allocator as tables, by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from warpline.errors import CorruptTraceError
from warpline.schema import TABLES
from warpline.trace import Trace
from warpline.trace.allocator_snapshots import read_snapshot
from warpline.trace.meta import TraceMeta

MIB = 1 << 20
UTC_US = 1_790_000_000_000_000
FRAMES = [
    {"filename": "/app/model.py", "line": 12, "name": "forward"},
    {"filename": "<string>", "line": 3, "name": "<module>"},
    {"filename": "??", "line": 0, "name": "at::empty"},
]


def event(action: str, addr: int, size: int, time_us: int = 0, **rest: Any) -> dict[str, Any]:
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": UTC_US + time_us,
    } | rest


def block(
    size: int, state: str = "active_allocated", requested: int | None = None
) -> dict[str, Any]:
    return {"size": size, "requested_size": requested or size, "state": state, "frames": []}


def segment(address: int, *blocks: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {
        "device": 0,
        "address": address,
        "total_size": sum(each["size"] for each in blocks),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [*blocks],
    } | rest


def tables_of(segments: Any, *traces: Any, **rest: Any) -> Trace:
    snapshot = {"segments": segments, "device_traces": [*traces]} | rest
    return Trace(read_snapshot(snapshot, TraceMeta((Path("x"),), "x")))


def rows(trace: Trace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    loaded = trace.columns(table, *columns)
    shown = []
    for name in columns:
        values = loaded[name].to_list()
        labels: Mapping[int, str] | None = TABLES[table].column(name).labels
        if labels is not None:
            values = [labels[value] for value in values]
        elif TABLES[table].column(name).ref == "string":
            values = [None if value is None else trace.strings.text(value) for value in values]
        shown.append(values)
    return list(zip(*shown, strict=True))


def test_events_keep_their_order_in_different_nanoseconds() -> None:
    history = [
        event("segment_alloc", 4096, 2 * MIB, 5),
        event("alloc", 4096, 100, 5),
        event("free_requested", 4096, 100, 5),
        event("free_completed", 4096, 100, 4),  # another CPU's clock is behind
        event("alloc", 4096, 200, 6),
    ]
    trace = tables_of(
        [segment(4096, block(512, requested=200), block(2 * MIB - 512, "inactive"))], history
    )
    assert rows(
        trace, "allocator_event", "time_ns", "operation", "bytes", "total_reserved_bytes"
    ) == [
        (1, "Allocation", 100, 2 * MIB),
        (2, "Deallocation", 100, 2 * MIB),
        (1000, "Allocation", 200, 2 * MIB),
    ]
    assert rows(trace, "segment_event", "time_ns", "operation", "bytes") == [
        (0, "Segment allocation", 2 * MIB),
        (3, "Free completed", 100),
    ]
    assert trace.meta.origin_utc_ns == (UTC_US + 5) * 1000
    assert trace.meta.span_ns == (0, 1000)


def test_blocks_were_there_before_if_their_first_event_is_a_free_or_there_is_none() -> None:
    history = [
        event("free_requested", 0, 100, 1),  # in use before
        event("free_completed", 0, 100, 1),
        event("free_completed", 512, 200, 2),  # awaiting its free before
        event("alloc", 0, 300, 3),
        event("alloc", 512, 400, 4),
        event("free_requested", 512, 400, 5),
    ]
    blocks = [
        block(512, requested=300),
        block(512, "active_pending_free", 400),
        block(512, requested=11),  # in use throughout
        block(512, "active_pending_free", 22),  # awaiting throughout
        block(2 * MIB - 2048, "inactive"),
    ]
    trace = tables_of([segment(0, *blocks)], history)
    assert rows(trace, "allocator_event", "operation", "address", "bytes", "is_existing") == [
        ("Allocation", 0, 100, True),
        ("Allocation", 1024, 11, True),
        ("Allocation", 512, 200, True),
        ("Allocation", 1536, 22, True),
        ("Deallocation", 512, 200, True),
        ("Deallocation", 1536, 22, True),
        ("Deallocation", 0, 100, False),
        ("Allocation", 0, 300, False),
        ("Allocation", 512, 400, False),
        ("Deallocation", 512, 400, False),
    ]
    assert rows(trace, "segment_event", "operation", "address", "bytes", "is_existing") == [
        ("Segment allocation", 0, 2 * MIB, True),
        ("Free completed", 0, 100, False),
        ("Free completed", 512, 200, False),
    ]
    times = [time for (time,) in rows(trace, "allocator_event", "time_ns")]
    assert times[:6] == [-1] * 6
    assert min(times[6:]) == 0


def test_segments_were_there_before_also_in_pieces() -> None:
    free = block(2 * MIB, "inactive")
    grown = segment(20 * MIB, block(4 * MIB, "inactive"), is_expandable=True)
    history = [
        event("segment_free", 0, 2 * MIB, 1),  # there before
        event("segment_alloc", 0, 2 * MIB, 2),
        event("segment_unmap", 22 * MIB, 4 * MIB, 3),  # half of it stays mapped again, half not
        event("segment_map", 22 * MIB, 2 * MIB, 4),
    ]
    trace = tables_of([segment(0, free), segment(10 * MIB, free), grown], history)
    assert rows(trace, "segment_event", "operation", "address", "bytes", "is_existing") == [
        ("Segment allocation", 0, 2 * MIB, True),
        ("Segment allocation", 10 * MIB, 2 * MIB, True),
        ("Segment map", 20 * MIB, 2 * MIB, True),
        ("Segment map", 22 * MIB, 4 * MIB, True),
        ("Segment release", 0, 2 * MIB, False),
        ("Segment allocation", 0, 2 * MIB, False),
        ("Segment unmap", 22 * MIB, 4 * MIB, False),
        ("Segment map", 22 * MIB, 2 * MIB, False),
    ]


def test_devices_have_their_own_histories() -> None:
    history = [event("segment_alloc", 0, MIB, 1), event("alloc", 0, 512, 2)]
    other = [event("segment_alloc", 0, 2 * MIB, 0), event("alloc", 0, 1024, 3)]
    used = [segment(0, block(MIB)), segment(0, block(2 * MIB), device=2)]
    trace = tables_of(used, history, [], other)
    assert rows(trace, "device", "gpu_index") == [(0,), (2,)]
    assert rows(trace, "allocator_event", "device_id", "bytes", "total_reserved_bytes") == [
        (0, 512, MIB),
        (1, 1024, 2 * MIB),
    ]


def test_stacks_pools_and_failures() -> None:
    history = [
        event("alloc", 0, 512, frames=FRAMES, pool_id=[0, 1]),
        event("alloc", 512, 512, frames=copy.deepcopy(FRAMES), pool_id=(0, 0)),
        event("alloc", 1024, 512, frames=FRAMES[1:]),
        {"action": "oom", "size": 3 << 60, "device_free": 5, "stream": 7, "time_us": UTC_US},
        event("snapshot", 0, 1536),
        event("annotate", 0, 1),
        event("from\na later version", 0, 1),
    ]
    used = segment(0, *[block(512)] * 3, segment_pool_id=(0, 1), frames=FRAMES)
    trace = tables_of([used], history)
    same, equal, shorter = rows(trace, "allocator_event", "stack_id", "pool_id")
    assert (same[0], same[1]) == (equal[0], "0.1")
    assert shorter[1] is None
    parents = dict(enumerate(rows(trace, "stack", "parent_id", "frame_id")))
    frames = rows(trace, "frame", "symbol_id", "module_id", "line", "kind")
    path, stack = [], same[0]
    while stack is not None:
        stack, frame = parents[stack]
        path.append(frames[frame])
    assert path == [
        ("forward", "/app/model.py", 12, "Python"),
        ("<module>", "<string>", 3, "Python"),
        ("at::empty", "??", None, "Native"),
    ]
    assert rows(trace, "segment_event", "operation", "bytes", "address", "free_bytes", "stream")[
        -2:
    ] == [
        ("Out of memory", 3 << 60, None, 5, 7),
        ("Snapshot", 1536, None, None, 0),
    ]
    assert trace.meta.unread == {"annotate": 1, "unknown memory events": 1}
    assert rows(trace, "allocator_segment", "pool_id", "stack_id", "is_large") == [
        ("0.1", same[0], True)
    ]


def test_without_a_history_all_blocks_were_there() -> None:
    trace = tables_of([segment(0, block(512), block(MIB - 512, "inactive"))])
    assert rows(trace, "allocator_event", "time_ns", "bytes", "is_existing") == [(-1, 512, True)]
    assert any("no memory history" in warning for warning in trace.meta.warnings)
    older = Trace(read_snapshot([segment(0, block(512))], TraceMeta((Path("x"),), "x")))
    assert rows(older, "allocator_block", "bytes", "state") == [(512, "Allocated")]


def test_settings_and_lists_that_are_not_read() -> None:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1}
    trace = tables_of([], allocator_settings=settings, host_traces=[1, 2], host_segments=[])
    assert trace.meta.environment == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert trace.meta.unread == {"host_traces": 2}


def test_annotations_are_ranges() -> None:
    def note(stage: str, name: str, time_us: int) -> dict[str, Any]:
        return {"stage": stage, "name": name, "device": 0, "time_us": UTC_US + time_us}

    notes = [
        note("END", "early", 0),
        note("START", "step", 1),
        note("START", "step", 2),
        note("START", "other", 3),
        note("END", "step", 4),
        note("END", "step", 5),
    ]
    history = [event("alloc", 0, 512, 1), event("free_requested", 0, 512, 9)]
    trace = tables_of([], history, external_annotations=notes)
    assert rows(trace, "range", "name_id", "start_ns", "end_ns", "is_truncated") == [
        ("step", 0, 4000, False),
        ("step", 1000, 3000, False),
        ("other", 2000, 8000, True),
    ]
    with pytest.raises(CorruptTraceError, match="external_annotations"):
        tables_of([], external_annotations=["step"])


GOOD = {
    "segments": [segment(0, block(512))],
    "device_traces": [[event("alloc", 0, 512, frames=FRAMES)]],
}
ENTRY, SEGMENT = ("device_traces", 0, 0), ("segments", 0)
BLOCK, FRAME = ("segments", 0, "blocks", 0), ("device_traces", 0, 0, "frames", 0)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("segments",), {}, "segments is not a list of dicts"),
        (("segments",), [1], "segments is not a list of dicts"),
        (("device_traces",), 1, "device_traces is not a list"),
        (("device_traces",), [[]] * 5000, "device_traces is not a list"),
        (("device_traces", 0), "alloc", r"device_traces\[0\] is not a list of dicts"),
        (ENTRY, [], r"device_traces\[0\] is not a list of dicts"),
        ((*ENTRY, "action"), 5, "action is not a text: 5"),
        ((*ENTRY, "addr"), "0x10", "addr is not an integer: '0x10'"),
        ((*ENTRY, "addr"), True, "addr is not an integer: bool"),
        ((*ENTRY, "addr"), 1 << 70, "addr is not in range: 1180591620717411303424"),
        ((*ENTRY, "addr"), -1, "addr is not in range: -1"),
        ((*ENTRY, "size"), -512, "size is not in range: -512"),
        ((*ENTRY, "size"), 1 << 50, "a size is more than"),
        ((*ENTRY, "size"), [1] * 10_000, "size is not an integer: list"),
        ((*ENTRY, "time_us"), 1 << 60, "time_us is not in range"),
        ((*ENTRY, "time_us"), 1.5, "time_us is not an integer: 1.5"),
        ((*ENTRY, "pool_id"), "0.1", "pool_id is not a pair of numbers"),
        ((*ENTRY, "pool_id"), (0, 1, 2), "pool_id is not a pair of numbers"),
        ((*ENTRY, "frames"), "forward", "frames is not a list"),
        (FRAME, "forward", "a frame is not a dict"),
        ((*FRAME, "line"), None, "a frame has no filename, name and line"),
        ((*FRAME, "name"), 1, "a frame has no filename, name and line"),
        ((*SEGMENT, "device"), 1 << 40, "device is not in range"),
        ((*SEGMENT, "total_size"), 1 << 61, "a size is more than"),
        ((*SEGMENT, "is_expandable"), 1, "is_expandable is not a flag: 1"),
        ((*SEGMENT, "blocks"), {}, r"segments\[0\].blocks is not a list of dicts"),
        ((*BLOCK, "state"), "lost", "state 'lost' is unknown"),
        ((*BLOCK, "requested_size"), -1, "requested_size is not in range"),
    ],
)
def test_wrong_fields_are_named(place: tuple[Any, ...], value: Any, message: str) -> None:
    snapshot: Any = copy.deepcopy(GOOD)
    read_snapshot(snapshot, TraceMeta((Path("x"),), "x"))
    *path, last = place
    at = snapshot
    for key in path:
        at = at[key]
    at[last] = value
    with pytest.raises(CorruptTraceError, match=message) as raised:
        read_snapshot(snapshot, TraceMeta((Path("x"),), "x"))
    assert len(raised.value.message) < 120


@pytest.mark.parametrize("value", [None, 5, "segments", {}, {"entries": []}, {1: 2}])
def test_other_data_is_no_snapshot(value: Any) -> None:
    with pytest.raises(CorruptTraceError, match="not a memory snapshot of PyTorch"):
        read_snapshot(value, TraceMeta((Path("x"),), "x"))


def test_one_list_several_times_is_refused() -> None:
    """Ten bytes of a pickle could stand for a million events."""
    history, blocks = [event("alloc", 0, 512)], [block(512)]
    with pytest.raises(CorruptTraceError, match="share a history"):
        tables_of([], history, history)
    shared = [segment(0, blocks=blocks), segment(MIB, blocks=blocks)]
    with pytest.raises(CorruptTraceError, match="share their blocks"):
        tables_of(shared)


def test_deep_and_recursive_data_is_not_followed() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CorruptTraceError):
        tables_of(loop)
    with pytest.raises(CorruptTraceError):
        tables_of([], [event("alloc", 0, 1, frames=loop)])
    deep: Any = {}
    for _ in range(10_000):
        deep = {"segments": [deep]}
    tables_of([], more=deep)
