"""The list of GPU operations against its source tables."""

from __future__ import annotations

from hypothesis import given, settings
from support.any_trace import AnyTrace, any_traces

from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.launches import launch_calls
from warpline.derived.work.operations import operations
from warpline.trace import MemorySource, Trace


@settings(max_examples=40)
@given(any_traces())
def test_each_operation_stands_in_the_list_once(any_trace: AnyTrace):
    trace = any_trace.trace()
    found = operations(trace)
    expected = []
    for table in DEVICE_TABLES:
        calls = launch_calls(trace)[table]
        for number, row in enumerate(trace[table].iter_rows(named=True)):
            if row.get("level", "Graph") == "Graph":
                start, call = row["start_ns"], calls.row[number] if calls.found[number] else -1
                end = max(start, row["end_ns"])
                expected.append((row["device_id"], start, end, table, number, call))
    columns = (found.device, found.start_ns, found.end_ns, found.table, found.row, found.call)
    listed = list(zip(*(column.tolist() for column in columns), strict=True))
    assert sorted((d, s, e, DEVICE_TABLES[t], r, c) for d, s, e, t, r, c in listed) == sorted(
        expected
    )
    assert [row[:3] for row in listed] == sorted(row[:3] for row in listed)
    for name in DEVICE_TABLES:
        assert {listed[place][3] for place in found.of_table(name)} <= {DEVICE_TABLES.index(name)}


def test_nothing_recorded_is_an_empty_list():
    assert len(operations(Trace(MemorySource({})))) == 0
