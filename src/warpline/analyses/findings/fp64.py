"""fp64: kernels that compute in double precision."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.double_precision import double_kernels
from warpline.derived.kernels.named import kernels_named
from warpline.derived.program import is_python, program_kind
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, Severity, rule
from warpline.result.changes import Change, ScaleOperations
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "fp64"
TITLE = "Kernels compute in double precision"

_LITTLE = 1 / 16  # FP64 relative to FP32: GPUs for graphics and inference have 1/32 to 1/64
_SHORTEST_NS = 5_000  # shorter kernels take their latency
# Of the time in FP64. Half of the bytes take half of the time at best: indices, latency, and caches
# stay as they are. At worst, the fix changes nothing.
_BYTES = Estimate(0.45, 0.65, 1.0)
# GEMMs in FP64 use Tensor Cores since the A100, and reach the peak of FP32 there.
_PRODUCTS = Estimate(0.45, 0.75, 1.0)
_PRODUCTS_LITTLE = Estimate(1 / 64, 1 / 16, 1.0)
_BYTES_LITTLE = Estimate(1 / 16, 0.5, 1.0)

_FIX = (
    "Check where FP64 comes from, and whether FP32 is accurate enough. NumPy defaults to float64:"
    " torch.from_numpy keeps it, and one such tensor promotes the results of all that follow."
    " Convert inputs once, with .float() or dtype=torch.float32 (torch.complex64)."
)
_FIX_NUMPY = (
    "Check where FP64 comes from, and whether FP32 is accurate enough. NumPy and CuPy default to"
    " float64 and complex128, and one such array promotes the results of all that follow. Pass"
    " dtype=float32 or complex64 where arrays are made (array, zeros, linspace, random), and print"
    " the dtype of intermediate results."
)
_FIX_CUDA = (
    "If FP32 is accurate enough, use float: also for literals (0.5f), functions (sinf, rsqrtf), and"
    " the types of library calls (cublasSgemm, CUFFT_C2C). Mixed schemes keep FP64 where it"
    " matters: FP32 factors with iterative refinement, FP64 sums of FP32 products."
)
_FIX_JAX = (
    "Check where FP64 comes from, and whether FP32 is accurate enough: it takes jax_enable_x64."
    " Without it, or with dtype=jnp.float32, NumPy inputs become FP32."
)


@rule(name=NAME, title=TITLE)
def fp64(run: Run) -> list[Finding]:
    """Kernels that compute in double precision.

    What it finds: Kernels whose names indicate FP64 (double, complex128, float64, dgemm, zgemm,
        dpRadix), if they take at least 5% of the step.
    Why it matters: FP64 moves twice the bytes of FP32. GPUs for graphics and inference compute it
        at 1/32 to 1/64 of the speed, GPUs for computing at half of it.
    How it is found: By kernel name. Kernels with other floating-point types in their names do not
        count, as these may have scalars in FP64, unless a library names them after FP64. Kernels of
        5 us or more would take 0.45 to 1.0 of their time in FP32, likely 0.65 where they are bound
        by memory and 0.75 for GEMMs, and less on GPUs with little FP64.
    What to do: Find where FP64 comes from, often NumPy's default type. Use FP32 where it is
        accurate enough.
    Limits: A recording does not show whether FP32 is accurate enough. The severity is medium at
        most in Python, where FP64 is often an accident, and low in CUDA C++, where it is a choice;
        on GPUs with little FP64, it is by the saving. Names that XLA and Triton give kernels do not
        show their type.
    Source: NumPy, "Data type promotion"; NVIDIA's data sheets (hardware/). complex128_filters of
        the blind set.
    """
    trace, scope = run.trace, step_scope(run)
    kernels = double_kernels(trace)
    weight = scope.weigh(kernels)
    if not weight.is_measurable:
        return []
    is_little = _are_on_little(scope, kernels)
    is_cupy = bool((kernels & kernels_named(trace, _is_cupy)).any())
    in_python = is_cupy or is_python(trace) or program_kind(trace) in {"pytorch", "jax"}
    severity: Severity = "high" if is_little else "medium" if in_python else "low"
    of_busy = _share_of_busy(scope, kernels)
    many = plural(max(round(weight.number), 1), "kernel")
    slow = " This GPU computes FP64 at less than a sixteenth of the speed of FP32." * is_little
    in_fp32 = _in_fp32_ns(scope, kernels, is_little=is_little)
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"Double precision (FP64) takes {format_ratio(weight.share)} of the time",
            f"{many}{scope.each} in FP64 take {weight.time}, {format_ratio(of_busy)} of the busy"
            f" time. In FP32, they would take about {format_ns(in_fp32)}.{slow}"
            " The saving assumes that FP32 is accurate enough.",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", kernels),),
            _FIX,
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows float, complex64, or sgemm"
            " in the names of these kernels.",
            fix_cuda=_FIX_NUMPY if in_python else _FIX_CUDA,
            fix_in={"jax": _FIX_JAX},
            changes=_changes(trace, kernels, is_little=is_little),
            on_devices=weight.on_devices,
            most_severe=severity,
            is_conditional=True,
        )
    ]


def _parts(
    trace: Trace, kernels: BoolArray, *, is_little: bool
) -> tuple[tuple[BoolArray, Estimate], ...]:
    """Return kernels long enough to gain from FP32, and the share of time that they would take."""
    work = operations(trace)
    is_long = kernels & (work.end_ns - work.start_ns >= _SHORTEST_NS)
    codes = [TimePart.GEMM, TimePart.CONVOLUTION]
    products = is_long & np.isin(operation_categories(trace), codes)
    return (
        (products, _PRODUCTS_LITTLE if is_little else _PRODUCTS),
        (is_long & ~products, _BYTES_LITTLE if is_little else _BYTES),
    )


def _changes(trace: Trace, kernels: BoolArray, *, is_little: bool) -> tuple[Change, ...]:
    parts = _parts(trace, kernels, is_little=is_little)
    return tuple(ScaleOperations(np.flatnonzero(part), of) for part, of in parts if part.any())


def _in_fp32_ns(scope: StepScope, kernels: BoolArray, *, is_little: bool) -> float:
    """Return the likely time of the kernels per step in FP32."""
    parts = _parts(scope.run.trace, kernels, is_little=is_little)
    saved = sum(scope.ns_of(part) * (1 - of.central) for part, of in parts)
    return scope.ns_of(kernels) - saved


def _share_of_busy(scope: StepScope, kernels: BoolArray) -> float:
    """Return the share of all GPU operations' time in included steps."""
    work = operations(scope.run.trace)
    ns = (work.end_ns - work.start_ns)[scope.operations]
    return float(ns[kernels[scope.operations]].sum()) / max(float(ns.sum()), 1.0)


def _are_on_little(scope: StepScope, kernels: BoolArray) -> bool:
    """Return whether the kernels run on a GPU with little FP64; unknown GPUs have much."""
    devices = operations(scope.run.trace).device[kernels & scope.operations]
    models = peaks_of_devices(scope.run.trace).model
    known = [models[device] for device in set(devices.tolist()) if 0 <= device < len(models)]
    return any(
        peaks is not None and peaks.fp64_flop_per_s < _LITTLE * peaks.fp32_flop_per_s
        for peaks in known
    )


def _is_cupy(name: str) -> bool:
    return name.startswith("cupy_")
