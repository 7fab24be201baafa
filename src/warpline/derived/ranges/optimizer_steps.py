"""What PyTorch's optimizers launch, by the ranges that PyTorch puts around their steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import range_names
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tree import enclosing
from warpline.trace import Trace

# Of the PyTorch profiler, emit_nvtx and Warpline, for every class derived from
# torch.optim.Optimizer.
_STEP = lazy_pattern(r"(?:.*:)?Optimizer\.step#")
_ANY = lazy_pattern(r"(?:.*:)?Optimizer\.(?:step|zero_grad)#")


class OptimizerRanges(NamedTuple):
    """Ranges of optimizers, in the order of their starts.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before the start.
        thread: Shape (n,), int64, rows of the thread table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64


@derived
def optimizer_ranges(trace: Trace, *, only_steps: bool = False) -> OptimizerRanges:
    """Return the ranges around steps of PyTorch's optimizers and, unless left out, zero_grad."""
    if not trace.has("range") or not trace.row_count("range"):
        return OptimizerRanges(*(np.zeros(0, np.int64) for _ in OptimizerRanges._fields))
    names, pattern = range_names(trace), _STEP if only_steps else _ANY
    is_one = np.array([bool(text and pattern.match(text)) for text in names.texts], np.bool_)
    rows = np.flatnonzero(is_one[names.codes])
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.values[rows].astype(np.int64) for column in columns.values())
    return OptimizerRanges(start, np.maximum(start, end), thread)


@derived
def launched_by_optimizers(trace: Trace) -> BoolArray:
    """Return which operations the step of a PyTorch optimizer launched; shape (operations,)."""
    work = operations(trace)
    launched = np.zeros(len(work), np.bool_)
    steps = optimizer_ranges(trace, only_steps=True)
    known = np.flatnonzero(work.call >= 0)
    if not len(steps.start_ns) or not len(known):
        return launched
    calls = trace.columns("api_call", "start_ns", "thread_id")
    at, of_thread = (column.values[work.call[known]] for column in calls.values())
    inside = enclosing(at, steps.start_ns, steps.end_ns, point_group=of_thread, group=steps.thread)
    launched[known] = inside.found
    return launched
