"""How long the CPU is blocked in copies to the host, as host-sync reports it. In microseconds."""

from __future__ import annotations

from support.idle_programs import DEVICE, PAGEABLE, PINNED, TO_HOST, Program

from warpline import plugins
from warpline.result import RULES, Finding, Skipped
from warpline.result.changes import DropCalls, DropOperations, MakeAsync
from warpline.trace import Run, Trace

plugins.load("analyses")

STEPS = 6
COPY = "cudaMemcpyAsync_v3020"


def stepping(size: int, host: int = PAGEABLE, name: str = COPY, kernel_ends: int = 510) -> Trace:
    """Return a program that reads a result in each step of 1000 us.

    The call takes from 20 to 700, the copy from 520 to 690. A kernel runs from 10 until 510.
    """
    program = Program()
    for at in range(0, 1000 * STEPS, 1000):
        program.launch(at, at + 10, at + kernel_ends)
        call = program.call(at + 20, at + 700, name)
        memory = {"src_memory": DEVICE, "dst_memory": host}
        program.copy(at + 520, at + 690, call, kind=TO_HOST, bytes=size, **memory)
        program.call(at + 702, at + 705, "cudaStreamSynchronize_v3020")
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        program.add("range", at, at + 1000, name=f"step_{at // 1000}", **owner)
    return program.trace()


def judged(trace: Trace) -> Finding | None:
    found = RULES.get("host-sync").judge(Run(trace))
    assert not isinstance(found, Skipped)
    return found[0] if found else None


def test_a_small_copy_to_pageable_memory_is_the_wait() -> None:
    found = judged(stepping(4))
    assert found is not None
    # 680 us in the copy, and 3 us in the synchronization behind it: one read.
    assert found.claim.startswith("The CPU synchronizes with the GPU once per step, blocking")
    assert " launches for 683 us." in found.claim
    (there,) = found.on_devices
    assert there.ns == there.steps * 683_000
    assert there.number == there.steps
    assert [type(change) for change in found.changes] == [DropOperations, DropCalls]


def test_in_a_large_copy_the_cpu_waits_until_the_gpu_is_done() -> None:
    for name, host in ((COPY, PAGEABLE), ("cudaMemcpy_v3020", PINNED)):
        found = judged(stepping(1 << 20, host, name))
        assert found is not None
        assert "once per step, blocking launches for 490 us." in found.claim
        (change,) = found.changes
        assert isinstance(change, MakeAsync)
        assert len(change.operations) == STEPS


def test_a_copy_of_finished_work_is_no_wait() -> None:
    assert judged(stepping(1 << 20, kernel_ends=18)) is None


def test_a_wait_behind_a_large_copy_that_does_not_block() -> None:
    found = judged(stepping(1 << 20, PINNED))
    assert found is not None
    assert "once per step, blocking launches for 3.00 us." in found.claim


def test_a_copy_to_pinned_memory_does_not_block() -> None:
    found = judged(stepping(4, PINNED))
    assert found is not None
    assert "once per step, blocking launches for 3.00 us." in found.claim
