"""How long repeated calls take: on the GPU by CUDA events, on the CPU by its clock.

All functions of a `Timer` take a call that puts work into its stream and returns.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from typing import NamedTuple

from warpline.bench.driver import Driver
from warpline.bench.refusals import OutOfMemoryError
from warpline.bench.sm_clock import SmClock

Call = Callable[[], object]

_WARM_UP_NS = 50e6  # of the GPU, before each point: its clocks rise when it has work
_LEAST_NS = 50e6  # of all batches of a point
_BATCH_NS = 5e6
_LEAST_BATCHES = 10
_FEWEST_BATCHES = 5  # of calls that take longer than _LEAST_NS
_MOST_CALLS = 8192  # of a batch
_ROUNDS = 40  # of warming up, should events not advance

# The GPU's queue holds 1,024 launches, and a GEMM may take three. Beyond that, launches wait.
_QUEUED_CALLS = 200
_LEAST_QUEUED = 3
_QUEUED_NS = 50e6
_QUEUED_REPEATS = 5
_MOST_FILLS = 300
_FILL_BYTES = 1 << 28
_LEAST_FILL_BYTES = 1 << 22


class Batches(NamedTuple):
    """Times of batches of calls.

    Attributes:
        call_ns: Median of the time per call.
        spread_ratio: Interquartile range, as a share of the median: the middle half of the batches.
        batches: Number of batches.
        calls: Calls per batch.
        sm_clock_hz: Median of the clock of the SMs in the batches; None if unknown.
    """

    call_ns: float
    spread_ratio: float
    batches: int
    calls: int
    sm_clock_hz: float | None = None

    @classmethod
    def of(cls, times_ns: Sequence[float], calls: int, clocks_hz: Sequence[float] = ()) -> Batches:
        """Return the summary of the times per call of two batches or more, and of clocks."""
        median = statistics.median(times_ns)
        low, _, high = statistics.quantiles(times_ns, n=4, method="inclusive")
        spread = (high - low) / median if median else 0.0
        clock = statistics.median(clocks_hz) if clocks_hz else None
        return cls(median, spread, len(times_ns), calls, clock)

    def columns(self) -> dict[str, float | int]:
        """Return what a row shows beside the time."""
        return {
            "spread_ratio": self.spread_ratio,
            "batches": self.batches,
            "batch_calls": self.calls,
        }


class Queued(NamedTuple):
    """Times of calls whose work is queued while the GPU is busy with something else.

    Attributes:
        gpu_ns: Time per call on the GPU, which never waits for a launch.
        launch_ns: Time per call on the CPU, which never waits for the GPU.
    """

    gpu_ns: float
    launch_ns: float


class Timer:
    """Measures calls that put work into a stream.

    Args:
        driver: The driver; its GPU is that of the stream.
        stream: The stream.
        now_ns: The CPU's clock.
        clock: Measures the clock of the SMs; None if it cannot be measured.
    """

    def __init__(
        self,
        driver: Driver,
        stream: c_void_p,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        clock: SmClock | None = None,
    ) -> None:
        self._driver = driver
        self._stream = stream
        self._now_ns = now_ns
        self._clock = clock
        self._begin, self._end = driver.event(), driver.event()
        self._fill: tuple[int, int, float] | None = None

    def synchronize(self) -> None:
        """Wait until the work of the stream has ended."""
        self._driver.call("cuStreamSynchronize", self._stream)

    def batches(self, call: Call) -> Batches:
        """Return the time of a call on the GPU when it is repeated, the next before the last ends.

        At least 50 ms are measured after a warm-up of 50 ms, in 10 batches or more of at least 5
        ms; 5 batches if a call takes longer.
        """
        call_ns = self._warm_up(call)
        calls = min(max(math.ceil(_BATCH_NS / call_ns), 1), _MOST_CALLS)
        least = _FEWEST_BATCHES if call_ns * _FEWEST_BATCHES > _LEAST_NS else _LEAST_BATCHES
        count = max(least, math.ceil(_LEAST_NS / (call_ns * calls)))
        clocks: list[float] = []
        times: list[float] = []
        for _ in range(count):
            if self._clock:
                self._clock.begin()
            times.append(self._of_events(call, calls, self._clock) / calls)
            clock_hz = self._clock.hz() if self._clock else None
            if clock_hz is not None:
                clocks.append(clock_hz)
        return Batches.of(times, calls, clocks)

    def launches(self, call: Call, calls: int) -> tuple[Batches, Batches]:
        """Return the time of a call on the CPU, and from one to the next on the GPU.

        Args:
            call: The call.
            calls: Calls per batch: few enough for the queue of the GPU.
        """
        self._warm_up(call, calls)
        cpu: list[float] = []
        gpu: list[float] = []
        total_ns = 0.0
        while len(cpu) < _LEAST_BATCHES or (total_ns < _LEAST_NS and len(cpu) < _MOST_CALLS):
            cpu_ns, gpu_ns = self._of_both(call, calls)
            cpu.append(cpu_ns / calls)
            gpu.append(gpu_ns / calls)
            total_ns += max(cpu_ns, gpu_ns)
        return Batches.of(cpu, calls), Batches.of(gpu, calls)

    def cpu_calls(self, call: Call, calls: int) -> Batches:
        """Return the time of a call on the CPU: of one that waits for the GPU, or has no work."""
        times: list[float] = []
        total_ns = 0.0
        for _ in range(calls):
            call()
        while len(times) < _LEAST_BATCHES or (total_ns < _LEAST_NS and len(times) < _MOST_CALLS):
            begin = self._now_ns()
            for _ in range(calls):
                call()
            took_ns = self._now_ns() - begin
            times.append(took_ns / calls)
            total_ns += took_ns
        return Batches.of(times, calls)

    def queued(self, call: Call, call_ns: float) -> Queued | None:
        """Return the times of a call on the GPU and the CPU without waits for each other.

        The GPU is kept busy with memsets until all calls are queued.

        Args:
            call: The call.
            call_ns: Its time in batches.

        Returns:
            The medians of five repetitions; None if the GPU could not be kept busy long enough, or
            has no memory left for that.
        """
        if self._fill is None:
            self._fill = self._fill_time()
        if self._fill is None:
            return None
        fill_ns = self._fill[2]
        calls = min(max(int(_QUEUED_NS / call_ns), _LEAST_QUEUED), _QUEUED_CALLS)
        launching_ns = self._of_both(call, calls)[0]
        fills = math.ceil(2 * launching_ns / fill_ns) + 1
        found: list[Queued] = []
        while len(found) < _QUEUED_REPEATS:
            fills = min(fills, _MOST_FILLS)
            measured = self._behind_fills(call, calls, fills)
            if measured is not None:
                found.append(measured)
            elif fills == _MOST_FILLS:
                return None
            else:
                fills *= 2
        gpu_ns, launch_ns = map(statistics.median, zip(*found, strict=True))
        return Queued(gpu_ns, launch_ns)

    def _warm_up(self, call: Call, calls: int = 1) -> float:
        """Return a first estimate of the time of a call on the GPU, above 0."""
        for _ in range(3):
            call()
        self.synchronize()
        total_ns = took_ns = 0.0
        for _ in range(_ROUNDS):
            took_ns = self._of_events(call, calls)
            total_ns += took_ns
            if total_ns >= _WARM_UP_NS:
                break
            if took_ns < _BATCH_NS:
                calls = min(calls * 2, _MOST_CALLS)
        return max(took_ns / calls, 1.0)

    def _of_events(self, call: Call, calls: int, clock: SmClock | None = None) -> float:
        return self._of_both(call, calls, clock)[1]

    def _of_both(self, call: Call, calls: int, clock: SmClock | None = None) -> tuple[float, float]:
        """Return the time of calls on the CPU and by events; the end of `clock` is behind them."""
        self._record(self._begin)
        begin = self._now_ns()
        for _ in range(calls):
            call()
        cpu_ns = self._now_ns() - begin
        self._record(self._end)
        if clock:
            clock.end()
        self.synchronize()
        return cpu_ns, self._driver.elapsed_ns(self._begin, self._end)

    def _behind_fills(self, call: Call, calls: int, fills: int) -> Queued | None:
        """Return the times of calls that are queued behind memsets; None if those ended first."""
        for _ in range(fills):
            self._memset()
        self._record(self._begin)
        begin = self._now_ns()
        for _ in range(calls):
            call()
        launch_ns = (self._now_ns() - begin) / calls
        is_queued = not self._driver.has_happened(self._begin)
        self._record(self._end)
        self.synchronize()
        if not is_queued:
            return None
        return Queued(self._driver.elapsed_ns(self._begin, self._end) / calls, launch_ns)

    def _fill_time(self) -> tuple[int, int, float] | None:
        """Return address, size and time of memsets that keep the GPU busy; None without memory."""
        size = _FILL_BYTES
        while size >= _LEAST_FILL_BYTES:
            try:
                address = self._driver.allocate(size)
            except OutOfMemoryError:
                size //= 4
            else:
                self._fill = (address, size, 0.0)
                self._memset()
                return address, size, max(self._of_events(self._memset, 10) / 10, 1.0)
        return None

    def _memset(self) -> None:
        assert self._fill is not None
        address, size, _ = self._fill
        self._driver.call("cuMemsetD8Async", address, 0, size, self._stream)

    def _record(self, event: c_void_p) -> None:
        self._driver.call("cuEventRecord", event, self._stream)
