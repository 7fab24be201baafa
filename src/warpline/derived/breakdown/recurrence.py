"""Whether calls recur through a recording without steps, as those of a loop do."""

from __future__ import annotations

import numpy as np

from warpline.derived.steps.times import measure_windows
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.trace import Run

_PARTS = 10
_LEAST_PARTS = 9  # of the ten equal parts of the time with GPU work
_LEAST = 20  # calls with new GPU work in between


def while_working(run: Run, calls: I64) -> I64:
    """Return the calls that begin between the first and the last GPU operation.

    Args:
        run: The trace, and the choice of its steps.
        calls: Shape (n,), int64, rows of api_call.
    """
    low, high = _worked(run)
    start = run.trace.columns("api_call", "start_ns")["start_ns"].values[calls]
    inside: BoolArray = (start >= low) & (start < high)
    return calls[inside]


def recurs(run: Run, calls: I64) -> bool:
    """Return whether calls are spread over the whole time with GPU work, between operations.

    What happens once, such as allocation at the start or a read of the result, is not.

    Args:
        run: The trace, and the choice of its steps.
        calls: Shape (n,), int64, rows of api_call.
    """
    calls = while_working(run, calls)
    low, high = _worked(run)
    start = np.sort(run.trace.columns("api_call", "start_ns")["start_ns"].values[calls])
    begun = np.searchsorted(np.sort(operations(run.trace).start_ns), start)
    start = start[np.diff(begun, prepend=-1) > 0]
    parts = distinct_values((start - low) * _PARTS // max(high - low, 1))
    return len(start) >= _LEAST and len(parts) >= _LEAST_PARTS


def _worked(run: Run) -> tuple[int, int]:
    """Return the time from the first operation's start to the last one's end."""
    windows = measure_windows(run)
    if not len(windows.device):
        return 0, 0
    return int(windows.start_ns.min()), int(windows.end_ns.max())
