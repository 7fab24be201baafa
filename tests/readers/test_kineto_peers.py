"""Errors that other analysers make on these traces, each as a test that we do not share it.

Their mechanisms are in small traces made by hand; the numbers are counted by hand too.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from support.kineto_files import PID, Event, call, event, flow, kernel, reversed_rows, write

import warpline
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import device_busy_ns
from warpline.derived.work.operations import operations
from warpline.trace import Trace


def opened(folder: Path, events: list[Event], **top: object) -> Trace:
    return warpline.open(write(folder / "trace.json", events, **top))


def test_statistics_of_a_kernel_are_those_of_its_executions(tmp_path):
    # An aggregate of an aggregate makes mean, minimum and maximum the sum where there are more
    # kinds of kernels than are shown.
    durations_us = {f"kernel_{number}": [1 + number, 2, 7 * number + 1] for number in range(14)}
    events, ts = [], 100
    for name, values in durations_us.items():
        for value in values:
            events.append(kernel(name, ts, value))
            ts += 200
    result = warpline.stats(opened(tmp_path, events), "cuda_gpu_kern_sum")
    fields = [field.name for field in result.fields]
    rows = [dict(zip(fields, row, strict=True)) for row in result.rows()]
    found = {row["name"]: row for row in rows}
    assert len(found) == len(durations_us)
    for name, values in durations_us.items():
        row = found[name]
        values_ns = [value * 1000 for value in values]
        assert row["total_ns"] == sum(values_ns)
        assert row["mean_ns"] == pytest.approx(statistics.fmean(values_ns))
        assert (row["min_ns"], row["max_ns"]) == (min(values_ns), max(values_ns))
        assert row["stddev_ns"] == pytest.approx(statistics.stdev(values_ns))


def test_no_event_is_left_out_and_no_time_is_rounded(tmp_path):
    # Whole microseconds give kernels below one no length, or a negative one; and the last
    # step is as good as the others.
    base = 1_712_195_495_000_000
    steps = [event("user_annotation", f"ProfilerStep#{n}", base + 1000 * n, 900) for n in (7, 8, 9)]
    kernels = [
        kernel("tiny", float(f"{base + 1000 * step + 10 * place}.25"), 0.4 + place / 1000)
        for step in (7, 8, 9)
        for place in range(20)
    ]
    trace = opened(tmp_path, steps + kernels)
    times = trace.columns("kernel", "start_ns", "end_ns")
    lengths = times["end_ns"].values - times["start_ns"].values
    assert sorted(lengths.tolist()) == sorted([400 + place for place in range(20)] * 3)
    assert device_busy_ns(trace).tolist() == [int(lengths.sum())]
    assert trace["range"]["name"].to_list() == [f"ProfilerStep#{n}" for n in (7, 8, 9)]


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("1700000000123456.789", 1_700_000_000_123_456_789),  # no float64 holds it
        ("4360860517098.572", 4_360_860_517_098_572),
        ("0.0004", 0),
        ("0.0005", 1),
        ("-0.0005", -1),
        ("-12.3456", -12_346),
        ("1e3", 1_000_000),
        ("1.5E-3", 2),
        ("12", 12_000),
    ],
)
def test_times_are_exact(tmp_path, text, expected_ns):
    path = tmp_path / "trace.json"
    parts = [
        '{"ph":"X","cat":"cpu_op","name":"first","pid":1,"tid":1,"ts":TS,"dur":1.001}',
        '{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","ts":0.001,"dur":9}',
    ]
    for shown in (text, f'"{text}"'):
        path.write_text('{"traceEvents":[' + ",".join(parts).replace("TS", shown) + "]}")
        times = warpline.open(path).columns("op", "start_ns", "end_ns")
        assert times["start_ns"].values.tolist() == [expected_ns - 1]
        assert times["end_ns"].values.tolist() == [expected_ns - 1 + 1001]


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*)",
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(RankData*, RankSignals)",
    ],
)
def test_collectives_are_told_by_more_than_one_library_name(tmp_path, name):
    trace = opened(tmp_path, [kernel("ampere_sgemm_128x64_nn", 0, 50), kernel(name, 60, 40)])
    starts = operations(trace).start_ns
    shown = [TimePart.at(code).label for code in operation_categories(trace)[np.argsort(starts)]]
    assert shown == ["gemm", "collective"]


def test_device_work_is_found_whatever_its_arrows_are_called(tmp_path):
    for category in ("ac2g", "async_cpu_to_gpu", "async", None):
        work = [call("cudaLaunchKernel", 10, 3, 11), kernel("k", 20, 5, correlation=11)]
        ends = (("s", 10, PID, PID), ("f", 20, 0, 7)) if category else ()
        arrows = [flow(phase, str(category), 11, *end) for phase, *end in ends]
        trace = opened(tmp_path, work + arrows)
        assert trace.row_count("kernel") == 1
        assert operations(trace).call.tolist() == [0]
        assert not trace.meta.unread


def test_an_arrow_links_what_has_no_correlation(tmp_path):
    for category in ("ac2g", "async_cpu_to_gpu"):
        work = [call("cudaLaunchKernel", 10, 3, 11), kernel("k", 20, 5), kernel("l", 30, 5)]
        del work[0]["args"]["correlation"]
        arrows = [flow("s", category, 11, 10, PID, PID), flow("f", category, 11, 20, 0, 7)]
        trace = opened(tmp_path, work + arrows)
        assert operations(trace).call.tolist() == [0, -1]


def test_events_that_overlap_on_one_track_stay(tmp_path):
    # With programmatic dependent launch a kernel begins before the one ahead of it ended.
    kernels = [kernel("k", 10 * number, 15, correlation=number) for number in range(50)]
    ops = [event("cpu_op", "aten::mm", 10 * number, 15) for number in range(50)]
    frames = [event("python_function", "f", 7 * number, 10) for number in range(50)]
    for events in (kernels + ops + frames, reversed_rows(kernels + ops + frames)):
        trace = opened(tmp_path, events)
        counts = [trace.row_count(table) for table in ("kernel", "op", "python_frame")]
        assert counts == [50, 50, 50]
        assert device_busy_ns(trace).tolist() == [(10 * 49 + 15) * 1000]
