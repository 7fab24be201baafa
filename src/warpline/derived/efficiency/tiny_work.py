"""Whether nearly all kernels of a step have too little to do for the GPU, such as tiny GEMMs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.launch_shapes import launch_shapes
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.product_shapes import product_shapes
from warpline.derived.idle.host_calls import launch_period_ns
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.result import Evidence
from warpline.trace import Run
from warpline.units import format_ns, plural

_FEW_BLOCKS = 0.5  # relative to SMs
_SHORT_NS = 10_000
_NEARLY_ALL = 0.8  # of the kernels
_WHOLE = 100  # MFLOP, from which on decimals say nothing


class TinyWork(NamedTuple):
    """What findings add about such kernels; all of it is empty if a step has others.

    Attributes:
        claim: What they are, in one or two sentences, after a space.
        fix: What to do, after a space.
        fix_cuda: The same for CUDA C++.
        fix_jax: The same for JAX.
        evidence: The kernels.
    """

    claim: str = ""
    fix: str = ""
    fix_cuda: str = ""
    fix_jax: str = ""
    evidence: tuple[Evidence, ...] = ()


_FIX = " More work in each kernel hardly takes the GPU longer: raise the batch size{}."
_BATCHED, _BATCHED_CUDA, _BATCHED_JAX = (
    f", and use {how} for independent GEMMs of one shape"
    for how in ("torch.bmm", "strided-batched GEMMs", "jax.vmap")
)


@derived
def tiny_work(run: Run) -> TinyWork:
    """Return what to add about kernels that cannot fill the GPU, if at least 80% are such.

    Such a kernel takes at most 10 us and no longer than the time from one launch to the next, and
    has blocks for less than half of the SMs.
    """
    trace, scope = run.trace, step_scope(run)
    work, blocks = operations(trace), launch_shapes(trace).blocks
    launch_ns = launch_period_ns(trace)
    is_kernel = np.zeros(len(work), np.bool_)
    is_kernel[work.of_table("kernel")] = True
    is_kernel &= scope.operations & (operation_categories(trace) != TimePart.COLLECTIVE)
    sm_count = np.append(peaks_of_devices(trace).sm_count, 0)[work.device]
    length = work.end_ns - work.start_ns
    is_tiny = is_kernel & (blocks > 0) & (blocks < _FEW_BLOCKS * sm_count)
    is_tiny &= length <= min(_SHORT_NS, launch_ns)
    if not is_tiny.any() or np.count_nonzero(is_tiny) < _NEARLY_ALL * np.count_nonzero(is_kernel):
        return TinyWork()
    number, every = (round(scope.number_of(places)) for places in (is_tiny, is_kernel))
    many = plural(every, "kernel")
    of_all = f"all {many}" if number == every else f"{number:,} of {many}"
    median, launch = format_ns(float(np.median(length[is_tiny]))), format_ns(launch_ns)
    flop = product_shapes(trace).flop[is_tiny]
    mega = float(np.median(flop[flop > 0])) / 1e6 if flop.any() else 0.0
    size = f"{mega:,.0f}" if mega >= _WHOLE else f"{mega:.2g}"
    return TinyWork(
        f" The GPU has little to do: {of_all} have blocks for less than half of the"
        f" {int(np.bincount(sm_count[is_tiny]).argmax())} SMs, and take a median"
        f" of {median} (a launch: {launch})."
        + (f" The median GEMM has {size} MFLOP." if mega else ""),
        _FIX.format(_BATCHED),
        _FIX.format(_BATCHED_CUDA),
        _FIX.format(_BATCHED_JAX),
        (scope.show_operations(f"{plural(number, 'tiny kernel')}{scope.each}", is_tiny),),
    )
