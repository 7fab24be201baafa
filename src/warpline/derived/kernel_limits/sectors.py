"""Sectors of global memory that accesses touch, and those that their data needs."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import SECTOR
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L2
from warpline.frozen import frozen
from warpline.ops.arrays import F64, BoolArray

LOADS, STORES, _ATOMICS, _REDUCTIONS = (
    f"l1tex__t_sectors_pipe_lsu_mem_global_op_{of}.sum" for of in ("ld", "st", "atom", "red")
)
REQUESTS = tuple(f"l1tex__t_requests_pipe_lsu_mem_global_op_{of}.sum" for of in ("ld", "st"))
_ATOMIC_REQUESTS = tuple(
    f"l1tex__t_requests_pipe_lsu_mem_global_op_{of}.sum" for of in ("atom", "red")
)
ALL, IDEAL = (f"memory_l2_theoretical_sectors_global{which}" for which in ("", "_ideal"))
BYTES, _BYTES_STORED = (
    f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{of}.ratio" for of in ("ld", "st")
)
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_HIT = "l1tex__t_sector_hit_rate.pct"
_LINKS = ("l1-to-l2", "l2-to-l1")
_OF_ATOMIC = 4  # sectors of a request of 4-byte atomics on neighboring addresses
_ONE_MORE = 1.05  # sectors of a request, at most, where addresses are contiguous


@frozen
class GlobalSectors:
    """Sectors that loads and stores of global memory touch, shape (launches,) each.

    Attributes:
        sectors: Sectors in L1.
        requests: Requests of warps.
        excess: Sectors beyond those that the data needs.
    """

    sectors: F64
    requests: F64
    excess: F64

    @property
    def kept(self) -> F64:
        """The part of the sectors that the data needs."""
        has_any = self.sectors > 0
        return 1 - np.divide(
            self.excess, self.sectors, out=np.zeros(len(self.sectors)), where=has_any
        )

    @property
    def of_request(self) -> F64:
        """Sectors of a request, on average."""
        mean: F64 = self.sectors / np.maximum(self.requests, 1)
        return mean

    @property
    def excess_of_request(self) -> F64:
        """Sectors of a request beyond those that its data needs, on average."""
        mean: F64 = self.excess / np.maximum(self.requests, 1)
        return mean

    @property
    def is_misaligned(self) -> BoolArray:
        """Whether the excess is what contiguous data needs that begins within a sector."""
        is_small: BoolArray = (self.excess > 0) & (self.excess_of_request <= _ONE_MORE)
        return is_small


def global_sectors(launches: Launches) -> GlobalSectors:
    """Return the sectors of all launches. Atomics are not counted."""
    sectors = launches.metric(LOADS) + launches.metric(STORES)
    requests = np.sum([launches.metric(name) for name in REQUESTS], axis=0)
    return GlobalSectors(sectors, requests, np.minimum(_excess(launches), sectors))


def coalesced(launches: Launches, found: GlobalSectors) -> Change:
    """Return the change to as many sectors as the data needs.

    L1 has the ideal sectors left, L2 those of them that L1 missed, and DRAM is as it was.
    """
    kept = found.kept
    of_shared = launches.ratio(launches.metric(_SHARED), launches.counted("l1-data"))
    missed = 1 - launches.metric(_HIT) / 100  # of the sectors, which are then as few as can be
    of_l2 = np.divide(kept, missed, out=np.ones(len(kept)), where=missed > 0)
    return Change.of(
        len(launches),
        {
            "l1-data": 1 - (1 - kept) * (1 - of_shared),
            **dict.fromkeys((*L2, *_LINKS), of_l2),
        },
    )


def _excess(launches: Launches) -> F64:
    """Return the sectors beyond what the data of loads and stores needs, shape (launches,)."""
    excess = np.zeros(len(launches))
    for used, name in ((BYTES, LOADS), (_BYTES_STORED, STORES)):
        of_sector = launches.metric(used)
        excess += launches.metric(name) * np.where(of_sector > 0, 1 - of_sector / SECTOR, 0)
    counted = launches.metric(ALL) - launches.metric(IDEAL)
    for requests, name in zip(_ATOMIC_REQUESTS, (_ATOMICS, _REDUCTIONS), strict=True):
        ideal = _OF_ATOMIC * launches.metric(requests)
        counted = counted - np.maximum(launches.metric(name) - ideal, 0)
    found: F64 = np.where(launches.has(ALL, IDEAL), counted, excess)
    return np.maximum(found, 0)
