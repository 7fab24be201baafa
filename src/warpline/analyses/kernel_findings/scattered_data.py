"""scattered-data: sectors are read for a few of their bytes, and once only."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import dram_bytes
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L1, L2
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for

NAME = "scattered-data"
TITLE = "Few bytes of each sector are used"

_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
_LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_READ = "dram__bytes_read.sum"
_WRITTEN = "dram__bytes_write.sum"
_SECTOR = 32  # bytes
_MOST_BYTES = 16
_LEAST_READ = 0.7  # of the sectors: from DRAM


@kernel_rule(name=NAME, title=TITLE)
def scattered_data(launches: Launches) -> list[Proposal]:
    """Loads of which each sector comes from DRAM for at most half of its bytes.

    What it finds: Sectors (32 bytes) of global memory that are read for at most 16 bytes each, at
        least 70% of them from DRAM: strided fields of structures, columns of a matrix, gathers.
    Why it matters: DRAM and L2 move whole sectors. What is not used is moved in vain.
    How it is found: Bytes used of each sector, and bytes read from DRAM. With another layout, each
        sector is read for all of its bytes: that is the floor.
    What to do: A structure of arrays, the transposed matrix, or sorted indices.
    Limits: The layout may serve other kernels, and random accesses have no layout that suits. It is
        therefore ranked after the faults of the kernel itself, and never high.
    Source: Nsight Compute's metrics. Pair `aos` on an H100: 50.5 us, floor 11.2 us, 11.5
        measured.
    """
    used, sectors = launches.metric(_BYTES), launches.metric(_LOADS)
    of_sector = np.clip(used / _SECTOR, 0, 1)
    read, written, _ = dram_bytes(launches.trace)
    every = read + written
    of_dram = 1 - np.divide(read, every, out=np.zeros(len(read)), where=every > 0) * (1 - of_sector)
    kept = dict.fromkeys((*L2, *L1), of_sector)

    def claim(row: int) -> str:
        return f"Of each sector of {_SECTOR} bytes, {used[row]:.1f} bytes are used."

    return [
        Proposal(
            Kind.REARRANGES,
            TITLE,
            (used > 0) & (used <= _MOST_BYTES) & (read / _SECTOR >= _LEAST_READ * sectors),
            Change.of(len(launches), {**kept, "dram": of_dram}),
            claim,
            "Change the data layout, if the code that shares it allows: structure of arrays,"
            " transposed matrix, sorted indices.",
            (_BYTES, _LOADS, _READ, _WRITTEN),
            shown_at=waiting_for("memory", "long_scoreboard", "lg_throttle"),
        )
    ]
