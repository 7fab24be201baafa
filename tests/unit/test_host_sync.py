"""How long the CPU is blocked in copies to the host, as host-sync reports it. In microseconds."""

from __future__ import annotations

import pytest
from support.idle_programs import DEVICE, PAGEABLE, PINNED, TO_HOST, Program
from support.programs import Program as Made

import warpline
from warpline import plugins
from warpline.estimate import Estimate
from warpline.result import RULES, Finding, Skipped
from warpline.result.changes import DropCalls, DropOperations, MakeAsync
from warpline.result.savings import saving_text, short_saving_text
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


def test_reads_that_the_program_may_need() -> None:
    """No kernel is launched for the reads: whether they can go is the program's affair."""
    found = judged(stepping(4))
    assert found is not None
    assert found.claim.endswith(
        "blocking launches for 683 us. It reads a result each time. The saving assumes that the"
        " program can continue without them."
    )
    assert found.fix_cuda.startswith("If the results decide what is launched next, decide that on")
    (priced,) = (item for item in warpline.analyze(stepping(4)).findings if item.rule == found.rule)
    assert priced.saving_low_ns == 0
    # The bounds of the step agree with it: at worst nothing changes.
    assert priced.predicted_step_high_ns == pytest.approx(1_000_000, rel=0.01)
    assert saving_text(priced, "").count("bounds 0 to ") == 1
    assert short_saving_text(priced, "").startswith("up to ")
    assert "is_conditional" not in warpline.analyze(stepping(4)).to_dict()["findings"][0]
    large = judged(stepping(1 << 20))
    assert large is not None
    assert "The saving assumes" not in large.claim


@pytest.mark.parametrize("is_native", [True, False])
def test_only_frameworks_spend_the_time_before_a_wait(is_native: bool) -> None:
    """A kernel of 5 us, and a wait of 10 us, 80 us later: a native program does other work."""
    program = Made()
    name = "saxpy(float *)" if is_native else "void at::native::vectorized_elementwise_kernel(X)"
    for step in range(12):
        start = step * 100_000
        program.step(step, start, start + 100_000)
        program.launch(start, start + 3_000, (start + 4_000, start + 9_000), name)
        program.wait_for_stream(start + 83_000, start + 93_000)
    found = judged(program.trace())
    assert found is not None
    (change,) = found.changes
    assert isinstance(change, DropCalls)
    assert change.keeps_gap == is_native
    # 10 us in the wait, or all 95 us in which the GPU is idle: at best in native programs, too.
    likely_ns = 10_000 if is_native else 95_000
    assert found.most_ns == Estimate(likely_ns, likely_ns, 95_000)
