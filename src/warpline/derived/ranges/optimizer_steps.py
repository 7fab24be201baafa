"""What PyTorch's optimizers launch, by the ranges that PyTorch puts around their steps."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import range_names
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import BoolArray
from warpline.ops.tree import enclosing
from warpline.trace import Trace

# Of the PyTorch profiler and of emit_nvtx, for every class derived from torch.optim.Optimizer.
_STEP = lazy_pattern(r"(?:.*:)?Optimizer\.step#")


@derived
def launched_by_optimizers(trace: Trace) -> BoolArray:
    """Return which operations the step of a PyTorch optimizer launched; shape (operations,)."""
    work = operations(trace)
    launched = np.zeros(len(work), np.bool_)
    if not all(trace.has(table) and trace.row_count(table) for table in ("range", "api_call")):
        return launched
    names = range_names(trace)
    is_step = np.array([bool(text and _STEP.match(text)) for text in names.texts])[names.codes]
    if not is_step.any():
        return launched
    rows, known = np.flatnonzero(is_step), np.flatnonzero(work.call >= 0)
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.filled(-1)[rows] for column in columns.values())
    calls = trace.columns("api_call", "start_ns", "thread_id")
    at, of_thread = (column.filled(-1)[work.call[known]] for column in calls.values())
    inside = enclosing(at, start, end, point_group=of_thread, group=thread)
    launched[known] = inside.found
    return launched
