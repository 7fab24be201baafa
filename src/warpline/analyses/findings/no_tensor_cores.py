"""no-tensor-cores: FP32 GEMMs and convolutions that do not use Tensor Cores."""

from __future__ import annotations

import re

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.device_peaks import device_peaks
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import Change, ScaleOperations
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "no-tensor-cores"
TITLE = "FP32 math does not use Tensor Cores"

# Names that cuBLAS, cuDNN, and CUTLASS give FP32 kernels without Tensor Cores.
_PLAIN = re.compile(
    r"simt_sgemm|f32f32_f32f32_f32(?!\w*tf32)|(?:^|_)(?:volta|ampere|maxwell)_sgemm"
)
# Shorter kernels are bound by memory and launch latency more than by arithmetic.
_SHORTEST_NS = 20_000
_TF32_SINCE = 8  # compute capability
# Of the ratio of the peaks: large GEMMs reach 0.8 to 0.9 of it, small ones less.
_OF_RATIO = Estimate(0.55, 0.83, 1.0)


@rule(name=NAME, title=TITLE)
def no_tensor_cores(run: Run) -> list[Finding]:
    """FP32 GEMMs and convolutions that do not use Tensor Cores.

    What it finds: GEMM and convolution kernels of 20 us or more whose names indicate FP32 without
        TF32, if they take at least 5% of the step.
    Why it matters: Tensor Cores are several times faster. Without them, most of the GPU's math
        throughput is unused.
    How it is found: By the names that cuBLAS, cuDNN, and CUTLASS give such kernels (simt_sgemm,
        f32f32_f32f32_f32). The estimated speedup is 0.55 to 1.0 of the ratio between the GPU's
        TF32 and FP32 peaks.
    What to do: Allow TF32, or compute in BF16.
    Limits: TF32 has a 10-bit mantissa, enough for training but not for every computation. GPUs
        with unknown peaks get no estimate. GPUs older than Ampere lack TF32 and get no finding.
        Kernels of other libraries are not detected.
    Source: NVIDIA's data sheets (hardware/); measured on a program with and without TF32.
    """
    scope, products = step_scope(run), _plain_products(run.trace)
    weight = scope.weigh(products)
    if not weight.is_measurable or not _has_tf32(run.trace, np.flatnonzero(products)):
        return []
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"FP32 math without Tensor Cores takes {format_ratio(weight.share)} of the time",
            f"FP32 GEMMs and convolutions in {many}{scope.each} take {weight.time} without Tensor"
            " Cores.",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", products),),
            "Enable TF32 with torch.set_float32_matmul_precision('high') and"
            " torch.backends.cudnn.allow_tf32 = True, or train in BF16 with torch.autocast('cuda',"
            " torch.bfloat16).",
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows kernel names with tf32 or"
            " bf16.",
            fix_cuda="Use cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) or"
            " CUBLAS_COMPUTE_32F_FAST_TF32, and CUDNN_TENSOR_OP_MATH for cuDNN.",
            fix_in={
                "jax": "Enable TF32 with jax.config.update('jax_default_matmul_precision',"
                " 'tensorfloat32'), or compute in BF16 (jnp.bfloat16)."
            },
            changes=_changes(run.trace, scope, np.flatnonzero(products)),
            on_devices=weight.on_devices,
        )
    ]


def _plain_products(trace: Trace) -> BoolArray:
    work = operations(trace)
    codes = [TimePart.GEMM, TimePart.CONVOLUTION]
    is_product = np.isin(operation_categories(trace), codes)
    places = work.of_table("kernel")
    if not len(places):
        return is_product & False
    names = trace.columns("kernel", "name_id")["name_id"].values
    number, distinct = number_texts(names, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    is_plain = np.array([_PLAIN.search(text[:4096]) is not None for text in texts], np.bool_)
    plain = np.zeros(len(work), np.bool_)
    plain[places] = is_plain[number[work.row[places]]]
    return is_product & plain & (work.end_ns - work.start_ns >= _SHORTEST_NS)


def _has_tf32(trace: Trace, products: I64) -> bool:
    """Return whether a GPU of the products supports TF32: compute capability 8 or higher."""
    devices = np.unique(operations(trace).device[products])
    major = trace.columns("device", "compute_major")["compute_major"].filled(_TF32_SINCE)
    return bool((major[devices] >= _TF32_SINCE).any())


def _changes(trace: Trace, scope: StepScope, products: I64) -> tuple[Change, ...]:
    """Return what Tensor Cores change; nothing where the GPU has none or is unknown."""
    counted = products[scope.operations[products]]
    peaks = device_peaks(trace, int(operations(trace).device[counted[0]]))
    if peaks is None or peaks.tf32_flop_per_s is None:
        return ()
    ratio = peaks.fp32_flop_per_s / peaks.tf32_flop_per_s
    low, central, high = (min(ratio / of, 1.0) for of in reversed(_OF_RATIO))
    return (ScaleOperations(products, Estimate(low, central, high)),)
