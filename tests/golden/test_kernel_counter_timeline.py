"""Profiled launches in the timeline of another run of the program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from capture.cuda_writer import CudaLog
from capture.finished import of_process, read, read_cuda
from capture.raw_writer import ORIGIN_UTC_NS

import warpline
from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

Launch = tuple[str, int, int]  # name, blocks, launches before it


def timeline(folder: Path, kernels: Sequence[tuple[str, int]], *, graph: int = 0) -> Path:
    """Record kernels of 10 ns; the first ones may be of a CUDA graph."""
    log = of_process(200, incarnation=2)
    for number, (name, blocks) in enumerate(kernels):
        more = {"node": 9, "graph": 1} if number < graph else {}
        start = 20 + 20 * number
        log.kernel(name, start, start + 10 + number, number + 1, grid=(blocks, 1, 1), **more)
    folder.mkdir()
    read_cuda(folder, log)
    return folder / "x.warpline"


def counters(folder: Path, launches: Sequence[Launch]) -> Path:
    log = CudaLog(100)
    log.counter_name(0, "gpu__time_duration.sum ns")
    log.counter_name(1, "sm__throughput.avg.pct_of_peak_sustained_elapsed %")
    for launch, (name, blocks, earlier) in enumerate(launches):
        log.counted(name, launch, launch, launch + 1, grid=(blocks, 1, 1), seen=earlier)
        log.counter_value(0, launch, 1000.0 + launch)
        log.counter_value(1, launch, 50.0)
    log.counted("a range", len(launches), 90, 99, kernels=3)
    folder.mkdir()
    read(folder, log, collected=["counters"])
    return folder / "x.warpline"


def durations(*paths: Path) -> list[int | None]:
    """Return the durations in the timeline: ten and the number of the kernel."""
    found = warpline.stats(warpline.open(*paths), "kernel_counter_timeline").to_polars()
    return found["duration_ns"].to_list()[:-1]


KERNELS = [("_Z1av", 1), ("_Z1bv", 1), ("_Z1av", 2), ("_Z1av", 1), ("_Z1bv", 1)]


def test_launches_are_found_by_what_was_launched_before(tmp_path: Path) -> None:
    time = timeline(tmp_path / "time", KERNELS)
    some = counters(tmp_path / "some", [("_Z1av", 1, 3), ("_Z1bv", 1, 4)])
    assert durations(time, some) == durations(some, time) == [13, 14]
    table = warpline.stats(warpline.open(time, some), "kernel_counter_timeline").to_polars()
    assert table.select("launch", "kernel", "profiled_ns", "sm_ratio").rows() == [
        (0, "a()", 1000, 0.5),
        (1, "b()", 1001, 0.5),
        (2, "a range", None, None),
    ]
    assert table["start_ns"].to_list()[2] is None


def test_a_timeline_that_began_later_is_joined_by_name_and_shape(tmp_path: Path) -> None:
    time = timeline(tmp_path / "time", KERNELS)
    launches = [("_Z1av", 1, 10), ("_Z1av", 2, 11), ("_Z1av", 1, 12), ("_Z1av", 1, 13)]
    some = counters(tmp_path / "some", [*launches, ("_Z1cv", 1, 14)])
    assert durations(time, some) == [10, 12, 13, None, None]


def test_kernels_of_graphs_are_no_launches(tmp_path: Path) -> None:
    time = timeline(tmp_path / "time", KERNELS, graph=1)
    some = counters(tmp_path / "some", [("_Z1bv", 1, 0), ("_Z1av", 1, 2)])
    assert durations(time, some) == [11, 13]


def test_an_empty_timeline_has_none(tmp_path: Path) -> None:
    time = timeline(tmp_path / "time", [])
    assert durations(time, counters(tmp_path / "some", [("_Z1av", 1, 0)])) == [None]


def test_counters_need_not_be_of_the_same_time(tmp_path: Path) -> None:
    time = timeline(tmp_path / "time", KERNELS)
    log = CudaLog(100)
    log.counted("_Z1av", 0, 10, 20)
    folder = tmp_path / "later"
    folder.mkdir()
    day_ns = 86_400 * 10**9
    read(folder, log, collected=["counters"], started_utc_ns=ORIGIN_UTC_NS + day_ns)
    trace = warpline.open(time, folder / "x.warpline")
    assert trace.meta.warnings == ()
    assert trace["kernel"]["start_ns"][0] == 20
