"""misaligned-gemm: Tensor Core GEMMs whose operands are not aligned."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.product_shapes import at_shares, least_product_ns
from warpline.derived.efficiency.products import Arithmetic, products
from warpline.derived.efficiency.reached import (
    HALF_GEMM,
    MISALIGNED,
    MISALIGNED_BEFORE_HOPPER,
    MISALIGNED_FOUR,
    MISALIGNED_OLD,
    TF32_GEMM,
    time_factor,
)
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.result import Finding, rule
from warpline.result.changes import Change, ScaleOperations
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "misaligned-gemm"
TITLE = "GEMM dimensions prevent full Tensor Core speed"

# Shorter kernels are bound by launch latency more than by arithmetic.
_SHORTEST_NS = 10_000
_HOPPER = 9  # compute capability


@rule(name=NAME, title=TITLE)
def misaligned_gemm(run: Run) -> list[Finding]:
    """GEMMs and convolutions on Tensor Cores with misaligned operands.

    What it finds: Kernels of 10 us or more that use Tensor Cores and whose names end in align1,
        align2, or align4 (in BF16 or FP16), if they take at least 5% of the step.
    Why it matters: Libraries select them if the rows of a matrix do not start at multiples of 16
        bytes. They load few bytes at a time, and on Hopper and later cannot use the fastest Tensor
        Core instructions.
    How it is found: By the names that CUTLASS, cuBLAS, and cuDNN give them. Predicted is an aligned
        kernel at 0.5 to 0.8 of the peaks. Where shapes are not recorded, misaligned ones are taken
        to reach 0.1 to 0.4 with align1, more with align4, and 0.2 to 0.65 on GPUs before Hopper.
    What to do: Pad dimensions to multiples of 8 in BF16 and FP16, of 4 in TF32, and of 16 in FP8.
    Limits: Nsight Systems does not record shapes: how fast the kernels are now is assumed, and the
        bounds are wide. Padding adds work.
    Source: NVIDIA's guide to matrix multiplication; CUTLASS issue 75. Checked on synthetic
        recordings; detected in two public recordings.
    """
    scope, misaligned = step_scope(run), _misaligned(run.trace)
    weight = scope.weigh(misaligned)
    if not weight.is_measurable:
        return []
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"GEMMs with misaligned dimensions take {format_ratio(weight.share)} of the time",
            f"Tensor Core GEMMs or convolutions with misaligned operands ({many}{scope.each}) take"
            f" {weight.time}.",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", misaligned),),
            "Pad GEMM dimensions (vocabulary, sequence, hidden, and batch size) to multiples of 8"
            " in BF16 or FP16, and of 4 in TF32.",
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows kernels with align8, or"
            " without align in their names.",
            fix_cuda="Pad leading dimensions to multiples of 16 bytes, and align pointers to 16"
            " bytes.",
            changes=_changes(run.trace, misaligned),
            on_devices=weight.on_devices,
        )
    ]


def _misaligned(trace: Trace) -> BoolArray:
    """Return which operations are misaligned GEMMs or convolutions on Tensor Cores."""
    work, names = operations(trace), products(trace)
    is_misaligned: BoolArray = names.fact("alignment") > 0
    is_misaligned &= names.fact("arithmetic") == int(Arithmetic.TENSOR)
    is_misaligned &= work.end_ns - work.start_ns >= _SHORTEST_NS
    return is_misaligned


def _changes(trace: Trace, misaligned: BoolArray) -> tuple[Change, ...]:
    """Return the times of aligned kernels, by recorded shapes or else by the kind of kernel."""
    names, least_ns = products(trace), least_product_ns(trace)
    is_tf32 = names.fact("is_sixteen_bit") == 0
    of_sizes = [
        at_shares(trace, np.flatnonzero(part), least_ns, reached)
        for reached, part in (
            (HALF_GEMM, misaligned & (least_ns > 0) & ~is_tf32),
            (TF32_GEMM, misaligned & (least_ns > 0) & is_tf32),
        )
        if part.any()
    ]
    return (*of_sizes, *_by_kind(trace, np.flatnonzero(misaligned & (least_ns == 0))))


def _by_kind(trace: Trace, places: I64) -> tuple[Change, ...]:
    """Return the factors of the kernels' times, one change for each kind of kernel."""
    names = products(trace)
    major = peaks_of_devices(trace).compute_major[operations(trace).device[places]]
    is_before_hopper = (major > 0) & (major < _HOPPER)
    facts = (names.fact(fact)[places] for fact in ("alignment", "is_sixteen_bit", "is_old"))
    alignment, is_half, is_old = facts
    kinds = factorize_rows(alignment, is_half, is_old, is_before_hopper.astype(np.int64))
    return tuple(
        ScaleOperations(
            places[kinds.codes == code],
            time_factor(
                _now(int(alignment[row]), bool(is_old[row]), bool(is_before_hopper[row])),
                HALF_GEMM if is_half[row] else TF32_GEMM,
            ),
        )
        for code, row in enumerate(kinds.first.tolist())
    )


def _now(alignment: int, is_old: bool, is_before_hopper: bool) -> Estimate:  # noqa: FBT001
    """Return the share of the peak that kernels of an alignment reach."""
    if is_before_hopper:
        return MISALIGNED_BEFORE_HOPPER
    if alignment not in MISALIGNED:
        return MISALIGNED_FOUR
    return MISALIGNED_OLD if is_old else MISALIGNED[alignment]
