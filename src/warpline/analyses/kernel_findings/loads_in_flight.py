"""loads-in-flight: warps wait for memory, and no resource is busy."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import LATENCY, WARPS, Launches, stall
from warpline.derived.kernel_limits.patterns import is_idle, stages_without_copies_ahead
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_ratio

NAME = "loads-in-flight"
TITLE = "Warps wait for memory with few loads in flight"

_STALL = stall("long_scoreboard")
_LEAST_SHARE = 0.5  # of the latency
_MORE, _AT_LEAST = 4.0, 1.25  # times as much latency that is hidden


@kernel_rule(name=NAME, title=TITLE)
def loads_in_flight(launches: Launches) -> list[Proposal]:
    """Kernels that wait for global or local memory most of the time, without a busy resource.

    What it finds: More than half of the time between instructions of a warp is a wait for memory
        (long scoreboard), and the most-used resource is at less than 60% of its peak.
    Why it matters: Latency governs such a kernel. More loads at a time hide it.
    How it is found: By the stalls of warps. A repair has four loads in flight in place of
        one, and hides a quarter more of the latency at least.
    What to do: Unroll loops and load several values before the first is used, use wider loads, or
        copy ahead with `cp.async` or TMA.
    Limits: Loads whose address depends on the load before, as in lists and trees, cannot be started
        earlier. Registers limit how many fit. Tiles of shared memory are those of
        unpipelined-copies.
    Source: Nsight Compute's metrics. No pair was measured for this rule alone.
    """
    share = launches.waiting("long_scoreboard")
    is_waiting = launches.has(_STALL, LATENCY) & (share > _LEAST_SHARE) & is_idle(launches)

    def claim(row: int) -> str:
        return (
            f"Warps wait for memory in {format_ratio(share[row])} of the cycles between"
            f" their instructions (long scoreboard)."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            is_waiting & ~stages_without_copies_ahead(launches),
            Change.of(
                len(launches),
                hides=np.full(len(launches), _MORE),
                hides_least=np.full(len(launches), _AT_LEAST),
            ),
            claim,
            "Load several values before the first is used (unroll, wider loads), or copy ahead with"
            " cp.async or TMA.",
            (_STALL, LATENCY, WARPS),
            shown_at=waiting_for("memory", "long_scoreboard"),
        )
    ]
