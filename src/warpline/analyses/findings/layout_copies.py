"""layout-copies: tensors are copied into other layouts."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import severity_of
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations, Range
from warpline.trace import Trace
from warpline.units import format_ns

NAME = "layout-copies"
TITLE = "Tensors are copied into other layouts"

# Only their own time is counted, not that of their launches: where the device waits for the host,
# copies between layouts are not what is wrong. Most go when one layout is kept; some may stay.
_REMAINING = Range(0.0, 0.0, 0.15)


@rule(name=NAME, title=TITLE)
def layout_copies(trace: Trace, steps: str | None) -> list[Finding]:
    """Kernels that copy tensors into another order of their elements.

    What it finds: Kernels of the category layout-copy, if they take at least 5% of a step, with
        their launches where the device waits for the host.
    Why it matters: They read and write whole tensors and compute nothing.
    How it is found: By what kernels are (see kernel_class_sum): conversions between NCHW and NHWC
        of cuDNN, and copies of PyTorch between tensors that differ in layout only.
    What to do: Keep tensors in the layout that the kernels want, from the input to the loss.
    Limits: Some copies are needed, as in front of attention. The bounds let 15% of the time
        stay.
    Source: PyTorch's documentation of channels_last; measured on a program with and without it.
    """
    scope = step_scope(trace, steps)
    copies = operation_categories(trace) == BUSY_CATEGORIES.index("layout-copy")
    weight = scope.weigh(copies)
    if not weight.is_measurable_with_launches:
        return []
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            TITLE,
            f"{weight.digits} kernels{scope.each} only copy tensors into another layout; they take"
            f" {weight.time}.",
            (scope.show_operations(f"{weight.digits} copies take {format_ns(weight.ns)}", copies),),
            "Keep model and input in one layout: model.to(memory_format=torch.channels_last) and"
            " the same of the input for convolutions; drop .contiguous(), .transpose() and"
            " .permute() pairs around them",
            "record again: layout-copy is at most 5% in `warpline stats -r breakdown`",
            fix_cuda="Pass NHWC tensor descriptors to cuDNN for every tensor; let kernels read"
            " with strides instead of a transposing copy; fold the transpose into the product"
            " (CUBLAS_OP_T)",
            changes=(DropOperations(np.flatnonzero(copies), remaining=_REMAINING),),
        )
    ]
