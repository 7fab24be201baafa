"""Simulation of small programs with known times, with one change each."""

from __future__ import annotations

import numpy as np
import pytest
from support.programs import (
    ALL_REDUCE,
    D2H,
    PINNED,
    SAME_CPU,
    Program,
    after,
    late_rank,
    predicted,
    rows,
    synchronous,
    two_ranks,
)

from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.replay import predict
from warpline.replay.changing import TRACED_NODE_NS
from warpline.result.changes import (
    CatchUp,
    DropCalls,
    DropOperations,
    FuseOperations,
    LaunchAsGraph,
    MakeAsync,
    OverlapCollectives,
    RemoveHostTime,
    RemoveProfilerCost,
    ScaleOperations,
    SetDurations,
)
from warpline.trace import Run, Trace


def test_dropped_calls_take_their_gaps_with_them_unless_these_stay() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000))
    middle = program.launch(10_000, 15_000, (17_000, 19_000))
    program.launch(21_000, 26_000, (27_500, 30_000))
    trace = program.trace()
    # Without the call (5 us) and the time before it (5 us), everything after it is 10 us earlier.
    assert after(trace, DropCalls(rows(middle))) == 20_000
    assert after(trace, DropCalls(rows(middle), keeps_gap=True)) == 25_000


def test_dropped_operations_take_the_usual_gap_before_their_launch_with_them() -> None:
    program, end = Program(), 0
    for gap in (5_000, 5_000, 15_000, 5_000, 5_000):
        start = end + gap
        end = start + 5_000
        program.launch(start, end, (start + 6_000, start + 8_000))
    trace = program.trace()
    assert predicted(trace).unchanged_ns == 58_000
    # The launch takes 5 us. Of the time before it, at most 1.2 times the usual 5 us goes too.
    assert after(trace, DropOperations(rows(1))) == 58_000 - 5_000 - 5_000
    assert after(trace, DropOperations(rows(2))) == 58_000 - 5_000 - 6_000
    # A library launches it: the time before it is the operator's, which stays.
    assert after(trace, DropOperations(rows(2), keeps_gap=True)) == 58_000 - 5_000


def test_calls_that_only_prepare_a_dropped_one_go_with_it() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 8_000))
    program.call("cuKernelGetName", 9_000, 9_100)
    middle = program.launch(9_200, 14_000, (16_000, 18_000))
    program.launch(20_000, 25_000, (26_500, 29_000))
    # The next launch starts 6 us after the dropped one, which adds nothing after 5,000 ns.
    assert after(program.trace(), DropCalls(rows(middle))) == 20_000


def test_shorter_work_helps_only_where_the_device_governs() -> None:
    program = Program()
    for place in range(3):
        program.launch(
            place * 3_000, place * 3_000 + 2_000, (6_000 + place * 51_000, 56_000 + place * 51_000)
        )
    trace = program.trace()
    half = ScaleOperations(rows(0, 1, 2), Estimate(0.4, 0.5, 0.6))
    found = predicted(trace, half)
    # Three times 25 us, two gaps of 1 us, after the first launch's 6 us.
    assert found.step_ns.central == 6_000 + 3 * 25_000 + 2 * 1_000
    assert found.step_ns.low < found.step_ns.central < found.step_ns.high
    # Without the work, its launches remain, which end after 8 us.
    assert after(trace, ScaleOperations(rows(0, 1, 2), Estimate(0, 0, 0))) == 8_000


def test_without_a_wait_the_launch_comes_early() -> None:
    trace = synchronous().trace()
    # The second kernel follows the first after the usual gap.
    assert after(trace, DropCalls(rows(1))) == 56_000 + 1_200 + 50_000


def test_dropped_work_holds_nothing_up() -> None:
    trace = synchronous().trace()
    found = after(trace, DropOperations(rows(0)))
    # Its launch and the wait disappear: only the wait's own call and the second launch remain.
    assert found < 118_500 - 50_000


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
    faster = MakeAsync(call, copies, Estimate(50e9, 50e9, 50e9), own_stream=False)
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
    ahead = MakeAsync(work.call[copies], copies, Estimate(20e9, 20e9, 20e9))
    # Copies take 500 us and overlap the kernels of 1 ms, one after the other.
    assert after(trace, ahead, DropCalls(waits)) == pytest.approx(1_000_000, rel=0.02)


def test_what_needs_a_copy_waits_for_it_unless_it_came_a_step_ahead() -> None:
    program = Program()
    program.copy(0, 1_010_000, (8_000, 1_008_000), 10_000_000)
    program.launch(1_020_000, 1_025_000, (1_026_500, 2_026_500))
    trace = program.trace()
    work = operations(trace)
    copies = work.of_table("memcpy")
    found = predicted(trace, MakeAsync(work.call[copies], copies)).step_ns
    # Both take 1 ms; the copy starts as soon after its call as the kernel did, after 6.5 us.
    assert found.central == 6_500 + 1_000_000 + 1_000_000
    assert found.low < 1_000_000  # both at once, on a GPU that is 5% faster


def test_work_behind_a_moved_copy_does_not_wait_for_other_streams() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 1_006_000), stream=0)
    program.copy(10_000, 15_000, (20_000, 120_000), 10_000_000, D2H, host=PINNED, stream=1)
    program.launch(20_000, 25_000, (121_200, 221_200), stream=1)
    trace = program.trace()
    work = operations(trace)
    copies = work.of_table("memcpy")
    assert after(trace, MakeAsync(work.call[copies], copies)) == 1_006_000


def test_work_that_stays_in_its_stream_keeps_its_order() -> None:
    """Four steps: a copy of 1 ms from pageable memory, then two kernels of 500 us."""
    program = Program()
    for place in range(4):
        begin = place * 2_100_000
        program.copy(begin, begin + 1_010_000, (begin + 8_000, begin + 1_008_000), 10_000_000)
        for at, start in ((1_020_000, 1_026_500), (1_030_000, 1_527_500)):
            kernel = (begin + start, begin + start + 500_000)
            program.launch(begin + at, begin + at + 5_000, kernel)
        program.wait_for_stream(begin + 1_050_000, begin + 2_030_000)
        program.step(place, begin, begin + 2_090_000)
    trace = program.trace()
    work = operations(trace)
    copies = work.of_table("memcpy")
    waits = np.flatnonzero(
        trace.columns("api_call", "name_id")["name_id"].values
        == trace.strings.find("cudaStreamSynchronize_v3020")
    )
    ahead = MakeAsync(work.call[copies], copies, Estimate(20e9, 20e9, 20e9))
    # Copies take 500 us beside the kernels, which remain in order: 1 us between the two, and the
    # usual 1,200 ns where the copy was.
    assert after(trace, ahead, DropCalls(waits)) == 2 * 500_000 + 1_000 + 1_200
    as_slow_as_both = MakeAsync(work.call[copies], copies, Estimate(5e9, 5e9, 5e9))
    # Copies take 2 ms, one after another in their stream.
    assert after(trace, as_slow_as_both, DropCalls(waits)) == 2_000_000 + 1_200


def small_kernels() -> Program:
    """Four steps of ten kernels of 2 us, launched every 10 us."""
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
    # Ten kernels of 2 us, nine gaps of 60 ns in the graph, and the usual gap of 1,200 ns before the
    # next one: more than the 9 us of its launch.
    assert found.central == 10 * 2_000 + 9 * 60 + 1_200
    assert found.low <= found.central <= found.high


def test_fused_work_is_one_launch_of_a_new_length() -> None:
    trace = small_kernels().trace()
    groups = tuple(np.arange(10) + step * 10 for step in range(4))
    assert after(trace, FuseOperations(groups, Estimate(20_000, 30_000, 40_000))) == 30_000 + 1_200
    # A short one follows its launch: 5 us, 400 ns for each other operation, and 5 us before it.
    shorter = FuseOperations(groups, Estimate(1_000, 1_000, 1_000))
    assert after(trace, shorter) == 5_000 + 9 * 400 + 5_000


def test_host_time_off_the_path_is_saved_where_it_was() -> None:
    trace = small_kernels().trace()
    starts = np.arange(40, dtype=np.int64) * 10_000 - 4_000
    change = RemoveHostTime(0, starts, starts + 3_000)
    assert after(trace, change) == 100_000 - 30_000
    partly = RemoveHostTime(0, starts, starts + 3_000, remaining=Estimate(0.2, 0.2, 0.2))
    assert after(trace, partly) == 100_000 - 24_000
    elsewhere = RemoveHostTime(1, starts, starts + 3_000)
    assert after(trace, elsewhere) == 100_000


def test_the_cost_of_recording_is_taken_from_each_call() -> None:
    trace = small_kernels().trace()
    found = predicted(trace, RemoveProfilerCost(Estimate(1_000, 2_000, 4_000))).step_ns
    assert found.central == 100_000 - 10 * 2_000
    assert found.low < found.central < found.high


def test_the_cost_of_traced_nodes_is_taken_from_launches_of_graphs() -> None:
    program = Program()
    for step in range(4):
        begin = step * 400_000
        # 100 nodes of 1 us; the first starts 20 us before the end of the launch, which takes 200.
        nodes = [(begin + 180_000 + at * 1_000, begin + 181_000 + at * 1_000) for at in range(100)]
        program.launch_graph(begin, begin + 200_000, *nodes)
        program.wait_for_stream(begin + 210_000, begin + 290_000)
        program.step(step, begin, begin + 399_000)
    trace = program.trace()
    found = predicted(trace, RemoveProfilerCost(Estimate(0, 0, 0))).step_ns
    assert found.central == 400_000 - 100 * TRACED_NODE_NS.central
    assert found.low < found.central < found.high


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
                ALL_REDUCE,
                stream=1,
            )
        program.record(begin + 125_000, begin + 125_500, event=1, sync=step, stream=1)
        program.wait_in_stream(begin + 126_000, begin + 126_500, event=1, sync=step, stream=0)
        program.launch(begin + 130_000, begin + 132_000, (begin + 1_760_000, begin + 1_770_000))
        program.wait_for_stream(begin + 140_000, begin + 1_775_000)
        program.step(step, begin, begin + 1_990_000)
    trace = program.trace()
    collectives = np.flatnonzero(operations(trace).stream == 1)
    # Of each collective 20 us are latency: 8 in one bucket take 20 us and 8 times 80 us.
    # The last 20 kernels make their data, one every 31 us; the last one ends after 935.5 us.
    made = 935_500
    # Then a kernel, the end of the wait for it, and the time to the next step.
    end = 10_000 + 5_000 + 225_000
    assert after(trace, OverlapCollectives(collectives, 1)) == made + 660_000 + end
    # The first of two buckets starts when half of these kernels are done, 10 times 31 us before.
    in_two = made - 310_000 + 340_000 + 1_000 + 340_000
    assert after(trace, OverlapCollectives(collectives, 2)) == in_two + end
    in_four = made - 15 * 31_000 + 4 * 180_000 + 3 * 1_000
    assert after(trace, OverlapCollectives(collectives, 4)) == in_four + end


def test_collectives_with_nothing_beside_them_still_move_their_data() -> None:
    program = Program()
    for step in range(4):
        begin = step * 2_000_000
        for place in range(16):
            at, busy = begin + place * 10_000, begin + 7_000 + place * 101_000
            program.launch(at, at + 5_000, (busy, busy + 100_000), ALL_REDUCE, stream=1)
        program.step(step, begin, begin + 1_990_000)
    trace = program.trace()
    collectives = np.arange(len(operations(trace)))
    # Of each of the 16 collectives of 100 us, the 80 us beyond the latency remain.
    assert after(trace, OverlapCollectives(collectives, 8)) >= 16 * 80_000


def caught_up(trace: Trace, remaining: Estimate) -> CatchUp:
    """Let rank 1 be on time: rank 0's collectives no longer wait for it."""
    work = operations(trace)
    starts = [work.start_ns[(work.process == rank) & is_collective(trace)] for rank in (0, 1)]
    waiting = np.flatnonzero((work.process == 0) & is_collective(trace))
    return CatchUp(1, waiting, starts[1] - starts[0], remaining)


def is_collective(trace: Trace) -> np.typing.NDArray[np.bool_]:
    names = trace.columns("kernel", "name_id")["name_id"].values
    return np.asarray(names[operations(trace).row] == trace.strings.find(ALL_REDUCE))


def test_a_late_rank_that_catches_up_shortens_the_steps_of_the_others() -> None:
    trace = late_rank(60_000).trace()
    # 100 us of computing and a transfer of 20 us, each 1 us after what is before it.
    assert predicted(trace).unchanged_ns == 122_000 + 60_000
    assert after(trace, caught_up(trace, Estimate(0, 0, 0))) == 122_000
    # The remaining waits are added to each collective.
    assert after(trace, caught_up(trace, Estimate(0.25, 0.25, 0.25))) == 122_000 + 15_000
    assert after(trace, caught_up(trace, Estimate(1, 1, 1))) == 122_000 + 60_000


def test_where_the_host_governs_a_rank_that_catches_up_saves_nothing() -> None:
    trace = two_ranks().trace()
    assert after(trace, caught_up(trace, Estimate(0, 0, 0))) == predicted(trace).unchanged_ns


def test_durations_of_each_operation() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 56_000))
    program.launch(6_000, 11_000, (57_000, 157_000))
    program.launch(12_000, 17_000, (158_000, 168_000))
    trace = program.trace()
    # In another order than they run: 30 us for the second, 20 us for the first.
    change = SetDurations(rows(1, 0), rows(20, 10), rows(30_000, 20_000), rows(40_000, 60_000))
    # 6 us, 20 us, a gap of 1 us, 30 us, 1 us, and 10 us.
    assert after(trace, change) == 68_000
    # The second one is dropped with the gap before it.
    assert after(trace, DropOperations(rows(1)), change) == after(
        trace, DropOperations(rows(1)), SetDurations(rows(0), rows(1), rows(20_000), rows(1))
    )
    result = predict(Run(trace), (change,), calibration=SAME_CPU).step_ns
    assert result.low < result.central < result.high
