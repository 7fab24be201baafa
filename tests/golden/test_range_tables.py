"""Tables of ranges and launches counted by hand, and their differences from nsys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.nsys_exports import (
    OTHER_PROCESS,
    OTHER_THREAD,
    THREAD,
    Row,
    Rows,
    event,
    strings,
    write_export,
)
from support.nsys_exports import call as plain_call
from support.nsys_exports import kernel as plain_kernel

import warpline
from warpline.result import Result, Skipped
from warpline.trace import Trace

NAMES = strings("cudaLaunchKernel_v7000", "cuLaunchKernelEx", "gemm", "add")
LAUNCH, DRIVER_LAUNCH, GEMM, ADD = range(4)
START_END, DOMAIN = 60, 75


def call(start: int, end: int, correlation: int, name: int = LAUNCH, **more: Any) -> Row:
    return plain_call(start, end, name, correlationId=correlation, **more)


def kernel(start: int, end: int, correlation: int, name: int = GEMM, **more: Any) -> Row:
    size = {"gridX": 2, "gridY": 1, "gridZ": 1, "blockX": 1024, "blockY": 1, "blockZ": 1}
    return plain_kernel(start, end, name, correlationId=correlation, **size, **more)


def span(start: int, end: int, text: str | None, **more: Any) -> Row:
    return event(start, end, text=text, **more)


def open_export(folder: Path, nvtx: Rows, calls: Rows = (), kernels: Rows = ()) -> Trace:
    tables = {
        "StringIds": NAMES,
        "NVTX_EVENTS": nvtx,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
    }
    present = {name: rows for name, rows in tables.items() if rows}
    return warpline.open(write_export(folder / "small.sqlite", present))


def columns(trace: Trace, table: str, *names: str) -> list[tuple[Any, ...]]:
    result: Result = warpline.stats(trace, table)
    return list(zip(*(result.columns[name].to_list() for name in names), strict=True))


def test_stacks_levels_and_children_of_pushed_ranges(tmp_path: Path) -> None:
    nvtx = [
        event(0, kind=DOMAIN, text="lib", domainId=1),
        span(0, 100, "step"),
        span(10, 40, "load"),
        span(20, 30, "read", domainId=1),
        span(50, 60, None),
        span(52, 54, "in unnamed"),
        span(15, 95, "apart", eventType=START_END),
    ]
    trace = open_export(tmp_path, nvtx)
    names = ("name", "children_ns", "self_ns", "depth", "children", "parent_id", "stack")
    assert columns(trace, "nvtx_pushpop_trace", *names, "name_tree") == [
        ("step", 40, 60, 0, 2, None, ":2", "step"),
        ("load", 10, 20, 1, 1, 2, ":2:3", "--load"),
        ("lib:read", 0, 10, 2, 0, 3, ":2:3:4", "----lib:read"),
        (None, 2, 8, 1, 1, 2, ":2:5", None),
        ("in unnamed", 0, 2, 2, 0, 5, ":2:5:6", "----in unnamed"),
    ]


def test_of_ranges_that_overlap_the_shortest_one_around_is_the_parent(tmp_path: Path) -> None:
    nvtx = [span(0, 60, "a"), span(40, 200, "b"), span(45, 50, "c")]
    rows = columns(open_export(tmp_path, nvtx), "nvtx_pushpop_trace", "name", "stack")
    assert rows == [("a", ":1"), ("b", ":2"), ("c", ":1:3")]


def test_ranges_of_the_same_extent_stand_inside_each_other(tmp_path: Path) -> None:
    nvtx = [span(0, 100, "a"), span(0, 100, "b"), span(10, 20, "c")]
    calls, kernels = [call(11, 12, 1)], [kernel(20, 30, 1)]
    trace = open_export(tmp_path, nvtx, calls, kernels)
    # nsys drops all three from the first table and has no level for them in the second.
    for table in ("nvtx_pushpop_trace", "nvtx_gpu_proj_trace"):
        rows = columns(trace, table, "name", "depth", "stack")
        assert rows == [("a", 0, ":1"), ("b", 1, ":1:2"), ("c", 2, ":1:2:3")]


def test_a_range_without_length_at_the_end_of_another_is_not_inside(tmp_path: Path) -> None:
    nvtx = [span(0, 10, "a"), span(5, 5, "inside"), span(10, 10, "after")]
    rows = columns(open_export(tmp_path, nvtx), "nvtx_pushpop_trace", "name", "depth")
    assert rows == [("a", 0), ("inside", 1), ("after", 0)]  # nsys: 1 for the last one


def test_work_belongs_to_the_ranges_that_hold_its_whole_launch_call(tmp_path: Path) -> None:
    nvtx = [
        span(0, 100, "step"),
        span(10, 40, "part"),
        span(50, 70, "cut"),
        span(0, 100, "elsewhere", globalTid=OTHER_THREAD),
        span(80, 90, "handed over", eventType=START_END, endGlobalTid=OTHER_THREAD),
        # nsys leaves this one out too: an end thread is recorded, though it is the same.
        span(80, 90, "async", eventType=START_END, endGlobalTid=THREAD),
    ]
    calls = [call(20, 25, 1), call(60, 75, 2), call(82, 84, 3), call(85, 86, 4)]
    kernels = [kernel(200 + start, 205 + start, n) for n, start in enumerate((0, 10, 20, 30), 1)]
    trace = open_export(tmp_path, nvtx, calls, kernels)
    names = ("name", "style", "start_ns", "projected_ns", "launches", "depth", "children", "stack")
    assert columns(trace, "nvtx_gpu_proj_trace", *names) == [
        ("step", "PushPop", 200, 35, 4, 0, 2, ":1"),
        ("part", "PushPop", 200, 5, 1, 1, 0, ":1:2"),
        ("async", "StartEnd", 220, 15, 2, 1, 0, ":1:6"),
    ]
    held = columns(trace, "nvtx_kern_sum", "range", "ranges", "instances", "total_ns")
    assert held == [("async", 1, 2, 10), ("part", 1, 1, 5), ("step", 1, 4, 20)]
    sums = columns(trace, "cuda_gpu_kern_sum:nvtx-name", "name", "instances")
    assert sums == [("async/gemm", 2), ("part/gemm", 1), ("step/gemm", 1)]


def test_kernels_outside_all_ranges_and_without_a_call_are_listed(tmp_path: Path) -> None:
    calls = [call(20, 25, 1), call(60, 75, 2)]
    kernels = [kernel(30, 35, 1), kernel(80, 90, 2), kernel(100, 107, 99)]
    trace = open_export(tmp_path, [span(50, 90, "a")], calls, kernels)
    names = ("range", "style", "pid", "tid", "ranges", "instances", "total_ns")
    assert columns(trace, "nvtx_kern_sum", *names) == [
        (None, None, None, None, 0, 1, 7),
        (None, None, 4242, 4242, 0, 1, 5),
        ("a", "PushPop", 4242, 4242, 1, 1, 10),
    ]


def test_a_kernel_counts_once_under_a_name_that_is_nested_in_itself(tmp_path: Path) -> None:
    nvtx = [span(0, 100, "a"), span(10, 90, "a")]
    calls, kernels = [call(20, 25, 1), call(95, 96, 2)], [kernel(200, 210, 1), kernel(220, 240, 2)]
    trace = open_export(tmp_path, nvtx, calls, kernels)
    # nsys: 2 kernels with a total of 40 and a mean of 13.3.
    names = ("ranges", "instances", "total_ns", "mean_ns")
    assert columns(trace, "nvtx_kern_sum", *names) == [(2, 2, 30, 15.0)]


def test_a_kernel_with_two_recorded_calls_counts_once(tmp_path: Path) -> None:
    calls = [call(20, 40, 1), call(25, 35, 1, DRIVER_LAUNCH)]
    trace = open_export(tmp_path, [span(0, 100, "a")], calls, [kernel(50, 60, 1)])
    # nsys lists it once for each call, and has a total of 20.
    assert columns(trace, "cuda_kern_exec_trace", "api_name", "queue_ns") == [
        ("cudaLaunchKernel", 10)
    ]
    assert columns(trace, "cuda_kern_exec_sum", "api_name", "instances") == [
        ("cudaLaunchKernel", 1)
    ]
    assert columns(trace, "nvtx_kern_sum", "instances", "total_ns") == [(1, 10)]


def test_equal_correlations_of_two_processes_are_two_launches(tmp_path: Path) -> None:
    nvtx = [span(0, 100, "a"), span(0, 100, "b", globalTid=OTHER_THREAD)]
    calls = [call(10, 20, 1), call(30, 50, 1, globalTid=OTHER_THREAD)]
    kernels = [kernel(60, 61, 1), kernel(70, 72, 1, globalPid=OTHER_PROCESS)]
    trace = open_export(tmp_path, nvtx, calls, kernels)
    held = columns(trace, "nvtx_kern_sum", "range", "pid", "tid", "total_ns")
    assert held == [("a", 4242, 4242, 1), ("b", 4300, 4301, 2)]
    launched = columns(trace, "cuda_kern_exec_trace", "pid", "api_ns", "kernel_ns")
    assert launched == [(4242, 10, 1), (4300, 20, 2)]


def test_of_ranges_that_begin_together_the_inner_one_names_a_kernel(tmp_path: Path) -> None:
    nvtx = [span(0, 100, "outer"), span(0, 50, "inner")]
    trace = open_export(tmp_path, nvtx, [call(10, 20, 1)], [kernel(30, 40, 1)])
    for table in ("cuda_gpu_trace", "cuda_kern_exec_trace", "cuda_gpu_kern_gb_sum"):
        # nsys says outer/gemm: that row is the first one in the file.
        assert columns(trace, f"{table}:nvtx-name", "name") == [("inner/gemm",)]


def test_names_with_ranges_leave_out_domains(tmp_path: Path) -> None:
    nvtx = [event(0, kind=DOMAIN, text="lib", domainId=1), span(0, 100, "a", domainId=1)]
    trace = open_export(tmp_path, nvtx, [call(10, 20, 1)], [kernel(30, 40, 1)])
    assert columns(trace, "cuda_gpu_kern_sum:nvtx-name", "name") == [("a/gemm",)]
    assert columns(trace, "nvtx_kern_sum", "range") == [("lib:a",)]


def test_a_range_without_a_name_is_projected(tmp_path: Path) -> None:
    trace = open_export(tmp_path, [span(0, 9, None)], [call(1, 2, 1)], [kernel(3, 4, 1)])
    assert columns(trace, "nvtx_gpu_proj_sum", "name", "instances") == [(None, 1)]
    assert columns(trace, "nvtx_gpu_proj_trace", "name", "launches") == [(None, 1)]


def test_projections_add_up_by_name_and_style(tmp_path: Path) -> None:
    nvtx = [span(0, 10, "a"), span(20, 50, "a"), span(60, 70, "b")]
    calls = [call(1, 2, 1), call(21, 22, 2), call(31, 32, 3), call(61, 62, 4)]
    kernels = [kernel(5, 10, 1), kernel(30, 31, 2), kernel(34, 40, 3), kernel(41, 42, 3)]
    trace = open_export(tmp_path, nvtx, calls, [*kernels, kernel(65, 75, 4)])
    names = ("name", "projected_total_ns", "range_total_ns", "instances", "launches", "operations")
    assert columns(trace, "nvtx_gpu_proj_sum", *names, "launches_mean") == [
        ("a", 17, 40, 2, 3, 4, 1.5),
        ("b", 10, 10, 1, 1, 1, 1.0),
    ]


def test_a_kernel_that_begins_before_its_call_returns_has_no_queue(tmp_path: Path) -> None:
    calls = [call(0, 10, 1), call(20, 30, 2), call(40, 50, 3)]
    kernels = [kernel(8, 9, 1), kernel(30, 40, 2), kernel(57, 60, 3)]
    trace = open_export(tmp_path, [span(0, 100, "a")], calls, kernels)
    listed = columns(
        trace, "cuda_kern_exec_trace", "start_queue_ns", "queue_ns", "total_ns", "grid", "block"
    )
    size = ("   2    1    1", "1024    1    1")
    assert listed == [(None, None, 10, *size), (30, 0, 20, *size), (50, 7, 20, *size)]
    names = ("instances", "queued", "queue_mean_ns", "total_mean_ns", "kernel_max_ns")
    assert columns(trace, "cuda_kern_exec_sum", *names) == [(3, 2, 3.5, pytest.approx(50 / 3), 10)]


def test_without_any_queue_there_is_no_mean_of_it(tmp_path: Path) -> None:
    trace = open_export(tmp_path, [span(0, 9, "a")], [call(0, 10, 1)], [kernel(5, 6, 1)])
    row = columns(trace, "cuda_kern_exec_sum", "queued", "queue_mean_ns", "queue_stddev_ns")
    assert row == [(0, None, 0.0)]


def test_ranges_without_kernels_say_how_to_record_them(tmp_path: Path) -> None:
    trace = open_export(tmp_path, [span(0, 9, "a")])
    outcome = warpline.api.run(trace, "nvtx_kern_sum")
    assert isinstance(outcome, Skipped)
    assert outcome.hint is not None
    assert "--trace=cuda,nvtx" in outcome.hint
