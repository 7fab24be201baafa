"""Counters that Warpline recorded, on the pages that show reports of Nsight Compute.

The recording has the launches of a report, and the values that its counters had there.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from capture.cuda_writer import NONE, CudaLog
from capture.finished import read
from support import ncu_captures
from support.recorded_reports import WITHOUT_COUNTERS, recorded

import warpline
from warpline import native
from warpline.counters.labels import HEADINGS, LABELS
from warpline.counters.sets import LIGHT, SECTIONS
from warpline.derived.counters.sections import sections_of
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_findings import kernel_findings
from warpline.documents.kernel_pages import launches, session, summaries
from warpline.render import kernel_listings as listings
from warpline.render import kernel_pages as pages
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

_LIMITED_BY_SHARED_MEMORY = "launch__occupancy_limit_shared_mem"


@pytest.fixture(scope="module", params=ncu_captures.NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def trace(name: str, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("recorded")
    return recorded(warpline.open(ncu_captures.unpack(name, folder)), folder)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def cells(rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Return the cells of each column below its heading: the unit, and a value of each launch."""
    return {heading: list(column) for heading, *column in zip(*rows, strict=True)}


def test_the_raw_page_is_what_ncu_printed(name: str, trace: Trace) -> None:
    out = io.StringIO()
    pages.write_raw_csv(launches(trace, Choice()), out, is_scaled=True)
    ours, theirs = (
        cells(rows_of(out.getvalue())),
        cells(rows_of(ncu_captures.printed(name, "raw.csv"))),
    )
    for fact in ("Process ID", "Process Name", "Host Name"):
        del ours[fact]
    ours.pop(_LIMITED_BY_SHARED_MEMORY, None)
    assert len(ours) > 500
    assert sum(fact.startswith("device__attribute_") for fact in ours) == 144
    assert ours == {heading: theirs[heading] for heading in ours}


def test_shared_memory_is_a_limit_where_it_is_the_least(tmp_path: Path) -> None:
    log = CudaLog(100)
    log.device()
    log.counted("_Z1av", 0, 1, 2, block=(256, 1, 1), registers=30, shared=(0, 163840))
    log.counted("_Z1av", 1, 3, 4, block=(256, 1, 1), registers=30, shared=(0, 1024))
    trace, _ = read(tmp_path, log, collected=["counters"])
    table = launches(trace, Choice())
    assert [table.metrics(place).get(_LIMITED_BY_SHARED_MEMORY) for place in (0, 1)] == [1.0, None]


def test_what_cannot_have_run_has_no_occupancy(tmp_path: Path) -> None:
    log = CudaLog(100)
    log.device(compute=(9, 0))
    most = 2**16 - 1
    log.counted("a", 0, 1, 2, block=(most, most, most), grid=(2**32 - 1, most, most))
    log.counted("a", 1, 1, 2, block=(most, 1, 1), registers=most)
    log.counted("a", 2, 1, 2, block=(0, 1, 1))
    log.counted("a", 3, 1, 2, registers=0)
    log.counted("a", 4, 1, 2, shared=(0, 2**32 - 1))
    log.counted("a", 5, 1, 2, device=0xFFFFFFFF)
    trace, _ = read(tmp_path, log, collected=["counters"])
    assert "sm__maximum_warps_per_active_cycle_pct" not in launches(trace, Choice()).columns


@pytest.fixture
def small(tmp_path: Path) -> Trace:
    """Return two launches with two metrics, one that failed, and a range of work."""
    log = CudaLog(100)
    log.device(name="NVIDIA H100", compute=(9, 0))
    log.context()
    log.push(1, "step")
    log.counter_name(0, "gpu__time_duration.sum ns")
    log.counter_name(1, "dram__bytes_read.sum byte")
    for launch in range(2):
        log.counted("_Z3addPfi", launch, 10 + launch, 20, grid=(264, 1, 1), block=(256, 1, 1))
        log.counter_value(0, launch, 1500.0 + launch)
        log.counter_value(1, launch, 2_000_000.0)
    log.counted("_Z3addPfi", 2, 30, 31, failed=True)
    whole = {"grid": (0, 0, 0), "block": (0, 0, 0), "registers": 0, "stream": NONE}
    log.counted("step", 3, 40, 50, kernels=12, **whole)
    log.counter_value(0, 3, 2e6)
    return read(tmp_path, log, collected=["nvtx", "counters"])[0]


DETAILS = """\
[100] prog@box
  add(float *, int) (264, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Launch
    ------------------------------- --------------- ------------
    Metric Name                         Metric Unit Metric Value
    ------------------------------- --------------- ------------
    Grid Size                                                264
    Block Size                                               256
    Threads                                  thread       67,584
    Registers per Thread            register/thread           16
    Static Shared Memory per Block       byte/block            0
    Dynamic Shared Memory per Block      byte/block            0
    Waves per SM                                            0.25
    SMs                                          SM          132
    ------------------------------- --------------- ------------

    Section: Occupancy
    ----------------------------------- ----------- ------------
    Metric Name                         Metric Unit Metric Value
    ----------------------------------- ----------- ------------
    Theoretical Occupancy                         %          100
    Theoretical Warps per SM                   warp           64
    Blocks per SM, Limited by the SM          block           32
    Blocks per SM, Limited by Registers       block           16
    Blocks per SM, Limited by Warps           block            8
    ----------------------------------- ----------- ------------

    Section: Command line profiler metrics
    ---------------------- ----------- ------------
    Metric Name            Metric Unit Metric Value
    ---------------------- ----------- ------------
    dram__bytes_read.sum         Mbyte            2
    gpu__time_duration.sum          us         1.50
    ---------------------- ----------- ------------

"""
RANGE = """\
[100] prog@box
  step (12 kernels), Context 1, Device 0, CC 9.0
    Section: Command line profiler metrics
    ---------------------- ----------- ------------
    Metric Name            Metric Unit Metric Value
    ---------------------- ----------- ------------
    gpu__time_duration.sum          ms            2
    ---------------------- ----------- ------------

"""


def test_the_details_page(small: Trace) -> None:
    for place, expected in ((0, DETAILS), (3, RANGE)):
        out = io.StringIO()
        pages.write_details(launches(small, Choice(skip=place, count=1)), out, is_scaled=True)
        assert out.getvalue() == expected


def test_what_follows_from_requested_counters_is_listed_with_them(tmp_path: Path) -> None:
    log = CudaLog(100)
    log.device()
    log.counter_name(0, "smsp__inst_executed_op_branch.sum inst")
    log.counter_name(1, "smsp__inst_executed.sum inst")
    log.counted("_Z1av", 0, 1, 2)
    log.counter_value(0, 0, 25.0)
    log.counter_value(1, 0, 200.0)
    trace, _ = read(tmp_path, log, collected=["counters"])
    table = launches(trace, Choice())
    metrics = table.metrics(0)
    assert (metrics["derived__smsp__inst_executed_op_branch_pct"], metrics["inst_executed"]) == (
        *(0.125, 200),
    )
    (*_, requested) = table.layouts[0]
    assert [name for _, name in requested.lines] == [
        "derived__smsp__inst_executed_op_branch_pct",
        "smsp__inst_executed.sum",
        "smsp__inst_executed_op_branch.sum",
    ]


def test_attributes_of_the_gpu_are_shown_with_a_section_or_by_name(tmp_path: Path) -> None:
    log = CudaLog(100)
    log.device(name="NVIDIA H100")
    log.device_attribute("warp_size", 32)
    log.counter_name(0, "sm__cycles_active.avg cycle")
    log.counter_name(1, "sm__inst_executed.sum inst")
    for launch in range(2):
        log.counted("_Z1av", launch, 1 + launch, 5)
        log.counter_value(launch, launch, 100.0)
    log.counted("_Z1av", 2, 3, 4, device=7)
    trace, _ = read(tmp_path, log, collected=["counters"])
    name, warps = "device__attribute_display_name", "device__attribute_warp_size"
    choices = Choice(), Choice(attributes=(name,))
    shown = [launches(trace, choice).columns[name].launches.tolist() for choice in choices]
    assert shown == [[0], [0, 1]]
    table = launches(trace, Choice(attributes=("regex:^device__",)))
    assert table.metrics(1)[name] == "NVIDIA H100"
    assert table.metrics(1)[warps] == 32
    assert warps not in table.metrics(2)
    out = io.StringIO()
    pages.write_raw_csv(table, out, is_scaled=True)
    assert cells(rows_of(out.getvalue()))[name] == ["", "NVIDIA H100", "NVIDIA H100", ""]
    *_, device, _ = session(trace)
    assert ("warp_size", 32) in device.rows
    assert ("display_name", "NVIDIA H100") in device.rows
    assert ("uuid", "01010101-0101-0101-0101-010101010101") in device.rows


def test_a_summary_by_nvtx_ranges(tmp_path: Path) -> None:
    log = CudaLog(100)
    log.device()
    log.push(1, "step")
    log.counter_name(0, "gpu__time_duration.sum ns")
    for launch, time in enumerate((10, 20, 90)):
        log.counted(f"_Z1{'abc'[launch]}v", launch, time, time + 5)
        log.counter_value(0, launch, 100.0 * (launch + 1))
    log.pop(50)
    trace, _ = read(tmp_path, log, collected=["nvtx", "counters"])
    table = launches(trace, Choice(metrics=("gpu__time_duration.sum",)))
    groups = summaries(table, by="nvtx", is_raw=True)
    found = [(group.launches[0].nvtx, len(group.launches), group.spreads[0]) for group in groups]
    assert [(nvtx, count, spread.mean) for nvtx, count, spread in found] == [
        ("step", 2, 150.0),
        (None, 1, 300.0),
    ]
    text, table_text = io.StringIO(), io.StringIO()
    listings.write_summaries(groups, text, is_scaled=True, as_csv=False)
    assert "  step, Device 0, CC 9.0, Invocations 2\n" in text.getvalue()
    assert "  no NVTX range, Device 0, CC 9.0, Invocations 1\n" in text.getvalue()
    listings.write_summaries(groups, table_text, is_scaled=True, as_csv=True)
    assert cells(rows_of(table_text.getvalue()))["NVTX"] == ["step", ""]


def test_json(small: Trace) -> None:
    out = io.StringIO()
    listings.write_json(launches(small, Choice()), out)
    found = json.loads(out.getvalue())
    assert (found["schema_version"], found["device"]) == (1, 0)
    keys = ("id", "name", "invocation", "stream", "nvtx", "passes", "concurrent")
    assert [[kernel[key] for key in keys] for kernel in found["kernels"]] == [
        [0, "add(float *, int)", 1, 7, "step", 1, False],
        [1, "add(float *, int)", 2, 7, "step", 1, False],
        [2, "add(float *, int)", 3, 7, "step", 1, False],
        [3, "step", 1, None, "step", 1, True],
    ]
    assert all(kernel["clock_drift_ratio"] is None for kernel in found["kernels"])
    assert found["kernels"][3]["grid"] is found["kernels"][3]["block"] is None
    assert found["kernels"][3]["metrics"] == {
        "gpu__time_duration.sum": 2e6,
        "profiler__replayer_passes": 1,
    }
    one = io.StringIO()
    listings.write_json(launches(small, Choice(skip=1, count=1)), one)
    assert json.loads(one.getvalue())["kernels"][0]["invocation"] == 2


def test_the_session_page(small: Trace) -> None:
    *_, device = session(small)
    assert device.title == "Device 0: NVIDIA H100"
    assert ("sm_count", 132) in device.rows


def test_tables_queries_and_exports(small: Trace, tmp_path: Path) -> None:
    metrics = warpline.stats(small, "kernel_metrics").to_polars()
    durations = metrics.filter(pl.col("metric") == "gpu__time_duration.sum")
    assert durations.select("launch", "value").rows() == [(0, 1500.0), (1, 1501.0), (3, 2e6)]
    sizes = metrics.filter(pl.col("metric") == "launch__grid_size")
    assert sizes.select("launch", "unit", "value").rows() == [(n, None, v) for n, v in SIZES]
    kernels = warpline.stats(small, "profiled_kernels").to_polars()
    assert kernels.select("launch", "registers", "blocks", "threads").rows() == [
        (0, 16, 264, 256),
        (1, 16, 264, 256),
        (2, 16, 1, 32),
        (3, None, None, None),
    ]
    query = "SELECT profiled_kernel_id, value FROM kernel_metric WHERE unit = 'byte'"
    assert warpline.query(small, query).rows() == [(0, 2e6), (1, 2e6)]
    folder = warpline.export(small, tmp_path / "parquet", "parquet")
    assert pl.read_parquet(folder / "kernel_metric.parquet")["value"].sum() == 4e6 + 3001 + 2e6
    again = warpline.open(warpline.export(small, tmp_path / "again.warpline", "warpline"))
    assert again["profiled_kernel"].equals(small["profiled_kernel"])


SIZES = [(0, 264.0), (1, 264.0), (2, 1.0)]


def test_sections_are_those_that_were_collected_as_a_whole() -> None:
    names = {section.name: frozenset(r[0] for r in section.requests()) for section in SECTIONS}
    for name in ("SpeedOfLight", "Occupancy", "SchedulerStats", "WarpStateStats"):
        assert name in {section.identifier for section in sections_of(names[name])}
    light = sections_of(names[LIGHT.name])
    assert [section.identifier for section in light] == ["Light"]
    assert len(light[0].lines) == len(names[LIGHT.name])
    every = sections_of(frozenset().union(*names.values()))
    listed = [name for section in every for _, name in section.lines]
    assert len(listed) == len({*listed})
    assert "Light" not in {section.identifier for section in every}
    few = frozenset(request[0] for request in LIGHT.requests()[:6])  # that fit in a pass
    assert [section.identifier for section in sections_of(few)] == ["Light"]
    some = sections_of(frozenset(("lts__t_bytes.sum", "dram__bytes.sum.per_second")))
    assert [(section.identifier, len(section.lines)) for section in some] == [("CommandLine", 2)]


def test_headings_and_labels_are_of_sections_and_their_metrics() -> None:
    assert {section.name for section in SECTIONS} == {*HEADINGS}
    metrics = {name for section in SECTIONS for choice in section.requests() for name in choice}
    without_counters = {name for name in LABELS if name.startswith(WITHOUT_COUNTERS)}
    assert {*LABELS} - without_counters <= metrics
    assert {name for choice in LIGHT.requests() for name in choice} <= {*LABELS}


def test_launches_of_reports_have_no_time_and_stay_in_every_window(tmp_path: Path) -> None:
    report = warpline.open(ncu_captures.unpack("target", tmp_path))
    assert report["profiled_kernel"]["start_ns"].is_null().all()
    part = report.window(10, 20)
    assert part["kernel_metric"].equals(report["kernel_metric"])
    assert report["profiled_kernel"].select("registers_per_thread", "passes").row(0) == (16, 38)


def test_findings_are_those_of_the_report(tmp_path: Path) -> None:
    report = warpline.open(ncu_captures.unpack("target", tmp_path))
    ours = recorded(report, tmp_path)
    found = {
        name: [
            [(finding.rule, finding.likely_ns) for finding in of_launch]
            for of_launch in kernel_findings(trace, Choice())
        ]
        for name, trace in (("report", report), ("ours", ours))
    }
    assert found["ours"] == found["report"]
    assert ["bank-conflicts"] in [[rule for rule, _ in every] for every in found["ours"]]
