"""small-copies: which copies could be one, what that saves, and what belongs to other rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.machine import Machine
from support.programs import DEVICE

import warpline
from warpline import plugins
from warpline.analyses.findings.small_copies import small_copies
from warpline.result import Finding, Skipped
from warpline.result.changes import DropOperations, SetDurations
from warpline.trace import Run, Trace

plugins.load("analyses")

STEPS = 8
KIB = 1024


def steps(of_step: Callable[[Machine], None], gpu: str = "NVIDIA H200") -> Trace:
    machine = Machine()
    for _ in range(STEPS):
        of_step(machine)
        machine.end_step()
    machine.wait()
    return machine.trace(gpu)


def pages(count: int, size: int = 16 * KIB) -> Callable[[Machine], None]:
    """Copy pages of a cache on a second stream, layer by layer, then compute on all of them."""

    def step(machine: Machine) -> None:
        machine.wait()
        for _ in range(4):
            for _ in range(count // 4):
                machine.copy(size, pinned=True, stream=1)
            machine.join(0, 1)
        for _ in range(4):
            machine.launch(60_000, "attend(float const*)", grid=(8,), block=(256,))

    return step


def packed(size: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        machine.wait()
        machine.copy(size, pinned=True, stream=1)
        machine.join(0, 1)
        for _ in range(4):
            machine.launch(60_000, "attend(float const*)", grid=(8,), block=(256,))

    return step


def found(trace: Trace) -> list[Finding]:
    result = small_copies(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_pages_copied_one_by_one() -> None:
    bad, good = steps(pages(1024)), steps(packed(1024 * 16 * KIB))
    (item,) = found(bad)
    assert found(good) == []
    drop, one = item.changes
    assert isinstance(drop, DropOperations)
    assert isinstance(one, SetDurations)
    assert len(one.operations) == STEPS  # joins in between do not end a row
    assert len(drop.operations) == STEPS * 1023
    # 16 MiB at 0.8 of 63 GB/s (PCIe 5.0 x16), and a latency.
    assert set(one.central_ns.tolist()) == {1_500 + round(16 * 1024**2 / 50.4)}
    assert "1,024 copies host-to-device per step, 16.0 KiB each on average" in item.claim
    assert "cudaMemcpyBatchAsync" in item.fix_cuda
    diagnosis = warpline.analyze(bad)
    first = diagnosis.findings[0]
    assert (first.rule, first.severity) == ("small-copies", "high")
    before, after = (warpline.analyze(each).steps.median_ns for each in (bad, good))
    assert before is not None
    assert after is not None
    assert first.saving_ns == pytest.approx(before - after, rel=0.05)
    assert (first.saving_low_ns or 0) <= before - after <= 1.01 * (first.saving_high_ns or 0)


def test_the_words_of_each_framework() -> None:
    (item,) = found(steps(pages(256)))
    assert "torch.stack" in item.fix
    assert "pin_memory=True" in item.fix
    assert "jax.device_put once" in item.fix_in["jax"]


@pytest.mark.parametrize(
    ("of_step", "is_found"),
    [
        (pages(32), True),
        (pages(28), False),  # few
        (pages(256, size=64 * KIB), True),
        (pages(256, size=64 * KIB + 1), False),  # large
    ],
)
def test_limits(of_step: Callable[[Machine], None], is_found: bool) -> None:
    assert bool(found(steps(of_step))) == is_found


def test_copies_that_the_cpu_waits_for_belong_to_host_sync() -> None:
    def reads(machine: Machine) -> None:
        for _ in range(64):
            machine.read()

    def waits(machine: Machine) -> None:
        for _ in range(64):
            machine.copy(4 * KIB, pinned=True)
            machine.wait()

    for step in (reads, waits):
        trace = steps(step)
        assert found(trace) == []
        assert "host-sync" in {item.rule for item in warpline.analyze(trace).findings}


def test_copies_between_kernels_are_not_in_a_row() -> None:
    def step(machine: Machine) -> None:
        for _ in range(100):
            machine.copy(4 * KIB, pinned=True)
            machine.launch(2_000, "my_kernel")

    assert found(steps(step)) == []


def test_long_steps_with_some_small_copies() -> None:
    def step(machine: Machine) -> None:
        for _ in range(40):
            machine.copy(4 * KIB, pinned=True)
        for _ in range(20):
            machine.launch(1_000_000, "my_kernel")

    assert found(steps(step)) == []


def test_results_and_copies_on_the_device_have_advice_of_their_own() -> None:
    def step(machine: Machine) -> None:
        for _ in range(100):
            machine.copy(4 * KIB, pinned=True, to_host=True)

    (item,) = found(steps(step))
    assert "device-to-host" in item.claim
    assert "on the GPU" in item.fix
    machine = Machine()
    for _ in range(STEPS):
        for _ in range(100):
            machine.copy(4 * KIB, pinned=True)
            row = machine.program.rows["memcpy"][-1]
            row.update(kind=8, src_memory=DEVICE, dst_memory=DEVICE)
        machine.end_step()
    (item,) = found(machine.trace("a GPU of next year"))
    assert "device-to-device" in item.claim
    assert "torch._foreach_copy_" in item.fix
    assert "list of pointers" in item.fix_cuda


def test_copies_of_a_graph_do_not_count() -> None:
    """They have one call: that of the graph's launch."""
    machine = Machine()
    for _ in range(STEPS):
        first = len(machine.program.rows.get("memcpy", []))
        for _ in range(100):
            machine.copy(4 * KIB, pinned=True)
        rows = machine.program.rows["memcpy"][first:]
        for row in rows:
            row["correlation_id"] = rows[0]["correlation_id"]
        machine.end_step()
    assert found(machine.trace()) == []
