"""misaligned-gemm: which kernels it finds, and how much faster aligned ones should be."""

from __future__ import annotations

import pytest
from support.kernel_names import ALIGNED, MISALIGNED, NVJET, SGEMM
from support.machine import Machine

import warpline
from warpline.analyses.findings.misaligned_gemm import misaligned_gemm
from warpline.result import Finding, Skipped
from warpline.result.changes import ScaleOperations
from warpline.trace import Run, Trace

AMPERE = MISALIGNED.replace("_75_", "_80_").replace("s1688gemm_bf16", "s16816gemm_bf16")
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>(T1::Params)"


def judged(trace: Trace) -> list[Finding]:
    found = misaligned_gemm(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def recorded(*names: str, major: int = 9, ns: int = 400_000) -> Trace:
    machine = Machine()
    for _ in range(14):
        for name in names:
            machine.launch(ns, name)
        machine.launch(600_000, NVJET)
        machine.wait()
        machine.end_step()
    return machine.trace(compute_major=major)


@pytest.mark.parametrize(
    ("name", "major", "factor"),
    [
        (MISALIGNED, 9, (0.10 / 0.8, 0.20 / 0.7, 0.35 / 0.5)),
        (AMPERE, 9, (0.10 / 0.8, 0.20 / 0.7, 0.40 / 0.5)),
        (AMPERE.replace("align1", "align2"), 9, (0.12 / 0.8, 0.25 / 0.7, 0.45 / 0.5)),
        (AMPERE.replace("align1", "align4"), 9, (0.25 / 0.8, 0.45 / 0.7, 1)),
        (AMPERE, 8, (0.20 / 0.8, 0.40 / 0.7, 1)),
        (TF32, 9, (0.10 / 0.8, 0.20 / 0.65, 0.40 / 0.45)),
        (TF32, 8, (0.20 / 0.8, 0.40 / 0.65, 1)),
    ],
)
def test_factors(name, major, factor):
    (found,) = judged(recorded(name, major=major))
    (change,) = found.changes
    assert isinstance(change, ScaleOperations)
    assert tuple(change.factor) == pytest.approx(factor)
    assert len(change.operations) == 14


def test_each_kind_has_its_factor():
    (found,) = judged(recorded(MISALIGNED, TF32, AMPERE, MISALIGNED))
    kinds = [change for change in found.changes if isinstance(change, ScaleOperations)]
    assert sorted(len(change.operations) for change in kinds) == [14, 14, 28]
    assert "(4 kernels per step)" in found.claim


def test_the_saving_is_that_of_the_kernels():
    (found, *_) = warpline.analyze(recorded(MISALIGNED)).findings
    assert found.rule == "misaligned-gemm"
    assert found.severity == "high"
    assert found.saving_ns == pytest.approx(400_000 * (1 - 0.2 / 0.7), rel=0.02)


def test_what_is_aligned():
    assert judged(recorded(ALIGNED)) == []
    assert judged(recorded(SGEMM)) == []  # FP32 without Tensor Cores
    assert (
        judged(recorded("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>")) == []
    )
    assert judged(recorded(TF32.replace("align1", "align4"))) == []
    assert judged(recorded(*[MISALIGNED] * 10, ns=9_999)) == []
    assert judged(recorded(*[MISALIGNED] * 10, ns=10_000)) != []
