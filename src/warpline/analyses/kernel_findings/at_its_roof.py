"""at-its-roof: DRAM, L2 or Tensor Cores are near their ceiling."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "at-its-roof"
TITLE = "DRAM, L2 or Tensor Cores are near their peak"

_NEARLY = 0.9  # of the ceiling
_FIXES = {
    "dram": "Nothing to gain unless it moves fewer bytes: fuse it with its neighbors, use smaller"
    " types, or keep data in L2.",
    "l2": "Nothing to gain unless it moves fewer sectors: reuse data in shared memory or registers,"
    " use smaller types, or make scattered accesses contiguous.",
    "tensor": "Nothing to gain unless it multiplies less, or in a smaller type (FP8).",
}


@kernel_rule(name=NAME, title=TITLE)
def at_its_roof(launches: Launches) -> list[Proposal]:
    """Kernels for which DRAM, L2 or Tensor Cores are near the most that kernels reach.

    What it finds: DRAM, L2 or Tensor Cores within 10% of their likely ceiling.
    Why it matters: Nothing is gained by occupancy, fewer instructions or other fixes that leave the
        bytes or the products as they are.
    How it is found: By the use of each resource and the ceilings of predictions: 88% of the peak
        for DRAM, or that of a measured copy, 92% for L2. Tensor Cores count from 83% of their peak.
    What to do: Nothing, or less of what the resource is used for.
    Limits: The ceilings are chosen, unless `warpline bench copy --save` measured this GPU model.
    Source: Warpline.
    """
    none = Change.of(len(launches))
    ceilings = launches.ceilings.likely()
    ceilings[PLACE["tensor"]] = launches.ceilings.of_others.likely
    found, is_said = [], np.zeros(len(launches), np.bool_)
    for name, fix in _FIXES.items():
        resource, used = RESOURCES[PLACE[name]], launches.demands.share(name)
        is_full = (used >= _NEARLY * ceilings[PLACE[name]]) & ~is_said
        is_said |= is_full

        def claim(row: int, used: np.ndarray = used, label: str = resource.label) -> str:
            return f"{label} is at {format_ratio(used[row])} of its peak."

        found.append(
            Proposal(
                Kind.DONE,
                f"{resource.label} is near its peak",
                is_full,
                none,
                claim,
                fix,
                resource.metrics,
            )
        )
    return found
