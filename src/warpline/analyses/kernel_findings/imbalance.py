"""imbalance: some SMs work much longer than others."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.demands import ACTIVE
from warpline.derived.kernel_limits.launches import GRID, SMS, Launches
from warpline.derived.kernel_limits.patterns import WAVES, last_wave
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule

NAME = "imbalance"
TITLE = "The work is spread unevenly over the SMs"

_LEAST = 1.1


@kernel_rule(name=NAME, title=TITLE)
def imbalance(launches: Launches) -> list[Proposal]:
    """SMs that are active for different times, although there are blocks for all of them.

    What it finds: The busiest SM works at least 10% longer than the mean.
    Why it matters: The kernel ends with its last block. SMs that have none left are idle.
    How it is found: Active cycles of the busiest SM over the mean. After a repair all SMs work for
        the mean time, unless another resource needs longer.
    What to do: Make blocks smaller and more numerous, start the longest first, or let blocks take
        their work from a queue.
    Limits: Grids with fewer blocks than SMs, and those with a partial last wave, have rules of
        their own (few-blocks, last-wave).
    Source: Nsight Compute's metrics. Pair `uneven` on an H100: 39.1 us, 10.5 predicted, 10.2
        measured.
    """
    ratio = launches.demands.imbalance

    def claim(row: int) -> str:
        return (
            f"The busiest SM is active {ratio[row]:.1f} times as long as the mean SM"
            f" ({launches.metric(GRID)[row]:.0f} blocks, {launches.metric(WAVES)[row]:.1f} waves)."
        )

    has_blocks = launches.has(GRID, SMS) & (launches.metric(GRID) >= launches.metric(SMS))
    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (ratio >= _LEAST) & has_blocks & (last_wave(launches) == 1),
            Change.of(len(launches), hides=np.maximum(ratio, 1.0), balances=True),
            claim,
            "Use smaller blocks or a queue of work, and start the longest blocks first.",
            (*ACTIVE, GRID, SMS, WAVES),
        )
    ]
