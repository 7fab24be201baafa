"""``warpline.torch.benchmark``: how long a function takes, on the GPU or on the CPU.

    print(warpline.torch.benchmark(torch.mm, a, b, compare=[other_mm]))

What makes such times wrong, and what is done about it: the first runs compile code and allocate
memory (warm-up until times are steady); the GPU waits for launches (launched while it is busy, see
`stopwatches`); inputs are in the L2 cache from the last run (it is flushed); clocks rise, fall and
are limited (functions are compared in turns, and the driver is asked); a mean of few runs (median
with an interval, runs until that is precise).
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from warpline.capture.in_process.run import is_recorded
from warpline.errors import UsageError
from warpline.torch.benchmark_result import Benchmark, Measurement
from warpline.torch.timing.gpu_clocks import GpuClocks
from warpline.torch.timing.rounds import is_precise, repeat, warm_up, without_garbage_collection
from warpline.torch.timing.stopwatches import (
    Call,
    CpuStopwatch,
    GpuStopwatch,
    Now,
    Sample,
    Stopwatch,
)
from warpline.units import format_ns, format_ratio, plural

_WARM_UP_SHARE = 0.25  # of the budget, for each function
_UNKNOWN_L2_BYTES = 128 << 20
_L2_MULTIPLE = 2
_EVENTS_ALONE = 1.5  # times of events around a call without GPU work, in those without a call
_EVENTS_ALONE_NS = 500.0
_TRIES = 5
_SHORT = 5  # a time below this many times that of events alone


def benchmark(
    fn: Callable[..., object],
    *args: Any,
    compare: Callable[..., object] | Iterable[Callable[..., object]] = (),
    budget_s: float = 2.0,
    precision: float = 0.01,
    flush_l2: bool = True,
) -> Benchmark:
    """Measure a function, and others for comparison, with the same arguments.

    Functions that use the GPU are measured there, by CUDA events on the current stream; others by
    the clock of the CPU. Each is called some hundred times or more. The statistic of PyTorch's peak
    memory is reset.

    Args:
        fn: The function. For keyword arguments, use a lambda or functools.partial.
        args: Its arguments.
        compare: Another function, or several: run in turns with the first.
        budget_s: Seconds for all runs, at most; warm-up may take another quarter for each function.
        precision: Wanted half width of the medians' 95% intervals, as a share of the median. Runs
            end when it is reached.
        flush_l2: Replace the content of the GPU's L2 cache before each run.

    Returns:
        A `Benchmark`, which prints as a table.

    Raises:
        UsageError: `budget_s` or `precision` is not above 0.
    """
    if budget_s <= 0 or precision <= 0:
        raise UsageError("budget_s and precision must be above 0", hint="leave them out")
    functions = [fn, *([compare] if callable(compare) else compare)]
    names = _names(functions)
    calls = [functools.partial(function, *args) for function in functions]
    limits = _Limits(budget_s * 1e9, precision)
    with without_garbage_collection(), _on_device_of(args):
        for call in calls:
            call()
        gpu = _Gpu.of_program()
        if gpu is None or not (_gpu_device(args) or any(map(gpu.is_used_by, calls))):
            return _on_cpu(names, calls, limits)
        return gpu.measure(names, calls, limits, flush_l2=flush_l2)


class _Limits(NamedTuple):
    """When runs end; see `benchmark`."""

    budget_ns: float
    precision: float


def _on_cpu(names: Sequence[str], calls: Sequence[Call], limits: _Limits) -> Benchmark:
    samples, notes = _samples(names, [*map(CpuStopwatch, calls)], limits, _nothing)
    found = [Measurement(name, own) for name, own in zip(names, samples, strict=True)]
    threads = _threads()
    device = "CPU" if threads is None else f"CPU, PyTorch with {plural(threads, 'thread')}"
    return Benchmark(found, calls[0], device=device, notes=notes)


class _Gpu:
    """The current GPU of PyTorch.

    Args:
        torch: PyTorch, with CUDA initialized.
        now_ns: The clock of the CPU.
    """

    def __init__(self, torch: Any, now_ns: Now = time.perf_counter_ns) -> None:
        self._torch = torch
        self._cuda = torch.cuda
        self._now_ns = now_ns
        self._properties = self._cuda.get_device_properties(self._cuda.current_device())
        self._events_ns = self._least_ns(_nothing)

    @classmethod
    def of_program(cls) -> _Gpu | None:
        """Return the GPU; None if the program does not use one through PyTorch."""
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        return cls(torch) if cuda is not None and cuda.is_initialized() else None

    def is_used_by(self, call: Call) -> bool:
        """Return whether a call puts work into the current stream."""
        return self._least_ns(call) > self._events_ns * _EVENTS_ALONE + _EVENTS_ALONE_NS

    def measure(
        self, names: Sequence[str], calls: Sequence[Call], limits: _Limits, *, flush_l2: bool
    ) -> Benchmark:
        """Measure functions."""
        peaks = [self._peak_bytes(call) for call in calls]
        flush = self._flush() if flush_l2 else _nothing
        stopwatches = [
            GpuStopwatch(call, name, self._cuda, flush, self._now_ns)
            for name, call in zip(names, calls, strict=True)
        ]
        clocks = GpuClocks(str(getattr(self._properties, "uuid", "")))
        with contextlib.closing(clocks):
            samples, notes = _samples(names, stopwatches, limits, clocks.read, self._now_ns)
        found = [
            Measurement(name, own, is_on_gpu=True, peak_bytes=peak)
            for name, own, peak in zip(names, samples, peaks, strict=True)
        ]
        notes += self._notes(found)
        if clocks.limits:
            notes.append(f"the SM clock was limited: {', '.join(clocks.limits)}")
        return Benchmark(
            found,
            self._synchronized(calls[0]),
            device=str(self._properties.name),
            is_flushed=flush_l2,
            clocks=clocks.to_dict(),
            notes=notes,
        )

    def _notes(self, found: Sequence[Measurement]) -> Iterator[str]:
        for item in found:
            if item.is_launch_bound and item.cpu_ns is not None:
                in_loop = format_ns(item.cpu_ns.value)
                yield (
                    f"{item.name}: launch-bound. Called in a loop, it takes {in_loop}, because of"
                    " the CPU"
                )
            if item.time_ns.value < _SHORT * self._events_ns:
                yield (
                    f"{item.name}: CUDA events alone measure {format_ns(self._events_ns)}; see"
                    " .kernels for the time of short kernels"
                )

    def _least_ns(self, call: Call) -> float:
        """Return the shortest of some times of a call, in a warm L2 cache."""
        stopwatch = GpuStopwatch(call, "", self._cuda, _nothing, self._now_ns)
        stopwatch.prepare()
        return min(stopwatch.sample().time_ns for _ in range(_TRIES))

    def _peak_bytes(self, call: Call) -> int:
        before = self._cuda.memory_allocated()
        self._cuda.reset_peak_memory_stats()
        call()
        return int(self._cuda.max_memory_allocated() - before)

    def _flush(self) -> Call:
        l2_bytes = getattr(self._properties, "L2_cache_size", 0) or _UNKNOWN_L2_BYTES
        size = _L2_MULTIPLE * l2_bytes
        buffer = self._torch.empty(size, dtype=self._torch.uint8, device="cuda")
        zero: Call = buffer.zero_
        return zero

    def _synchronized(self, call: Call) -> Call:
        device = self._cuda.current_device()

        def run() -> None:
            with self._cuda.device(device):
                call()
                self._cuda.synchronize()

        return run


def _samples(
    names: Sequence[str],
    stopwatches: Sequence[Stopwatch],
    limits: _Limits,
    look: Callable[[], None],
    now_ns: Now = time.perf_counter_ns,
) -> tuple[list[list[Sample]], list[str]]:
    """Return the samples of functions, and notes on them."""
    notes = []
    for name, stopwatch in zip(names, stopwatches, strict=True):
        if not warm_up(stopwatch, limits.budget_ns * _WARM_UP_SHARE, now_ns):
            notes.append(f"{name}: times were not steady after warm-up")
        note = stopwatch.prepare()
        if note is not None:
            notes.append(note)
    samples = repeat(stopwatches, limits.precision, limits.budget_ns, now_ns, look)
    if not is_precise(samples, limits.precision):
        share = format_ratio(limits.precision)
        notes.append(f"the wanted precision of {share} was not reached: raise budget_s")
    if is_recorded():
        notes.append("this program is being recorded: times include profiling overhead")
    return samples, notes


def _names(functions: Sequence[Any]) -> list[str]:
    """Return the names of functions, with numbers where several have the same."""
    names: list[str] = []
    for function in functions:
        called = function.func if isinstance(function, functools.partial) else function
        name = str(getattr(called, "__name__", type(called).__name__))
        same = sum(other.split(" #")[0] == name for other in names)
        names.append(f"{name} #{same + 1}" if same else name)
    return names


def _gpu_device(args: Sequence[Any]) -> Any:
    """Return the device of the first tensor among the arguments that is on a GPU."""
    for value in args:
        parts = value.values() if isinstance(value, dict) else value
        if isinstance(value, list | tuple | dict):
            found = _gpu_device(list(parts))
            if found is not None:
                return found
        elif getattr(value, "is_cuda", False):
            return value.device
    return None


def _on_device_of(args: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    device = _gpu_device(args)
    torch = sys.modules.get("torch")
    if device is None or torch is None:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[Any] = torch.cuda.device(device)
    return context


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _nothing() -> None:
    """Do nothing."""
