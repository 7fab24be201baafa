"""Bytes per second, as the tables of nsys have them."""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import I64
from warpline.result import Numbers

_WHOLE_NUMBER_UP_TO_NS = 20_000_000


def throughput(size: I64, duration_ns: I64) -> Numbers:
    """Return bytes per second, invalid for a duration of zero.

    nsys multiplies by the whole number of such durations per second. This is accurate for short
    operations, but gives 0 for a copy longer than a second.

    Args:
        size: Shape (n,), bytes.
        duration_ns: Shape (n,).
    """
    took_time = duration_ns > 0
    per_second = 1e9 / np.where(took_time, duration_ns, 1)
    shown = np.where(duration_ns > _WHOLE_NUMBER_UP_TO_NS, per_second, np.floor(per_second))
    return Numbers(np.where(took_time, size * shown, 0.0), took_time)
