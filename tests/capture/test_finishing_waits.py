"""Waits and event records derived from the streams and events of calls."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from capture.cuda_writer import (
    BY_CALLS,
    CAPTURES,
    DRIVER,
    NONE,
    NULL_STREAM,
    CudaLog,
    write_from_nsys,
)
from capture.raw_writer import write_session
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

# With host waits for streams; with waits of streams for events and event records.
EXPORTS = [
    *("host_sync.bad", "pageable_h2d.fixed"),
    *("ddp_serial.bad.rank0", "ddp_payloads.whole.rank0"),
]
A, B = 0xAA00, 0xBB00  # handles of events


class Program:
    """The calls of a process, one after the other, each of which takes 2 ns.

    Args:
        pid: The process; what `CudaLog` takes besides.
    """

    def __init__(self, pid: int = 100, **more: Any) -> None:
        self.log = CudaLog(pid, **more)
        self.log.collecting(0, BY_CALLS)
        self.log.device()
        self.log.context(1, null_stream=7)
        self.log.stream(13)
        self.log.stream(14)
        self.now = 0
        self.log.kernel("f", 1, 2, 0)

    def call(self, name: str, *, at: int | None = None, **more: Any) -> int:
        """Make a call; return its correlation, which is when it begins."""
        self.now = self.now + 10 if at is None else at
        self.log.call(name, self.now, self.now + 2, self.now, **more)
        return self.now

    def record(self, event: int, stream: int, **more: Any) -> int:
        return self.call("cudaEventRecord_v3020", place=(1, stream), event=event, **more)

    def order(self, stream: int, event: int, **more: Any) -> int:
        return self.call("cudaStreamWaitEvent_v3020", place=(1, stream), event=event, **more)

    def wait(self, event: int, **more: Any) -> int:
        return self.call("cudaEventSynchronize_v3020", place=(1, NONE), event=event, **more)

    def capture(self, what: str, stream: int, **more: Any) -> int:
        name = f"cudaStream{what}Capture_v10000"
        return self.call(name, place=(1, stream), flags=CAPTURES, **more)


def read(folder: Path, *logs: CudaLog) -> Trace:
    session = write_session(folder / "x.warpline.raw", *logs, collected=["cuda"])
    finish(session, folder / "x.warpline")
    return warpline.open(folder / "x.warpline")


def rows(trace: Trace, table: str, *names: str) -> list[tuple[Any, ...]]:
    return trace[table].select(names).rows()


def streams(trace: Trace, table: str) -> list[int | None]:
    natives = trace["stream"]["native_id"].to_list()
    return [None if row is None else natives[row] for row in trace[table]["stream_id"].to_list()]


def links(trace: Trace, table: str) -> dict[int, int | None]:
    """Return which call recorded what each call waits for, by the correlations of both.

    None stands for a recording that is not in the trace: exports number it 0.
    """
    recorded = dict(rows(trace, "event_record", "event_sync_id", "correlation_id"))
    found = rows(trace, table, "correlation_id", "event_sync_id")
    return {wait: recorded.get(sync) for wait, sync in found}


@pytest.mark.parametrize("name", EXPORTS)
def test_they_are_those_that_cupti_would_have_recorded(
    capture: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    session = write_from_nsys(capture(name), tmp_path / "x.warpline.raw", by_calls=True)
    finish(session, tmp_path / "x.warpline")
    theirs, ours = warpline.open(capture(name)), warpline.open(tmp_path / "x.warpline")
    key = ["process_id", "correlation_id"]
    same = ["device_id", "context_id", "stream_id"]
    # In exports waits for the device have correlations of their own.
    no_context = pl.col("kind") != "Context"
    for table in ("host_wait", "stream_wait", "event_record"):
        if table not in theirs.tables:
            assert ours.row_count(table) == 0
            continue
        left, right = theirs[table], ours[table]
        if table == "host_wait":
            left, right = left.filter(no_context), right.filter(no_context)
            assert left["kind"].to_list() == right["kind"].to_list()
        kept = [*key, *same]
        assert left.select(kept).sort(key).rows() == right.select(kept).sort(key).rows(), table
    if "event_record" not in theirs.tables:
        return
    for table in ("host_wait", "stream_wait"):
        ours_by_call = links(ours, table)
        for wait, recorded in links(theirs, table).items():
            assert ours_by_call.get(wait) == recorded, (table, wait)


def test_a_wait_is_as_long_as_its_call_and_names_what_it_waited_for(tmp_path: Path) -> None:
    program = Program()
    program.call("cudaStreamSynchronize_v3020", place=(1, 13))
    program.call("cuStreamSynchronize_ptsz", place=(1, NULL_STREAM), domain=DRIVER)
    program.call("cudaDeviceSynchronize_v3020", place=(1, NONE))
    program.call("cuCtxSynchronize_v2", place=(1, NONE), domain=DRIVER)
    program.wait(A)
    program.call("cudaStreamSynchronize_v3020", place=(1, 13), status=700)
    program.call("cudaStreamWaitValue32_v11070", place=(1, 13), event=A)
    trace = read(tmp_path, program.log)
    names = ("start_ns", "end_ns", "correlation_id", "kind", "event_id", "event_sync_id")
    assert rows(trace, "host_wait", *names) == [
        (10, 12, 10, "Stream", None, None),
        (20, 22, 20, "Stream", None, None),
        (30, 32, 30, "Context", None, None),
        (40, 42, 40, "Context", None, None),
        (50, 52, 50, "Event", 1, None),
    ]
    assert streams(trace, "host_wait") == [13, 7, None, None, None]
    assert {"stream_wait", "event_record"} <= {*trace.tables}


def test_a_wait_names_the_last_recording_of_its_event(tmp_path: Path) -> None:
    program = Program()
    unrecorded = program.order(14, A)
    first = program.record(A, 13)
    other = program.record(B, 14)
    program.record(A, 14, status=400)  # failed
    waits: dict[int, int | None] = {program.order(14, A): first, program.wait(A): first}
    waits[program.wait(B)] = other
    second = program.call("cuEventRecordWithFlags_ptsz", place=(1, 7), event=A, domain=DRIVER)
    waits[program.order(13, A)] = second
    program.call("cudaEventDestroy_v3020", event=A)
    waits[program.order(13, A)] = None  # another event with the same handle
    trace = read(tmp_path, program.log)
    found = links(trace, "stream_wait") | links(trace, "host_wait")
    assert found == {unrecorded: None, **waits}
    assert rows(trace, "event_record", "correlation_id", "event_id", "event_sync_id") == [
        (first, 1, 1),
        (other, 2, 2),
        (second, 1, 3),
    ]
    assert streams(trace, "event_record") == [13, 14, 7]
    assert trace["stream_wait"]["event_id"].to_list() == [1, 1, 1, 3]


def test_recordings_of_other_threads_count_in_the_order_in_which_they_began(
    tmp_path: Path,
) -> None:
    program = Program()
    worker = CudaLog(100, tid=101, number=1)
    program.record(A, 13, at=10)
    worker.call("cudaEventRecord_v3020", 40, 42, 40, place=(1, 14), event=A)
    waits = {program.wait(A, at=20): 10, program.wait(A, at=30): 10, program.wait(A, at=50): 40}
    # Handles are those of one process.
    stranger = Program(200, incarnation=2)
    alone = stranger.wait(A, at=60)
    trace = read(tmp_path, worker, program.log, stranger.log)
    assert links(trace, "host_wait") == {**waits, alone: None}
    assert trace["host_wait"]["event_id"].to_list() == [1, 1, 1, 1]


def test_what_was_recorded_unseen_is_not_guessed(tmp_path: Path) -> None:
    program = Program()
    before = program.record(A, 13)
    known = program.wait(A)
    program.log.collecting(program.now + 5, 0)
    program.log.collecting(program.now + 7, BY_CALLS)
    unknown = program.wait(A)
    again = program.record(A, 13)
    last = program.wait(A)
    trace = read(tmp_path, program.log)
    assert links(trace, "host_wait") == {known: before, unknown: None, last: again}


def test_a_capture_makes_no_rows_and_spreads_through_events(tmp_path: Path) -> None:
    program = Program()
    program.capture("Begin", 13)
    program.record(A, 13)
    program.order(14, A)  # 14 is captured, too
    program.record(B, 14)
    program.order(13, B)
    outside = program.record(0xCC00, 7)
    program.order(14, 0xCC00)
    waits: dict[int, int | None] = {program.order(7, 0xCC00): outside}
    program.capture("End", 13)
    waits[program.order(14, A)] = None  # recorded in the capture alone
    after = program.record(A, 14)
    waits[program.order(13, A)] = after
    program.capture("Begin", 14, status=901)
    waits[program.order(14, A)] = after
    program.capture("Begin", 13)
    program.capture("End", 13, status=901)  # it ends all the same
    waits[program.order(13, A)] = after
    trace = read(tmp_path, program.log)
    assert links(trace, "stream_wait") == waits
    assert trace["event_record"]["correlation_id"].to_list() == [outside, after]


def test_a_stream_belongs_to_its_own_context(tmp_path: Path) -> None:
    # The context is the one that was current in the thread.
    program = Program()
    program.log.device(1)
    program.log.context(2, device=1, null_stream=17)
    program.log.stream(23, context=2)
    program.call("cudaStreamSynchronize_v3020", place=(1, 23))
    program.record(A, 23)
    program.wait(A)
    program.call("cudaStreamSynchronize_v3020", place=(0, NULL_STREAM))
    program.call("cudaStreamSynchronize_v3020", place=(2, NULL_STREAM))
    program.call("cudaStreamSynchronize_v3020", place=(1, 99))
    program.call("cudaDeviceSynchronize_v3020", place=(0, NONE))
    trace = read(tmp_path, program.log)
    contexts = trace["context"]["native_id"].to_list()
    found = [contexts[row] for row in trace["host_wait"]["context_id"].to_list()]
    assert found == [2, 2, 1, 2, 1, 1]
    assert streams(trace, "host_wait") == [23, None, 7, 17, 99, None]
    assert trace["event_record"]["device_id"].to_list() == [1]
    assert trace["host_wait"]["device_id"].to_list() == [1, 1, 0, 1, 0, 0]


def test_nothing_is_known_where_contexts_and_streams_are_not(tmp_path: Path) -> None:
    log = CudaLog()
    log.collecting(0, BY_CALLS)
    log.call("cudaStreamSynchronize_v3020", 10, 12, 1, place=(0, NULL_STREAM))
    log.call("cudaEventRecord_v3020", 20, 22, 2, place=(5, NONE), event=A)
    log.call("cudaStreamWaitEvent_v3020", 30, 32, 3, place=(5, NONE), event=A)
    trace = read(tmp_path, log)
    assert streams(trace, "host_wait") == [None]
    assert rows(trace, "event_record", "event_id", "event_sync_id") == [(1, 1)]
    assert links(trace, "stream_wait") == {3: 2}


def test_they_are_there_without_rows_where_calls_were_recorded(tmp_path: Path) -> None:
    log = CudaLog()
    log.collecting(0, BY_CALLS)
    log.kernel("f", 10, 20, 1)
    trace = read(tmp_path, log)
    assert {"host_wait", "stream_wait", "event_record"} <= {*trace.tables}
    bare = CudaLog()
    bare.collecting(0, 3)
    bare.kernel("f", 10, 20, 1)
    other = tmp_path / "bare"
    other.mkdir()
    assert not {"host_wait", "stream_wait", "event_record"} & {*read(other, bare).tables}


STREAMS, EVENTS = (7, 13, 14), (A, B)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["record", "order"]), st.sampled_from(STREAMS),
                  st.sampled_from(EVENTS), st.sampled_from([0, 0, 0, 400])),
        st.tuples(st.sampled_from(["wait", "destroy"]), st.just(0),
                  st.sampled_from(EVENTS), st.sampled_from([0, 0, 0, 400])),
        st.tuples(st.sampled_from(["Begin", "End"]), st.sampled_from(STREAMS),
                  st.just(0), st.sampled_from([0, 0, 0, 901])),
        st.just(("rest", 0, 0, 0)),
    ),
    max_size=40,
)  # fmt: skip


class Model:
    """What waits are linked to, and recordings, by when they began; in plain sets.

    A capture is the streams in it and the events recorded in it.
    """

    def __init__(self) -> None:
        self.captures: list[tuple[set[int], set[int]]] = []
        self.recorded: dict[int, int] = {}
        self.found: dict[str, dict[int, int | None]] = {"order": {}, "wait": {}, "record": {}}

    def take(self, at: int, what: str, stream: int, event: int, status: int) -> None:
        inside = next((one for one in self.captures if stream in one[0]), None)
        if what == "rest":
            self.captures, self.recorded = [], {}
        elif what == "End":
            self.captures = [one for one in self.captures if one is not inside]
        elif status:
            return
        elif what == "Begin":
            self.captures += [] if inside else [({stream}, set())]
        elif what in {"destroy", "record"}:
            self.record(at, event, inside, ends=what == "destroy")
        else:
            self.wait(at, what, stream, event)

    def record(
        self, at: int, event: int, inside: tuple[set[int], set[int]] | None, *, ends: bool
    ) -> None:
        self.recorded.pop(event, None)
        for _, events in self.captures:
            events.discard(event)
        if inside and not ends:
            inside[1].add(event)
        elif not ends:
            self.recorded[event] = self.found["record"][at] = at

    def wait(self, at: int, what: str, stream: int, event: int) -> None:
        inside = any(stream in streams for streams, _ in self.captures)
        capture = next((one for one in self.captures if event in one[1]), None)
        if what == "wait" or not (inside or capture):
            self.found[what][at] = self.recorded.get(event)
        elif capture and not inside:
            capture[0].add(stream)


@settings(max_examples=100, deadline=None)
@given(steps=_STEPS)
def test_as_plain_sets_have_them(steps: list[Any]) -> None:
    program, model = Program(), Model()
    for number, (what, stream, event, status) in enumerate(steps, 1):
        model.take(10 * number, what, stream, event, status)
        if what == "rest":
            program.now += 10
            program.log.collecting(program.now, 0)
            program.log.collecting(program.now + 1, BY_CALLS)
        elif what in {"Begin", "End"}:
            program.capture(what, stream, status=status)
        elif what == "wait":
            program.wait(event, status=status)
        elif what == "destroy":
            program.call("cudaEventDestroy_v3020", event=event, status=status)
        elif what == "record":
            program.record(event, stream, status=status)
        else:
            program.order(stream, event, status=status)
    with tempfile.TemporaryDirectory() as folder:
        trace = read(Path(folder), program.log)
    assert links(trace, "stream_wait") == model.found["order"]
    assert links(trace, "host_wait") == model.found["wait"]
    assert trace["event_record"]["correlation_id"].to_list() == [*model.found["record"]]
