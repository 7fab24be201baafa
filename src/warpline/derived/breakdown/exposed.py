"""How long some operations ran in each analyzed window, and how long nothing else did."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition, window_segments
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.time_parts import is_busy
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, by_group, cut
from warpline.trace import Run, Trace


class WorkTimes(NamedTuple):
    """Times of some operations, by window of `step_partition`.

    Attributes:
        running_ns: Shape (windows,), int64, while at least one of them ran.
        exposed_ns: Shape (windows,), int64, while no operation of a category before theirs in
            `TimePart` ran, and no earlier one of the same category.
    """

    running_ns: I64
    exposed_ns: I64


def work_times(run: Run, chosen: BoolArray) -> WorkTimes:
    """Return the times of some operations.

    Args:
        run: The trace, and the choice of its steps.
        chosen: Shape (operations,), bool.
    """
    trace, windows = run.trace, step_partition(run).windows
    segments, pieces = device_segments(trace), window_segments(trace, windows)
    alone = (is_busy(segments.part) & chosen[segments.operation])[pieces.row]
    exposed, running = np.zeros((2, len(windows.device)), np.int64)
    np.add.at(exposed, pieces.span[alone], (pieces.end_ns - pieces.start_ns)[alone])
    spans = Grouped(windows.start_ns, windows.end_ns, windows.device)
    taken = cut(spans, _times(trace, np.flatnonzero(chosen)))
    np.add.at(running, taken.span, taken.end_ns - taken.start_ns)
    return WorkTimes(running, exposed)


def _times(trace: Trace, places: I64) -> Grouped:
    """Return when at least one of some operations ran, by device."""
    work = operations(trace)
    start, end, device = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows in by_group(work.device[places]):
        own = places[rows]
        times = union(work.start_ns[own], work.end_ns[own])
        start.append(times.start)
        end.append(times.end)
        device.append(np.full(len(times.start), work.device[own[0]]))
    return Grouped(*(np.concatenate(parts) for parts in (start, end, device)))
