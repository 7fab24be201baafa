"""divergence: threads of a warp take different branches."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import WARP_THREADS, Launches
from warpline.derived.kernel_limits.patterns import THREADS, contends_for_shared_memory
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import COMPUTE
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule

NAME = "divergence"
TITLE = "Threads of a warp diverge"

_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
_FEW = 24  # threads of an instruction


@kernel_rule(name=NAME, title=TITLE)
def divergence(launches: Launches) -> list[Proposal]:
    """Instructions that few threads of a warp execute.

    What it finds: Fewer than 24 of the 32 threads of a warp take part in an instruction, on
        average.
    Why it matters: A warp executes each branch that one of its threads takes, and an instruction
        takes as long for one thread as for 32.
    How it is found: Threads per instruction. After a repair all instructions have 32, so that each
        pipe executes fewer of them.
    What to do: Give the threads of a warp the same work: sort or group items by branch, make rows
        of a warp equally long, replace short branches by selects.
    Limits: Some warps must be partly empty, such as those of blocks whose size is no multiple of
        32. What differs between branches is not known: all pipes are scaled alike.
    Source: Nsight Compute's metrics. Pair `divergent` on an H100: 311 us, 158 predicted, 157
        measured.
    """
    threads = launches.metric(THREADS)
    is_few = launches.has(THREADS) & (threads > 0) & (threads < _FEW)
    kept = np.where(is_few, threads / WARP_THREADS, 1.0)

    def claim(row: int) -> str:
        return (
            f"{threads[row]:.1f} of {WARP_THREADS} threads are active per instruction, on average."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            is_few & ~contends_for_shared_memory(launches),
            Change.of(len(launches), {name: kept for name in COMPUTE if name != "tensor"}),
            claim,
            "Give the threads of a warp the same work: group items by branch, or make the loops of"
            " a warp equally long.",
            (THREADS, _UNIFORM),
            shown_at=ShownAt(("divergent_branches",), "divergent branches"),
        )
    ]
