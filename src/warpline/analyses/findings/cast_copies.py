"""cast-copies: tensors are cast repeatedly."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, Weight, step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.double_precision import double_kernels
from warpline.derived.metrics.memory_use import dram_in_words
from warpline.derived.program import is_training
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import BoolArray
from warpline.ops.group import factorize_rows
from warpline.result import Finding, Severity, rule
from warpline.result.changes import DropOperations
from warpline.trace import Run
from warpline.units import format_ns

NAME = "cast-copies"
TITLE = "Tensors are cast repeatedly"

_LEAST_EACH = 4  # casts of one size per step: one per layer of a model, not one per batch
_REMAINING = Estimate(0.0, 0.0, 0.4)


@rule(name=NAME, title=TITLE)
def cast_copies(run: Run) -> list[Finding]:
    """Kernels that cast tensors to another dtype, many times per step.

    What it finds: Kernels of the category cast-copy that run at least four times per step with
        the same grid and take at least 5% of the step. Their launch time counts where the GPU
        waits for launches.
    Why it matters: Weights kept in FP32 and cast at every use are read and written once more each
        time.
    How it is found: By kernel category (see kernel_class_sum) and grid size. A cast of the batch
        or of the output runs once per step and does not count. Casts to FP64 belong to fp64.
    What to do: Store tensors in the dtype in which they are used.
    Limits: A recording does not show which tensors are cast. Mixed-precision training needs one
        cast per weight and step, as weights change in every step: in training, a saving that is
        mostly launch time gives medium severity at most. The bounds of the saving assume that up to
        40% of the casts stay.
    Source: PyTorch's documentation of automatic mixed precision and its weight cache; measured on
        a program with and without the casts.
    """
    scope, casts = step_scope(run), _repeated(run)
    weight = scope.weigh(casts)
    if not weight.is_measurable_with_launches:
        return []
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"{weight.digits} repeated casts{scope.each} take {weight.most} of the time",
            f"Repeated casts in {weight.digits} kernels{scope.each} take"
            f" {weight.time}{weight.launching}.{dram_in_words(run, casts)}",
            (
                scope.show_operations(
                    f"{weight.digits} casts{scope.each} take {format_ns(weight.ns)}", casts
                ),
            ),
            "Cast weights once (model.to(torch.bfloat16)) or use torch.autocast, which caches"
            " weight casts within its block. Avoid alternating .float() and .bfloat16() between"
            " layers.",
            "Profile again: `warpline stats -r breakdown` shows cast-copy at 5% or less.",
            fix_cuda="Store the operands in the data type of the GEMM, or convert in its prologue"
            " or epilogue (cublasLt accepts other types for C and D).",
            fix_in={
                "jax": "Store parameters and activations in the dtype in which they are used"
                " (jnp.bfloat16). Avoid alternating .astype() calls between layers."
            },
            changes=(DropOperations(np.flatnonzero(casts), remaining=_REMAINING),),
            on_devices=weight.on_devices,
            most_severe=_most_severe(run, weight),
        )
    ]


def _most_severe(run: Run, weight: Weight) -> Severity:
    """Return the highest possible severity.

    Autocast casts each weight in each training step. These casts stay; a CUDA graph removes their
    launches.
    """
    is_high = not is_training(run.trace) or severity_of(weight.share) == "high"
    return "high" if is_high else "medium"


def _repeated(run: Run) -> BoolArray:
    """Return which operations are casts that run several times per step with one name and grid."""
    scope: StepScope = step_scope(run)
    work = operations(run.trace)
    chosen: BoolArray = operation_categories(run.trace) == TimePart.CAST_COPY
    chosen = chosen & ~double_kernels(run.trace)
    places = np.flatnonzero(chosen)
    if not len(places):
        return chosen
    columns = run.trace.columns("kernel", "name_id", "grid_x", "grid_y", "grid_z")
    kinds = factorize_rows(*(column.values[work.row[places]] for column in columns.values())).codes
    counted = np.bincount(kinds, scope.operations[places])
    chosen[places] = counted[kinds] >= _LEAST_EACH * scope.count
    return chosen
