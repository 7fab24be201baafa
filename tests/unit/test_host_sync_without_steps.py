"""Findings of the rule host-sync in programs without steps."""

from __future__ import annotations

import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.host_sync import host_sync
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

US = 1_000
KERNELS = 60


def program(waiting: range, *, reads: bool = False) -> Trace:
    """Return kernels of 100 us without steps; the CPU waits after some of them."""
    machine = Machine()
    for number in range(KERNELS):
        machine.launch(100 * US, f"kernel_{number}")  # equal names would look like steps
        if number in waiting and reads:
            machine.read()
        elif number in waiting:
            machine.wait()
    machine.wait()
    return machine.trace()


def found(trace: Trace) -> list[Finding]:
    result = host_sync(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_waits_throughout_a_recording_without_steps() -> None:
    bad, good = program(range(KERNELS)), program(range(0))
    (item,) = found(bad)
    assert found(good) == []
    # Each wait begins 6 us after its launch, as the kernel does, and ends 5 us after the kernel.
    # The last one has nothing to wait for, and takes 5 us.
    assert item.claim == (
        "The CPU synchronizes with the GPU 61 times, blocking launches for 6.30 ms."
    )
    (first,) = (each for each in warpline.analyze(bad).findings if each.rule == "host-sync")
    # Between two kernels: 5 us of waiting for the end, 1 us, and 6 us for the launch; without
    # waits, 1.2 us.
    assert first.saving_ns == pytest.approx(59 * (12 - 1.2) * US, rel=0.05)


def test_reads_throughout_a_recording_without_steps() -> None:
    (item,) = found(program(range(KERNELS), reads=True))
    assert item.claim.startswith("The CPU synchronizes with the GPU 61 times")


@pytest.mark.parametrize("waiting", [range(44), range(0, 60, 4)])
def test_waits_that_do_not_recur_throughout_are_no_finding(waiting: range) -> None:
    assert found(program(waiting)) == []


def test_waits_that_leave_the_gpu_busy_are_no_finding() -> None:
    machine = Machine()
    machine.launch(100_000 * US, "other", stream=1)
    for number in range(KERNELS):
        machine.launch(100 * US, f"kernel_{number}")
        machine.wait()
    assert found(machine.trace()) == []
