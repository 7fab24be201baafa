"""CUDA graphs that were recorded as wholes, so that their kernels have no rows."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.schema.tables import GRAPH_LEVELS
from warpline.trace import Trace
from warpline.units import plural

_WHOLE = next(value for value, label in GRAPH_LEVELS.items() if label == "Graph")


@derived
def graph_notes(trace: Trace) -> tuple[str, ...]:
    """Return what a reader of device tables must know about graphs; empty if nothing."""
    if not trace.has("graph_launch"):
        return ()
    columns = trace.columns("graph_launch", "level", "start_ns", "end_ns", ordered=False)
    whole = columns["level"].values == _WHOLE
    count = int(np.count_nonzero(whole))
    if not count:
        return ()
    lasted_ns = int((columns["end_ns"].values - columns["start_ns"].values)[whole].sum())
    launches = plural(count, "launch of a CUDA graph was", "launches of CUDA graphs were")
    missing = (
        f"{launches} recorded as a whole: {lasted_ns:,} ns of device time are not in this table"
    )
    return (f"{missing}; record with --cuda-graph-trace=node to see the kernels",)
