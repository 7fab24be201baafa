"""Generic events in exports: sampled metrics, and what is none."""

from __future__ import annotations

import json
from typing import Any

from support.nsys_exports import Row, strings
from support.nsys_samples import BUSY, CLOCK, TYPE, declared, sample, told

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
