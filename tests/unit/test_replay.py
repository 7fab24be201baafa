"""Simulation of small programs with known times: dependencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.programs import Program, after, predicted, rows, synchronous, two_ranks

from warpline.derived.work.operations import operations
from warpline.estimate import Estimate, exactly
from warpline.replay import predict, replay_quality
from warpline.replay.draft import Draft
from warpline.replay.graph import event_graph
from warpline.replay.host import NONE, host_side
from warpline.replay.meetings import meetings
from warpline.result.changes import (
    DropOperations,
    ScaleOperations,
)
from warpline.trace import MemorySource, Run, Trace


def test_a_launch_bound_program_is_replayed_as_it_was() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000))
    program.launch(10_000, 15_000, (17_000, 19_000))
    program.launch(21_000, 26_000, (27_500, 30_000))
    found = predicted(program.trace())
    assert (found.measured_ns, found.unchanged_ns) == (30_000, 30_000)


def test_a_wait_holds_its_thread_until_the_device_is_done() -> None:
    trace = synchronous().trace()
    assert predicted(trace).unchanged_ns == 118_500
    shorter = ScaleOperations(rows(0), Estimate(0.5, 0.5, 0.5))
    assert after(trace, shorter) == 118_500 - 25_000


def test_pollers_are_no_part_of_the_program() -> None:
    program = synchronous()
    for start in range(0, 60_000, 10_000):
        program.call("cudaEventQuery_v3020", start + 100, start + 200, thread=1)
    host = host_side(Run(program.trace()))
    assert set(host.thread.tolist()) == {0}


def test_threads_that_take_turns_hand_over() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000), thread=0)
    program.launch(7_000, 12_000, (13_500, 15_000), thread=1)
    program.launch(14_000, 19_000, (20_500, 22_000), thread=1)
    program.launch(22_000, 27_000, (28_500, 30_000), thread=0)
    trace = program.trace()
    host = host_side(Run(trace))
    assert host.before.tolist() == [NONE, 0, 1, 2]
    assert host.previous.tolist() == [NONE, NONE, 1, 0]
    # The first thread does not wait for work that the other one no longer does.
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
    host = host_side(Run(program.trace()))
    assert np.array_equal(host.before, host.previous)


def test_one_call_beside_another_thread_is_no_concurrent_program() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000), thread=0)
    program.launch(7_000, 12_000, (13_500, 15_000), thread=1)
    program.launch(11_000, 16_000, (17_500, 19_000), thread=0)
    program.launch(20_000, 25_000, (26_500, 28_000), thread=1)
    program.launch(30_000, 35_000, (36_500, 38_000), thread=0)
    host = host_side(Run(program.trace()))
    # The fourth call's thread was still busy when the third one began: no handover. The fifth call
    # follows the fourth.
    assert host.before.tolist() == [NONE, 0, 0, 1, 3]


def test_a_call_inside_another_is_part_of_it() -> None:
    program = Program()
    outer = program.launch(0, 5_000, (6_000, 8_000))
    program.call("cuLaunchKernel", 1_000, 4_000)
    trace = program.trace()
    assert host_side(Run(trace)).row.tolist() == [outer]
    assert event_graph(Run(trace)).queued.call.tolist() == [0]


def test_an_event_stands_for_what_its_stream_was_given_before() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 50_000), stream=0)
    program.record(3_000, 3_500, event=9, sync=1, stream=0)
    program.launch(4_000, 6_000, (51_000, 90_000), stream=0)
    program.record(6_500, 7_000, event=9, sync=2, stream=0)
    program.wait_in_stream(8_000, 8_500, event=9, sync=1, stream=1)
    program.launch(9_000, 11_000, (52_000, 60_000), stream=1)
    trace = program.trace()
    graph = event_graph(Run(trace))
    record = int(graph.queued.awaits.max())
    assert graph.queued.asked_ns[record] == 3_000
    # Half of the first kernel halves the wait, except for the second kernel after it.
    shorter = Draft(graph)
    shorter.scale_items(np.flatnonzero(graph.queued.operation == 0), 0.5)
    at = shorter.timing().item_start_ns[
        graph.queued.operation == operations(trace).call.tolist().index(5)
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
    # The second stream has no work: its event waits for the kernel of the first stream.
    assert after(trace, ScaleOperations(rows(0), exactly(1))) == 70_000
    assert after(trace, ScaleOperations(rows(0), Estimate(0.5, 0.5, 0.5))) == 70_000 - 22_000


def test_a_wait_for_everything_waits_for_all_streams() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 20_000), stream=0)
    program.launch(3_000, 5_000, (9_500, 80_000), stream=1)
    program.call("cudaDeviceSynchronize_v3020", 6_000, 84_000)
    program.launch(85_000, 87_000, (92_000, 95_000), stream=0)
    trace = program.trace()
    long_one = np.flatnonzero(operations(trace).stream == 1)
    assert after(trace, ScaleOperations(long_one, Estimate(0.5, 0.5, 0.5))) == 95_000 - 35_250


def test_a_stream_that_the_recording_does_not_tell_is_seen_by_its_end() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 50_000), stream=0)
    program.launch(3_000, 5_000, (9_500, 30_000), stream=1)
    program.call("cudaStreamSynchronize_v3020", 6_000, 54_000)
    program.launch(55_000, 57_000, (62_000, 70_000), stream=1)
    trace = program.trace()
    first = np.flatnonzero(operations(trace).end_ns == 50_000)
    assert after(trace, ScaleOperations(first, Estimate(0.5, 0.5, 0.5))) == 70_000 - 22_000


def test_ranks_meet_in_collectives() -> None:
    trace = two_ranks().trace()
    graph = event_graph(Run(trace))
    work = operations(trace)
    slow = np.flatnonzero((work.process == 1) & (work.end_ns - work.start_ns == 80_000))
    draft = Draft(graph)
    draft.scale_items(np.flatnonzero(np.isin(graph.queued.operation, slow)), 50 / 80)
    at = draft.timing()
    nccl = np.flatnonzero((work.process == 0) & (work.end_ns == 107_600))
    item = np.flatnonzero(np.isin(graph.queued.operation, nccl))
    # Both ranks are earlier by the 30 us by which the slow one was late.
    assert at.item_end_ns[item].tolist() == [107_600 - 30_000]
    assert replay_quality(Run(trace)).error_ratio < 0.03


def test_sends_and_receives_meet_by_their_order() -> None:
    """No recording has sizes or ids for them; rank 1 begins each 30 us later."""
    program = Program()
    for number in range(3):
        for rank, late in ((0, 0), (1, 30_000)):
            own, at = 2 * rank, number * 100_000
            work = (at + 10_000 + late, at + 60_000)
            name = "ncclDevKernel_SendRecv"
            program.launch(at, at + 5_000, work, name, thread=own, stream=own)
            program.step(number, at, at + 90_000, thread=own)
    trace = program.trace()
    found = meetings(Run(trace))
    assert found.n_meetings == 3
    lanes = event_graph(Run(trace)).queued
    start = operations(trace).start_ns[lanes.operation]
    assert found.of_item.tolist() == (start // 100_000).tolist()
    assert found.offset_ns.tolist() == [0, 0]


def test_a_trace_without_calls_has_nothing_to_replay() -> None:
    nothing = Trace(MemorySource({"range": {"start_ns": [0], "end_ns": [5], "name": ["a"]}}))
    assert replay_quality(Run(nothing)) == (0.0, 0.0, 0)
    assert predict(Run(nothing), ()).step_ns == (0, 0, 0)


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
    quarter = ScaleOperations(np.arange(1_400), Estimate(0.25, 0.25, 0.25))
    # 5 us and a gap of 1 us per kernel: still GPU-bound, but the CPU unblocks earlier.
    assert after(trace, quarter) == pytest.approx(1_400 * 6_000, rel=0.02)


def beside(wakes: Sequence[int]) -> Program:
    """Thread 0 launches for 5 of each 10 us; thread 1 does so each 40 us, at times of that period.

    Its calls end within those of thread 0, so that the two run at the same time.
    """
    program = Program()
    for number in range(80):
        begin = number * 10_000
        program.launch(begin, begin + 5_000, (begin + 6_000, begin + 7_000), thread=0)
        if number % 4 == 0:
            at = begin + wakes[number // 4 % len(wakes)]
            program.launch(at, at + 4_000, (at + 5_000, at + 6_000), thread=1, stream=1)
    return program


def test_a_thread_that_another_one_wakes_follows_it() -> None:
    host = host_side(Run(beside([7_000]).trace()))
    first, second = (np.flatnonzero(host.thread == thread) for thread in (0, 1))
    # Each begins 2 us after a call of thread 0, which does not follow it back.
    assert np.array_equal(host.start_ns[second] - host.end_ns[host.before[second]], [2_000] * 20)
    assert np.array_equal(host.before[first], host.previous[first])


def test_a_thread_whose_silences_end_at_any_time_follows_no_other() -> None:
    host = host_side(Run(beside([7_000, 2_000]).trace()))
    assert np.array_equal(host.before, host.previous)
