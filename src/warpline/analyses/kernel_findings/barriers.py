"""barriers: warps of a block wait for each other most of the time."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import BLOCK, LATENCY, Launches, stall
from warpline.derived.kernel_limits.patterns import waits_at_barriers
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_ratio

NAME = "barriers"
TITLE = "Warps wait for each other at barriers"

_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
# What moves data between warps and steers it; a repair may leave none of it.
_EXCHANGE = ("issue", "alu", "adu", "cbu", "uniform", "lsu", "l1-requests", "memory-instructions")


@kernel_rule(name=NAME, title=TITLE)
def barriers(launches: Launches) -> list[Proposal]:
    """Kernels whose warps wait at `__syncthreads` more than for anything else.

    What it finds: At least 30% of the time between instructions of a warp is a wait at a barrier,
        more than for memory, and nothing but the exchange between warps is at 60% of its peak.
    Why it matters: At a barrier, all warps of a block wait for the slowest one. In a reduction by
        halves, most of them have nothing else to do.
    How it is found: By the stalls of warps. After a repair there are no barriers, and nothing is
        exchanged through shared memory: what else the kernel does is the floor.
    What to do: Let warps work by themselves: reduce with shuffles (`__shfl_xor_sync`,
        `cub::WarpReduce`), and with one barrier at the end. Smaller blocks wait for fewer warps,
        and several blocks per SM work while others wait. In Triton: smaller `num_warps`.
    Limits: Which warps are late, and why, counters do not show. If all of them wait for the longest
        chain of the block, less is gained.
    Source: Nsight Compute's metrics. Pair `barrier` on an H100: 89.3 us, floor 22.6 us, 23.5 us
        measured.
    """
    waits = launches.waiting("barrier")
    of_shared = launches.ratio(launches.metric(_SHARED), launches.counted("l1-data"))
    none = np.zeros(len(launches))
    kept = {**dict.fromkeys(_EXCHANGE, none), "l1-data": 1 - of_shared}
    change = Change.of(len(launches), kept)
    is_rest_idle = (launches.demands.used * change.kept).max(axis=1) < launches.ceilings.busy

    def claim(row: int) -> str:
        warps = launches.block_warps[row]
        return (
            f"Warps wait at barriers in {format_ratio(waits[row])} of the cycles between their"
            f" instructions. A block has {warps:.0f} warps."
        )

    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            waits_at_barriers(launches) & is_rest_idle,
            change,
            claim,
            "Exchange data within warps (__shfl_xor_sync, cub::WarpReduce), with one barrier at"
            " the end; use smaller blocks (Triton: num_warps).",
            (stall("barrier"), LATENCY, BLOCK),
            shown_at=waiting_for("barriers", "barrier"),
        )
    ]
