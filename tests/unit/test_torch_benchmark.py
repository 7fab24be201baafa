"""`warpline.torch.benchmark`: a GPU that is simulated, with a clock that is, too."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import sys
from functools import partial
from types import SimpleNamespace

import pytest

import warpline
from warpline import torch as warpline_torch
from warpline.capture.machine import nvml
from warpline.torch import benchmarking
from warpline.torch.benchmark_result import Benchmark, Measurement
from warpline.torch.timing import gpu_clocks
from warpline.torch.timing.medians import Median, median, percentile
from warpline.torch.timing.rounds import MOST_ROUNDS, repeat, warm_up
from warpline.torch.timing.stopwatches import CpuStopwatch, GpuStopwatch, Sample
from warpline.trace import MemorySource, Trace

LIMITS = benchmarking._Limits(2e9, 0.01)


class Machine:
    """A CPU and a GPU with one stream, which stands in for `torch` with CUDA initialized.

    A launch takes the CPU some time. The GPU begins the work when it has arrived and all earlier
    work has ended. Events are work that takes no time.
    """

    uint8 = "uint8"

    def __init__(self) -> None:
        self.now_ns = 0
        self.free_ns = 0
        self.flushed = 0
        self.peak_bytes = 0
        self.cuda = SimpleNamespace(
            Event=partial(Event, self),
            _sleep=lambda cycles: self.launch(4_000, cycles / 2),
            current_device=lambda: 0,
            device=contextlib.nullcontext,
            get_device_properties=lambda _: SimpleNamespace(name="GPU", uuid="x"),
            is_initialized=lambda: True,
            max_memory_allocated=lambda: 100 + self.peak_bytes,
            memory_allocated=lambda: 100,
            reset_peak_memory_stats=lambda: None,
            synchronize=self.synchronize,
        )

    def clock(self) -> int:
        self.now_ns += 50
        return self.now_ns

    def launch(self, cpu_ns: float, gpu_ns: float) -> None:
        self.now_ns += int(cpu_ns)
        self.free_ns = max(self.now_ns, self.free_ns) + int(gpu_ns)

    def synchronize(self) -> None:
        self.now_ns = max(self.now_ns, self.free_ns) + 5_000

    def empty(self, size: int, *, dtype: str, device: str) -> SimpleNamespace:
        assert size == 2 * 128 << 20  # the size of the cache is unknown
        return SimpleNamespace(zero_=self.flush)

    def flush(self) -> None:
        self.flushed += 1
        self.launch(5_000, 30_000)


class Event:
    def __init__(self, machine: Machine, *, enable_timing: bool) -> None:
        assert enable_timing
        self.machine = machine

    def record(self) -> None:
        self.machine.launch(1_000, 0)
        self.time_ns = self.machine.free_ns

    def query(self) -> bool:
        return self.machine.now_ns >= self.time_ns

    def synchronize(self) -> None:
        self.machine.now_ns = max(self.machine.now_ns, self.time_ns) + 5_000

    def elapsed_time(self, end: Event) -> float:
        return (end.time_ns - self.time_ns) / 1e6


def measured(*functions, flush_l2: bool = True) -> tuple[Benchmark, Machine]:
    machine = Machine()
    gpu = benchmarking._Gpu(machine, machine.clock)
    calls = [partial(function, machine) for function in functions]
    names = benchmarking._names(functions)
    return gpu.measure(names, calls, LIMITS, flush_l2=flush_l2), machine


def small(machine: Machine) -> None:
    machine.launch(12_000, 3_000)


def large(machine: Machine) -> None:
    machine.launch(12_000, 200_000)
    machine.peak_bytes = 4096


def synchronizing(machine: Machine) -> None:
    machine.launch(12_000, 3_000)
    machine.synchronize()
    machine.launch(12_000, 3_000)


def on_cpu(machine: Machine) -> None:
    machine.now_ns += 30_000


def test_a_small_kernel_takes_its_own_time_and_not_that_of_its_launch():
    result, machine = measured(small)
    assert result.time_ns == Median(3_000, 3_000, 3_000)
    assert result[0].cpu_ns.value == pytest.approx(12_000, abs=100)
    assert result[0].is_launch_bound
    assert result.notes == (
        "small: launch-bound. Called in a loop, it takes 12.1 us, because of the CPU",
    )
    assert machine.flushed > len(result[0].samples), "before each run, and in warm-up"


def test_a_large_kernel_is_not_launch_bound():
    result, _ = measured(large, flush_l2=False)
    assert result.time_ns.value == 200_000
    assert (result[0].is_launch_bound, result.notes, result[0].peak_bytes) == (False, (), 4096)
    assert repr(result).splitlines() == [
        "GPU, L2 cache warm",
        "       Median   95% interval     p95     Min      CPU  Peak memory  Runs",
        "large  200 us  200 to 200 us  200 us  200 us  12.1 us     4.00 KiB   518",
    ]


def test_what_synchronizes_is_measured_with_its_waits_and_a_note():
    result, _ = measured(synchronizing)
    assert result.time_ns.value > 12_000 + 3_000
    assert result.notes[0].startswith("synchronizing: times include waits for the CPU")


def test_functions_are_compared_in_turns():
    result, _ = measured(large, small, lambda machine: machine.launch(12_000, 3_000))
    assert [item.name for item in result] == ["large", "small", "<lambda>"]
    assert len({len(item.samples) for item in result}) == 1
    assert result.ratios == [None, (0.015, 0.015, 0.015), (0.015, 0.015, 0.015)]
    assert "0.015 (0.015 to 0.015)" in repr(result)
    found = json.loads(result.to_json())
    assert found["l2_flushed"] is True
    assert [item["ratio"] for item in found["measurements"]][:2] == [
        None,
        {"value": 0.015, "low": 0.015, "high": 0.015},
    ]
    assert len(found["measurements"][0]["times_ns"]) == found["measurements"][0]["runs"]


def test_whether_a_function_uses_the_gpu_is_found_out():
    machine = Machine()
    gpu = benchmarking._Gpu(machine, machine.clock)
    assert gpu.is_used_by(partial(small, machine))
    assert not gpu.is_used_by(partial(on_cpu, machine))


def test_tensors_on_a_gpu_are_found_in_nested_arguments():
    tensor = SimpleNamespace(is_cuda=True, device="cuda:1")
    assert benchmarking._gpu_device(({"x": [1, (tensor,)]}, "text")) == "cuda:1"
    assert benchmarking._gpu_device((1, [SimpleNamespace(is_cuda=False)])) is None


def test_functions_of_the_cpu_need_no_pytorch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    calls: list[int] = []
    result = warpline_torch.benchmark(calls.append, 1, budget_s=1e-6, precision=100.0)
    assert (result.device, result[0].name, result[0].is_on_gpu) == ("CPU", "append", False)
    assert len(calls) > len(result[0].samples) >= 5
    assert repr(result).startswith("CPU\n")
    assert gc.isenabled()


def test_without_kernels_an_error_says_why(monkeypatch):
    of_cpu = Benchmark([Measurement("x", [Sample(1.0, 1.0)])], list, device="CPU")
    with pytest.raises(warpline.MissingTableError, match="x runs on the CPU"):
        _ = of_cpu.kernels
    on_gpu = Measurement("x", [Sample(1.0, 1.0)], is_on_gpu=True)
    for tables, hint in (({}, "doctor"), ({"api_call": {"start_ns": [1]}}, "cuda_gpu_sum")):
        trace = Trace(MemorySource(tables))
        monkeypatch.setattr("warpline.torch.benchmark_result._recorded", lambda *_, t=trace: t)
        with pytest.raises(warpline.MissingTableError, match="no kernels") as failed:
            _ = Benchmark([on_gpu], list, device="GPU").kernels
        assert hint in (failed.value.hint or "")


def test_wrong_limits_are_refused():
    with pytest.raises(warpline.UsageError, match="above 0"):
        warpline_torch.benchmark(len, [], budget_s=0)


def test_functions_of_one_name_are_numbered():
    functions = [len, partial(len, []), sorted, partial(len, [1])]
    assert benchmarking._names(functions) == ["len", "len #2", "sorted", "len #3"]


@pytest.mark.parametrize(
    ("count", "low"), [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (20, 6), (50, 18), (100, 40)]
)
def test_the_interval_of_a_median_is_that_of_tables(count, low):
    # Hahn and Meeker, table A.15: the ranks of the bounds, 95%, two-sided.
    found = median([float(rank) for rank in range(count, 0, -1)])
    assert found == ((count + 1) / 2, low, count + 1 - low)


@pytest.mark.parametrize("count", [17, 256, 1001])
def test_the_interval_is_the_narrowest_with_its_confidence(count):
    low = int(median([float(rank) for rank in range(1, count + 1)]).low)

    def missed(rank: int) -> float:  # chance that the true median is below the measurement
        return float(sum(math.comb(count, below) for below in range(rank)) / 2**count)

    assert missed(low) <= 0.025 < missed(low + 1)


def test_percentiles_are_measurements():
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([7.0], 0.95) == 7.0


class Scripted:
    """A stopwatch of given times; it notes when it is asked."""

    def __init__(self, times, log, clock):
        self.times, self.log, self.clock = iter(times), log, clock

    def prepare(self):
        return None

    def sample(self):
        time_ns = next(self.times)
        self.clock.now_ns += int(time_ns)
        self.log.append(self)
        return Sample(time_ns, time_ns)


def forever(*times):
    while True:
        yield from times


def test_rounds_alternate_their_order_and_end_when_precise():
    clock = Machine()
    log: list[Scripted] = []
    looks: list[int] = []
    pair = [Scripted(forever(4e6, 4.01e6), log, clock), Scripted(forever(1e6), log, clock)]
    samples = repeat(pair, 0.01, 60e9, clock.clock, lambda: looks.append(len(log)))
    assert log[:4] == [pair[0], pair[1], pair[1], pair[0]]
    assert [len(part) for part in samples] == [20, 20], "100 ms are reached, and the precision"
    assert looks == [0, 40, 40]


def test_rounds_end_with_the_budget():
    clock = Machine()
    slow = [Scripted(forever(1e9, 3e9), [], clock)]
    assert len(repeat(slow, 0.01, 1e9, clock.clock, lambda: None)[0]) == 5
    restless = [Scripted(forever(1e3, 3e3), [], clock)]
    assert len(repeat(restless, 0.0, 1e18, clock.clock, lambda: None)[0]) == MOST_ROUNDS


def test_warm_up_ends_when_times_are_steady():
    clock = Machine()
    log: list[Scripted] = []
    falling = [100e6 / (1 + number) for number in range(20)]
    assert warm_up(Scripted([*falling, *[5e6] * 20], log, clock), 10e9, clock.clock)
    assert len(log) == 30
    assert not warm_up(Scripted(forever(*[1e6] * 5, *[2e6] * 5), [], clock), 1e9, clock.clock)


def test_short_functions_of_the_cpu_are_timed_several_calls_at_a_time():
    clock = Machine()

    def call() -> None:
        clock.now_ns += 100

    stopwatch = CpuStopwatch(call, clock.clock)
    assert stopwatch.prepare() is None
    assert stopwatch.sample().time_ns == pytest.approx(100, abs=0.1)


def test_a_launch_that_the_cpu_was_kept_from_is_repeated():
    machine = Machine()
    delays = iter([0] * 6 + [10_000_000, 0])

    def call() -> None:
        machine.launch(12_000 + next(delays), 3_000)

    stopwatch = GpuStopwatch(call, "call", machine.cuda, lambda: None, machine.clock)
    assert stopwatch.prepare() is None
    assert stopwatch.sample().time_ns == 3_000
    assert list(delays) == []


def test_clocks_and_their_limits_are_read(monkeypatch):
    states = iter(
        [
            {"sm_clock_hz": 1_980_000_000, "clock_limits": 0x1},
            {"sm_clock_hz": 1_400_000_000, "clock_limits": 0x4 | 0x20},
            {"sm_clock_hz": None, "clock_limits": None},
        ]
    )
    gpus = [
        SimpleNamespace(uuid="GPU-other"),
        SimpleNamespace(uuid="GPU-own", state=lambda: next(states)),
    ]
    driver = SimpleNamespace(gpus=lambda: gpus, close=lambda: None)
    monkeypatch.setattr(nvml.Nvml, "open", lambda: driver)
    clocks = gpu_clocks.GpuClocks("own")
    for _ in range(3):
        clocks.read()
    clocks.close()
    clocks.read()
    assert clocks.to_dict() == {
        "sm_clock_hz": [1_980_000_000, 1_400_000_000],
        "clock_limits": ["SW power cap", "SW thermal slowdown"],
    }
    result = Benchmark(
        [Measurement("x", [Sample(1.0, 1.0)], is_on_gpu=True)],
        list,
        device="GPU",
        is_flushed=True,
        clocks=clocks.to_dict(),
    )
    head = "GPU, SM clock 1,400 to 1,980 MHz, L2 cache flushed"
    assert repr(result).splitlines()[0] == head
