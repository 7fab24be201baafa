"""local-memory: spilled registers and local arrays."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L1, L2
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "local-memory"
TITLE = "Local memory: spilled registers or indexed arrays"

_LOCAL, _GLOBAL = (
    tuple(f"l1tex__t_sectors_pipe_lsu_mem_{of}_op_{op}.sum" for op in ("ld", "st"))
    for of in ("local", "global")
)
_REQUESTS = tuple(f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st"))
_SPILLS = "derived__local_spilling_requests"
_REGISTERS = "launch__registers_per_thread"
_LEAST = 0.1


@kernel_rule(name=NAME, title=TITLE)
def local_memory(launches: Launches) -> list[Proposal]:
    """Loads and stores of local memory.

    What it finds: At least 10% of the global and local sectors in L1 are local.
    Why it matters: Local memory holds registers that did not fit and arrays that are indexed at run
        time. It is in DRAM, behind the same caches as all other data.
    How it is found: Sectors and requests of local memory. A repair takes all of them away from L1
        and L2, and the arithmetic on their indices with them; the rest is the floor.
    What to do: Spills: raise the limit of registers (`__launch_bounds__`, `-maxrregcount`), or
        split the kernel. Arrays: unroll loops, so that indices are known to the compiler.
    Limits: With more registers fewer warps fit on an SM, and unrolled code is other code.
    Source: Pair `local_array` on an H100: 611 us, 24 us measured; a floor with the arithmetic on
        indices, 261 us, was beaten.
    """
    local = sum(launches.metric(name) for name in _LOCAL)
    every = local + sum(launches.metric(name) for name in _GLOBAL)
    share = np.divide(local, every, out=np.zeros(len(launches)), where=every > 0)
    requests = sum(launches.metric(name) for name in _REQUESTS)
    all_requests = launches.counted("l1-requests")
    of_requests = np.clip(
        np.divide(requests, all_requests, out=np.zeros(len(share)), where=all_requests > 0), 0, 1
    )

    def claim(row: int) -> str:
        spills = launches.metric(_SPILLS)[row]
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
            share >= _LEAST,
            Change.of(len(launches), kept),
            claim,
            "Spills: raise the limit of registers (__launch_bounds__) or split the kernel. Arrays:"
            " unroll the loops that index them.",
            (*_LOCAL, *_GLOBAL, _SPILLS, _REGISTERS),
        )
    ]
