"""register-spills: registers that did not fit are stored in local memory."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import READ, SECTOR, WRITTEN
from warpline.derived.kernel_limits.launches import BLOCK, INSTRUCTIONS, Launches
from warpline.derived.kernel_limits.patterns import LOCAL_REQUESTS, REGISTERS, SPILLS, spilled
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L2
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.units import format_ratio

NAME = "register-spills"
TITLE = "Registers are spilled to local memory"

_LOCAL, _GLOBAL = (
    tuple(f"l1tex__t_sectors_pipe_lsu_mem_{of}_op_{op}.sum" for op in ("ld", "st"))
    for of in ("local", "global")
)
_LEAST = 0.1  # of the sectors: local
_MOSTLY = 0.5  # of the local requests: spills
_PARTS = ("l1-data", "l1-writeback")
_REQUESTS = ("l1-requests", "lsu", "memory-instructions")


@kernel_rule(name=NAME, title=TITLE)
def register_spills(launches: Launches) -> list[Proposal]:
    """Loads and stores of local memory that hold values for which registers did not suffice.

    What it finds: At least 10% of the global and local sectors in L1 are local, and at least half
        of the local requests are spills.
    Why it matters: Each use of a spilled value is a load, and each definition a store.
    How it is found: ncu counts spills. Without that, they are assumed where the compiler used each
        register that a limit leaves it. A repair takes these loads and stores away from issue
        slots, L1 and, as far as they missed L1, from L2. DRAM keeps what global memory explains.
    What to do: Allow more registers (a smaller number of blocks in `__launch_bounds__`, no
        `-maxrregcount`, smaller blocks; in Triton fewer elements per program or more `num_warps`),
        or split the kernel, and keep fewer values alive at a time.
    Limits: With more registers, fewer warps fit on an SM. Local arrays have a rule of their own
        (local-memory).
    Source: Nsight Compute's metrics. Pair `spills` on an H100: 2,747 us, 241 to 385 predicted, 246
        measured.
    """
    local = np.sum([launches.metric(name) for name in _LOCAL], axis=0)
    every = local + np.sum([launches.metric(name) for name in _GLOBAL], axis=0)
    requests = np.sum([launches.metric(name) for name in LOCAL_REQUESTS], axis=0)
    of_requests, of_sectors = spilled(launches), launches.ratio(local, every)
    missed = _missed(launches, _LOCAL)
    of_l2 = launches.ratio(missed, missed + _missed(launches, _GLOBAL))
    spills = requests * of_requests
    of_dram = launches.ratio(
        _global_bytes(launches), launches.metric(READ) + launches.metric(WRITTEN)
    )
    change = {
        **dict.fromkeys(_PARTS, 1 - of_sectors * of_requests),
        **dict.fromkeys(_REQUESTS, 1 - launches.ratio(spills, launches.counted("l1-requests"))),
        **dict.fromkeys((*L2, "l1-to-l2", "l2-to-l1"), 1 - of_l2 * of_requests),
        "dram": 1 - (1 - np.where(of_dram > 0, of_dram, 1)) * of_requests,
        "issue": 1 - launches.ratio(spills, launches.metric(INSTRUCTIONS)),
    }

    def claim(row: int) -> str:
        source = "" if launches.has(SPILLS)[row] else ", which has all that its limit allows"
        return (
            f"{format_ratio(of_sectors[row])} of the sectors in L1 are local memory:"
            f" {spills[row]:,.0f} requests are registers that did not fit into the"
            f" {launches.metric(REGISTERS)[row]:.0f} of a thread{source}."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (of_sectors >= _LEAST) & (of_requests >= _MOSTLY),
            Change.of(len(launches), change),
            claim,
            "Allow more registers (__launch_bounds__, no -maxrregcount, smaller blocks; Triton:"
            " more num_warps), or split the kernel.",
            (*_LOCAL, *LOCAL_REQUESTS, SPILLS, REGISTERS, BLOCK, INSTRUCTIONS),
            shown_at=ShownAt(("sectors_local",), "local sectors"),
        )
    ]


def _global_bytes(launches: Launches) -> np.ndarray:
    """Return the most bytes that global memory reads from DRAM and writes to it."""
    loads, stores = (launches.metric(name) * SECTOR for name in _GLOBAL)
    return np.minimum(launches.metric(READ), loads) + np.minimum(launches.metric(WRITTEN), stores)


def _missed(launches: Launches, sectors: tuple[str, ...]) -> np.ndarray:
    """Return how many of the sectors L1 asked L2 for: all where that was not counted."""
    found = np.zeros(len(launches))
    for name in sectors:
        missed = name.replace(".sum", "_lookup_miss.sum")
        has, counted = launches.has(missed), launches.metric(missed)
        found += np.where(has, counted, launches.metric(name))
    return found
