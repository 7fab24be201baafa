"""misaligned: requests of warps begin within a sector, so they need one more."""

from __future__ import annotations

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.derived.kernel_limits.sectors import (
    BYTES,
    LOADS,
    REQUESTS,
    STORES,
    coalesced,
    global_sectors,
)

NAME = "misaligned"
TITLE = "Global memory accesses are not aligned to sectors"

_LEAST_EXCESS = 0.25  # sectors of a request


@kernel_rule(name=NAME, title=TITLE)
def misaligned(launches: Launches) -> list[Proposal]:
    """Contiguous accesses of warps whose first address is no multiple of 32 bytes.

    What it finds: Requests of global memory with up to one sector (32 bytes) more than their data
        needs.
    Why it matters: A warp's 128 bytes are four sectors if they begin at a multiple of 32, otherwise
        five, in two lines of the cache.
    How it is found: Sectors beyond the ideal, per request. A repair leaves the ideal ones to L1
        and, as far as they missed L1, to L2.
    What to do: Align rows and offsets: allocate matrices with a padded pitch (`cudaMallocPitch`),
        and start rows of slices at multiples of 32 bytes. In PyTorch: pad the last dimension to a
        multiple of 8 (16 for bytes), and call `contiguous()` on slices that begin within a row.
    Limits: L1 often has the sector in excess already, from the neighboring warp; then little is
        gained.
    Source: CUDA C++ Best Practices Guide. Pair `misaligned` on an H100: 80.8 us, 66.7 predicted,
        65.2 measured.
    """
    found = global_sectors(launches)
    each = found.excess_of_request

    def claim(row: int) -> str:
        return (
            f"Each request of a warp accesses {found.of_request[row]:.1f} sectors on average, where"
            f" {found.of_request[row] - each[row]:.1f} would do: its data begins within a sector."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (each >= _LEAST_EXCESS) & found.is_misaligned,
            coalesced(launches, found),
            claim,
            "Start rows at multiples of 32 bytes: a padded pitch (cudaMallocPitch), or a last"
            " dimension that is a multiple of 8 floats.",
            (LOADS, STORES, *REQUESTS, BYTES),
            shown_at=ShownAt(("excess_sectors_global",), "excess sectors"),
        )
    ]
