"""pageable-copy: its advice where the same data goes back and forth."""

from __future__ import annotations

import pytest
from support import machine as machines
from support.machine import Machine

import warpline
from warpline import plugins
from warpline.analyses.findings.pageable_copy import pageable_copy
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

plugins.load("analyses")

KEEP = "Keep data that the CPU does not change on the GPU from one iteration to the next."
MIB = 1 << 20


def program(sizes_back: tuple[int, ...]) -> Trace:
    """Return steps that copy 8 MiB to the GPU, run a kernel, and copy results to the host."""
    machine = Machine()
    for _ in range(6):
        machine.copy(8 * MIB, pinned=False)
        machine.launch(100_000, "stencil")
        for size in sizes_back:
            machine.copy(size, pinned=False, to_host=True)
        machine.end_step()
    return machine.trace()


def found(trace: Trace) -> Finding:
    result = pageable_copy(Run(trace))
    assert not isinstance(result, Skipped)
    (item,) = result
    return item


@pytest.mark.parametrize(
    ("sizes_back", "is_kept"),
    [
        ((8 * MIB,), True),
        ((8 * MIB, 15 * MIB), True),  # 16 of 31 MiB
        ((8 * MIB, 17 * MIB), False),  # 16 of 33 MiB
        ((4 * MIB,), False),
        ((), False),
    ],
)
def test_data_that_goes_back_and_forth_may_stay(sizes_back: tuple[int, ...], is_kept: bool) -> None:
    item = found(program(sizes_back))
    assert item.fix.startswith(KEEP) == is_kept
    assert item.fix_cuda.startswith(KEEP) == is_kept
    assert "Pin host memory once" in item.fix
    assert "cudaHostAlloc" in item.fix_cuda


def test_copies_without_steps_may_occur_once() -> None:
    machine = Machine()
    machine.copy(8 * MIB, pinned=False)
    machine.launch(100_000, "stencil")
    machine.copy(8 * MIB, pinned=False, to_host=True)
    assert not found(machine.trace()).fix_cuda.startswith(KEEP)


def results(rate: float, monkeypatch: pytest.MonkeyPatch, *, more: int = 0) -> Trace:
    """Return steps of a segmenter that copies six masks of 3840 x 2160 to pageable memory."""
    monkeypatch.setattr(machines, "PAGEABLE_BYTES_PER_S", rate)
    machine = Machine()
    for _ in range(8):
        if more:
            machine.copy(more, pinned=False)
        for _ in range(20):
            machine.launch(500_000)
        for _ in range(6):
            machine.copy(3840 * 2160, pinned=False, to_host=True)
        machine.end_step()
    return machine.trace()


def test_results_in_new_memory_may_cost_the_same_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """49.8 MB at 1.1 GB/s: a pinned buffer saves that only if results stay in it."""
    trace = results(1.1e9, monkeypatch)
    item = found(trace)
    assert "results go to newly allocated memory" in item.claim
    assert "Copy less" in item.fix
    assert "torch.empty(..., pin_memory=True)" in item.fix
    assert "cudaEventSynchronize" in item.fix_cuda
    assert "copy_to_host_async" in item.fix_in["jax"]
    diagnosis = warpline.analyze(trace)
    first = diagnosis.findings[0]
    assert (first.rule, first.severity) == ("pageable-copy", "medium")
    assert "Estimated saving: up to 4" in diagnosis.verdict
    assert first.saving_low_ns == 0
    assert diagnosis.steps.median_ns is not None
    assert first.predicted_step_high_ns is not None
    assert first.predicted_step_high_ns >= diagnosis.steps.median_ns


def test_results_at_the_speed_of_staged_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = results(8e9, monkeypatch)
    item = found(trace)
    assert "Copy less" in item.fix
    assert "newly allocated" not in item.claim
    first = warpline.analyze(trace).findings[0]
    assert (first.rule, first.severity) == ("pageable-copy", "high")
    assert (first.saving_low_ns or 0) > 0


def test_a_slow_batch_to_the_gpu_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    item = found(results(1.1e9, monkeypatch, more=8 * MIB))
    assert "newly allocated" not in item.claim
    assert item.fix.startswith("Pin host memory once")
