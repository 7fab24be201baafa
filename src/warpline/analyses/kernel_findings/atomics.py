"""atomics: atomic operations wait for each other at few addresses."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L1, PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_ratio

NAME = "atomics"
TITLE = "Atomics contend for few addresses"

_SECTORS = tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{of}.sum" for of in ("red", "atom"))
_ALL_SECTORS = "lts__t_sectors.sum"
_MOVED = tuple(f"lts__t_sectors_srcunit_tex_op_{of}.sum" for of in ("read", "write"))
_SECTOR_RATE = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
_MEAN = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"
_LEAST = 0.3
_NEARLY = 0.8  # of the busiest resource


@kernel_rule(name=NAME, title=TITLE)
def atomics(launches: Launches) -> list[Proposal]:
    """Atomic operations on global memory that keep one slice of L2 busy.

    What it finds: The busiest slice of L2 executes atomics at least 30% of the time, and nothing
        else is much busier.
    Why it matters: L2 executes atomics on one address one after another.
    How it is found: The busiest slice, because the average of all hides a few hot addresses. After
        a repair there are no atomics in L1 and L2; what the kernel does otherwise is its floor.
    What to do: Sum up in registers or shared memory first (warp shuffles, a histogram per block),
        with one atomic per block at the end.
    Limits: How fast the new code is depends on its data, which counters do not show.
    Source: Pair `atomics` on an H100: 3,116 us, floor 23 us, 36 us measured.
    """
    used = launches.demands.share("atomics")
    most = launches.demands.used.max(axis=1, initial=0)
    l2 = launches.demands.share("l2")
    every = launches.metric(_ALL_SECTORS)
    of_atomics = sum(launches.metric(name) for name in _SECTORS)
    others = 1 - np.divide(of_atomics, every, out=np.zeros(len(used)), where=every > 0)
    # Atomics cross from one half of L2 to the other, and are counted there again.
    moves = launches.metric(_MOVED[0]) + launches.metric(_MOVED[1])
    others = np.where(
        launches.has(*_MOVED), np.minimum(others, launches.ratio(moves, every)), others
    )
    # The throughput of L2 is the maximum of its parts, many of which wait for atomics. Without them
    # it moves the other sectors.
    moved = np.clip(launches.metric(_SECTOR_RATE) / 100, 0, l2)
    kept = np.divide(moved, l2, out=np.zeros(len(l2)), where=l2 > 0) * others

    def claim(row: int) -> str:
        mean = launches.metric(_MEAN)[row] / 100
        return (
            f"The busiest slice of L2 executes atomics in {format_ratio(used[row])} of its cycles,"
            f" the mean slice in {format_ratio(mean)}."
        )

    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            (used >= _LEAST) & (used >= _NEARLY * most),
            Change.of(
                len(launches),
                {
                    # L1 sends the atomics. How much of its work that is, counters do not show.
                    **dict.fromkeys(("atomics", *L1), np.zeros(len(used))),
                    "l2": kept,
                    "l2-requests": others,
                    "l2-replies": others,
                },
            ),
            claim,
            "Sum up in registers or shared memory first (warp shuffles, a histogram per block),"
            " then one atomic per block.",
            (*RESOURCES[PLACE["atomics"]].metrics, _MEAN, *_SECTORS),
            shown_at=waiting_for("atomics", "lg_throttle", "long_scoreboard", "drain", "membar"),
        )
    ]
