"""What to sample of CPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuSampling:
    """Samples of CPUs, and context switches.

    Attributes:
        period_ns: CPU time of a thread between two samples; 0 for no samples.
        backtrace: How callers are found: dwarf, fp or none.
        has_switches: Whether context switches are recorded.
    """

    period_ns: int
    backtrace: str
    has_switches: bool
