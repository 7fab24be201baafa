"""Findings of step-jitter in small programs, with and without slow steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.step_jitter import step_jitter
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

MS = 1_000_000
STEPS = 21
SLOW = (5, 11, 17)


def program(
    extra: Callable[[Machine], None], slow: tuple[int, ...] = SLOW, recorder: str = "nsys"
) -> Trace:
    """Return steps of ten kernels of 100 us and a wait; some do more before their kernels."""
    machine = Machine()
    for step in range(STEPS):
        if step in slow:
            extra(machine)
        for _ in range(10):
            machine.launch(100_000)
        machine.wait()
        machine.end_step()
    return machine.trace(meta={"producer": recorder})


def found(trace: Trace) -> list[Finding]:
    result = step_jitter(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def pause(machine: Machine) -> None:
    machine.work(MS)


def allocate(machine: Machine) -> None:
    machine.allocate(MS, frees=False)


# A step lasts from its first kernel to that of the next one: ten kernels, nine gaps of 1.2 us,
# 5 us until the wait returns, 2 us for the ends of wait and step, and a launch of 6 us.
STEP_NS = 10 * 100_000 + 9 * 1_200 + 5_000 + 2_000 + 6_000


def test_a_cpu_gap_in_some_steps():
    (item,) = found(program(pause))
    # The steps before the slow ones end later; 20 steps have a period.
    share = 3 * MS / (20 * STEP_NS + 3 * MS)
    assert item.share == pytest.approx(share, rel=1e-3)
    assert item.title == "3 of 20 steps take 2.0 times the median"
    assert "12.8% of the time" in item.claim
    assert "median of 1.02 ms" in item.claim
    # The CPU lost 938 us in the wait, which without that would have hidden the gap.
    assert (
        "Extra time per slow step: idle time (host-sync) 938 us, idle time (launch-bound) 62.0 us."
        in item.claim
    )
    assert "garbage collection" in item.fix
    assert item.changes == ()
    assert item.severity == "low"
    assert item.evidence[0].count == 3
    start, end = item.evidence[0].windows_ns[0]
    assert end - start == pytest.approx(STEP_NS + MS, abs=100)


def test_the_gap_is_located_with_what_the_recorder_records():
    for recorder, ranges in (("PyTorch profiler", "torch.profiler"), ("nsys", "NVTX ranges")):
        (item,) = found(program(pause, recorder=recorder))
        for fix in (item.fix, item.fix_cuda):
            assert fix.startswith(f"Locate the CPU work of these steps with {ranges}")


def test_what_differs_is_named():
    (item,) = found(program(allocate))
    assert "idle time (allocator) 1.00 ms" in item.claim
    # On the CPU, it is the step after the one whose period it prolongs.
    assert "cudaMalloc (CPU) 1.00 ms" in item.claim


def test_excluded_outliers_count():
    trace = program(lambda machine: machine.work(4 * MS), slow=(5, 11))
    reasons = [item.reason for item in warpline.analyze(trace).steps.excluded]
    assert reasons.count("outlier") == 2
    (item,) = found(trace)
    assert item.title == "2 of 20 steps take 4.9 times the median"
    assert item.severity == "medium"


def test_equal_steps_and_rare_small_differences_are_fine():
    assert found(program(pause, slow=())) == []
    assert found(program(lambda machine: machine.work(200_000))) == []  # 1.2 medians
    assert found(program(pause, slow=(5,))) == []  # 4.7% of the time


def test_steps_with_more_work_are_no_jitter():
    def more(machine: Machine) -> None:
        for _ in range(10):
            machine.launch(100_000, "more")

    assert found(program(more)) == []


def test_the_same_kernels_that_take_longer_are():
    machine = Machine()
    for step in range(STEPS):
        for _ in range(10):
            machine.launch(200_000 if step in SLOW else 100_000)
        machine.wait()
        machine.end_step()
    (item,) = found(machine.trace())
    assert "sm90_xmma_gemm" in item.claim
    assert "clocks" in item.fix


def test_few_steps_say_nothing():
    machine = Machine()
    for step in range(6):
        machine.work(MS if step == 3 else 0)
        machine.launch(100_000)
        machine.end_step()
    assert found(machine.trace()) == []
