"""The columns that name a rank in tables."""

from __future__ import annotations

import numpy as np

from warpline.derived.work.ranks import UNKNOWN, rank_of_process
from warpline.ops.arrays import I64
from warpline.result import Numbers, Values
from warpline.trace import Trace


def rank_columns(trace: Trace, process: I64, device: I64) -> dict[str, Values]:
    """Return the columns rank, pid and gpu_index.

    Args:
        trace: The trace.
        process: Shape (n,), int64, rows of the process table.
        device: Shape (n,), int64, rows of the device table.
    """
    if not len(process):
        nothing = np.zeros(0, np.int64)
        return {name: Numbers(nothing) for name in ("rank", "pid", "gpu_index")}
    rank = rank_of_process(trace)[process]
    pid = trace.columns("process", "pid")["pid"].values[process].astype(np.int64)
    gpu = trace.columns("device", "gpu_index")["gpu_index"].values[device].astype(np.int64)
    return {
        "rank": Numbers(rank, rank != UNKNOWN),
        "pid": Numbers(pid),
        "gpu_index": Numbers(gpu),
    }
