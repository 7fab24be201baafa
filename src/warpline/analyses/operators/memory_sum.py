"""memory_sum: the peak of GPU memory, and what was reserved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.derived.memory.allocations import ALLOCATORS, allocations
from warpline.derived.memory.lifetimes import Lifetimes, lifetimes
from warpline.derived.memory.places import counting_notes, device_bytes, pids_of, place_names
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "memory_sum"
TITLE = "Peak memory"
HINT = "profile with --pytorch=memory or with --cuda-memory-usage=true"
FIELDS = (
    Field("peak_bytes", Unit.BYTES, "Most bytes in use.", "Peak (MB)", 1e-6, 3),
    Field("time_ns", Unit.NS, "When they were first reached.", "Peak At (ns)"),
    Field("reserved_bytes", Unit.BYTES, "Most bytes reserved.", "Reserved (MB)", 1e-6, 3),
    Field("device_bytes", Unit.BYTES, "Memory of the GPU.", "GPU Memory (MB)", 1e-6, 3),
    Field(
        "device_ratio",
        Unit.RATIO,
        "Most bytes reserved, otherwise in use, per memory of the GPU.",
        "GPU Memory (%)",
        100.0,
        1,
    ),
    Field("end_bytes", Unit.BYTES, "Bytes in use at the end.", "At End (MB)", 1e-6, 3),
    Field("allocations", Unit.COUNT, "Allocations while recording.", "Allocations"),
    Field("place", Unit.NONE, "GPU index, or Host.", "Place"),
    Field("memory", Unit.NONE, "Memory kind.", "Memory", is_detail=True),
    Field("allocator", Unit.NONE, "Allocator: Framework or Driver.", "Allocator", is_detail=True),
    Field("pid", Unit.ID, "Process id.", "PID", is_detail=True),
)
KEY = ("place", "memory", "allocator", "pid")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event", "memory_event"),
    missing_hint=HINT,
)
def memory_sum(trace: Trace, arguments: Arguments) -> Result:
    """The peak of each GPU's memory and of host memory, and the bytes reserved.

    What it measures: For each GPU and process, and for host memory, the most bytes in use, the most
        bytes that the allocator reserved from the driver, and the size of the GPU's memory.
    Why it matters: The reserved bytes decide whether the program fits, the bytes in use what it
        needs. If they are far apart, the allocator caches memory that is not in use.
    How it is computed: From the allocations and frees of memory_timeline. The bytes reserved are
        those after each of them.
    Limits: Other users of the GPU are not counted, such as libraries that allocate from the driver,
        and other processes. Memory that the framework's allocator gets from the driver counts for
        both allocators.
    Source: Warpline.
    """
    pools = allocations(trace).pools
    found = [lifetimes(trace, number) for number in range(len(pools))]
    order = sorted(range(len(pools)), key=lambda number: -_peak(found[number]))
    pools, found = tuple(pools[n] for n in order), [found[n] for n in order]
    rows = np.arange(len(pools))
    reserved = [_most(each.reserved_bytes) for each in found]
    device = [device_bytes(trace, pool) for pool in pools]
    ratio = [
        _share(_peak(each) if held is None else held, total)
        for each, held, total in zip(found, reserved, device, strict=True)
    ]
    columns: dict[str, Values] = {
        "peak_bytes": _numbers([_peak(each) for each in found]),
        "time_ns": _numbers([int(each.time_ns[each.peak]) for each in found]),
        "reserved_bytes": _numbers(reserved),
        "device_bytes": _numbers(device),
        "device_ratio": _numbers(ratio, np.float64),
        "end_bytes": _numbers([int(each.allocated_bytes[-1]) for each in found]),
        "allocations": _numbers([int(np.count_nonzero(each.start > 0)) for each in found]),
        "place": labelled(rows, place_names(trace, pools)),
        "memory": labelled(rows, [pool.memory for pool in pools]),
        "allocator": labelled(rows, [ALLOCATORS[pool.allocator] for pool in pools]),
        "pid": Numbers(pids_of(trace, pools)),
    }
    return Result(NAME, TITLE, FIELDS, columns, KEY, counting_notes(trace))


def _peak(memory: Lifetimes) -> int:
    return int(memory.allocated_bytes[memory.peak])


def _share(part: int, whole: int | None) -> float | None:
    """Return a share; None if it is not one, as of the sizes in a damaged file."""
    return part / whole if whole and 0 <= part <= whole else None


def _most(values: np.typing.NDArray[np.int64] | None) -> int | None:
    return None if values is None else int(values.max())


def _numbers(values: Sequence[float | None], dtype: type = np.int64) -> Numbers:
    valid = np.array([value is not None for value in values], np.bool_)
    return Numbers(np.array([value or 0 for value in values], dtype), valid)
