"""no-tensor-cores: FP32 GEMMs and convolutions that do not use Tensor Cores."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, Weight, step_scope
from warpline.derived.efficiency.half_precision import FloatKernels, float_kernels
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.product_shapes import at_shares, least_product_ns
from warpline.derived.efficiency.reached import (
    FP32_GEMM,
    HALF_CONVOLUTION,
    HALF_GEMM,
    TF32_GEMM,
    time_factor,
)
from warpline.derived.program import is_training
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.hardware import Peaks
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import Change, DropOperations, ScaleOperations
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "no-tensor-cores"
TITLE = "FP32 math does not use Tensor Cores"

_TENSOR_CORES_SINCE, _TF32_SINCE = 7, 8  # compute capability
# Of the ratio of the peaks: large GEMMs reach 0.8 to 0.9 of it, small ones less.
_OF_RATIO = Estimate(0.55, 0.83, 1.0)
# FFT and Winograd's algorithm multiply less than direct convolutions: up to 2.25 times with 2 x 2
# tiles, more with larger ones.
_DIRECT = Estimate(1.0, 2.25, 5.0)
_HALF_OF_BYTES = Estimate(0.5, 0.5, 0.5)
_NOT_AT_BANDWIDTH = Estimate(0.5, 0.9, 1.1)
_FIX_TF32 = (
    "Enable TF32 with torch.set_float32_matmul_precision('high') and"
    " torch.backends.cudnn.allow_tf32 = True"
)
# In training, weights stay in FP32. FP16 also needs scaled gradients.
_TRAIN_IN_BF16 = "train in BF16 with torch.autocast('cuda', torch.bfloat16)"
_TRAIN_IN_HALF = {
    "bfloat16": "Use mixed precision: torch.autocast('cuda', torch.bfloat16).",
    "float16": "Use mixed precision: torch.autocast('cuda', torch.float16) with"
    " torch.amp.GradScaler.",
}
_RUN_IN = (
    "run the model in {1}: model.to(torch.{0}) with {1} inputs, or torch.autocast('cuda',"
    " torch.{0})"
)
_CONVERSIONS_STAY = Estimate(0.0, 0.0, 0.5)


@rule(name=NAME, title=TITLE)
def no_tensor_cores(run: Run) -> list[Finding]:
    """FP32 GEMMs and convolutions that do not use Tensor Cores.

    What it finds: GEMM and convolution kernels of 20 us or more whose names indicate FP32 without
        TF32, if they take at least 5% of the step.
    Why it matters: Tensor Cores are several times faster. Without them, most of the GPU's math
        throughput is unused.
    How it is found: By the names that cuBLAS, cuDNN, and CUTLASS give such kernels (simt_sgemm,
        f32f32_f32f32_f32, scudnn, winograd). TF32 speeds up GEMMs by 0.55 to 1.0 of the ratio
        between the GPU's TF32 and FP32 peaks, or, where operators have recorded shapes, to 0.45 to
        0.8 of the TF32 peak. Mixed precision is a fix of its own: it also halves
        the bytes of elementwise kernels that are bound by memory. Convolutions by FFT or Winograd's
        algorithm gain less, because they multiply less than the direct ones that replace them.
    What to do: Allow TF32, or compute in BF16. The Tensor Cores of GPUs before the A100 (V100, T4)
        have FP16 only.
    Limits: TF32 has a 10-bit mantissa, enough for training but not for every computation. GPUs
        with unknown peaks get no estimate. Kernels of other libraries are not detected. Weights
        that stay in FP32 are cast in every step, which is not estimated.
    Source: NVIDIA's data sheets (hardware/); measured on a program with and without TF32. Mixed
        precision was not measured.
    """
    scope, kernels = step_scope(run), float_kernels(run.trace)
    is_found = _with_tensor_cores(run.trace, _TENSOR_CORES_SINCE)
    has_tf32 = _with_tensor_cores(run.trace, _TF32_SINCE)
    weight = scope.weigh(kernels.products & is_found)
    if not weight.is_measurable:
        return []
    in_tf32 = kernels.gemm & has_tf32
    findings = []
    if scope.weigh(in_tf32).is_measurable:
        findings = [_for_tf32(scope, in_tf32)]
    return [*findings, *_for_half(scope, kernels, is_found, has_tf32, is_second=bool(findings))]


def _with_tensor_cores(trace: Trace, since: int) -> BoolArray:
    """Return which operations run on GPUs of a compute capability; unknown ones are recent."""
    limits = peaks_of_devices(trace)
    is_recent = (limits.compute_major >= since) | (limits.compute_major == 0)
    if since == _TF32_SINCE:
        models = (peaks is None or peaks.tf32_flop_per_s is not None for peaks in limits.model)
        is_recent &= np.fromiter(models, np.bool_)
    of_operation: BoolArray = np.append(is_recent, True)[operations(trace).device]
    return of_operation


def _for_tf32(scope: StepScope, gemms: BoolArray) -> Finding:
    """Return the finding about GEMMs that TF32 makes faster."""
    weight = scope.weigh(gemms)
    is_trained = is_training(scope.run.trace)
    in_bf16 = _TRAIN_IN_BF16 if is_trained else _RUN_IN.format("bfloat16", "BF16")
    many = plural(max(round(weight.number), 1), "kernel")
    return Finding(
        NAME,
        severity_of(weight.share),
        f"FP32 math without Tensor Cores takes {format_ratio(weight.share)} of the time",
        f"FP32 GEMMs and convolutions in {many}{scope.each} take {weight.time} without Tensor"
        " Cores.",
        (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", gemms),),
        f"{_FIX_TF32}, or {in_bf16}.",
        "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows kernel names with tf32 or"
        " bf16.",
        fix_cuda="Use cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) or"
        " CUBLAS_COMPUTE_32F_FAST_TF32, and CUDNN_TENSOR_OP_MATH for cuDNN.",
        fix_in={
            "jax": "Enable TF32 with jax.config.update('jax_default_matmul_precision',"
            " 'tensorfloat32'), or compute in BF16 (jnp.bfloat16)."
        },
        changes=_in_tf32(scope, gemms),
        on_devices=weight.on_devices,
    )


def _in_tf32(scope: StepScope, gemms: BoolArray) -> tuple[Change, ...]:
    """Return what TF32 changes, by shapes where they are recorded; nothing on unknown GPUs."""
    factor = _tf32_factor(_peaks(scope, gemms))
    if factor is None:
        return ()
    trace = scope.run.trace
    least_ns = least_product_ns(trace, "tf32")
    sized, others = (np.flatnonzero(gemms & part) for part in (least_ns > 0, least_ns == 0))
    changes: list[Change] = [ScaleOperations(others, factor)] if len(others) else []
    if len(sized):
        changes.append(at_shares(trace, sized, least_ns, TF32_GEMM))
    return tuple(changes)


def _tf32_factor(peaks: Peaks | None) -> Estimate | None:
    """Return the time in TF32 divided by that in FP32; None for GPUs without TF32."""
    if peaks is None or peaks.tf32_flop_per_s is None:
        return None
    ratio = peaks.fp32_flop_per_s / peaks.tf32_flop_per_s
    low, central, high = (min(ratio / of, 1.0) for of in reversed(_OF_RATIO))
    return Estimate(low, central, high)


def _for_half(
    scope: StepScope,
    kernels: FloatKernels,
    is_found: BoolArray,
    has_tf32: BoolArray,
    *,
    is_second: bool,
) -> list[Finding]:
    """Return the finding about mixed precision.

    After TF32, it is about what BF16 saves beyond that.
    """
    affected = kernels.products & is_found
    if is_second:
        affected |= (kernels.layout | kernels.at_bandwidth) & is_found
    weight = scope.weigh(affected)
    in_tf32 = has_tf32 & kernels.gemm & is_second
    changes = _in_half(scope, kernels, is_found, in_tf32=in_tf32)
    if is_second and not _saves_more(scope, changes, in_tf32):
        return []
    has_bfloat = bool(has_tf32[np.flatnonzero(affected)].all())
    dtype, is_trained = "bfloat16" if has_bfloat else "float16", is_training(scope.run.trace)
    title, claim = _words(scope, weight, is_second=is_second)
    many = plural(max(round(weight.number), 1), "kernel")
    evidence = scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", affected)
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            title,
            claim,
            (evidence,),
            _fix_half(dtype, is_trained=is_trained),
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows kernel names with"
            f" {'bf16' if has_bfloat else 'f16 or h884'}.",
            fix_cuda="Store tensors in 16 bits and use CUBLAS_COMPUTE_32F with"
            f" {'CUDA_R_16BF' if has_bfloat else 'CUDA_R_16F'} inputs.",
            fix_in={
                "jax": f"Compute in jnp.{dtype}{' and keep parameters in float32' * is_trained}."
            },
            is_generic=is_second,
            changes=changes,
            on_devices=weight.on_devices,
        )
    ]


def _fix_half(dtype: str, *, is_trained: bool) -> str:
    """Return how PyTorch computes in one of the 16-bit types."""
    run_in = _RUN_IN.format(dtype, "BF16" if dtype == "bfloat16" else "FP16")
    fix = _TRAIN_IN_HALF[dtype] if is_trained else f"{run_in[:1].upper()}{run_in[1:]}."
    if dtype == "bfloat16":
        return fix
    return f"{fix} This GPU's Tensor Cores have neither TF32 nor BF16."


def _saves_more(scope: StepScope, changes: tuple[Change, ...], in_tf32: BoolArray) -> bool:
    """Return whether the GPU's work becomes measurably shorter than it is with TF32."""
    saved = 0.0
    tf32 = _tf32_factor(_peaks(scope, in_tf32))
    after_tf32 = tf32.central if tf32 is not None else 1.0
    for change in changes:
        if isinstance(change, ScaleOperations):
            before = after_tf32 if in_tf32[change.operations].any() else 1.0
            saved += scope.ns_of(change.operations) * before * (1 - change.factor.central)
    return scope.share(saved) >= MEASURABLE_RATIO


def _words(scope: StepScope, weight: Weight, *, is_second: bool) -> tuple[str, str]:
    """Return title and claim of the finding about mixed precision."""
    share, many = format_ratio(weight.share), plural(max(round(weight.number), 1), "kernel")
    if is_second:
        title = f"Mixed precision saves more than TF32: FP32 kernels take {share} of the time"
        claim = (
            f"FP32 GEMMs and kernels around them ({many}{scope.each}) take {weight.time}. In BF16,"
            " GEMMs are faster than in TF32, and kernels that are bound by memory move half the"
            " bytes."
        )
        return title, claim
    title = f"FP32 math without Tensor Cores takes {share} of the time"
    claim = (
        f"FP32 GEMMs and convolutions in {many}{scope.each} take {weight.time} without Tensor"
        " Cores. In 16 bits, kernels around them also move half the bytes."
    )
    return title, claim


def _in_half(
    scope: StepScope, kernels: FloatKernels, is_found: BoolArray, *, in_tf32: BoolArray
) -> tuple[Change, ...]:
    """Return what mixed precision changes; nothing where the GPU is unknown.

    Args:
        scope: The included steps.
        kernels: The kernels that compute in FP32.
        is_found: Shape (operations,), on GPUs that have Tensor Cores.
        in_tf32: Shape (operations,), kernels that are in TF32 before this change.
    """
    peaks = _peaks(scope, kernels.products & is_found)
    if peaks is None or peaks.half_flop_per_s is None:
        return ()
    ratio = peaks.fp32_flop_per_s / peaks.half_flop_per_s
    from_tf32 = (peaks.tf32_flop_per_s or 0) / peaks.half_flop_per_s
    direct = Estimate(*(now * of for now, of in zip(FP32_GEMM, _DIRECT, strict=True)))
    parts = (
        (kernels.gemm & ~in_tf32, time_factor(FP32_GEMM, HALF_GEMM, ratio)),
        (kernels.gemm & in_tf32, time_factor(TF32_GEMM, HALF_GEMM, from_tf32)),
        (kernels.convolution, time_factor(FP32_GEMM, HALF_CONVOLUTION, ratio)),
        (kernels.transform, time_factor(direct, HALF_CONVOLUTION, ratio)),
        (kernels.at_bandwidth, _HALF_OF_BYTES),
        (kernels.others, _NOT_AT_BANDWIDTH),
    )
    changes: list[Change] = [
        ScaleOperations(np.flatnonzero(part & is_found), factor)
        for part, factor in parts
        if (part & is_found).any()
    ]
    conversions = np.flatnonzero(kernels.layout & is_found)
    if len(conversions):
        changes.append(DropOperations(conversions, remaining=_CONVERSIONS_STAY))
    return tuple(changes)


def _peaks(scope: StepScope, kernels: BoolArray) -> Peaks | None:
    """Return the peaks of the GPU of the first counted kernel; None for unknown models."""
    counted = np.flatnonzero(kernels & scope.operations)
    if not len(counted):
        return None
    trace = scope.run.trace
    return peaks_of_devices(trace).model[int(operations(trace).device[counted[0]])]
