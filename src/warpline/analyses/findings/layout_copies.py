"""layout-copies: tensors are converted between memory layouts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "layout-copies"
TITLE = "Tensors are converted between memory layouts"

# Of the time of layout conversions: most disappear with a single memory format, some may stay.
_REMAINING = Estimate(0.0, 0.0, 0.15)
_MOST = 0.9  # of the GPU's work


class _Advice(NamedTuple):
    """What to change."""

    fix: str
    fix_cuda: str
    fix_jax: str


_OF_CONVOLUTIONS = _Advice(
    "Use one memory format for model and input, such as .to(memory_format=torch.channels_last) on"
    " both for convolutions. Remove pairs of .contiguous(), .transpose(), and .permute() around"
    " them.",
    "Pass NHWC descriptors to cuDNN for every tensor. Read with strides instead of transposing"
    " first. Fold transposes into the GEMM (CUBLAS_OP_T).",
    "Give all convolutions NHWC dimension numbers (lax.conv_general_dilated), from the input on."
    " Remove pairs of jnp.transpose around them.",
)
_OF_OTHERS = _Advice(
    "Remove pairs of .contiguous(), .transpose(), and .permute(). Store tensors in the order of"
    " dimensions in which the next operators read them: GEMMs and many other operators also take"
    " strided tensors.",
    "Read with strides instead of transposing first. Fold transposes into the GEMM (CUBLAS_OP_T).",
    "Remove pairs of jnp.transpose, jnp.swapaxes, and reshape. Name the contracted dimensions in"
    " jnp.einsum or lax.dot_general instead of transposing first.",
)


@rule(name=NAME, title=TITLE)
def layout_copies(run: Run) -> list[Finding]:
    """Kernels that convert tensors between memory layouts.

    What it finds: Kernels of the category layout-copy that take at least 5% of the step. Their
        launch time counts where the GPU waits for launches.
    Why it matters: They read and write whole tensors without computing anything.
    How it is found: By kernel category (see kernel_class_sum): cuDNN's conversions between NCHW
        and NHWC, and PyTorch's copies between tensors that differ only in layout.
    What to do: Keep tensors in the layout that the kernels expect, from the input to the loss.
        The advice on memory formats is only for programs with convolutions.
    Limits: Some conversions are necessary, for example before attention. The bounds of the saving
        assume that up to 15% of the time stays. If conversions are more than 90% of the GPU's work,
        they are what the program is for, and not reported.
    Source: PyTorch's documentation of channels_last; measured on a program with and without it.
    """
    scope = step_scope(run)
    copies = operation_categories(run.trace) == TimePart.LAYOUT_COPY
    weight = scope.weigh(copies)
    if not weight.is_measurable_with_launches or _is_purpose(scope, copies):
        return []
    has_convolutions = bool((operation_categories(run.trace) == TimePart.CONVOLUTION).any())
    advice = _OF_CONVOLUTIONS if has_convolutions else _OF_OTHERS
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"Layout conversions take {format_ratio(weight.share)} of the time",
            f"Layout conversions in {many}{scope.each} take {weight.time}.",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", copies),),
            advice.fix,
            "Profile again: `warpline stats -r breakdown` shows layout-copy at 5% or less.",
            fix_cuda=advice.fix_cuda,
            fix_in={"jax": advice.fix_jax},
            changes=(DropOperations(np.flatnonzero(copies), remaining=_REMAINING),),
            on_devices=weight.on_devices,
        )
    ]


def _is_purpose(scope: StepScope, copies: BoolArray) -> bool:
    """Return whether conversions are nearly all of the GPU's work."""
    work = operations(scope.run.trace)
    ns = (work.end_ns - work.start_ns)[scope.operations]
    return bool(ns[copies[scope.operations]].sum() > _MOST * ns.sum())
