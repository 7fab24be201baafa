"""local-memory: arrays of a thread that are indexed at run time."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.patterns import LOCAL_REQUESTS, REGISTERS, SPILLS, spilled
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L1, L2
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.units import format_ratio

NAME = "local-memory"
TITLE = "Arrays of threads are in local memory"

_LOCAL, _GLOBAL = (
    tuple(f"l1tex__t_sectors_pipe_lsu_mem_{of}_op_{op}.sum" for op in ("ld", "st"))
    for of in ("local", "global")
)
_LEAST = 0.1
_MOSTLY = 0.5  # of the local requests: spills


@kernel_rule(name=NAME, title=TITLE)
def local_memory(launches: Launches) -> list[Proposal]:
    """Loads and stores of local memory that are not spilled registers.

    What it finds: At least 10% of the global and local sectors in L1 are local, and at most half of
        the local requests are spills.
    Why it matters: Local memory holds arrays that are indexed at run time. It is in DRAM, behind
        the same caches as all other data.
    How it is found: Sectors and requests of local memory. A repair takes all of them away from L1
        and L2, and the arithmetic on their indices with them; the rest is the floor.
    What to do: Unroll the loops that index them, so that indices are known to the compiler
        (`#pragma unroll`, sizes as template arguments), or keep the array in shared memory.
    Limits: Unrolled code is other code. Spilled registers are those of register-spills.
    Source: Pair `local_array` on an H100: 611 us, 24 us measured; a floor with the arithmetic on
        indices, 261 us, was beaten.
    """
    local = sum(launches.metric(name) for name in _LOCAL)
    every = local + sum(launches.metric(name) for name in _GLOBAL)
    share = np.divide(local, every, out=np.zeros(len(launches)), where=every > 0)
    requests = sum(launches.metric(name) for name in LOCAL_REQUESTS)
    all_requests = launches.counted("l1-requests")
    of_requests = np.clip(
        np.divide(requests, all_requests, out=np.zeros(len(share)), where=all_requests > 0), 0, 1
    )

    def claim(row: int) -> str:
        spills = launches.metric(SPILLS)[row]
        what = f" {spills:,.0f} requests are spilled registers." if spills else ""
        return f"{format_ratio(share[row])} of the sectors in L1 are local memory.{what}"

    kept = dict.fromkeys((*L1, *L2, "dram"), 1 - share)
    kept |= dict.fromkeys(("l1-requests", "lsu", "memory-instructions"), 1 - of_requests)
    # How much of the integer work computes indices, counters do not show.
    kept |= dict.fromkeys(("issue", "alu", "adu", "uniform"), np.zeros(len(share)))
    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            (share >= _LEAST) & (spilled(launches) < _MOSTLY),
            Change.of(len(launches), kept),
            claim,
            "Unroll the loops that index the arrays (#pragma unroll), or keep the arrays in shared"
            " memory.",
            (*_LOCAL, *_GLOBAL, SPILLS, REGISTERS),
            shown_at=ShownAt(("sectors_local",), "local sectors"),
        )
    ]
