"""Sampled metrics of GPUs in exports: which GPU, names, units, damage."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from support.nsys_exports import Rows, kernel, strings
from support.nsys_samples import (
    BUSY,
    CLOCK,
    COLUMNS,
    TYPE,
    WARPS,
    declared,
    gpu,
    network,
    sample,
    told,
)

import warpline
from warpline import native
from warpline.errors import CorruptTraceError
from warpline.readers.nsys import export, source
from warpline.readers.nsys.database import Database


def test_the_lowest_bits_of_the_type_are_the_gpu(opened, rows_of):
    """GPU 2 ran nothing that was traced; both have metrics of the same names."""
    trace = opened(
        {
            "StringIds": strings("k"),
            "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 2)],
            "TARGET_INFO_GPU": [gpu(2), gpu(0), gpu(1)],
            "TARGET_INFO_GPU_METRICS": [
                *declared(CLOCK, BUSY, kind=TYPE + 2),
                *declared(CLOCK, BUSY),
            ],
            "GPU_METRICS": [
                sample(10, 0, 1_980_000_000),
                sample(10, 1, 40),
                sample(12, 0, 210_000_000, TYPE + 2),
                sample(12, 1, 3, TYPE + 2),
            ],
        }
    )
    assert told(rows_of, trace) == [
        (10, 0, CLOCK, 1980.0),
        (10, 0, BUSY, 40.0),
        (12, 2, CLOCK, 210.0),
        (12, 2, BUSY, 3.0),
    ]
    assert rows_of(trace, "device", "gpu_index") == [(0,), (1,), (2,)]


def test_two_metrics_of_a_gpu_with_one_name_are_told_apart(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU_METRICS": [
                *declared(BUSY, BUSY, "busy", f"{BUSY[:-15]} (2) [Throughput %]"),
                *declared("busy", kind=TYPE + 0x300),
            ],
            "GPU_METRICS": [
                *(sample(1, metric, 10 + metric) for metric in range(4)),
                sample(1, 0, 20, TYPE + 0x300),
            ],
        }
    )
    assert {name: value for *_, name, value in told(rows_of, trace)} == {
        BUSY: 10,
        "SMs Active (2) [Throughput %]": 11,
        "busy": 12,
        "SMs Active (2) (2) [Throughput %]": 13,
        "busy (2)": 20,
    }


CONFIG = """
# a comment
metricSets:
- alias: gh100
  name: General Metrics
  chips: [GH100, 'GH200']
  displayRows:
  - name: $root:Activity
    metrics:
    - GR Active
  metrics:
  - name: GPC Clock Frequency
    subMetrics:
    - name: MHz
      suffix: .avg.per_second
      multiplier: 1.0e-06
  - name: Compute Warps in Flight
    id: tpc__warps_active
    subMetrics:
    - name: Throughput %
      suffix: .avg.pct_of_peak_sustained_elapsed
    - name: Avg Warps per Cycle
      multiplier: 0.5
  - name: Odd
    multiplier: 4
  - name: "Quoted"
    multiplier: nan
"""


def _with_config(clock: int, chip: str = "GH100", **more: Any) -> dict[str, Rows]:
    return {
        "StringIds": strings("x", CONFIG),
        "TARGET_INFO_GPU": [gpu(0, chipName=chip)],
        "ANALYSIS_FILE": [{"filename": "/nsys/GpuMetrics/gh100.config", **more}],
        "TARGET_INFO_GPU_METRICS": declared(CLOCK, BUSY, WARPS, "Odd", "Quoted"),
        "GPU_METRICS": [
            *(sample(1, metric, value) for metric, value in enumerate([clock, 95, 121, 3, 7])),
            sample(2, 0, 50_000),  # in Hz, as the larger one tells
        ],
    }


@pytest.mark.parametrize("content", [{"contentId": 1}, {"content": CONFIG}])
def test_values_have_the_unit_of_the_name(opened, rows_of, content):
    trace = opened(_with_config(1_500_000_000, **content))
    assert [row[2:] for row in told(rows_of, trace)] == [
        (CLOCK, 1500.0),
        (BUSY, 95.0),
        (WARPS, 60.5),  # a TPC has two SMs
        ("Odd", 12.0),
        ("Quoted", 7.0),
        (CLOCK, 0.05),
    ]


def test_values_that_were_multiplied_are_not_multiplied_again(opened, rows_of):
    tables = _with_config(1500, contentId=1)
    tables["GPU_METRICS"] = tables["GPU_METRICS"][:-1]
    found = told(rows_of, opened(tables))
    assert [value for *_, value in found] == [1500.0, 95.0, 121.0, 3.0, 7.0]


@pytest.mark.parametrize(("chip", "warps"), [("GA100", 121 / 4), ("TU104", 121.0)])
def test_multipliers_are_those_of_the_chip(opened, rows_of, chip, warps):
    """Files that disagree say nothing of another chip."""
    other = CONFIG.replace("GH100", "GA100").replace("GH200", "GA102").replace("0.5", "0.25")
    tables = _with_config(1_500_000_000, chip, contentId=1)
    more = {"filename": "/nsys/GpuMetrics/ga100.config", "contentId": 2}
    tables["StringIds"] = strings("x", CONFIG, other)
    tables["ANALYSIS_FILE"] = [*tables["ANALYSIS_FILE"], more]
    found = told(rows_of, opened(tables))
    assert (1, 0, WARPS, warps) in found
    assert (1, 0, "Odd", 12.0) in found


def test_of_the_sets_in_one_file_that_of_the_chip_counts(opened, rows_of):
    """Until 2023, one file had the sets of all chips."""
    other = CONFIG.replace("chips: [GH100", "supportedChips: [GA100").replace("0.5", "0.25")
    tables = _with_config(1_500_000_000, "GA100")
    content = CONFIG + other.partition("metricSets:\n")[2]
    tables["ANALYSIS_FILE"] = [{"filename": "/opt/GpuMetrics.config", "content": content}]
    assert (1, 0, WARPS, 121 / 4) in told(rows_of, opened(tables))


def test_numbers_have_no_sign(opened, rows_of):
    """An RTX 3090 at 2,330,513,255 Hz: so it is in the JSON of the export with this row."""
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU_METRICS": declared("GPC Clock Frequency", BUSY, CLOCK),
            "GPU_METRICS": [
                sample(1, 0, -1_964_454_041),
                sample(1, 1, 50),
                sample(1, 2, -(2**31)),
                sample(2, 0, 1_956_501_429),
                sample(2, 1, -56),
            ],
        }
    )
    assert [value for *_, value in told(rows_of, trace)] == [
        2330.513255,
        50.0,
        2**31 / 1e6,
        1956.501429,
        200.0,
    ]


def test_clocks_of_older_exports_get_their_unit(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU_METRICS": declared("SYS Clock Frequency", "SM Active"),
            "GPU_METRICS": [sample(1, 0, 1_410_000_000), sample(1, 1, 7)],
        }
    )
    assert told(rows_of, trace) == [
        (1, 0, "SYS Clock Frequency [MHz]", 1410.0),
        (1, 0, "SM Active", 7.0),
    ]


def test_bytes_per_second_have_the_prefix_of_the_name(opened, rows_of):
    name, small = "VRAM Read Bandwidth [GB/s]", "VRAM Write Bandwidth [GB/s]"
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU_METRICS": declared(name, small),
            "GPU_METRICS": [sample(1, 0, 3_000_000_000), sample(1, 1, 900)],
        }
    )
    assert [row[2:] for row in told(rows_of, trace)] == [(name, 3.0), (small, 9e-7)]


OLD_CONFIG = """
metricSets:
- name: General Metrics
  supportedChips: [GA102]
  metrics:
  - name: SM Active
    id: sm__cycles_active.avg.pct_of_peak_sustained_elapsed
  - name: BAR1 Requests
    id: pcie__rx_requests.sum
  - name: Mixed
    id: a.avg.pct_of_peak_sustained_elapsed
- name: Other Metrics
  supportedChips: [GA102]
  metrics:
  - name: Mixed
    id: a.sum
- name: Of Another Chip
  supportedChips: [TU102]
  metrics:
  - name: BAR1 Requests
    id: pcie__rx_requests.avg.pct_of_peak_sustained_elapsed
"""


def test_percentages_of_older_exports_get_their_unit(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU": [gpu(0, chipName="GA102")],
            "ANALYSIS_FILE": [{"filename": "/opt/GpuMetrics.config", "content": OLD_CONFIG}],
            "TARGET_INFO_GPU_METRICS": declared("SM Active", "BAR1 Requests", "Mixed", "Unknown"),
            "GPU_METRICS": [sample(1, metric, 7) for metric in range(4)],
        }
    )
    names = [name for *_, name, _ in told(rows_of, trace)]
    assert names == ["SM Active [Throughput %]", "BAR1 Requests", "Mixed", "Unknown"]


def test_samples_without_any_description(opened, rows_of):
    trace = opened({"StringIds": strings("x"), "GPU_METRICS": [sample(1, 4, 9, TYPE + 3)]})
    assert told(rows_of, trace) == [(1, 3, "metric 4", 9.0)]


def test_names_from_the_fields_of_generic_events(opened, rows_of):
    field = {"typeId": TYPE, "fieldIdx": 4, "fieldNameId": 1}
    tables = {"GENERIC_EVENT_TYPE_FIELDS": [field], "GPU_METRICS": [sample(1, 4, 9)]}
    trace = opened({"StringIds": strings("x", "GR Active"), **tables})
    assert told(rows_of, trace) == [(1, 0, "GR Active", 9.0)]


def test_a_gpu_that_nothing_else_describes_is_in_the_name(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU_METRICS": declared(BUSY),
            "GPU_METRICS": [sample(1, 0, 9), sample(2, 0, 8, TYPE + 5)],
        }
    )
    assert told(rows_of, trace) == [(1, 0, BUSY, 9.0), (2, None, "GPU 5: metric 0", 8.0)]


def test_times_may_be_in_the_other_column(opened, rows_of):
    rows = [sample(None, 0, 1, rawTimestamp=5), sample(-6, 0, 2, rawTimestamp=7)]
    trace = opened({"StringIds": strings("x"), "GPU_METRICS": rows})
    assert rows_of(trace, "counter", "time_ns", "value") == [(-6, 2.0), (5, 1.0)]


@pytest.mark.parametrize("column", ["timestamp", "typeId", "metricId", "value"])
@pytest.mark.parametrize("wrong", [None, "text"])
def test_a_sample_without_a_number_is_damage(opened, column, wrong):
    rows = [sample(1, 0, 1), {**sample(2, 0, 2), column: wrong}]
    trace = opened({"StringIds": strings("x"), "GPU_METRICS": rows})
    with pytest.raises(CorruptTraceError, match=f"column {column} has no number in 1 rows"):
        trace.columns("counter", *COLUMNS)


def test_damage_that_is_found_in_a_later_column(opened):
    """Times and values are read first; what identifies a series is read when it is needed."""
    rows = [sample(time, 0, 1) for time in range(20)]
    adapter = [network(5, 70, 6, 2, portId=0)]
    trace = opened({"StringIds": strings("x"), "GPU_METRICS": rows, "NET_NIC_METRIC": adapter})
    read, path = Database.read, trace.meta.paths[0]

    def fails(self, name, columns, *arguments):
        if name == "GPU_METRICS" and "typeId" in columns:
            raise CorruptTraceError("page 6 is damaged")
        return read(self, name, columns, *arguments)

    with mock.patch.object(Database, "read", fails):
        damaged = warpline.open(path)
        with pytest.raises(CorruptTraceError, match="page 6"):
            damaged.columns("counter", *COLUMNS)
        assert damaged.row_count("counter") == 1
        assert damaged.columns("counter", *COLUMNS)["value"].to_list() == [2.0]
        assert damaged.meta.damaged == {"counter": "page 6 is damaged"}


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_blocks_are_parts_of_the_whole(opened):
    rows = [
        sample(time, metric, 1_500_000_000 + time if metric == 0 else time % 100, TYPE + place)
        for time in range(600)
        for place in (0, 1)
        for metric in (0, 1)
    ]
    kinds = [TYPE, TYPE + 1]
    names = [row for kind in kinds for row in declared(CLOCK, BUSY, kind=kind)]
    tables = {"StringIds": strings("x"), "TARGET_INFO_GPU_METRICS": names, "GPU_METRICS": rows}
    whole = opened(tables)
    in_blocks = warpline.open(whole.meta.paths[0])
    columns = whole.columns("counter", *COLUMNS, ordered=False)
    with (
        mock.patch.object(export, "LARGE_TABLE_ROWS", 0),
        mock.patch.object(source, "ROWS_PER_BLOCK", 100),
    ):
        blocks = list(in_blocks.blocks("counter", *COLUMNS))
    assert len(blocks) > 3
    for name, column in columns.items():
        found = [value for block in blocks for value in block[name].to_list()]
        assert found == column.to_list(), name
