"""l2-thrashing: DRAM is read again for data that L2 had."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import SECTOR, dram_bytes
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_bytes

NAME = "l2-thrashing"
TITLE = "Data is read again after it has left L2"

_READ, _WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_ASKED = "lts__t_sectors_srcunit_tex_op_read.sum"
_SIZE = "device__attribute_l2_cache_size"
_OF_SIZE = 2.0  # DRAM reads in sizes of L2, at least
_AGAIN = 1.25  # times that a sector is asked for, for each time that DRAM is read, at least
_BUSY = 0.6  # of the peak: DRAM


@kernel_rule(name=NAME, title=TITLE)
def l2_thrashing(launches: Launches) -> list[Proposal]:
    """Kernels that read much more from DRAM than L2 holds, although they use data again.

    What it finds: DRAM is used at 60% of its peak or more, at least twice the size of L2 is read
        from it, and SMs ask L2 for at least 1.25 times as many sectors.
    Why it matters: What is used again while it is in L2 costs no DRAM. In another order of the
        work, more of it may be.
    How it is found: Bytes read from DRAM, sectors that L1 asks L2 for, and the size of L2. Data of
        less than that size would have stayed, so at least as much as L2 holds must be read: that is
        the floor.
    What to do: Process data in parts that fit into half of L2, with all passes over each. Order the
        blocks of a matrix product in groups of rows (`GROUP_SIZE_M` in Triton's tutorial), and keep
        what is used most by an access policy window.
    Limits: Counters do not show which sectors are read again: the first reads of large data are
        among them. It is therefore ranked after the faults of the kernel itself, and never high.
        Data that never hits L2 looks like data that is read once, and is not found.
    Source: Warpline.
    """
    read, written, _ = dram_bytes(launches.trace)
    size, asked = launches.metric(_SIZE), launches.metric(_ASKED) * SECTOR
    is_found = (size > 0) & (read >= _OF_SIZE * size) & (asked >= _AGAIN * read)
    is_found &= launches.demands.share("dram") >= _BUSY
    kept = np.where(is_found, launches.ratio(size + written, read + written), 1.0)

    def claim(row: int) -> str:
        return (
            f"{format_bytes(round(read[row]))} are read from DRAM, and L2 holds"
            f" {format_bytes(round(size[row]))}. SMs ask L2 for"
            f" {asked[row] / read[row]:.1f} times as much."
        )

    return [
        Proposal(
            Kind.REARRANGES,
            TITLE,
            is_found,
            Change.of(len(launches), {"dram": kept, "l2": kept}),
            claim,
            "Finish all work on a part of the data that fits into L2 before the next part; order"
            " blocks in groups (Triton: GROUP_SIZE_M).",
            (_READ, _WRITTEN, _ASKED, _SIZE),
            shown_at=waiting_for("memory", "long_scoreboard", "lg_throttle"),
        )
    ]
