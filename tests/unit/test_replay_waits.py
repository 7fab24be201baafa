"""What calls of small programs wait for in a simulation: copies, streams, the whole device."""

from __future__ import annotations

import numpy as np
import pytest
from support.programs import D2H, H2D, PAGEABLE, PINNED, Program, after, predicted, rows

from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.replay import replay_quality
from warpline.replay.waits import held_copies, waits_for
from warpline.result.changes import ScaleOperations
from warpline.trace import Run

SMALL, LARGE = 64 * 1024, 64 * 1024 + 1
HALF = Estimate(0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "awaited"),
    [
        ("cudaStreamSynchronize_v3020", "stream"),
        ("cuStreamSynchronize", "stream"),
        ("hipEventSynchronize", "event"),
        ("cudaDeviceSynchronize_v3020", "everything"),
        ("cuCtxSynchronize", "everything"),
        ("cudaThreadSynchronize", "everything"),
        ("cudaFree_v3020", "everything"),
        ("cudaFreeHost_v3020", "everything"),
        ("cuMemFree_v2", "everything"),
        ("cuMemFreeHost", "everything"),
        ("cudaHostUnregister", "everything"),
        ("cuMemHostUnregister", "everything"),
        ("cudaFreeAsync", ""),
        ("cudaStreamQuery", ""),
        ("cudaLaunchKernel_v7000", ""),
    ],
)
def test_functions_that_wait(name: str, awaited: str) -> None:
    assert waits_for(name).label == awaited


@pytest.mark.parametrize(
    ("size", "kind", "memory", "is_held"),
    [
        (LARGE, H2D, PAGEABLE, True),
        (SMALL, H2D, PAGEABLE, False),  # copied to a buffer of the driver first
        (SMALL, D2H, PAGEABLE, True),
        (LARGE, H2D, PINNED, False),
        (LARGE, D2H, PINNED, False),
    ],
)
def test_copies_that_hold_their_thread(size: int, kind: int, memory: int, is_held: bool) -> None:
    program = Program()
    program.launch(0, 2_000, (3_000, 4_000))
    copy = program.copy(10_000, 15_000, (16_000, 18_000), size, kind, host=memory)
    held = held_copies(Run(program.trace()))
    assert held.call.tolist() == ([copy] if is_held else [])


def test_freeing_memory_waits_for_all_streams_of_its_process() -> None:
    program = Program()
    for begin in (0, 3_000, 6_000):
        program.launch(begin, begin + 2_000, (begin + 6_000, begin + 8_000), stream=0)
    program.launch(10_000, 12_000, (16_000, 80_000), stream=1)
    program.call("cudaGetDevice_v3020", 12_500, 13_000)
    program.call("cudaFree_v3020", 14_000, 84_000)
    program.launch(85_000, 87_000, (92_000, 95_000), stream=0)
    trace = program.trace()
    assert predicted(trace).unchanged_ns == 95_000
    long_one = np.flatnonzero(operations(trace).stream == 1)
    assert after(trace, ScaleOperations(long_one, HALF)) == 95_000 - 32_000
    # The short kernels before it end long before: they delay nothing.
    short = np.flatnonzero(operations(trace).end_ns <= 14_000)
    assert after(trace, ScaleOperations(short, HALF)) == 95_000


def test_a_wait_that_becomes_necessary_takes_as_long_to_wake_up_as_others() -> None:
    program = Program()
    program.launch(0, 5_000, (6_000, 56_000))
    program.wait_for_stream(6_000, 60_000)  # returns 4 us after the kernel
    program.launch(61_000, 66_000, (67_000, 77_000))
    program.wait_for_stream(95_000, 100_000)  # nothing to wait for
    program.launch(101_000, 106_000, (107_500, 117_500))
    trace = program.trace()
    assert predicted(trace).unchanged_ns == 117_500
    # The second kernel ends at 117 us instead of 77. Then 4 us until the wait returns, 1 us to the
    # next launch, and 16.5 us from there.
    assert (
        after(trace, ScaleOperations(rows(1), Estimate(5, 5, 5)))
        == 117_000 + 4_000 + 1_000 + 16_500
    )


def test_work_beside_longer_work_of_its_stream_is_not_what_the_next_waits_for() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 106_000))
    program.launch(3_000, 5_000, (50_000, 60_000))
    program.launch(6_000, 8_000, (107_000, 127_000))
    trace = program.trace()
    assert after(trace, ScaleOperations(rows(0), Estimate(0.9, 0.9, 0.9))) == 127_000 - 10_000


def test_a_wait_in_a_stream_that_was_not_recorded_is_inferred_from_the_end_before() -> None:
    program = Program()
    program.launch(0, 2_000, (6_000, 106_000), stream=0)
    program.call("cudaStreamWaitEvent_v3020", 3_000, 3_500)
    program.launch(4_000, 6_000, (107_000, 127_000), stream=1)
    trace = program.trace()
    assert predicted(trace).unchanged_ns == 127_000
    assert after(trace, ScaleOperations(rows(0), HALF)) == 127_000 - 50_000


def test_late_work_without_a_reason_is_unexplained() -> None:
    """A kernel every 300 us, 2 us after its launch; two of them start 200 us and 100 us later."""
    program, late_ns = Program(), {4: 200_000, 6: 100_000}
    program.call("cudaGetDevice_v3020", 0, 1_000)
    for number in range(9):
        begin = 200_000 + number * 300_000
        start = begin + 7_000 + late_ns.get(number, 0)
        program.launch(begin, begin + 5_000, (start, start + 20_000))
    found = replay_quality(Run(program.trace()))
    # From the first call to the end of the last kernel: 2,627 us.
    assert found.unexplained_ratio == pytest.approx(300 / 2_627, rel=0.01)
