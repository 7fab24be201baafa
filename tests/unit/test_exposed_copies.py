"""Findings of the rule exposed-copies in small programs."""

from __future__ import annotations

from typing import Any

import pytest
from support.machine import Machine
from support.programs import DEVICE, H2D, PINNED, Program

import warpline
from warpline.analyses.findings.exposed_copies import exposed_copies
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

US, MS = 1_000, 1_000_000
MB = 1_000_000
STEPS = 8


def program(
    size: int, *, ahead: bool = False, pinned: bool = True, back: int = 0, kernel_us: int = 200
) -> Trace:
    """Return steps of ten kernels on data from the host.

    Args:
        size: The bytes that each step copies to the GPU at 50 GB/s.
        ahead: Whether they are copied on a second stream during the previous step.
        pinned: Whether from pinned memory.
        back: The bytes that each step copies to the host.
        kernel_us: Duration of a kernel.
    """
    machine = Machine()
    if ahead:
        machine.copy(size, pinned=pinned, stream=1)
    for _ in range(STEPS):
        if ahead:
            machine.join(0, 1)
            machine.copy(size, pinned=pinned, stream=1)
        else:
            machine.copy(size, pinned=pinned)
        for _ in range(10):
            machine.launch(kernel_us * US)
        if back:
            machine.copy(back, pinned=pinned, to_host=True)
            machine.wait()
        machine.end_step()
    machine.wait()
    return machine.trace()


def found(trace: Trace) -> list[Finding]:
    result = exposed_copies(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_pinned_copies_before_the_kernels_that_need_them() -> None:
    bad, good = program(50 * MB), program(50 * MB, ahead=True)
    (item,) = found(bad)
    assert found(good) == []
    # A step copies for 1.001 ms and computes for 2 ms, with 11 gaps of 1.2 us.
    assert item.share == pytest.approx(1_001 / (1_001 + 2_000 + 13.2), abs=0.001)
    assert "1.00 ms per step (33.2%)" in item.claim
    assert "1 pinned copy per step, 47.7 MiB" in item.claim
    (first,) = (each for each in warpline.analyze(bad).findings if each.rule == "exposed-copies")
    assert first.saving_ns == pytest.approx(1_001 * US, rel=0.01)
    assert first.severity == "high"


def test_kernels_too_short_to_hide_the_copies() -> None:
    (item,) = found(program(500 * MB))
    # 10.001 ms of copies per step and 2 ms of kernels.
    assert item.changes == ()
    assert item.severity == "high"
    assert item.claim.endswith("Overlap can hide at most 2.01 ms of that.")


def test_data_that_goes_back_and_forth_is_not_priced() -> None:
    (item,) = found(program(50 * MB, back=25 * MB))
    assert item.changes == ()
    assert "2 pinned copies per step, 71.5 MiB" in item.claim
    assert "Overlap can hide" not in item.claim


@pytest.mark.parametrize(
    "trace",
    [
        program(50 * MB, pinned=False),  # for the rule pageable-copy
        program(60_000, kernel_us=1),  # small copies
        program(4 * MB),  # 81 us per step of 2.1 ms: 3.9%
    ],
    ids=["pageable", "small", "short"],
)
def test_other_copies_are_no_finding(trace: Trace) -> None:
    assert found(trace) == []


def test_two_gpus_without_steps() -> None:
    one = Program()
    for device in (0, 1):
        for number in range(4):
            at = 1_000_000 + (4 * device + number) * MS
            place: dict[str, Any] = {"stream": 2 * device, "thread": 2 * device}
            call = one.call("cudaMemcpyAsync_v3020", at, at + 5 * US, 2 * device)
            one.add(
                "memcpy", start_ns=at + 10 * US, end_ns=at + 310 * US, device_id=device,
                context_id=device, stream_id=2 * device, process_id=device, correlation_id=call,
                bytes=15 * MB, kind=H2D, src_memory=PINNED, dst_memory=DEVICE,
            )  # fmt: skip
            work = (at + 400 * US, at + 1_000 * US)
            one.launch(at + 320 * US, at + 325 * US, work, f"kernel_{number}", **place)
    (item,) = found(one.trace())
    # On each GPU, 4 copies of 0.3 ms, in 3.99 ms from the first operation to the last.
    assert item.share == pytest.approx(1_200 / 3_990, abs=0.001)
    assert "for 1.20 ms per GPU (30.1%)" in item.claim
    assert "4 pinned copies per GPU, 57.2 MiB" in item.claim
    assert [(at.device, at.ns) for at in item.on_devices] == [(0, 1_200 * US), (1, 1_200 * US)]
