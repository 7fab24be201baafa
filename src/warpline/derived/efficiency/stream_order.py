"""The kernels of each stream, in the order in which they run."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, is_repeated
from warpline.ops.tiling import order_of_groups
from warpline.trace import Trace


@derived
def kernels_by_stream(trace: Trace) -> I64:
    """Return the kernels by stream and start, indices into `operations`, shape (kernels,)."""
    work = operations(trace)
    kernels = work.of_table("kernel")
    # They are ordered by device and start, and both sorts are stable.
    stream = work.stream[kernels]
    if is_repeated(work.device):
        return kernels[order_of_groups(stream)]
    return kernels[np.lexsort((stream, work.device[kernels]))]
