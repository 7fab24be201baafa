"""What governs the time of profiled launches, by the roof that each is nearest to."""

from __future__ import annotations

import numpy as np

from warpline.derived.efficiency.rooflines import Rooflines
from warpline.ops.arrays import F64, I64

NEAR = 0.6  # of a ceiling: as the rules of ncu that compare with the speed of light
_SAME = 0.05  # a part of the GPU that is busier than a roof by more is another one


def nearest_roof(found: Rooflines) -> tuple[I64, F64]:
    """Return the place of the roof that each row is nearest to, -1 if unknown, and the share."""
    shares = np.array(
        [np.where(share.is_known, share.values, -1) for share in (r.share for r in found.roofs)]
    )
    nearest, most = shares.argmax(axis=0), shares.max(axis=0, initial=-1)
    return np.where(most < 0, -1, nearest), np.maximum(most, 0)


def bound_of(found: Rooflines, row: int, nearest: int, share: float) -> str | None:
    """Return what governs the time of a row; None if that is not known.

    The throughput of memory and SMs is that of their busiest part, which a roof may be.

    Args:
        found: The rooflines.
        row: The row.
        nearest: The place of its nearest roof, as `nearest_roof` returns it.
        share: Its share of this ceiling.
    """
    others = [
        (float(of.values[row]), name)
        for of, name in (
            (found.memory_ratio, "memory-bound, other units"),
            (found.sm_ratio, "compute-bound, other instructions"),
        )
        if of.is_known[row]
    ]
    busiest, name = max(others, key=lambda of: of[0], default=(0.0, ""))
    if nearest >= 0 and share >= max(NEAR, busiest - _SAME):
        roof = found.roofs[nearest]
        return f"memory-bound at {roof.name}" if roof.is_memory else f"compute-bound {roof.name}"
    if busiest >= NEAR:
        return name
    is_complete = found.memory_ratio.is_known[row] and found.sm_ratio.is_known[row]
    return "neither: latency" if is_complete else None
