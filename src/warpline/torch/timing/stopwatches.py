"""How long a call takes: on the CPU by its clock, on the GPU by CUDA events.

Events around a call that is launched to an idle GPU also measure how long the CPU takes to launch
it: for small kernels, mostly that. So the GPU is kept busy until the call has been launched, by a
kernel that waits and by the memset that empties its L2 cache.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Call = Callable[[], object]
Now = Callable[[], int]

_LEAST_CPU_NS = 50_000  # of calls that are timed together: 1,000 times what reading the clock takes
_MOST_CALLS = 1 << 20

_CYCLES_PER_NS = 2  # of a GPU; at a lower clock, it only waits longer
_LEADS = (1.5, 3.0, 6.0)  # how long the GPU is kept busy, in times that the CPU takes to launch
_LEAST_LEAD_NS = 20_000
_TRIES = 3  # of a launch that the CPU was kept from

_WAITS_FOR_CPU = (
    "{}: times include waits for the CPU: the function synchronizes with the GPU, or launches more"
    " than its queue holds"
)


class Sample(NamedTuple):
    """The time of one call.

    Attributes:
        time_ns: On the GPU; of functions that do not use it, on the CPU.
        cpu_ns: On the CPU: of functions that use the GPU, to launch the work.
    """

    time_ns: float
    cpu_ns: float


class Stopwatch(Protocol):
    """Times one function, again and again."""

    def prepare(self) -> str | None:
        """Find out how to time the function, after it is warm; return a note, if any, on times."""

    def sample(self) -> Sample:
        """Time it."""


class CpuStopwatch:
    """Times a function on the CPU; short ones several calls at a time.

    Args:
        call: The function.
        now_ns: The clock.
    """

    def __init__(self, call: Call, now_ns: Now = time.perf_counter_ns) -> None:
        self._call = call
        self._now_ns = now_ns
        self._calls = 1

    def prepare(self) -> str | None:
        """Choose the number of calls that are timed together."""
        while self._calls < _MOST_CALLS:
            took_ns = self.sample().time_ns * self._calls
            if took_ns >= _LEAST_CPU_NS:
                break
            self._calls = min(2 * self._calls, _MOST_CALLS)
        return None

    def sample(self) -> Sample:
        """Return the time of a call."""
        call = self._call
        begin = self._now_ns()
        for _ in range(self._calls):
            call()
        took_ns = (self._now_ns() - begin) / self._calls
        return Sample(took_ns, took_ns)


class GpuStopwatch:
    """Times the GPU work of a function on the current stream.

    Args:
        call: The function.
        name: Its name, for a note.
        cuda: `torch.cuda`.
        flush: Puts a memset into the stream that replaces the content of the L2 cache; or nothing.
        now_ns: The clock of the CPU.
    """

    def __init__(
        self, call: Call, name: str, cuda: Any, flush: Call, now_ns: Now = time.perf_counter_ns
    ) -> None:
        self._call = call
        self._name = name
        self._cuda = cuda
        self._flush = flush
        self._now_ns = now_ns
        self._begin, self._end = (cuda.Event(enable_timing=True) for _ in range(2))
        self._lead_cycles = 0
        self._is_hidden = False

    def prepare(self) -> str | None:
        """Choose how long the GPU is kept busy before each call."""
        cpu_ns = min(self._measure()[0].cpu_ns for _ in range(_TRIES))
        for lead in _LEADS:
            lead_ns = max(lead * cpu_ns, _LEAST_LEAD_NS)
            self._lead_cycles = math.ceil(lead_ns * _CYCLES_PER_NS)
            self._is_hidden = True
            if all(self._measure()[1] for _ in range(_TRIES)):
                return None
        self._is_hidden, self._lead_cycles = False, 0
        return _WAITS_FOR_CPU.format(self._name)

    def sample(self) -> Sample:
        """Return the times of a call whose launch the GPU did not wait for, if that is possible."""
        for _ in range(_TRIES):
            sample, is_queued = self._measure()
            if is_queued or not self._is_hidden:
                break
        return sample

    def _measure(self) -> tuple[Sample, bool]:
        """Return the times, and whether the GPU was busy until the call had been launched."""
        if self._lead_cycles:
            self._cuda._sleep(self._lead_cycles)  # noqa: SLF001 - the only such kernel in PyTorch
        self._flush()
        self._begin.record()
        begin = self._now_ns()
        self._call()
        cpu_ns = self._now_ns() - begin
        is_queued = not self._begin.query()
        self._end.record()
        self._end.synchronize()
        gpu_ns = self._begin.elapsed_time(self._end) * 1e6
        return Sample(gpu_ns, cpu_ns), is_queued
