"""uncoalesced: warps access more sectors of global memory than their data needs."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import SECTOR
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.derived.kernel_limits.sectors import (
    ALL,
    BYTES,
    IDEAL,
    LOADS,
    REQUESTS,
    STORES,
    coalesced,
    global_sectors,
)
from warpline.ops.arrays import F64, BoolArray

NAME = "uncoalesced"
TITLE = "Global memory accesses are not coalesced"

_READ = "dram__bytes_read.sum", "dram__bytes_op_read.sum"
_LEAST_REUSE = 0.3


@kernel_rule(name=NAME, title=TITLE)
def uncoalesced(launches: Launches) -> list[Proposal]:
    """Global loads and stores that touch more sectors than their data needs.

    What it finds: Loads and stores of warps whose threads access addresses that are far apart, so
        that each of the sectors (32 bytes) is read for a few bytes.
    Why it matters: L1 handles one wavefront per cycle. A load of 32 separate sectors takes it 8
        times as long as one of 4.
    How it is found: Sectors, and the sectors that the same accesses would need if their addresses
        were contiguous (`memory_l2_theoretical_sectors_global_ideal`, or the bytes used of each
        sector). Atomics are not counted. A repair leaves L1 the ideal sectors, L2 those of them
        that L1 missed, and DRAM as it is.
    What to do: Let neighboring threads access neighboring addresses: swap loops or indices, use a
        structure of arrays, or load a tile into shared memory first.
    Limits: Only where at least 30% of the sectors are found in a cache. Otherwise the kernel reads
        scattered data, which another order of its threads does not repair. An excess of at most a
        sector per request is that of misaligned.
    Source: Nsight Compute's metrics. Pair `uncoalesced` on an H100: 73.9 us, 27.9 predicted, 25.7
        measured.
    """
    found = global_sectors(launches)

    def claim(row: int) -> str:
        each = found.of_request[row]
        return (
            f"Each request of a warp accesses {each:.1f} sectors on average, where"
            f" {each * found.kept[row]:.1f} would do."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (found.excess > 0) & ~found.is_misaligned & _is_reused(launches, found.sectors),
            coalesced(launches, found),
            claim,
            "Let neighboring threads access neighboring addresses (swap loops or indices, structure"
            " of arrays), or load tiles into shared memory.",
            (LOADS, STORES, REQUESTS[0], ALL, IDEAL, BYTES, _READ[0]),
            shown_at=ShownAt(("excess_sectors_global",), "excess sectors"),
        )
    ]


def _is_reused(launches: Launches, sectors: F64) -> BoolArray:
    """Return whether sectors come from caches more than once, shape (launches,)."""
    read = np.where(launches.has(_READ[0]), launches.metric(_READ[0]), launches.metric(_READ[1]))
    is_reused: BoolArray = read / SECTOR < (1 - _LEAST_REUSE) * sectors
    return is_reused
