"""Sampled metrics in exports: of GPUs, network adapters and switches, in all forms of tables."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from support.nsys_exports import Row, Rows, kernel, strings

import warpline
from warpline import native
from warpline.errors import CorruptTraceError
from warpline.readers.nsys import export, source
from warpline.readers.nsys.database import Database

TYPE = (1 << 48) | (1 << 32)  # of metrics; the lowest bits are the GPU
CLOCK, BUSY = "GPC Clock Frequency [MHz]", "SMs Active [Throughput %]"
WARPS = "Compute Warps in Flight [Avg Warps per Cycle]"
COLUMNS = ("time_ns", "device_id", "metric_id", "value")


def gpu(index: int, **more: Any) -> Row:
    return {"id": index, "name": f"GPU {index}", "vmId": 0, **more}


def declared(*names: str, kind: int = TYPE) -> Rows:
    return [{"typeId": kind, "metricId": i, "metricName": n} for i, n in enumerate(names)]


def sample(time: int | None, metric: int, value: Any, kind: int = TYPE, **more: Any) -> Row:
    return {"timestamp": time, "typeId": kind, "metricId": metric, "value": value, **more}


def told(rows_of, trace) -> list[tuple[Any, ...]]:
    """Return the samples: time, index of the GPU, name of the metric, value."""
    names = [name for (name,) in rows_of(trace, "metric", "name_id")]
    gpus = [index for (index,) in rows_of(trace, "device", "gpu_index")]
    return [
        (time, None if device is None else gpus[device], names[metric], value)
        for time, device, metric, value in rows_of(trace, "counter", *COLUMNS)
    ]


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
    network = [_network(5, 70, 6, 2, portId=0)]
    trace = opened({"StringIds": strings("x"), "GPU_METRICS": rows, "NET_NIC_METRIC": network})
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


def test_metrics_of_the_chip_belong_to_no_gpu(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_SOC_METRICS": declared("DRAM Read [Throughput %]"),
            "SOC_METRICS": [sample(1, 0, 9)],
        }
    )
    assert told(rows_of, trace) == [(1, None, "DRAM Read [Throughput %]", 9.0)]
    assert trace.row_count("device") == 0


def _network(start: int, where: int, place: int, value: Any, **more: Any) -> Row:
    row = {"start": start, "end": start + 100, "globalId": where, "metricsListId": 0}
    return {**row, "metricsIdx": place, "value": value, **more}


NETWORK = [
    {"metricsListId": 0, "metricsIdx": 6, "name": "IB: Bytes sent", "unit": "bytes/ms"},
    {"metricsListId": 0, "metricsIdx": 7, "name": "IB: Send waits", "unit": ""},
]


def test_network_adapters_are_in_the_names(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_NETWORK_METRICS": NETWORK,
            "TARGET_INFO_NIC_INFO": [
                {"nicId": 0, "name": "mlx5_0"},
                {"nicId": 1, "name": "mlx5_1"},
                {"nicId": 2, "name": "eth0"},
                {"nicId": 3, "name": "eth0"},
            ],
            "NIC_ID_MAP": [{"nicId": n, "globalId": 70 + n} for n in range(4)],
            "NET_NIC_METRIC": [
                _network(5, 70, 6, 1000, portId=0),
                _network(5, 71, 6, 2000, portId=1),
                _network(5, 71, 6, 3000, portId=2),
                _network(5, 71, 7, 4, portId=1),
                _network(5, 72, 6, 5, portId=0),
                _network(5, 73, 6, 6, portId=0),
                _network(5, -1, 9, 2.5, portId=0),
            ],
        }
    )
    assert {name: (time, device, value) for time, device, name, value in told(rows_of, trace)} == {
        "mlx5_0: IB: Bytes sent [bytes/ms]": (5, None, 1000.0),
        "mlx5_1 port 1: IB: Bytes sent [bytes/ms]": (5, None, 2000.0),
        "mlx5_1 port 2: IB: Bytes sent [bytes/ms]": (5, None, 3000.0),
        "mlx5_1 port 1: IB: Send waits": (5, None, 4.0),
        "eth0 (0x48): IB: Bytes sent [bytes/ms]": (5, None, 5.0),
        "eth0 (0x49): IB: Bytes sent [bytes/ms]": (5, None, 6.0),
        "NIC 0xffffffffffffffff: metric 9": (5, None, 2.5),
    }
    assert trace.meta.unread == {}
    assert trace.row_count("device") == 0


def test_switches_and_exports_that_name_no_port(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_NETWORK_METRICS": NETWORK,
            "NET_IB_DEVICE_INFO": [
                {"networkId": 1, "guid": 0xABC, "name": "leaf-3", "des": "Quantum"},
                {"networkId": 1, "guid": 0xABD, "name": None, "des": "Quantum"},
            ],
            "NET_IB_SWITCH_METRIC": [
                _network(5, 0xABC, 6, 1),
                _network(6, 0xABD, 6, 2),
                _network(7, 0xABE, 6, 3),
            ],
        }
    )
    assert told(rows_of, trace) == [
        (5, None, "leaf-3: IB: Bytes sent [bytes/ms]", 1.0),
        (6, None, "Quantum: IB: Bytes sent [bytes/ms]", 2.0),
        (7, None, "IB switch 0xabe: IB: Bytes sent [bytes/ms]", 3.0),
    ]


FTRACE = TYPE + (5 << 32)
OLD_TYPES = {
    "GENERIC_EVENT_SOURCES": [
        {"sourceId": 1, "data": json.dumps({"Name": "GpuMetrics"})},
        {"sourceId": 2, "data": json.dumps({"Name": "FTrace"})},
        {"sourceId": 3, "data": "[1"},
    ],
    "GENERIC_EVENT_TYPES": [
        {"typeId": TYPE, "sourceId": 1, "data": "{}"},
        {"typeId": TYPE + 1, "sourceId": 1, "data": "{}"},
        {"typeId": FTRACE, "sourceId": 2, "data": "{}"},
        {"typeId": FTRACE + 1, "sourceId": 2, "data": "{}"},
        {"typeId": FTRACE + 2, "sourceId": 3, "data": "{}"},
    ],
}


def generic(time: int | None, data: Any, kind: int = TYPE, **more: Any) -> Row:
    text = data if isinstance(data, str) else json.dumps(data)
    return {"rawTimestamp": time, "timestamp": None, "typeId": kind, "data": text, **more}


OLD_SAMPLES = [
    generic(20, {"GPC Clock Frequency": "1410000000", "SM Active": "7"}),
    generic(10, {"GPC Clock Frequency": "1400000000", "SM Active": "6"}),
    generic(10, {"SM Active": 5}, TYPE + 1),
    generic(11, {"common_pid": "4"}, FTRACE),
    generic(11, {"common_pid": "4"}, FTRACE + 1),
    generic(11, {"a": "4"}, FTRACE + 2),
]


def test_older_exports_have_samples_as_generic_events(opened, rows_of):
    trace = opened({"StringIds": strings("x"), **OLD_TYPES, "GENERIC_EVENTS": OLD_SAMPLES})
    clock = "GPC Clock Frequency [MHz]"
    assert told(rows_of, trace) == [
        (10, 0, clock, 1400.0),
        (10, 0, "SM Active", 6.0),
        (10, 1, "SM Active", 5.0),
        (20, 0, clock, 1410.0),
        (20, 0, "SM Active", 7.0),
    ]
    assert trace.meta.unread == {"GENERIC_EVENTS of FTrace": 2, "GENERIC_EVENTS": 1}


def test_samples_in_both_forms_count_once(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("x"),
            **OLD_TYPES,
            "TARGET_INFO_GPU_METRICS": declared("GPC Clock Frequency", "SM Active"),
            "GPU_METRICS": [sample(10, 1, 6), sample(20, 1, 7)],
            "GENERIC_EVENTS": OLD_SAMPLES,
        }
    )
    assert told(rows_of, trace) == [
        (10, 0, "SM Active", 6.0),
        (10, 1, "SM Active", 5.0),  # of a GPU that only the generic events have
        (20, 0, "SM Active", 7.0),
    ]
    assert trace.meta.unread == {"GENERIC_EVENTS of FTrace": 2, "GENERIC_EVENTS": 1}


def test_generic_events_that_are_no_metrics_are_no_counters(opened):
    trace = opened({"StringIds": strings("x"), **OLD_TYPES, "GENERIC_EVENTS": OLD_SAMPLES[3:]})
    assert not trace.has("counter")
    assert not trace.has("metric")


HOSTILE = (
    "[1]",
    "{",
    "",
    "[" * 100_000,
    '{"SM Active": "' + "9" * 5000 + '"}',
    '{"SM Active": NaN, "b": null, "c": [], "d": {"e": 1}, "f": "six"}',
)


def test_hostile_json(opened, rows_of):
    events = [generic(1, text) for text in HOSTILE]
    events += [generic(2, {"SM Active": "1", "wrong": "x"}), generic(None, {"SM Active": 2})]
    trace = opened({"StringIds": strings("x"), **OLD_TYPES, "GENERIC_EVENTS": events})
    assert told(rows_of, trace) == [(2, 0, "SM Active", 1.0)]
    assert any("GENERIC_EVENTS.data: 4 values" in warning for warning in trace.meta.warnings)


def test_newer_exports_have_values_of_generic_events_as_rows(opened, rows_of):
    """They have names by id, and times that were converted."""
    data = [
        {"genericEventId": 8, "fieldIdx": 0, "uintVal": 1_410_000_000},
        {"genericEventId": 8, "fieldIdx": 1, "doubleVal": 2.5},
        {"genericEventId": 9, "fieldIdx": 1, "floatVal": 0.5},
        {"genericEventId": 9, "fieldIdx": 2, "intVal": -4},
        {"genericEventId": 9, "fieldIdx": 3, "uintVal": -1},
        {"genericEventId": 9, "fieldIdx": 4},
        {"genericEventId": 7, "fieldIdx": 1, "intVal": 3},
        {"genericEventId": 99, "fieldIdx": 1, "intVal": 3},
    ]
    event = {"rawTimestamp": 1, "typeId": TYPE, "data": None}
    trace = opened(
        {
            "StringIds": strings("GpuMetrics", "FTrace", CLOCK, BUSY),
            "GENERIC_EVENT_SOURCES": [{"sourceId": 1, "nameId": 0}, {"sourceId": 2, "nameId": 1}],
            "GENERIC_EVENT_TYPES": [
                {"typeId": TYPE, "sourceId": 1, "nameId": 0},
                {"typeId": FTRACE, "sourceId": 2, "nameId": 1},
            ],
            "GENERIC_EVENT_TYPE_FIELDS": [
                {"typeId": TYPE, "fieldIdx": place, "fieldNameId": 2 + place} for place in (0, 1)
            ],
            "GENERIC_EVENTS": [
                {**event, "genericEventId": 9, "timestamp": 200},
                {**event, "genericEventId": 8, "timestamp": 100},
                {**event, "genericEventId": 7, "timestamp": 150, "typeId": FTRACE},
            ],
            "GENERIC_EVENT_DATA": data,
        }
    )
    assert sorted(told(rows_of, trace)) == [
        (100, 0, CLOCK, 1410.0),
        (100, 0, BUSY, 2.5),
        (200, 0, BUSY, 0.5),
        (200, 0, "metric 2", -4.0),
        (200, 0, "metric 3", float(2**64 - 1)),
    ]
    assert trace.meta.unread == {"GENERIC_EVENTS of FTrace": 1}


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
