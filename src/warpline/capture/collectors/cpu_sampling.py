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
        has_python_samples: Whether their stacks are recorded.
        has_gil: Whether it is recorded who holds the GIL, and who waits for it.
    """

    period_ns: int
    backtrace: str
    has_switches: bool
    python_period_ns: int = 0
    has_python_samples: bool = False
    has_gil: bool = False

    @property
    def needs_perf(self) -> bool:
        """Whether the kernel's perf events are needed."""
        return bool(self.period_ns) or self.has_switches

    @property
    def reads_python(self) -> bool:
        """Whether memory of Python processes is read."""
        return self.has_python_samples or self.has_gil

    def without_perf(self) -> CpuSampling:
        """Return what can be sampled where perf events are forbidden."""
        return replace(self, period_ns=0, has_switches=False)
