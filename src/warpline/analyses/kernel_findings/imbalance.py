"""imbalance: some SMs work much longer than others."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import ACTIVE
from warpline.derived.kernel_limits.launches import GRID, SMS, Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule

NAME = "imbalance"
TITLE = "The work is spread unevenly over the SMs"

_WAVES = "launch__waves_per_multiprocessor"
_LEAST = 1.1


@kernel_rule(name=NAME, title=TITLE)
def imbalance(launches: Launches) -> list[Proposal]:
    """SMs that are active for different times, although there are blocks for all of them.

    What it finds: The busiest SM works at least 10% longer than the mean.
    Why it matters: The kernel ends with its last block. SMs that have none left are idle.
    How it is found: Active cycles of the busiest SM over the mean. After a repair all SMs work for
        the mean time, unless another resource needs longer.
    What to do: Make blocks smaller and more numerous, start the longest first, or let blocks take
        their work from a queue. A last wave of few blocks goes away if the grid is a multiple of
        the blocks that fit at a time.
    Limits: Grids with fewer blocks than SMs have a rule of their own (few-blocks).
    Source: Nsight Compute's metrics.
    """
    ratio = launches.demands.imbalance

    def claim(row: int) -> str:
        return (
            f"The busiest SM is active {ratio[row]:.1f} times as long as the mean SM"
            f" ({launches.metric(GRID)[row]:.0f} blocks, {launches.metric(_WAVES)[row]:.1f} waves)."
        )

    has_blocks = launches.has(GRID, SMS) & (launches.metric(GRID) >= launches.metric(SMS))
    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (ratio >= _LEAST) & has_blocks,
            Change.of(len(launches), hides=np.maximum(ratio, 1.0), balances=True),
            claim,
            "Use smaller blocks or a queue of work, start the longest first, or fit the grid to"
            " full waves.",
            (*ACTIVE, GRID, SMS, _WAVES),
        )
    ]
