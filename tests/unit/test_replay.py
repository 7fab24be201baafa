"""Replay of small programs worked out by hand: unchanged, and with one thing changed.

The programs are written as calls; each launch says when its work began and ended on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from warpline.derived.work.operations import operations
from warpline.replay import predict, replay_quality
from warpline.replay.draft import Draft
from warpline.replay.graph import event_graph
from warpline.replay.host import NONE, host_side
from warpline.replay.prediction import Prediction
from warpline.result.changes import (
    Change,
    DropCalls,
    DropOperations,
    FuseOperations,
    LaunchAsGraph,
    MakeAsync,
    OverlapCollectives,
    Range,
    RemoveHostTime,
    RemoveProfilerCost,
    RemoveWaits,
    ScaleOperations,
)
from warpline.trace import MemorySource, Trace

EXACT = Range(1, 1, 1)
H2D, D2H = 1, 2
PAGEABLE, PINNED, DEVICE = 0, 1, 2


class Program:
    """A program of up to two processes, each with a device, two threads and two streams."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def call(self, name: str, start: int, end: int, thread: int = 0) -> int:
        """Make a call; its correlation is the number of calls before it."""
        number = len(self.rows.get("api_call", []))
        self._add(
            "api_call",
            name=name,
            start_ns=start,
            end_ns=end,
            thread_id=thread,
            process_id=thread // 2,
            correlation_id=number,
        )
        return number

    def launch(
        self, start: int, end: int, work: tuple[int, int], name: str = "", **place: int
    ) -> int:
        """Launch a kernel that ran at a time, in a stream (0 to 3), from a thread (0 to 3)."""
        thread, stream = place.get("thread", 0), place.get("stream", 0)
        number = self.call("cudaLaunchKernel_v7000", start, end, thread)
        # Equal names would look like steps.
        told = name or f"k{number}"
        self._work("kernel", number, work, stream, name=told, short_name=told)
        return number

    def copy(self, start: int, end: int, work: tuple[int, int], size: int, kind: int = H2D) -> int:
        """Copy between pageable memory and the device."""
        number = self.call("cudaMemcpyAsync_v3020", start, end)
        memory = (PAGEABLE, DEVICE) if kind == H2D else (DEVICE, PAGEABLE)
        self._work(
            "memcpy", number, work, 0, bytes=size, kind=kind,
            src_memory=memory[0], dst_memory=memory[1],
        )  # fmt: skip
        return number

    def wait_for_stream(self, start: int, end: int, stream: int = 0) -> int:
        number = self.call("cudaStreamSynchronize_v3020", start, end)
        self._event("host_wait", number, stream, kind=3, start_ns=start, end_ns=end)
        return number

    def record(self, start: int, end: int, event: int, sync: int, stream: int = 0) -> int:
        number = self.call("cudaEventRecord_v3020", start, end)
        self._event("event_record", number, stream, event_id=event, event_sync_id=sync)
        return number

    def wait_in_stream(self, start: int, end: int, event: int, sync: int, stream: int) -> int:
        number = self.call("cudaStreamWaitEvent_v3020", start, end)
        times = {"start_ns": start, "end_ns": end}
        self._event("stream_wait", number, stream, event_id=event, event_sync_id=sync, **times)
        return number

    def wait_for_event(self, start: int, end: int, event: int, sync: int) -> int:
        number = self.call("cudaEventSynchronize_v3020", start, end)
        times = {"start_ns": start, "end_ns": end, "kind": 1}
        self._event("host_wait", number, 0, event_id=event, event_sync_id=sync, **times)
        return number

    def step(self, number: int, start: int, end: int, thread: int = 0) -> None:
        """Mark a step."""
        self._add(
            "range",
            name=f"step_{number}",
            start_ns=start,
            end_ns=end,
            thread_id=thread,
            process_id=thread // 2,
            source_id=len(self.rows.get("range", [])),
        )

    def trace(self) -> Trace:
        tables: dict[str, dict[str, Sequence[Any]]] = {
            name: {key: [row[key] for row in rows] for key in rows[0]}
            for name, rows in self.rows.items()
        }
        return Trace(
            MemorySource(
                {
                    **tables,
                    "process": {"pid": [1, 2]},
                    "thread": {"process_id": [0, 0, 1, 1], "tid": [1, 2, 3, 4]},
                    "device": {"gpu_index": [0, 1]},
                    "context": {"process_id": [0, 1], "device_id": [0, 1], "native_id": [1, 1]},
                    "stream": {
                        "process_id": [0, 0, 1, 1],
                        "context_id": [0, 0, 1, 1],
                        "native_id": [7, 13, 7, 13],
                    },
                }
            )
        )

    def _work(self, table: str, call: int, work: tuple[int, int], stream: int, **more: Any) -> None:
        place = stream // 2
        self._add(
            table,
            start_ns=work[0],
            end_ns=work[1],
            device_id=place,
            context_id=place,
            stream_id=stream,
            process_id=place,
            correlation_id=call,
            **more,
        )

    def _event(self, table: str, call: int, stream: int, **more: Any) -> None:
        self._add(
            table,
            device_id=0,
            context_id=0,
            stream_id=stream,
            process_id=0,
            correlation_id=call,
            **more,
        )

    def _add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)


def predicted(trace: Trace, *changes: Change) -> Prediction:
    """Return the prediction with a host as fast as it was."""
    return predict(trace, changes, host_speed=EXACT)


def after(trace: Trace, *changes: Change) -> int:
    return round(predicted(trace, *changes).step_ns.central)


def rows(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_a_launch_bound_program_is_replayed_as_it_was() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000))
    program.launch(10_000, 15_000, (17_000, 19_000))
    program.launch(21_000, 26_000, (27_500, 30_000))
    found = predicted(program.trace())
    assert (found.measured_ns, found.unchanged_ns) == (30_000, 30_000)


def test_dropped_calls_take_their_gaps_with_them_unless_these_stay() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000))
    middle = program.launch(10_000, 15_000, (17_000, 19_000))
    program.launch(21_000, 26_000, (27_500, 30_000))
    trace = program.trace()
    # Without the call (5 us) and the time before it (5 us) all after it is 10 us earlier.
    assert after(trace, DropCalls(rows(middle))) == 20_000
    assert after(trace, DropCalls(rows(middle), keeps_gap=True)) == 25_000


def test_calls_that_only_prepare_a_dropped_one_go_with_it() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000))
    program.call("cuKernelGetName", 9_000, 9_100)
    middle = program.launch(9_200, 14_000, (16_000, 18_000))
    program.launch(20_000, 25_000, (26_500, 29_000))
    # The next launch began 6 us after the dropped one, which now adds nothing after 5,000.
    assert after(program.trace(), DropCalls(rows(middle))) == 20_000


def test_shorter_work_helps_only_where_the_device_governs() -> None:
    program = Program()
    for place in range(3):
        program.launch(
            place * 3_000, place * 3_000 + 2_000, (6_000 + place * 51_000, 56_000 + place * 51_000)
        )
    trace = program.trace()
    half = ScaleOperations(rows(0, 1, 2), Range(0.4, 0.5, 0.6))
    found = predicted(trace, half)
    # Three times 25 us, two gaps of 1 us, after the first launch's 6 us.
    assert found.step_ns.central == 6_000 + 3 * 25_000 + 2 * 1_000
    assert found.step_ns.low < found.step_ns.central < found.step_ns.high
    # Without the work its launches are left, which are over after 8 us.
    assert after(trace, ScaleOperations(rows(0, 1, 2), Range(0, 0, 0))) == 8_000


def synchronous() -> Program:
    """Two kernels of 50 us, with a wait for the first one before the second is launched."""
    program = Program()
    program.launch(0, 5_000, (6_000, 56_000))
    program.wait_for_stream(5_500, 60_000)
    program.launch(62_000, 67_000, (68_500, 118_500))
    return program


def test_a_wait_holds_its_thread_until_the_device_is_done() -> None:
    trace = synchronous().trace()
    assert predicted(trace).unchanged_ns == 118_500
    shorter = ScaleOperations(rows(0), Range(0.5, 0.5, 0.5))
    assert after(trace, shorter) == 118_500 - 25_000


def test_a_removed_wait_lets_the_launch_come_early() -> None:
    trace = synchronous().trace()
    # The second kernel now follows the first after a usual gap.
    assert after(trace, RemoveWaits(rows(1))) == 56_000 + 1_200 + 50_000
    assert after(trace, DropCalls(rows(1))) == 56_000 + 1_200 + 50_000


def test_dropped_work_holds_nothing_up() -> None:
    trace = synchronous().trace()
    found = after(trace, DropOperations(rows(0)))
    # Neither its launch nor the wait's time is left: only the wait's own call and the second one.
    assert found < 118_500 - 50_000


def test_pollers_are_no_part_of_the_program() -> None:
    program = synchronous()
    for start in range(0, 60_000, 10_000):
        program.call("cudaEventQuery_v3020", start + 100, start + 200, thread=1)
    host = host_side(program.trace(), None)
    assert set(host.thread.tolist()) == {0}


def test_threads_that_take_turns_hand_over() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000), thread=0)
    program.launch(7_000, 12_000, (13_500, 15_000), thread=1)
    program.launch(14_000, 19_000, (20_500, 22_000), thread=1)
    program.launch(22_000, 27_000, (28_500, 30_000), thread=0)
    trace = program.trace()
    host = host_side(trace, None)
    assert host.before.tolist() == [NONE, 0, 1, 2]
    assert host.previous.tolist() == [NONE, NONE, 1, 0]
    # What the other thread does not do, the first one need not wait for.
    assert after(trace, DropOperations(rows(1, 2))) == 30_000 - 7_000 - 7_000
    assert after(trace, DropOperations(rows(3))) == 30_000 - 8_000


def test_threads_at_the_same_time_do_not_wait_for_each_other() -> None:
    program = Program()
    for place in range(4):
        begin = place * 10_000
        program.launch(begin, begin + 6_000, (begin + 7_000, begin + 8_000), thread=0)
        program.launch(
            begin + 3_000, begin + 9_000, (begin + 10_000, begin + 10_500), thread=1, stream=1
        )
    host = host_side(program.trace(), None)
    assert np.array_equal(host.before, host.previous)


def test_a_call_inside_another_is_part_of_it() -> None:
    program = Program()
    outer = program.launch(0, 5_000, (6_000, 8_000))
    program.call("cuLaunchKernel", 1_000, 4_000)
    trace = program.trace()
    assert host_side(trace, None).row.tolist() == [outer]
    assert event_graph(trace, None).lanes.call.tolist() == [0]


def test_an_event_stands_for_what_its_stream_was_given_before() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 50_000), stream=0)
    program.record(3_000, 3_500, event=9, sync=1, stream=0)
    program.launch(4_000, 6_000, (51_000, 90_000), stream=0)
    program.record(6_500, 7_000, event=9, sync=2, stream=0)
    program.wait_in_stream(8_000, 8_500, event=9, sync=1, stream=1)
    program.launch(9_000, 11_000, (52_000, 60_000), stream=1)
    trace = program.trace()
    graph = event_graph(trace, None)
    record = int(graph.lanes.awaits.max())
    assert graph.lanes.asked_ns[record] == 3_000
    # Half of the first kernel is half of the wait, but for the second kernel after it.
    shorter = Draft(graph)
    shorter.scale_items(np.flatnonzero(graph.lanes.operation == 0), 0.5)
    at = shorter.timing().item_start_ns[
        graph.lanes.operation == operations(trace).call.tolist().index(5)
    ]
    assert at.tolist() == [52_000 - 22_000]


def test_a_wait_in_a_stream_is_passed_on_by_a_record_after_it() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 50_000), stream=0)
    program.record(2_500, 2_700, event=1, sync=1, stream=0)
    program.wait_in_stream(3_000, 3_200, event=1, sync=1, stream=1)
    program.record(3_500, 3_700, event=2, sync=2, stream=1)
    program.wait_for_event(4_000, 54_000, event=2, sync=2)
    program.launch(55_000, 57_000, (62_000, 70_000), stream=0)
    trace = program.trace()
    # The second stream did no work itself: its event waits for the first one's kernel.
    assert after(trace, ScaleOperations(rows(0), EXACT)) == 70_000
    assert after(trace, ScaleOperations(rows(0), Range(0.5, 0.5, 0.5))) == 70_000 - 22_000


def test_a_wait_for_everything_waits_for_all_streams() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 20_000), stream=0)
    program.launch(3_000, 5_000, (9_500, 80_000), stream=1)
    program.call("cudaDeviceSynchronize_v3020", 6_000, 84_000)
    program.launch(85_000, 87_000, (92_000, 95_000), stream=0)
    trace = program.trace()
    long_one = np.flatnonzero(operations(trace).stream == 1)
    assert after(trace, ScaleOperations(long_one, Range(0.5, 0.5, 0.5))) == 95_000 - 35_250


def test_a_stream_that_the_recording_does_not_tell_is_seen_by_its_end() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 50_000), stream=0)
    program.launch(3_000, 5_000, (9_500, 30_000), stream=1)
    program.call("cudaStreamSynchronize_v3020", 6_000, 54_000)
    program.launch(55_000, 57_000, (62_000, 70_000), stream=1)
    trace = program.trace()
    first = np.flatnonzero(operations(trace).end_ns == 50_000)
    assert after(trace, ScaleOperations(first, Range(0.5, 0.5, 0.5))) == 70_000 - 22_000


def blocking_copies() -> Program:
    """Three steps: a copy of 1 ms from pageable memory, then a kernel of 1 ms that uses it."""
    program = Program()
    for place in range(4):
        begin = place * 2_100_000
        program.copy(begin, begin + 1_010_000, (begin + 8_000, begin + 1_008_000), 10_000_000)
        program.launch(begin + 1_020_000, begin + 1_025_000, (begin + 1_026_500, begin + 2_026_500))
        program.wait_for_stream(begin + 1_030_000, begin + 2_030_000)
        program.step(place, begin, begin + 2_090_000)
    return program


def test_a_copy_of_pageable_memory_holds_its_thread() -> None:
    trace = blocking_copies().trace()
    assert predicted(trace).unchanged_ns == 2_100_000
    copies = operations(trace).of_table("memcpy")
    call = operations(trace).call[copies]
    faster = MakeAsync(call, copies, Range(50e9, 50e9, 50e9), own_stream=False)
    # 200 us instead of 1 ms; the kernel and the wait for it stay.
    assert after(trace, faster) == pytest.approx(2_100_000 - 800_000, abs=20_000)


def test_copies_in_their_own_stream_run_while_the_device_computes() -> None:
    trace = blocking_copies().trace()
    work = operations(trace)
    copies = work.of_table("memcpy")
    waits = np.flatnonzero(
        trace.columns("api_call", "name_id")["name_id"].values
        == trace.strings.find("cudaStreamSynchronize_v3020")
    )
    ahead = MakeAsync(work.call[copies], copies, Range(20e9, 20e9, 20e9))
    # Copies take 500 us and overlap the kernels of 1 ms, one after the other.
    assert after(trace, ahead, DropCalls(waits)) == pytest.approx(1_000_000, rel=0.02)


def small_kernels() -> Program:
    """Four steps of ten kernels of 2 us, which the host launches every 10 us."""
    program = Program()
    for step in range(4):
        begin = step * 100_000
        for place in range(10):
            at = begin + place * 10_000
            program.launch(at, at + 5_000, (at + 6_500, at + 8_500))
        program.step(step, begin, begin + 99_000)
    return program


def test_a_graph_is_one_launch() -> None:
    trace = small_kernels().trace()
    assert predicted(trace).unchanged_ns == 100_000
    groups = tuple(np.arange(10) + step * 10 for step in range(4))
    found = predicted(trace, LaunchAsGraph(groups)).step_ns
    # Ten kernels of 2 us and little between them, or the host's part: 5 us, 9 us, 4 us.
    assert 18_000 < found.central < 26_000
    assert found.low <= found.central <= found.high


def test_fused_work_is_one_launch_of_a_new_length() -> None:
    trace = small_kernels().trace()
    groups = tuple(np.arange(10) + step * 10 for step in range(4))
    found = after(trace, FuseOperations(groups, Range(20_000, 30_000, 40_000)))
    assert 30_000 < found < 33_000


def test_host_time_off_the_path_is_saved_where_it_was() -> None:
    trace = small_kernels().trace()
    starts = np.arange(40, dtype=np.int64) * 10_000 - 4_000
    change = RemoveHostTime(0, starts, starts + 3_000)
    assert after(trace, change) == 100_000 - 30_000
    elsewhere = RemoveHostTime(1, starts, starts + 3_000)
    assert after(trace, elsewhere) == 100_000


def test_the_cost_of_recording_is_taken_from_each_call() -> None:
    trace = small_kernels().trace()
    found = predicted(trace, RemoveProfilerCost(Range(1_000, 2_000, 4_000))).step_ns
    assert found.central == 100_000 - 10 * 2_000
    assert found.low < found.central < found.high


def two_ranks() -> Program:
    """Rank 1 reaches each collective 30 us after rank 0; moving the data takes 20 us."""
    program = Program()
    for step in range(4):
        begin = step * 200_000
        for rank, late in ((0, 0), (1, 30_000)):
            thread, stream = 2 * rank, 2 * rank
            at = begin + rank * 100
            compute = (at + 6_500, at + 56_500 + late)
            program.launch(at, at + 5_000, compute, thread=thread, stream=stream)
            start = compute[1] + 1_000
            end = begin + 57_500 + 30_100 + 20_000
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            program.launch(
                at + 8_000, at + 13_000, (start, end), name, thread=thread, stream=stream
            )
            program.step(step, begin, begin + 190_000, thread=thread)
            program.launch(
                at + 180_000,
                at + 185_000,
                (at + 186_500, at + 187_500),
                thread=thread,
                stream=stream,
            )
    return program


def test_ranks_meet_in_collectives() -> None:
    trace = two_ranks().trace()
    graph = event_graph(trace, None)
    work = operations(trace)
    slow = np.flatnonzero((work.process == 1) & (work.end_ns - work.start_ns == 80_000))
    draft = Draft(graph)
    draft.scale_items(np.flatnonzero(np.isin(graph.lanes.operation, slow)), 50 / 80)
    at = draft.timing()
    nccl = np.flatnonzero((work.process == 0) & (work.end_ns == 107_600))
    item = np.flatnonzero(np.isin(graph.lanes.operation, nccl))
    # Both ranks are earlier by the 30 us that the slow one lost.
    assert at.item_end_ns[item].tolist() == [107_600 - 30_000]
    assert replay_quality(trace).error_ratio < 0.03


def test_collectives_overlap_what_makes_their_data() -> None:
    program = Program()
    for step in range(4):
        begin = step * 2_000_000
        for place in range(30):
            at = begin + place * 3_000
            busy = begin + 6_500 + place * 31_000
            program.launch(at, at + 2_000, (busy, busy + 30_000))
        for place in range(8):
            at = begin + 100_000 + place * 3_000
            busy = begin + 940_000 + place * 101_000
            program.launch(
                at,
                at + 2_000,
                (busy, busy + 100_000),
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                stream=1,
            )
        program.record(begin + 125_000, begin + 125_500, event=1, sync=step, stream=1)
        program.wait_in_stream(begin + 126_000, begin + 126_500, event=1, sync=step, stream=0)
        program.launch(begin + 130_000, begin + 132_000, (begin + 1_760_000, begin + 1_770_000))
        program.wait_for_stream(begin + 140_000, begin + 1_775_000)
        program.step(step, begin, begin + 1_990_000)
    trace = program.trace()
    collectives = np.flatnonzero(operations(trace).stream == 1)
    found = after(trace, OverlapCollectives(collectives, 4))
    # 800 us after 930 us of kernels become at most a quarter of them, beside the last two thirds.
    assert found < predicted(trace).unchanged_ns - 400_000


def test_a_trace_without_calls_has_nothing_to_replay() -> None:
    nothing = Trace(MemorySource({"range": {"start_ns": [0], "end_ns": [5], "name": ["a"]}}))
    assert replay_quality(nothing) == (0.0, 0.0, 0)
    assert predict(nothing, ()).step_ns == (0, 0, 0)


def test_a_removed_wait_leaves_what_the_call_did_after_it() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 56_000))
    free = program.call("cudaFree_v3020", 5_500, 356_000)
    program.launch(362_000, 367_000, (368_500, 418_500))
    trace = program.trace()
    # It waited for 50.5 us and gave memory back for 300 us.
    found = after(trace, RemoveWaits(rows(free)))
    assert found == pytest.approx(418_500 - 50_500, abs=6_000)


def test_launches_wait_for_room_behind_a_thousand_others() -> None:
    program, length, depth = Program(), 20_000, 1_024
    begun, host, ends = 6_000, 0, []
    for place in range(1_400):
        ends.append(begun + length)
        until = host + 4_000
        if place >= depth:
            until = max(until, ends[place - depth] + 1_000)
        program.launch(host, until, (begun, begun + length))
        host, begun = until + 1_000, begun + length + 1_000
    trace = program.trace()
    assert predicted(trace).unchanged_ns == predicted(trace).measured_ns
    quarter = ScaleOperations(np.arange(1_400), Range(0.25, 0.25, 0.25))
    # 5 us and a gap of 1 us for each kernel: the device still governs, and frees the host earlier.
    assert after(trace, quarter) == pytest.approx(1_400 * 6_000, rel=0.02)


def test_collectives_with_nothing_beside_them_still_move_their_data() -> None:
    program = Program()
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    for step in range(4):
        begin = step * 2_000_000
        for place in range(16):
            at, busy = begin + place * 10_000, begin + 7_000 + place * 101_000
            program.launch(at, at + 5_000, (busy, busy + 100_000), name, stream=1)
        program.step(step, begin, begin + 1_990_000)
    trace = program.trace()
    collectives = np.arange(len(operations(trace)))
    # Of 16 times 100 us at least the 80 us remain that are no latency.
    assert after(trace, OverlapCollectives(collectives, 8)) >= 16 * 80_000
