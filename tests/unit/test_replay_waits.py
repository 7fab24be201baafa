"""What calls of small programs wait for in a simulation: copies, streams, the whole device."""

from __future__ import annotations

import numpy as np
import pytest
from support.programs import D2H, H2D, PAGEABLE, PINNED, Program, after, predicted

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
    program.call("cudaFree_v3020", 14_000, 84_000)
    program.launch(85_000, 87_000, (92_000, 95_000), stream=0)
    trace = program.trace()
    assert predicted(trace).unchanged_ns == 95_000
    long_one = np.flatnonzero(operations(trace).stream == 1)
    assert after(trace, ScaleOperations(long_one, HALF)) == 95_000 - 32_000
    # The short kernels before it end long before: they delay nothing.
    short = np.flatnonzero(operations(trace).end_ns <= 14_000)
    assert after(trace, ScaleOperations(short, HALF)) == 95_000


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
