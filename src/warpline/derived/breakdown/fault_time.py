"""What findings say about page faults of threads that the GPU waits for."""

from __future__ import annotations

from typing import NamedTuple

from warpline.derived.host.page_faults import fault_share
from warpline.ops.tiling import Grouped
from warpline.trace import Trace
from warpline.units import format_ratio

_LEAST = 0.1
FIX = (
    " For fewer page faults, reuse buffers instead of allocating them in each step, and pin memory"
    " once. Use huge pages (madvise) or MAP_POPULATE for large mappings."
)


class FaultTime(NamedTuple):
    """How much of the CPU time in some times was in page faults.

    Attributes:
        ratio: The share; 0 if unknown.
    """

    ratio: float

    @property
    def claim(self) -> str:
        """A sentence after a space; empty for a small share."""
        if self.ratio < _LEAST:
            return ""
        return f" {format_ratio(self.ratio)} of the CPU time meanwhile is in page faults."

    @property
    def fix(self) -> str:
        """What to do, after a space; empty for a small share."""
        return "" if self.ratio < _LEAST else FIX


def fault_time(trace: Trace, spans: Grouped) -> FaultTime:
    """Return the share of page faults in the CPU time of threads in some times.

    Args:
        trace: The trace.
        spans: Times by thread; those of a thread may not overlap.
    """
    return FaultTime(fault_share(trace, spans) or 0.0)
