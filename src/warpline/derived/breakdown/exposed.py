"""How long some operations ran in each analyzed window, and how long nothing else did."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.time_parts import is_busy
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.ops.tiling import Cuts, Grouped, by_group, cut
from warpline.trace import Run


class Unit(NamedTuple):
    """What sums over all windows are divided by, and the text for that, such as ``per step``."""

    number: int
    each: str


def unit_of(run: Run) -> Unit:
    """Return the step or, without steps, the GPU if there are several."""
    scope, ranks = step_scope(run), len(step_partition(run).ranks)
    if scope.has_steps or ranks < 2:
        return Unit(scope.count, scope.each)
    return Unit(ranks, " per GPU")


def running_ns(run: Run, chosen: BoolArray) -> I64:
    """Return how long at least one of some operations ran, by window of `step_partition`.

    Args:
        run: The trace, and the choice of its steps.
        chosen: Shape (operations,), bool.
    """
    work, rows = operations(run.trace), np.flatnonzero(chosen)
    return covered_ns(run, Grouped(work.start_ns[rows], work.end_ns[rows], work.device[rows]))


def covered_ns(run: Run, times: Grouped) -> I64:
    """Return how long at least one of some times of devices lasted, by window of `step_partition`.

    Args:
        run: The trace, and the choice of its steps.
        times: Of which each group is a device, in any order.
    """
    windows = step_partition(run).windows
    spans = Grouped(windows.start_ns, windows.end_ns, windows.device)
    return _summed(cut(spans, _united(times)), len(windows.device))


def exposed_ns(run: Run, chosen: BoolArray) -> I64:
    """Return how long some operations ran without others, by window of `step_partition`.

    Others are operations of categories before theirs in `TimePart`, and earlier ones of the same
    category.

    Args:
        run: The trace, and the choice of its steps.
        chosen: Shape (operations,), bool.
    """
    segments, windows = device_segments(run.trace), step_partition(run).windows
    rows = np.flatnonzero(is_busy(segments.part) & chosen[segments.operation])
    spans = Grouped(windows.start_ns, windows.end_ns, windows.device)
    alone = Grouped(segments.start_ns[rows], segments.end_ns[rows], segments.device[rows])
    return _summed(cut(spans, alone), len(windows.device))


def _summed(pieces: Cuts, windows: int) -> I64:
    ns = np.zeros(windows, np.int64)
    np.add.at(ns, pieces.span, pieces.end_ns - pieces.start_ns)
    return ns


def _united(times: Grouped) -> Grouped:
    """Return the union of the times of each group."""
    start, end, group = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows in by_group(times.group):
        united = union(times.start_ns[rows], times.end_ns[rows])
        start.append(united.start)
        end.append(united.end)
        group.append(np.full(len(united.start), times.group[rows[0]]))
    return Grouped(*(np.concatenate(parts) for parts in (start, end, group)))
