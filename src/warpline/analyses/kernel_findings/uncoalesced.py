"""uncoalesced: warps access more sectors of global memory than their data needs."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L2
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.ops.arrays import F64, BoolArray

NAME = "uncoalesced"
TITLE = "Global memory accesses are not coalesced"

_LOADS, _STORES, _ATOMICS, _REDUCTIONS = (
    f"l1tex__t_sectors_pipe_lsu_mem_global_op_{of}.sum" for of in ("ld", "st", "atom", "red")
)
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_ALL, _IDEAL = (f"memory_l2_theoretical_sectors_global{which}" for which in ("", "_ideal"))
_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
_READ = "dram__bytes_read.sum", "dram__bytes_op_read.sum"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_HIT = "l1tex__t_sector_hit_rate.pct"
_LINKS = ("l1-to-l2", "l2-to-l1")
_SECTOR = 32  # bytes
_OF_ATOMIC = 4  # sectors of a request of 4-byte atomics on neighboring addresses
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
        scattered data, which another order of its threads does not repair.
    Source: Nsight Compute's metrics. Pair `uncoalesced` on an H100: 73.9 us, 27.9 predicted, 25.7
        measured.
    """
    sectors = launches.metric(_LOADS) + launches.metric(_STORES)
    kept = 1 - np.divide(_excess(launches), sectors, out=np.zeros(len(launches)), where=sectors > 0)
    requests = launches.metric(_REQUESTS.format("ld")) + launches.metric(_REQUESTS.format("st"))
    shared, every = launches.metric(_SHARED), launches.counted("l1-data")
    of_global = 1 - np.divide(shared, every, out=np.zeros(len(shared)), where=every > 0)
    missed = 1 - launches.metric(_HIT) / 100  # of the sectors, which are then as few as can be
    of_l2 = np.divide(kept, missed, out=np.ones(len(kept)), where=missed > 0)
    change = Change.of(
        len(launches),
        {
            "l1-data": 1 - (1 - kept) * np.clip(of_global, 0, 1),
            **dict.fromkeys((*L2, *_LINKS), of_l2),
        },
    )

    def claim(row: int) -> str:
        each = sectors[row] / max(requests[row], 1)
        return (
            f"Each request of a warp accesses {each:.1f} sectors on average, where"
            f" {each * kept[row]:.1f} would do."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (kept < 1) & _is_reused(launches, sectors),
            change,
            claim,
            "Let neighboring threads access neighboring addresses (swap loops or indices, structure"
            " of arrays), or load tiles into shared memory.",
            (_LOADS, _STORES, _REQUESTS.format("ld"), _ALL, _IDEAL, _BYTES.format("ld"), _READ[0]),
        )
    ]


def _excess(launches: Launches) -> F64:
    """Return the sectors beyond what the data of loads and stores needs, shape (launches,)."""
    excess = np.zeros(len(launches))
    for of, name in (("ld", _LOADS), ("st", _STORES)):
        used = launches.metric(_BYTES.format(of))
        excess += launches.metric(name) * np.where(used > 0, 1 - used / _SECTOR, 0)
    counted = launches.metric(_ALL) - launches.metric(_IDEAL)
    for of, name in (("atom", _ATOMICS), ("red", _REDUCTIONS)):
        ideal = _OF_ATOMIC * launches.metric(_REQUESTS.format(of))
        counted = counted - np.maximum(launches.metric(name) - ideal, 0)
    found: F64 = np.where(launches.has(_ALL, _IDEAL), counted, excess)
    return np.maximum(found, 0)


def _is_reused(launches: Launches, sectors: F64) -> BoolArray:
    """Return whether sectors come from caches more than once, shape (launches,)."""
    read = np.where(launches.has(_READ[0]), launches.metric(_READ[0]), launches.metric(_READ[1]))
    is_reused: BoolArray = read / _SECTOR < (1 - _LEAST_REUSE) * sectors
    return is_reused
