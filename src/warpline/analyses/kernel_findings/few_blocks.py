"""few-blocks: the grid is too small to fill the GPU."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import BLOCK, GRID, SMS, Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "few-blocks"
TITLE = "The grid is too small to fill the GPU"

_WAVES = "launch__waves_per_multiprocessor"
_THEORETICAL = "sm__maximum_warps_avg_per_active_cycle"
_ACTIVE = "sm__cycles_active.avg", "sm__cycles_active.max"
_LEAST_WAVES = 0.5


@kernel_rule(name=NAME, title=TITLE)
def few_blocks(launches: Launches) -> list[Proposal]:
    """Grids with fewer blocks than SMs, or with less than half of the warps that fit.

    What it finds: Launches whose blocks leave SMs idle, or fill at most half of their warp slots.
    Why it matters: Idle SMs do no work, and few warps cannot hide the latency of memory.
    How it is found: Blocks, SMs and waves (`launch__waves_per_multiprocessor`). A repair fills all
        SMs evenly with as many warps as fit, with the same work in all.
    What to do: Launch more, smaller pieces of work: several blocks per SM. For reductions and
        matrix products, split the inner dimension (split-K).
    Limits: Counters do not show whether the work can be divided, or whether its parts depend on
        each other.
    Source: Pair `small_grid` on an H100: 1,777 us, 72.7 predicted, 70.9 measured.
    """
    sms, grid = launches.metric(SMS), launches.metric(GRID)
    theoretical = launches.metric(_THEORETICAL)
    fit = np.where(theoretical >= 1, theoretical, launches.warps_of_sm)
    warps = launches.launched_warps
    hides = np.divide(fit * sms, warps, out=np.ones(len(warps)), where=warps > 0)
    waves = launches.metric(_WAVES)
    is_small = launches.has(GRID, BLOCK, SMS) & (warps > 0) & (sms > 0)
    is_small &= (grid < sms) | (launches.has(_WAVES) & (waves < _LEAST_WAVES))

    def claim(row: int) -> str:
        share = warps[row] / (fit[row] * sms[row])
        return (
            f"The grid has {grid[row]:.0f} blocks for {sms[row]:.0f} SMs. Its"
            f" {warps[row]:.0f} warps fill {format_ratio(min(share, 1))} of the warp slots."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            is_small,
            Change.of(len(launches), hides=hides, balances=True),
            claim,
            "Divide the work among more blocks, several per SM; split the inner dimension of"
            " reductions and matrix products.",
            (GRID, BLOCK, SMS, _WAVES, *_ACTIVE),
        )
    ]
