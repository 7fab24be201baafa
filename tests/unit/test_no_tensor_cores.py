"""no-tensor-cores: the two fixes, TF32 and mixed precision, and what each changes."""

from __future__ import annotations

import pytest
from support.kernel_names import BF16, NVJET, SGEMM, binary, strided, vectorized
from support.machine import Machine

import warpline
from warpline.analyses.findings.no_tensor_cores import no_tensor_cores
from warpline.result import Finding, Skipped
from warpline.result.changes import DropOperations, ScaleOperations
from warpline.trace import Run, Trace

V100 = "Tesla V100-SXM2-32GB"
VOLTA_GEMM = "volta_sgemm_128x64_nn"
DIRECT = "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1"
WINOGRAD = "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)"
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(X)"
NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>(X)"
ADD = vectorized(binary("float", "Add"), 3, vector=4)
BLOCKS = 200_000  # x 128 threads x 4 floats x 12 bytes: 1.23 GB


def judged(trace: Trace) -> list[Finding]:
    found = no_tensor_cores(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def recorded(*kernels: tuple[str, int], gpu: str = "NVIDIA H200", major: int = 9) -> Trace:
    machine = Machine()
    for _ in range(14):
        for name, ns in kernels:
            machine.launch(ns, name, grid=(BLOCKS,), block=(128,))
        machine.wait()
        machine.end_step()
    return machine.trace(gpu, compute_major=major)


def factors(found: Finding) -> list[tuple[float, float, float]]:
    scaled = [change for change in found.changes if isinstance(change, ScaleOperations)]
    return [(each.factor.low, each.factor.central, each.factor.high) for each in scaled]


def test_tf32_first_and_then_what_bf16_saves_beyond_it():
    tf32, half = judged(recorded((SGEMM, 900_000), (ADD, 300_000)))
    ratio = 67 / 494.7
    (factor,) = factors(tf32)
    assert factor == pytest.approx((ratio, ratio / 0.83, ratio / 0.55), rel=1e-3)
    assert (tf32.is_generic, half.is_generic) == (False, True)
    # From 0.65 of the TF32 peak to 0.7 of the BF16 peak, which is twice as high.
    gemm, elementwise = factors(half)
    assert gemm == pytest.approx((0.45 / 0.8 / 2, 0.65 / 0.7 / 2, 0.8 / 0.5 / 2), rel=1e-3)
    assert elementwise == (0.5, 0.5, 0.5)
    assert "bfloat16" in half.fix


def test_the_savings_add_up():
    found = warpline.analyze(recorded((SGEMM, 900_000), (ADD, 300_000))).findings
    tf32, half = (item for item in found if item.rule == "no-tensor-cores")
    after = 900_000 * 67 / 494.7 / 0.83
    assert tf32.saving_ns == pytest.approx(900_000 - after, rel=0.01)
    assert half.saving_ns == pytest.approx(after * (1 - 0.65 / 0.7 / 2) + 150_000, rel=0.01)


def test_little_more_to_save_is_no_second_finding():
    (found,) = judged(recorded((SGEMM, 200_000), (NVJET, 2_000_000)))
    assert "TF32" in found.fix


def test_volta_has_fp16_only():
    (found,) = judged(recorded((VOLTA_GEMM, 900_000), (DIRECT, 400_000), gpu=V100, major=7))
    assert not found.is_generic
    ratio = 15.7 / 125
    gemm, convolution = factors(found)
    assert gemm == pytest.approx((0.55 / 0.8 * ratio, 0.75 / 0.7 * ratio, 0.95 / 0.5 * ratio))
    expected = (0.55 / 0.85 * ratio, 0.75 / 0.6 * ratio, 0.95 / 0.35 * ratio)
    assert convolution == pytest.approx(expected)
    assert "model.to(torch.float16)" in found.fix
    assert "bfloat16" not in found.fix


def test_advice_for_training_and_for_inference():
    optimizer = "void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor>()"
    around = ((ADD, 800_000), (NORM, 800_000))

    def fixes(*kernels: tuple[str, int], gpu: str = "NVIDIA H200", major: int = 9) -> list[str]:
        found = judged(recorded(*kernels, *around, gpu=gpu, major=major))
        assert not any("train" in item.fix_in["jax"] for item in found)
        return [item.fix for item in found]

    tf32, half = fixes((SGEMM, 900_000))
    assert tf32.endswith(
        ", or run the model in BF16: model.to(torch.bfloat16) with BF16 inputs, or"
        " torch.autocast('cuda', torch.bfloat16)."
    )
    assert half.startswith("Run the model in BF16: model.to(torch.bfloat16)")
    tf32, half = fixes((SGEMM, 900_000), (optimizer, 50_000))
    assert tf32.endswith(", or train in BF16 with torch.autocast('cuda', torch.bfloat16).")
    assert half == "Use mixed precision: torch.autocast('cuda', torch.bfloat16)."
    (fp16,) = fixes((VOLTA_GEMM, 900_000), (optimizer, 50_000), gpu=V100, major=7)
    assert "GradScaler" in fp16
    assert fp16.endswith(" This GPU's Tensor Cores have neither TF32 nor BF16.")


def test_a_known_model_needs_no_compute_capability():
    (found,) = judged(recorded((VOLTA_GEMM, 900_000), gpu=V100, major=0))
    assert "float16" in found.fix


def test_tf32_is_for_gemms():
    (found,) = judged(recorded((DIRECT, 900_000)))
    assert "autocast" in found.fix
    assert "allow_tf32" not in found.fix


def test_pascal_has_no_tensor_cores():
    assert judged(recorded((VOLTA_GEMM, 900_000), gpu="Tesla P100", major=6)) == []


def test_transforms_multiply_less():
    """The GEMM is three kernels from a transform; the other one is four."""
    short = ("void my_kernel(int)", 1_000)
    kernels = ((WINOGRAD, 100_000), short, short, (VOLTA_GEMM, 300_000), (VOLTA_GEMM, 500_000))
    (found,) = judged(
        recorded(*kernels, ("tail", 1_000), ("tail", 1_000), ("tail", 1_000), gpu=V100)
    )
    ratio = 15.7 / 125
    gemm, transform = factors(found)
    expected = (0.55 / 0.85 * ratio, 0.75 * 2.25 / 0.6 * ratio, 1)
    assert transform == pytest.approx(expected)
    counts = [len(change.operations) for change in found.changes]  # type: ignore[union-attr]
    assert counts == [14, 28]
    assert gemm[1] == pytest.approx(0.75 / 0.7 * ratio)


def test_what_surrounds_them():
    kernels = ((VOLTA_GEMM, 900_000), (LAYOUT, 50_000), (NORM, 50_000), (ADD, 1_500_000))
    slow = strided(binary("float", "Add"), 2), 50_000
    mixed = "void at::native::reduce_kernel<512, 1, ReduceOp<c10::BFloat16, float>>", 50_000
    half = vectorized(binary(BF16, "Add"), 3, vector=4), 50_000
    (found,) = judged(recorded(*kernels, slow, half, mixed, gpu=V100, major=7))
    _, pointwise, others = factors(found)
    assert pointwise == (0.5, 0.5, 0.5)
    assert others == (0.5, 0.9, 1.1)
    sizes = [len(change.operations) for change in found.changes]  # type: ignore[union-attr]
    # GEMMs; additions at 819 of 900 GB/s; normalization and strided additions; conversions.
    assert sizes == [14, 14, 28, 14]
    conversions = found.changes[-1]
    assert isinstance(conversions, DropOperations)
    assert tuple(conversions.remaining) == (0, 0, 0.5)


def test_slow_elementwise_kernels_do_not_halve():
    (found,) = judged(recorded((VOLTA_GEMM, 9_000_000), (ADD, 2_500_000), gpu=V100, major=7))
    assert len(factors(found)) == 1  # 491 GB/s


def test_tensor_cores_in_use():
    assert judged(recorded((NVJET, 900_000), (ADD, 300_000))) == []
    assert judged(recorded((SGEMM, 19_000), (ADD, 300_000))) == []


def test_an_unknown_gpu_has_no_price():
    (found,) = judged(recorded((SGEMM, 900_000), gpu="An unknown GPU"))
    assert found.changes == ()
