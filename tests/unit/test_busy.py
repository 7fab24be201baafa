"""Busy time against a model that marks every nanosecond."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces

from warpline.derived.work.busy import DEVICE_TABLES, device_busy_ns, device_work
from warpline.trace import MemorySource, Trace


def marked(trace: Trace, tables: tuple[str, ...]) -> dict[int, set[int]]:
    """Return the busy nanoseconds of each GPU."""
    low, high = trace.span()
    busy: dict[int, set[int]] = {}
    for table in tables:
        rows = trace[table]
        level = rows["level"] if table == "graph_launch" else ["Graph"] * len(rows)
        columns = (rows[name] for name in ("start_ns", "end_ns", "device_id"))
        for start, end, device, kind in zip(*columns, level, strict=True):
            if kind == "Graph":
                busy.setdefault(device, set()).update(range(max(start, low), min(end, high)))
    return busy


@settings(max_examples=30)
@given(any_traces(), st.integers(-500, 500), st.integers(0, 300))
def test_a_device_is_busy_while_anything_runs(any_trace: AnyTrace, start: int, length: int):
    whole = any_trace.trace()
    for trace in (whole, whole.window(start, start + length)):
        model = marked(trace, DEVICE_TABLES)
        expected = [len(model.get(device, ())) for device in range(whole.row_count("device"))]
        assert device_busy_ns(trace).tolist() == expected


@settings(max_examples=30)
@given(any_traces())
def test_groups_on_several_devices_add_up(any_trace: AnyTrace):
    trace = any_trace.trace()
    work = device_work(trace, "kernel")
    groups = trace.columns("kernel", "context_id", ordered=False)["context_id"].values
    contexts = trace["kernel"]["context_id"].to_list()
    for context, busy_ns in enumerate(work.busy_ns(groups, trace.row_count("context")).tolist()):
        rows = [row for row, owner in enumerate(contexts) if owner == context]
        one = trace["kernel"][rows]
        covered = {
            (device, time)
            for start, end, device in zip(
                one["start_ns"], one["end_ns"], one["device_id"], strict=True
            )
            for time in range(start, end)
        }
        assert busy_ns == len(covered)


def test_nothing_recorded_is_nothing_busy():
    trace = Trace(MemorySource({}))
    assert device_busy_ns(trace).tolist() == [0]
    assert len(device_work(trace)) == 0


def test_outside_of_a_window_counts_only_when_asked_for():
    ids = {name: [0] for name in ("device_id", "context_id", "stream_id", "process_id")}
    trace = Trace(MemorySource({"kernel": {**ids, "start_ns": [0], "end_ns": [100]}}))
    part = trace.window(40, 60)
    assert device_busy_ns(part).tolist() == [20]
    unclipped = device_work(part, "kernel", clipped=False)
    assert (unclipped.start_ns.tolist(), unclipped.end_ns.tolist()) == ([0], [100])
