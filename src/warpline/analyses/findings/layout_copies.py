"""layout-copies: tensors are converted between memory layouts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import operation_categories, operation_origins
from warpline.derived.kernels.conversions import is_cupy_copy, layout_conversions
from warpline.derived.kernels.named import kernels_named
from warpline.derived.kernels.rules import Origin
from warpline.derived.metrics.memory_use import dram_in_words
from warpline.derived.program import is_compiled
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations
from warpline.trace import Run
from warpline.units import format_ns, plural

NAME = "layout-copies"
TITLE = "Tensors are converted between memory layouts"

# Of the time of layout conversions: most disappear with a single memory format, some may stay.
_REMAINING = Estimate(0.0, 0.0, 0.15)
# CuPy also copies for assignments and overlapping windows, by the same kernel.
_REMAINING_CUPY = Estimate(0.0, 0.3, 1.0)
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
# GroupNorm of PyTorch converts channels_last tensors back. A U-Net took 42 ms per step so, 33 ms in
# the default format, and 23 ms compiled (H200).
_OF_NORMS = (
    " Operators such as GroupNorm convert channels_last tensors back: use torch.compile, or compare"
    " the default format."
)
_OF_OTHERS = _Advice(
    "Remove pairs of .contiguous(), .transpose(), and .permute(). Store tensors in the order of"
    " dimensions in which the next operators read them: GEMMs and many other operators also take"
    " strided tensors.",
    "Read with strides instead of transposing first. Fold transposes into the GEMM (CUBLAS_OP_T).",
    "Remove pairs of jnp.transpose, jnp.swapaxes, and reshape. Name the contracted dimensions in"
    " jnp.einsum or lax.dot_general instead of transposing first.",
)
_OF_CUPY = _OF_OTHERS._replace(
    fix_cuda="Pass arrays in the order in which the next function reads them: cupy.matmul and other"
    " library calls copy strided operands, such as transposes and windows (as_strided), before"
    " each call. Make such copies once (cupy.ascontiguousarray), or read with strides in a kernel"
    " of your own (cupy.ElementwiseKernel, cupyx.jit)."
)


@rule(name=NAME, title=TITLE)
def layout_copies(run: Run) -> list[Finding]:
    """Kernels that convert tensors between memory layouts.

    What it finds: Kernels that convert layouts and take at least 5% of the step. Where the GPU
        waits for launches, their launch time counts, except for those that cuDNN launches within a
        convolution.
    Why it matters: They read and write whole tensors without computing anything.
    How it is found: By kernel category (see kernel_class_sum): cuDNN's conversions between NCHW
        and NHWC, and copies of PyTorch and CuPy between tensors that differ only in layout. Other
        kernels of the category layout-copy do not count: concatenation, padding, rolling, flipping,
        repetition, stores into caches, and copies into another type.
    What to do: Keep tensors in the layout that the kernels expect, from the input to the loss.
        The advice on memory formats is only for programs with convolutions.
    Limits: Some conversions are necessary, for example before attention. The bounds of the saving
        assume that up to 15% of the time stays. A saving that is mostly launch time gives medium
        severity at most. CuPy copies for other reasons by the same kernel: up to all of its time
        may stay, and its severity is medium at most. If conversions are more than 90% of the GPU's
        work, they are what the program is for, and not reported.
    Source: PyTorch's documentation of channels_last; measured on a program with and without it.
    """
    scope = step_scope(run)
    copies = layout_conversions(run.trace)
    in_cupy = copies & kernels_named(run.trace, is_cupy_copy)
    is_cupy = 2 * scope.ns_of(in_cupy) > scope.ns_of(copies)
    # cuDNN converts around its kernel, and does so for each one-dimensional convolution.
    inside = copies & (operation_origins(run.trace) == Origin.CUDNN)
    around = scope.weigh(copies & ~inside).around_share
    weight = scope.weigh(copies)._replace(around_share=around)
    if not weight.is_measurable_with_launches or _is_purpose(scope, copies):
        return []
    remaining = _REMAINING_CUPY if is_cupy else _REMAINING
    changes = (
        DropOperations(np.flatnonzero(copies & ~inside), remaining=remaining),
        DropOperations(np.flatnonzero(inside), remaining=_REMAINING, keeps_gap=True),
    )
    has_convolutions = bool((operation_categories(run.trace) == TimePart.CONVOLUTION).any())
    advice = _OF_CONVOLUTIONS if has_convolutions else _OF_CUPY if is_cupy else _OF_OTHERS
    is_high = severity_of(weight.share) == "high" and not is_cupy
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"Layout conversions take {weight.most} of the time",
            f"Layout conversions in {many}{scope.each} take {weight.time}{weight.launching}."
            f"{dram_in_words(run, copies)}",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", copies),),
            advice.fix + (_OF_NORMS if has_convolutions and not is_compiled(run.trace) else ""),
            "Profile again: `warpline stats -r breakdown` shows less layout-copy time.",
            fix_cuda=advice.fix_cuda,
            fix_in={"jax": advice.fix_jax},
            changes=changes,
            on_devices=weight.on_devices,
            # A CUDA graph would also save the launches.
            most_severe="high" if is_high else "medium",
        )
    ]


def _is_purpose(scope: StepScope, copies: BoolArray) -> bool:
    """Return whether conversions are nearly all of the GPU's work."""
    work = operations(scope.run.trace)
    ns = (work.end_ns - work.start_ns)[scope.operations]
    return bool(ns[copies[scope.operations]].sum() > _MOST * ns.sum())
