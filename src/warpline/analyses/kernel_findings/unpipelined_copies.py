"""unpipelined-copies: tiles are loaded to shared memory while nothing else happens."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import LATENCY, Launches, stall
from warpline.derived.kernel_limits.patterns import (
    COPIES_AHEAD,
    LOAD_REQUESTS,
    SHARED_STORES,
    stages_without_copies_ahead,
)
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_ratio

NAME = "unpipelined-copies"
TITLE = "Tiles are copied to shared memory, and nothing is computed meanwhile"

_NEARLY_ALL = 0.95


@kernel_rule(name=NAME, title=TITLE)
def unpipelined_copies(launches: Launches) -> list[Proposal]:
    """Tiles of global memory that are stored to shared memory through registers, behind barriers.

    What it finds: Loads of global memory, about as many stores to shared memory, and barriers, but
        no asynchronous copies (`cp.async`, TMA). Warps wait for memory, and then at barriers, at
        least 30% of their time, and no resource is used at 60% of its peak.
    Why it matters: Loading a tile and using it take turns. With copies ahead they overlap.
    How it is found: By counts of instructions and the stalls of warps. With copies far enough ahead
        the wait is hidden: the part of the time that warps do not wait remains. With a single tile
        ahead, the longer of both parts does.
    What to do: Copy two or more tiles ahead with `cp.async` (`__pipeline_memcpy_async`,
        `cuda::memcpy_async`) or TMA, in a ring of buffers. In Triton: `num_stages` of 3 or more.
        A second block per SM overlaps, too, if shared memory has room for it.
    Limits: Buffers take shared memory, so fewer blocks may fit.
    Source: CUDA C++ Programming Guide. Pair `copy_ahead` on an H100: 49.8 us, 24.1 to 49.8
        predicted, 37.5 measured.
    """
    waits = np.minimum(launches.waiting("long_scoreboard", "barrier"), _NEARLY_ALL)

    def claim(row: int) -> str:
        return (
            f"Warps wait for tiles in {format_ratio(waits[row])} of the cycles between their"
            " instructions, and no copy is asynchronous."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            stages_without_copies_ahead(launches),
            Change.of(
                len(launches), hides=1 / (1 - waits), hides_least=1 / np.maximum(waits, 1 - waits)
            ),
            claim,
            "Copy tiles ahead with cp.async or TMA into a ring of buffers (Triton: num_stages=3).",
            (
                stall("long_scoreboard"),
                stall("barrier"),
                LATENCY,
                LOAD_REQUESTS,
                SHARED_STORES,
                *COPIES_AHEAD,
            ),
            shown_at=waiting_for("tiles", "long_scoreboard", "barrier"),
        )
    ]
