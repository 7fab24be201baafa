"""What waits for input are: an input pipeline that repeats, one gap, or work on the GPU's results.

The cause `input` is any time without calls before a host-to-device copy. A pipeline prepares data
that does not depend on the GPU, again and again. Start-up, such as reading files before the first
copy, happens once. A program that copies data to the host, changes it there, and copies it back
cannot prepare it ahead.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES, Blocking, blocking
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.program import has_range
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, taken
from warpline.ops.interval import covered_until, union
from warpline.ops.tiling import by_group, rows_of
from warpline.trace import Run, Trace

Nature = Literal["pipeline", "once", "round-trip"]

# Waits of equal length that a repeating one amounts to: two may still be start-up.
LEAST_REPEATS = 2.5
_MOST = 0.5  # of the waiting time
_LOADER = "enumerate(DataLoader)#"
_NO_SIZE = -1


class InputWaits(NamedTuple):
    """Waits for input during the measured time.

    Attributes:
        nature: What most of them are.
        number: How many.
    """

    nature: Nature
    number: int


@derived
def input_waits(run: Run) -> InputWaits:
    """Return what the waits for input during the measured time are."""
    held = blocking(run.trace)
    windows = measure_windows(run)
    measured = union(windows.start_ns, windows.end_ns)
    length = covered_until(measured, held.end_ns) - covered_until(measured, held.start_ns)
    rows = np.flatnonzero((held.cause == TimePart.INPUT) & (length > 0))
    length = length[rows]
    if has_range(run.trace, _LOADER):
        return InputWaits("pipeline", len(rows))
    if length[_are_round_trips(run.trace, held, rows)].sum() > _MOST * length.sum():
        return InputWaits("round-trip", len(rows))
    is_repeated = effective_number(length) >= LEAST_REPEATS
    return InputWaits("pipeline" if is_repeated else "once", len(rows))


def needs_results(run: Run) -> bool:
    """Return whether the CPU works on what it copies from the GPU before it copies it back."""
    return input_waits(run).nature == "round-trip"


def effective_number(length: I64) -> float:
    """Return how many equal lengths are as concentrated: n for n equal ones, about 1 if one rules.

    Args:
        length: Shape (n,), not negative.
    """
    values = length.astype(np.float64)
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else 0.0


def _are_round_trips(trace: Trace, held: Blocking, rows: I64) -> BoolArray:
    """Return which waits follow a large copy to the host and precede one of the same size back."""
    launches = launch_order(trace)
    order = launches.order
    if not launches.is_known.all():
        order = order[launches.is_known[order]]
    process = taken(operations(trace).process, order)
    chosen = np.zeros(len(rows), np.bool_)
    for own in by_group(held.process[rows]):
        low, high = rows_of(process, int(held.process[rows[own[0]]]))
        launched = order[low:high]
        time_ns = launches.time_ns[launched]
        before = np.searchsorted(time_ns, held.start_ns[rows[own]]) - 1
        after = np.searchsorted(time_ns, held.end_ns[rows[own]])
        both = np.flatnonzero((before >= 0) & (after < len(launched)))
        left = _sizes(trace, launched[before[both]], TimePart.COPY_D2H)
        right = _sizes(trace, launched[after[both]], TimePart.COPY_H2D)
        chosen[own[both]] = (left > SMALL_COPY_BYTES) & (left == right)
    return chosen


def _sizes(trace: Trace, rows: I64, category: TimePart) -> I64:
    """Return the bytes of each operation that is a copy of the category, else `_NO_SIZE`."""
    work, size = operations(trace), np.full(len(rows), _NO_SIZE)
    is_copy = work.table[rows] == DEVICE_TABLES.index("memcpy")
    copies = np.flatnonzero(is_copy & (operation_categories(trace)[rows] == category))
    if len(copies):
        of_table = work.row[rows[copies]]
        size[copies] = trace.columns("memcpy", "bytes")["bytes"].values[of_table]
    return size
