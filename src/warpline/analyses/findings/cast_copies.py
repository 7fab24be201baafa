"""cast-copies: the same tensors are cast again and again."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.ops.group import factorize_rows
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations, Range
from warpline.trace import Trace
from warpline.units import format_ns

NAME = "cast-copies"
TITLE = "Tensors are cast to another type over and over"

_LEAST_EACH = 4  # casts of one size per step: as of the layers of a model, not of a batch
_REMAINING = Range(0.0, 0.0, 0.4)


@rule(name=NAME, title=TITLE)
def cast_copies(trace: Trace, steps: str | None) -> list[Finding]:
    """Kernels that copy tensors into another type, many times per step.

    What it finds: Kernels of the category cast-copy that run at least four times per step with
        the same grid, if they take at least 5% of a step, with their launches where the device
        waits for the host.
    Why it matters: Weights kept in float32 and cast for each use are read and written once more
        each time, for nothing.
    How it is found: By what kernels are (see kernel_class_sum) and the size of their grids. A
        cast of the batch or of the output, which a step needs, runs once.
    What to do: Keep the tensors in the type in which they are used.
    Limits: What the casts are of does not show. Training in mixed precision needs casts where
        the weights change every step: one for each weight. The bounds let
        two in five stay.
    Source: PyTorch's documentation of automatic mixed precision and its weight cache; measured on
        a program with and without the casts.
    """
    scope, casts = step_scope(trace, steps), _repeated(trace, steps)
    weight = scope.weigh(casts)
    if not weight.is_measurable_with_launches:
        return []
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            TITLE,
            f"{weight.digits} kernels{scope.each} only cast tensors to another type; they take"
            f" {weight.time}.",
            (scope.show_operations(f"{weight.digits} casts take {format_ns(weight.ns)}", casts),),
            "Cast weights once (model.to(torch.bfloat16), or torch.autocast, which keeps casts of"
            " weights within its block); do not alternate .float() and .bfloat16() between layers",
            "record again: cast-copy is at most 5% in `warpline stats -r breakdown`",
            fix_cuda="Store the operands in the type of the product, or let the product's"
            " prologue or epilogue convert (cublasLt takes other types for C and D)",
            changes=(DropOperations(np.flatnonzero(casts), remaining=_REMAINING),),
        )
    ]


def _repeated(trace: Trace, name: str | None) -> BoolArray:
    """Return which operations are casts of one name and grid, several per step."""
    scope: StepScope = step_scope(trace, name)
    work = operations(trace)
    found: BoolArray = operation_categories(trace) == BUSY_CATEGORIES.index("cast-copy")
    places = np.flatnonzero(found)
    if not len(places):
        return found
    columns = trace.columns("kernel", "name_id", "grid_x", "grid_y", "grid_z")
    kinds = factorize_rows(*(column.values[work.row[places]] for column in columns.values())).codes
    counted = np.bincount(kinds, scope.operations[places])
    found[places] = counted[kinds] >= _LEAST_EACH * scope.count
    return found
