"""What to sample of CPUs and of Python."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class CpuSampling:
    """Samples of CPUs, context switches, and samples of Python's threads.

    Attributes:
        period_ns: CPU time of a thread between two samples; 0 for no samples.
        backtrace: How callers are found: dwarf, fp or none.
        has_switches: Whether context switches are recorded.
        python_period_ns: Time between two looks at all threads of Python.
        python: What is recorded of them: samples (their stacks), gil (who has it).
    """

    period_ns: int
    backtrace: str
    has_switches: bool
    python_period_ns: int = 0
    python: tuple[str, ...] = ()

    def without_perf(self) -> CpuSampling:
        """Return what can be sampled where perf events are forbidden."""
        return replace(self, period_ns=0, has_switches=False)
