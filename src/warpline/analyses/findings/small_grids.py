"""small-grids: kernels with fewer blocks than half of the GPU's SMs."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.small_grids import small_grids
from warpline.derived.work.operations import operations
from warpline.result import Finding, rule
from warpline.result.changes import SetDurations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "small-grids"
TITLE = "Kernels have too few blocks for the GPU"

_BLOCKS_PER_SM = 4
_LEAST_NS = 1_000, 2_000  # of a kernel that does next to nothing: at best, and likely
_SHORT = " If they do not depend on each other, they could run at the same time."
_LONG = " Divided among more blocks, their work could use all SMs."
_NARROW = " Most have one or two warps per block, too few to hide memory latency."
_MOST = 0.5  # of the kernels' time
_FIX_LONG = (
    "Divide the work of each kernel among more blocks: for example split-K for GEMMs and"
    " reductions, or split-KV for attention over long sequences. "
)
_FIX_NARROW = (
    "Give each block 128 to 512 threads, and let each thread load several values before it uses"
    " them (loop unrolling, vector loads). "
)


@rule(name=NAME, title=TITLE)
def small_grids_rule(run: Run) -> list[Finding]:
    """Kernels with fewer blocks than half of the GPU's SMs.

    What it finds: Kernels of 10 us or more with such small grids, not overlapped with other work,
        if they take at least 5% of the step: launched at least twice per step with the same grid,
        or at least 100 us long with blocks for at most a quarter of the SMs (20 us for blocks of
        at most 64 threads).
    Why it matters: A block runs on one SM. The other SMs are idle, although the GPU counts as busy.
    How it is found: By grids, and the number of SMs of the GPU. At best, all launches of a kernel
        in a step run at the same time, as far as there are SMs for them. At worst nothing is saved.
        The work of a long kernel is assumed to be divided among all SMs, at best with four blocks
        on each.
    What to do: Give each kernel more blocks, batch the launches, or run them in several streams.
    Limits: A recording does not show whether the launches depend on each other, as the steps of an
        RNN do, or whether a kernel's work can be divided. The severity is therefore at most medium
        for long kernels, and low for others. Kernels whose blocks loop over the work, such as nvjet
        and stream-K GEMMs, do not count.
    Source: CUDA C++ Best Practices Guide, "Thread and Block Heuristics". Measured on an H200: two
        kernels with 16 and 4 blocks, divided among all SMs, became 17 and 21 times faster. A sum
        with 8 blocks of one warp became at least 5 times faster with 16 warps in each block.
    """
    scope, small, work = step_scope(run), small_grids(run), operations(run.trace)
    places = np.zeros(len(work), np.bool_)
    places[small.kernel] = True
    weight = scope.weigh(places)
    if not weight.is_measurable:
        return []
    many = plural(max(round(weight.number), 1), "kernel")
    now = (work.end_ns - work.start_ns)[small.kernel]
    ratio = np.where(small.is_long, small.block_ratio / _BLOCKS_PER_SM, small.least_ratio)
    least_ns = np.where(small.is_long, _LEAST_NS[0], 0)
    at_best = np.maximum(np.rint(now * ratio).astype(np.int64), least_ns)
    divided = np.maximum(np.rint(now * small.block_ratio).astype(np.int64), _LEAST_NS[1])
    likely = np.where(small.is_long, divided, now)
    is_long = bool(small.is_long.any())
    is_narrow = bool(now[small.is_long & small.is_narrow].sum() > _MOST * now.sum())
    widen = _FIX_NARROW if is_narrow else ""
    divide = (_FIX_LONG if is_long else "") + widen
    return [
        Finding(
            NAME,
            "medium" if is_long else "low",
            f"Kernels with too few blocks take {format_ratio(weight.share)} of the time",
            f"{many}{scope.each} with fewer blocks than half of the SMs take {weight.time}."
            + (_LONG if is_long else _SHORT)
            + (_NARROW if is_narrow else ""),
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", places),),
            divide + "Batch the operations (torch.bmm, torch._foreach_*, larger batches), or run"
            " independent ones in several torch.cuda.Stream.",
            "Profile again: `warpline stats -r cuda_kern_exec_sum` shows fewer instances.",
            fix_cuda=widen
            + "Launch more blocks per kernel, batch the launches, or run independent kernels in"
            " several streams.",
            fix_in={"jax": "Batch the operations with jax.vmap."},
            changes=(SetDurations(small.kernel, at_best, likely, now),),
            on_devices=weight.on_devices,
            most_severe="medium" if is_long else "low",
        )
    ]
