"""Findings of the rule allocator in programs without steps."""

from __future__ import annotations

import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.allocator import allocator
from warpline.derived.breakdown.recurrence import recurs
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

US = 1_000
MS = 1_000_000
KERNELS = 60


def program(allocating: range, kernel_ns: int = 100 * US) -> Trace:
    """Return kernels without steps; memory is allocated before some of them and freed after."""
    machine = Machine()
    for number in range(KERNELS):
        is_allocating = number in allocating
        if is_allocating:
            machine.allocate(200 * US, frees=False)
        machine.launch(kernel_ns, f"kernel_{number}")  # equal names would look like steps
        if is_allocating:
            machine.allocate(50 * US, frees=True)
    machine.wait()
    return machine.trace()


def found(trace: Trace) -> list[Finding]:
    result = allocator(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_allocation_throughout_a_recording_without_steps() -> None:
    bad, good = program(range(KERNELS)), program(range(0))
    (item,) = found(bad)
    assert found(good) == []
    # 59 times cudaMalloc for 200 us, not the one before the first kernel, and 60 times cudaFree,
    # which waits for a kernel of 100 us and then takes 50 us.
    assert item.claim.startswith(
        "The CPU spends 20.8 ms in 119 calls that allocate or free memory, "
    )
    assert item.severity == "high"
    (first,) = (each for each in warpline.analyze(bad).findings if each.rule == "allocator")
    # A period is 358 us: 250 us and 2 us for both calls, 6 us for the launch, 100 us for the
    # kernel. Without the calls, kernels of 100 us follow each other after 1.2 us.
    assert first.saving_ns == pytest.approx(59 * (358 - 101.2) * US, rel=0.05)


@pytest.mark.parametrize("allocating", [range(44), range(24, 60), range(0, 60, 4)])
def test_allocation_that_does_not_recur_throughout_is_no_finding(allocating: range) -> None:
    assert found(program(allocating, 5 * MS)) == []


def test_many_allocations_at_once_recur_once() -> None:
    machine = Machine()
    for number in range(KERNELS):
        machine.launch(100 * US, f"kernel_{number}")
    for _ in range(100):
        machine.allocate(10 * US, frees=False)
    machine.launch(100 * US, "last")
    assert found(machine.trace()) == []


def test_nothing_recurs_without_gpu_work() -> None:
    machine = Machine()
    machine.allocate(200 * US, frees=False)
    trace = machine.trace()
    rows = trace.columns("api_call", "start_ns")["start_ns"].values
    assert not recurs(Run(trace), rows[:0])
    assert found(trace) == []
