"""Which launches the page of profiled kernels has."""

from __future__ import annotations

from typing import Any

import pytest

from warpline.documents import kernel_report
from warpline.errors import UsageError
from warpline.trace import MemorySource, Trace

DURATIONS = {"a": [5.0, 90.0, 7.0], "b": [3.0], "c": [40.0, 41.0]}


def launches(*, timeline=False, metric="gpu__time_duration.sum"):
    names = [name for name, durations in DURATIONS.items() for _ in durations]
    values = [value for durations in DURATIONS.values() for value in durations]
    count = len(names)
    tables: dict[str, Any] = {
        "process": {"pid": [1], "name": ["program"]},
        "device": {"gpu_index": [0, 1], "name": ["H100", "H100"]},
        "profiled_kernel": {
            "launch_number": list(range(count)),
            "process_id": [0] * count,
            "name": [f"{name}(int)" for name in names],
            "short_name": names,
            **{f"{of}_{axis}": [1] * count for of in ("grid", "block") for axis in "xyz"},
        },
        "kernel_metric": {
            "profiled_kernel_id": list(range(count)),
            "name": [metric] * count,
            "value": values,
        },
    }
    if timeline:
        tables["kernel"] = {"start_ns": [0], "end_ns": [5], "name": ["a"], "process_id": [0]}
    return Trace(MemorySource(tables))


def test_the_summary_has_every_launch_and_the_time_by_kernel():
    content = kernel_report.content(launches())
    assert [row["function"] for row in content.rows] == ["a", "a", "a", "b", "c", "c"]
    assert [row["duration_ns"] for row in content.rows] == [5, 90, 7, 3, 40, 41]
    assert content.total_ns == 186
    assert list(content.by_kernel) == [
        {"name": "a(int)", "short_name": "a", "launches": 3, "total_ns": 102},
        {"name": "c(int)", "short_name": "c", "launches": 2, "total_ns": 81},
        {"name": "b(int)", "short_name": "b", "launches": 1, "total_ns": 3},
    ]
    assert dict(content.facts)["GPU"] == "2 x H100"
    assert list(content.notes) == []
    assert sorted(place for place, _ in content.kernels) == [0, 1, 2, 3, 4, 5]


def test_of_many_launches_the_longest_of_each_kernel_is_there(monkeypatch):
    monkeypatch.setattr(kernel_report, "MOST_ROWS", 5)
    monkeypatch.setattr(kernel_report, "MOST_DETAILS", 4)
    content = kernel_report.content(launches())
    assert [row["duration_ns"] for row in content.rows] == [90, 7, 3, 40, 41]
    detailed = {content.rows[place]["duration_ns"] for place, _ in content.kernels}
    assert detailed == {90, 41, 3, 40}
    rows, details = content.notes
    assert rows.startswith("The table has 5 launches of 6: ")
    assert details.startswith("Sections are in this report for 4 launches: ")


def test_launches_without_a_duration_are_shown():
    content = kernel_report.content(launches(metric="sm__cycles_elapsed.max"))
    assert [row["duration_ns"] for row in content.rows] == [None] * 6
    assert [row["cycles"] for row in content.rows] == [5, 90, 7, 3, 40, 41]
    assert content.total_ns == 0


def test_the_page_is_that_of_what_was_recorded():
    assert kernel_report.shown(launches(), None) == "kernels"
    assert kernel_report.shown(launches(), "timeline") == "timeline"
    both = launches(timeline=True)
    assert kernel_report.shown(both, None) == "timeline"
    assert kernel_report.shown(both, "kernels") == "kernels"
    assert kernel_report.has_both(both)
    without = Trace(MemorySource({"process": {"pid": [1]}}))
    assert kernel_report.shown(without, None) == "timeline"
    with pytest.raises(UsageError, match="no profiled kernels"):
        kernel_report.shown(without, "kernels")


def test_samples_of_a_whole_run_are_shown_with_those_that_were_dropped():
    rows = [("wait", 0, 300), ("barrier", 16, 90), ("selected", 16, 10)]
    tables: dict[str, Any] = {
        "process": {"pid": [1]},
        "device": {"gpu_index": [0], "name": ["H100"]},
        "pc_sample": {
            "process_id": [0] * 3,
            "device_id": [0] * 3,
            **{of: ["kernel(int)"] * 3 for of in ("name", "short_name", "function")},
            "module_checksum": [1] * 3,
            "stall": [stall for stall, _, _ in rows],
            "offset_bytes": [offset for _, offset, _ in rows],
            "samples": [samples for _, _, samples in rows],
            "not_issued_samples": [0] * 3,
        },
        "pc_sampling": {
            "process_id": [0],
            "device_id": [0],
            "period_cycles": [32],
            "total_samples": [1_500],
            "dropped_samples": [100],
            "non_user_samples": [1_000],
            "hardware_buffer_full": [True],
        },
    }
    content = kernel_report.content(Trace(MemorySource(tables)))
    assert list(content.notes) == ["100 of 1,500 samples were dropped."]
    assert (list(content.rows), content.launches, list(content.kernels)) == ([], 0, [])
    (code,) = content.code
    assert (code["name"], code["samples"], code["too_few"]) == ("kernel(int)", 400, False)
