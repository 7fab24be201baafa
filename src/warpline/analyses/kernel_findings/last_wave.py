"""last-wave: the last wave of blocks leaves most of the GPU idle."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import GRID, SMS, Launches
from warpline.derived.kernel_limits.patterns import WAVES, last_wave
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "last-wave"
TITLE = "The last wave of blocks is nearly empty"


@kernel_rule(name=NAME, title=TITLE)
def last_waves(launches: Launches) -> list[Proposal]:
    """Grids that take one wave of blocks more than their work needs.

    What it finds: Grids of up to six waves, of whose slots for blocks at least 10% stay empty
        because the last wave is partial.
    Why it matters: With 1.06 waves, the kernel takes as long as with two: in the second, nearly all
        SMs wait for a few blocks.
    How it is found: By waves (blocks over the blocks that fit on all SMs at a time). After a repair
        the work is spread evenly over full waves. At worst nothing is gained: the fewer blocks an
        SM has, the faster each of them may be, unless latency governs.
    What to do: Choose the size of blocks, or the work of each, so that the grid is just below a
        full number of waves. Or launch as many as fit, each taking its work from a loop over the
        grid (persistent kernels; split-K or stream-K for matrix products).
    Limits: Blocks are assumed to take equally long. Grids below one wave are those of few-blocks.
    Source: Nsight Compute's metrics. Pair `last_wave` on an H100: 96.7 us, 53.3 predicted, 55.1
        measured.
    """
    full, waves = last_wave(launches), launches.metric(WAVES)

    def claim(row: int) -> str:
        return (
            f"{launches.metric(GRID)[row]:,.0f} blocks on {launches.metric(SMS)[row]:.0f} SMs are"
            f" {waves[row]:.2f} waves. Of the slots of {np.ceil(waves[row]):.0f} waves,"
            f" {format_ratio(1 - full[row])} stay empty."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            full < 1,
            Change.of(
                len(launches), hides=1 / full, hides_least=np.ones(len(launches)), balances=True
            ),
            claim,
            "Fit the grid to full waves by the size or the work of blocks, or loop over the work"
            " with as many blocks as fit (persistent kernel, stream-K).",
            (WAVES, GRID, SMS, "sm__cycles_active.avg", "sm__cycles_active.max"),
        )
    ]
