"""What a part of a recording has of GPUs and steps: the numbers of the live screen and page.

Each is a number of that part of the recording, as `Trace.window` gives it, by the same functions
as in `warpline analyze`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.derived.breakdown.partition import partition
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.steps.times import Steps, Windows, steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import device_work
from warpline.derived.work.operations import operations
from warpline.derived.work.owners import owner_of
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.trace import Run, Trace

_NO_PROCESS = -1


@dataclass(frozen=True)
class GpuActivity:
    """How busy a GPU was.

    Attributes:
        gpu_index: The producer's index of the GPU.
        name: Its product name, if known.
        busy_ns: Time with at least one operation on it.
        operations: Kernels, copies and memsets that overlap the time, and graphs traced as one.
    """

    gpu_index: int
    name: str | None
    busy_ns: int
    operations: int


@dataclass(frozen=True)
class StepNumbers:
    """The steps of a process on a GPU, or on the CPU if it launches nothing.

    Attributes:
        count: Steps whose begin and end are in the part.
        median_ns: Median duration of those that `warpline analyze` would analyze; None for none.
        last_ns: Duration of the last one.
        total_ns: Duration of all.
    """

    count: int
    median_ns: int | None
    last_ns: int
    total_ns: int

    @property
    def per_s(self) -> float:
        """Steps per second."""
        return self.count * 1e9 / self.total_ns if self.total_ns else 0.0


@dataclass(frozen=True)
class Rank:
    """A process on a GPU, or a process that uses none.

    Attributes:
        pid: The process.
        process: Its name, if known.
        number: Its rank in a distributed program, if known.
        gpu_index: The producer's index of the GPU; None without one.
        gpu: Product name of the GPU, if known.
    """

    pid: int
    process: str | None
    number: int | None
    gpu_index: int | None
    gpu: str | None


@dataclass(frozen=True)
class RankTime:
    """The time of a rank's GPU.

    Attributes:
        rank: The rank.
        parts_ns: Time of the GPU, of all processes, by part; without parts that are zero. Their sum
            is the length of the part of the recording.
    """

    rank: Rank
    parts_ns: dict[TimePart, int]

    @property
    def busy_ns(self) -> int:
        """Time of the GPU with at least one operation."""
        return sum(ns for part, ns in self.parts_ns.items() if part.is_busy)

    @property
    def idle_ns(self) -> dict[TimePart, int]:
        """Idle time by cause, the longest first."""
        idle = {part: ns for part, ns in self.parts_ns.items() if not part.is_busy}
        return dict(sorted(idle.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class RankSteps:
    """The steps of a rank."""

    rank: Rank
    steps: StepNumbers


def activity(trace: Trace) -> tuple[GpuActivity, ...]:
    """Return how busy each GPU was in a part of a recording, by GPU."""
    gpus = gpus_of(trace)
    if not gpus:
        return ()
    work = device_work(trace)
    busy_ns = work.busy_ns(work.device_id, len(gpus)).tolist()
    counts = np.bincount(work.device_id, minlength=len(gpus)).tolist()
    return tuple(
        GpuActivity(gpu.gpu_index, gpu.name, ns, count)
        for gpu, ns, count in zip(gpus, busy_ns, counts, strict=True)
    )


def gpus_of(trace: Trace) -> tuple[GpuActivity, ...]:
    """Return the GPUs of a recording, at rest."""
    if not trace.has("device"):
        return ()
    columns = trace.columns("device", "gpu_index", "name_id")
    names = columns["name_id"].to_list()
    return tuple(
        GpuActivity(int(index), None if name is None else trace.strings.text(name), 0, 0)
        for index, name in zip(columns["gpu_index"].values, names, strict=True)
    )


def rank_times(trace: Trace) -> tuple[RankTime, ...]:
    """Return the time of each GPU with work in a part of a recording, for each of its processes."""
    parts_ns = _parts(trace)
    return tuple(
        RankTime(_rank(trace, process, device), parts_ns[device])
        for device, process in _users(trace)
    )


def rank_steps(trace: Trace) -> tuple[RankSteps, ...]:
    """Return the steps in a part of a recording, by GPU; of processes without GPU work last."""
    found = steps(Run(trace))
    users: list[tuple[int | None, int]] = [*_users(trace)]
    on_gpus = {process for _, process in users}
    own = (each for each in distinct_values(found.process).tolist() if each not in on_gpus)
    users += [(None, process) for process in own]
    numbers = [_step_numbers(found, process, device) for device, process in users]
    return tuple(
        RankSteps(_rank(trace, process, device), of)
        for (device, process), of in zip(users, numbers, strict=True)
        if of is not None
    )


def is_settled(trace: Trace, until_ns: int, missing_from_ns: int | None) -> bool:
    """Return whether nothing that is recorded later will change the numbers of a part.

    GPU work is recorded when it has ended, and calls when they return. So all launches of the part
    must have their work, and each launching thread a later call.

    Args:
        trace: The part of the recording, of a trace that goes on after it.
        until_ns: Its end.
        missing_from_ns: When the first call began whose work has no record.
    """
    if missing_from_ns is not None and missing_from_ns < until_ns:
        return False
    launching = np.flatnonzero(working_threads(trace))
    if not len(launching):
        return True
    calls = trace.unfiltered().columns("api_call", "start_ns", "thread_id")
    later = np.searchsorted(calls["start_ns"].values, until_ns)
    return bool(np.isin(launching, calls["thread_id"].values[later:]).all())


def _parts(trace: Trace) -> dict[int, dict[TimePart, int]]:
    """Return the time of each part by device with work."""
    low, high = trace.span()
    devices = distinct_values(operations(trace).device)
    count = len(devices)
    nobody = np.full(count, _NO_PROCESS, np.int64)
    windows = Windows(devices, np.full(count, low), np.full(count, high), nobody, nobody)
    ns = partition(trace, windows).ns
    return {
        int(device): {part: int(of[part]) for part in TimePart if of[part]}
        for device, of in zip(devices, ns, strict=True)
    }


def _users(trace: Trace) -> list[tuple[int, int]]:
    """Return the devices with work and the processes that launched it."""
    work = operations(trace)
    if not len(work):
        return []
    width = int(work.process.max()) + 1
    keys = distinct_values(work.device * width + work.process)
    return [(int(key) // width, int(key) % width) for key in keys]


def _rank(trace: Trace, process: int, device: int | None) -> Rank:
    columns = trace.columns("process", "pid", "name_id")
    pid, name = int(columns["pid"].values[process]), columns["name_id"].to_list()[process]
    called = None if name is None else trace.strings.text(name)
    if device is None:
        return Rank(pid, called, None, None, None)
    owner = owner_of(trace, process, device)
    return Rank(pid, called, owner.rank, owner.gpu_index, owner.device_name)


def _step_numbers(found: Steps, process: int, device: int | None) -> StepNumbers | None:
    if device is None:
        chosen = np.flatnonzero((found.process == process) & found.has_next)
        length, order = found.host_period_ns[chosen], found.host_start_ns[chosen]
        analyzed = found.included[chosen]
    else:
        of_step = found.process[found.window_step] == process
        chosen = np.flatnonzero(of_step & (found.window_device == device))
        length = (found.window_end_ns - found.window_start_ns)[chosen]
        order, analyzed = found.window_start_ns[chosen], found.included[found.window_step[chosen]]
    return _numbers(length, order, length[analyzed])


def _numbers(length: I64, began_ns: I64, analyzed: I64) -> StepNumbers | None:
    if not len(length):
        return None
    return StepNumbers(
        count=len(length),
        median_ns=round(float(np.median(analyzed))) if len(analyzed) else None,
        last_ns=int(length[np.argmax(began_ns)]),
        total_ns=int(length.sum()),
    )
