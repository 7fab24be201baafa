"""sorted-index-backward: indexing whose backward pass sorts the indices."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.index_backward import index_backward
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations, ScaleOperations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "sorted-index-backward"
TITLE = "The backward pass of indexing sorts the indices"

# Of the kernel that adds up sorted gradients: atomic additions, measured 0.27 for rows of 64 FP32
# numbers. Frequent indices that collide are slower.
_ATOMIC = Estimate(0.15, 0.3, 1.0)
_STAYS_AT_WORST = Estimate(0.0, 0.0, 1.0)


@rule(name=NAME, title=TITLE)
def sorted_index_backward(run: Run) -> list[Finding]:
    """Backward passes of x[index] that sort the indices first.

    What it finds: PyTorch's kernel that adds up the gradients of x[index], with the sort of the
        indices before it, if they take at least 5% of the step.
    Why it matters: The sort makes the order of additions deterministic. Then one warp after another
        adds the rows of equal indices. torch.index_select and torch.gather use atomic additions
        instead, at the speed of memory.
    How it is found: By kernel names and order in a stream. Predicted are atomic additions at 0.3
        (0.15 to 1) of the time of the adding kernel, without the sort.
    What to do: Select rows with index_select.
    Limits: With torch.use_deterministic_algorithms, the sort is wanted. Frequent indices make
        atomic additions slower. Backward passes of nn.Embedding, which sort too, are not reported.
    Source: Measured on an H200: a graph network with x[index], and with index_select.
    """
    scope, found = step_scope(run), index_backward(run.trace)
    places = np.zeros(len(operations(run.trace)), np.bool_)
    places[found.adding] = places[found.preparing] = True
    weight = scope.weigh(places)
    if not weight.is_measurable:
        return []
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"Backward passes of indexing that sort take {format_ratio(weight.share)} of the time",
            f"Sorting indices and adding up gradients, {many}{scope.each}, takes {weight.time}."
            " Atomic additions need no sort.",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", places),),
            "Replace x[index] with torch.index_select(x, 0, index), whose backward pass uses atomic"
            " additions; for single elements with torch.gather.",
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows no"
            " indexing_backward_kernel.",
            changes=(
                DropOperations(found.preparing, _STAYS_AT_WORST),
                ScaleOperations(found.adding, _ATOMIC),
            ),
            on_devices=weight.on_devices,
        )
    ]
