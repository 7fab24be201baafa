"""What waits for input are, and the words of input-bound for each."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from support.any_trace import empty_trace
from support.machine import Machine
from support.programs import D2H, H2D, Program

import warpline
from warpline import plugins
from warpline.derived.breakdown.input_waits import (
    InputWaits,
    effective_number,
    input_waits,
    needs_results,
)
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.time_parts import TimePart
from warpline.estimate import exactly
from warpline.result import RULES, Finding, Skipped
from warpline.trace import Run, Trace

plugins.load("analyses")

MS = 1_000_000
OWN = "saxpy(double *, double *)"
PYTORCH = "void at::native::vectorized_elementwise_kernel<4>(int)"
BYTES = 1 << 20


def copying(n_steps: int, kernel: str = OWN, size_back: int = 0, name: str = "") -> Trace:
    """Return steps of 2 ms: a gap of 1.4 ms, a copy to the GPU, a kernel, and perhaps a copy back.

    The kernel runs until 1.9 ms. Without a name, nothing marks the steps.
    """
    made = Program()
    for number in range(n_steps):
        start = number * 2 * MS
        if name:
            made.step(number, start, start + 2 * MS)
        at = start + 1_400_000
        made.copy(at, at + 5_000, (at + 6_000, at + 50_000), BYTES, H2D)
        made.launch(at + 10_000, at + 15_000, (at + 60_000, at + 500_000), kernel)
        if size_back:
            made.copy(at + 20_000, at + 590_000, (at + 510_000, at + 580_000), size_back, D2H)
    return made.trace()


def test_the_effective_number_of_lengths() -> None:
    assert effective_number(np.array([5, 5, 5])) == pytest.approx(3)
    assert effective_number(np.array([100, 1, 1])) == pytest.approx(102**2 / 10_002)
    assert effective_number(np.array([7])) == pytest.approx(1)
    assert effective_number(np.zeros(2, np.int64)) == 0
    assert effective_number(np.zeros(0, np.int64)) == 0


@pytest.mark.parametrize(("n_steps", "wanted"), [(8, "pipeline"), (2, "once"), (3, "once")])
def test_a_pipeline_repeats(n_steps: int, wanted: str) -> None:
    # The time before the first operation is not measured, so the first step has no wait.
    assert input_waits(Run(copying(n_steps))) == InputWaits(wanted, n_steps - 1)  # type: ignore[arg-type]


def test_the_data_loader_is_a_pipeline_from_the_first_wait() -> None:
    made = Program()
    made.launch(0, 1_000, (2_000, 3_000), PYTORCH)
    made.add(
        "range", name="enumerate(DataLoader)#_SingleProcess.__next__", start_ns=10_000,
        end_ns=900_000, thread_id=0, process_id=0, source_id=0,
    )  # fmt: skip
    made.copy(901_000, 905_000, (906_000, 950_000), BYTES)
    assert input_waits(Run(made.trace())) == InputWaits("pipeline", 1)


@pytest.mark.parametrize(
    ("size_back", "wanted"), [(BYTES, "round-trip"), (BYTES // 2, "pipeline"), (0, "pipeline")]
)
def test_data_that_comes_back_is_no_input(size_back: int, wanted: str) -> None:
    assert input_waits(Run(copying(8, size_back=size_back))).nature == wanted


def test_nothing_waits_in_an_empty_trace() -> None:
    assert input_waits(Run(empty_trace())) == InputWaits("once", 0)


def finding(trace: Trace) -> Finding:
    (found,) = (item for item in warpline.analyze(trace).findings if item.rule == "input-bound")
    return found


def test_only_frameworks_have_batches() -> None:
    own, framework = finding(copying(8, name="step")), finding(copying(8, PYTORCH, name="step"))
    assert own.title.startswith("Input-bound: the GPU waits for input data ")
    assert framework.title.startswith("Input-bound: the GPU waits for the next batch ")
    for word in ("batch", "DataLoader", "num_workers"):
        assert word not in f"{own.title} {own.claim} {own.fix}"


def test_a_gap_that_does_not_repeat_promises_nothing() -> None:
    found = finding(copying(2))
    # The gap ends with the second copy: 3.4 ms, less the first kernel's end at 1.9 ms.
    assert found.title.startswith("A long CPU gap leaves the GPU idle ")
    assert "in 1 CPU gap before a host-to-device copy" in found.claim
    assert "record after warm-up" in found.fix
    assert "batch" not in found.claim + found.fix
    assert found.severity == "medium"
    assert found.saving_ns is None
    assert finding(copying(3)).title.startswith("Long CPU gaps leave the GPU idle ")


def test_work_on_the_gpu_s_results_is_advised_to_move_there() -> None:
    own, framework = (finding(copying(8, kernel, BYTES, "step")) for kernel in (OWN, PYTORCH))
    assert own.title.startswith("CPU work between copies leaves the GPU idle ")
    assert "a copy from the GPU and one of the same size back" in own.claim
    assert "do that in a kernel" in own.fix
    assert "instead of .cpu()" in framework.fix
    assert own.saving_ns is None


def round_trips(size_back: int) -> Trace:
    """Return steps that copy 8 MiB to the GPU and results back, pageable, and work for 1.5 ms."""
    machine = Machine()
    for _ in range(8):
        machine.copy(8 << 20, pinned=False)
        machine.launch(300_000, OWN)
        machine.copy(size_back, pinned=False, to_host=True)
        machine.work(1_500_000)
        machine.end_step()
    return machine.trace()


def judged(rule: str, run: Run) -> Finding:
    found = RULES.get(rule).judge(run)
    assert not isinstance(found, Skipped)
    (item,) = found
    return item


def test_no_saving_from_results_that_the_cpu_needs_at_once() -> None:
    for size_back, is_needed in ((8 << 20, True), (7 << 20, False)):
        run = Run(round_trips(size_back))
        assert needs_results(run) == is_needed
        wait, copies = judged("host-sync", run), judged("pageable-copy", run)
        assert copies.most_ns is not None
        assert wait.most_ns is not None
        scope = step_scope(run)
        held_ns = scope.idle_ns(TimePart.PAGEABLE_COPY)
        # At 8 GB/s, 8 MiB and 1 us take 1.0496 ms in each direction.
        if is_needed:
            assert wait.most_ns == exactly(scope.idle_ns(TimePart.HOST_SYNC))
            # An H200's link has 64 GB/s, of which 65% to 95%: 0.403 to 0.276 of 2.099 ms remain.
            saved_ns = [ns - held_ns for ns in copies.most_ns]
            remaining_ns = [403_000, 328_000, 276_000]
            assert saved_ns == pytest.approx([2_099_000 - ns for ns in remaining_ns], rel=0.01)
        else:
            # The CPU waits for the kernel, 0.3 ms.
            assert wait.most_ns.central == pytest.approx(300_000, rel=0.05)
            assert wait.most_ns.low > scope.idle_ns(TimePart.HOST_SYNC)
            assert copies.most_ns.low - held_ns >= 1_049_000 + 918_000
            # At best, the program needs none of the results, and no GPU time is idle.
            other_ns = scope.idle_ns() - scope.idle_ns(TimePart.PAGEABLE_COPY, TimePart.HOST_SYNC)
            assert other_ns > 0
            assert copies.most_ns.high == copies.most_ns.central + other_ns


@pytest.mark.parametrize("name", ["loader", "starved"])
def test_slow_loaders_are_pipelines(name: str, data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.warpline"
    packed = data_dir / "faults" / f"{name}.bad.warpline.xz"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    first = warpline.analyze(warpline.open(path)).findings[0]
    assert first.rule == "input-bound"
    assert "the GPU waits for the next batch" in first.title
    assert first.saving_ns
