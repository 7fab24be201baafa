"""CUDA graphs traced at graph level, whose kernels have no rows."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.schema.labels import GRAPH_LEVELS
from warpline.trace import Trace
from warpline.units import plural

_WHOLE = next(value for value, label in GRAPH_LEVELS.items() if label == "Graph")


@derived
def graph_notes(trace: Trace) -> tuple[str, ...]:
    """Return the notes about CUDA graphs for tables of GPU operations; empty if there are none."""
    if not trace.has("graph_launch"):
        return ()
    columns = trace.columns("graph_launch", "level", "start_ns", "end_ns", ordered=False)
    whole = columns["level"].values == _WHOLE
    count = int(np.count_nonzero(whole))
    if not count:
        return ()
    lasted_ns = int((columns["end_ns"].values - columns["start_ns"].values)[whole].sum())
    launches = plural(count, "CUDA graph launch was", "CUDA graph launches were")
    missing = f"{launches} traced at graph level: {lasted_ns:,} ns of GPU time not in this table"
    return (f"{missing}; profile with --cuda-graph-trace=node to see the kernels",)
