"""no-tensor-cores: products in float32 that do not use tensor cores."""

from __future__ import annotations

import re

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.texts import number_texts
from warpline.derived.work.device_peaks import device_peaks
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import Change, Range, ScaleOperations
from warpline.trace import Trace
from warpline.units import format_ns

NAME = "no-tensor-cores"
TITLE = "Products in float32 do not use tensor cores"

# How cuBLAS, cuDNN and CUTLASS call kernels of float32 without tensor cores.
_PLAIN = re.compile(
    r"simt_sgemm|f32f32_f32f32_f32(?!\w*tf32)|(?:^|_)(?:volta|ampere|maxwell)_sgemm"
)
# Shorter kernels wait for memory and for their start more than for arithmetic.
_SHORTEST_NS = 20_000
_TF32_SINCE = 8  # compute capability
# Of the ratio of the peaks: large products reach 0.8 to 0.9 of it, small ones less.
_OF_RATIO = Range(0.55, 0.83, 1.0)


@rule(name=NAME, title=TITLE)
def no_tensor_cores(trace: Trace, steps: str | None) -> list[Finding]:
    """Matrix products and convolutions in float32 that do not use tensor cores.

    What it finds: Kernels of products whose names say float32 without TF32 and that take 20 us
        or more, if they take at least 5% of a step.
    Why it matters: Tensor cores multiply several times as fast; without them the largest part of
        the chip is idle.
    How it is found: By the names that cuBLAS, cuDNN and CUTLASS give such kernels (simt_sgemm,
        f32f32_f32f32_f32). What tensor cores gain is the ratio of the GPU's peaks for TF32 and
        float32, of which 0.55 to 1.0 is reached.
    What to do: Allow TF32, or compute in bfloat16.
    Limits: TF32 keeps 10 bits of the mantissa: enough for training, not for every computation. A
        GPU whose peaks are not known gets no prediction; one older than Ampere has no TF32, and no
        finding. Kernels of other libraries are not seen.
    Source: NVIDIA's data sheets (hardware/); measured on a program with and without TF32.
    """
    scope, products = step_scope(trace, steps), _plain_products(trace)
    weight = scope.weigh(products)
    if not weight.is_measurable or not _has_tf32(trace, np.flatnonzero(products)):
        return []
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            TITLE,
            f"{weight.digits} products{scope.each} in float32 run without tensor cores; they take"
            f" {weight.time}.",
            (
                scope.show_operations(
                    f"{weight.digits} products take {format_ns(weight.ns)}", products
                ),
            ),
            "Call torch.set_float32_matmul_precision('high') (and"
            " torch.backends.cudnn.allow_tf32 = True) for TF32, or train in bfloat16 with"
            " torch.autocast('cuda', torch.bfloat16)",
            "record again: names of products hold tf32 or bf16 in"
            " `warpline stats -r cuda_gpu_kern_sum`",
            fix_cuda="cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) or"
            " CUBLAS_COMPUTE_32F_FAST_TF32; for cuDNN CUDNN_TENSOR_OP_MATH",
            changes=_changes(trace, scope, np.flatnonzero(products)),
        )
    ]


def _plain_products(trace: Trace) -> BoolArray:
    work = operations(trace)
    codes = [BUSY_CATEGORIES.index(name) for name in ("gemm", "convolution")]
    found = np.isin(operation_categories(trace), codes)
    places = work.of_table("kernel")
    if not len(places):
        return found & False
    names = trace.columns("kernel", "name_id")["name_id"].values
    number, distinct = number_texts(names, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    is_plain = np.array([_PLAIN.search(text[:4096]) is not None for text in texts], np.bool_)
    plain = np.zeros(len(work), np.bool_)
    plain[places] = is_plain[number[work.row[places]]]
    return found & plain & (work.end_ns - work.start_ns >= _SHORTEST_NS)


def _has_tf32(trace: Trace, products: I64) -> bool:
    """Return whether a device of the products may compute in TF32: of compute capability 8."""
    devices = np.unique(operations(trace).device[products])
    major = trace.columns("device", "compute_major")["compute_major"].filled(_TF32_SINCE)
    return bool((major[devices] >= _TF32_SINCE).any())


def _changes(trace: Trace, scope: StepScope, products: I64) -> tuple[Change, ...]:
    """Return what tensor cores change; nothing where the GPU has none or is not known."""
    counted = products[scope.operations[products]]
    peaks = device_peaks(trace, int(operations(trace).device[counted[0]]))
    if peaks is None or peaks.tf32_flop_per_s is None:
        return ()
    ratio = peaks.fp32_flop_per_s / peaks.tf32_flop_per_s
    low, central, high = (min(ratio / of, 1.0) for of in reversed(_OF_RATIO))
    return (ScaleOperations(products, Range(low, central, high)),)
