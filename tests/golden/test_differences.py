"""Differences from nsys due to the file, as listed in docs/differences-from-nsys.md."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline.trace import Trace

PROCESS = (1 << 48) | (4242 << 24)
THREAD = PROCESS | 4242

Rows = Sequence[Mapping[str, Any]]


def open_export(folder: Path, **tables: Rows) -> Trace:
    """Return the trace of an export with only the given tables and columns."""
    version = {"name": "EXPORT_SCHEMA_VERSION", "value": "3.11.1"}
    path = folder / "small.sqlite"
    with sqlite3.connect(path) as database:
        for name, rows in {"META_DATA_EXPORT": [version], **tables}.items():
            columns = ", ".join(f'"{column}"' for column in rows[0])
            places = ", ".join("?" * len(rows[0]))
            database.execute(f'CREATE TABLE "{name}" ({columns})')
            database.executemany(
                f'INSERT INTO "{name}" VALUES ({places})', [tuple(row.values()) for row in rows]
            )
    database.close()
    return warpline.open(path)


def strings(*texts: str) -> Rows:
    return [{"id": number, "value": text} for number, text in enumerate(texts)]


def call(start: int, end: int, name: int) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": THREAD,
        "correlationId": 1,
        "nameId": name,
        "returnValue": 0,
    }


def copy(**more: Any) -> dict[str, Any]:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": PROCESS}
    return {"start": 10, "end": 20, **place, "correlationId": 1, "bytes": 1000, **more}


def nvtx(start: int, end: int | None, text: str, kind: int = 59, domain: int = 0) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "eventType": kind,
        "text": text,
        "globalTid": THREAD,
        "domainId": domain,
    }


def test_a_call_of_a_thread_with_two_names_is_one_call(tmp_path: Path) -> None:
    trace = open_export(
        tmp_path,
        StringIds=strings("cudaFree_v3020", "old", "new"),
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 15, 0)],
        ThreadNames=[
            {"nameId": 1, "priority": 20, "globalTid": THREAD},
            {"nameId": 2, "priority": 20, "globalTid": THREAD},
        ],
    )
    assert len(warpline.stats(trace, "cuda_api_trace")) == 1


def test_calls_without_names_of_threads_are_listed(tmp_path: Path) -> None:
    trace = open_export(
        tmp_path,
        StringIds=strings("cudaFree_v3020"),
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 15, 0)],
    )
    row = warpline.stats(trace, "cuda_api_trace").rows()[0]
    assert row == (10, 5, "cudaFree", 0, 1, 4242, 4242, None, None)


def test_copies_without_labels_and_devices_without_names_are_listed(tmp_path: Path) -> None:
    trace = open_export(
        tmp_path, StringIds=strings(""), CUPTI_ACTIVITY_KIND_MEMCPY=[copy(copyKind=1)]
    )
    sums = warpline.stats(trace, "cuda_gpu_mem_time_sum")
    assert sums.columns["name"].to_list() == ["[CUDA memcpy Host-to-Device]"]
    listed = warpline.stats(trace, "cuda_gpu_trace")
    assert listed.columns["device"].to_list() == [" (0)"]


def test_an_open_range_lasts_until_the_end_of_the_recording(tmp_path: Path) -> None:
    trace = open_export(
        tmp_path,
        StringIds=strings("cudaFree_v3020"),
        NVTX_EVENTS=[nvtx(10, None, "open"), nvtx(20, 30, "closed")],
        ANALYSIS_DETAILS=[{"duration": 90}],
    )
    result = warpline.stats(trace, "nvtx_sum")
    names, totals = (result.columns[name].to_list() for name in ("name", "total_ns"))
    assert names == ["open", "closed"]
    assert totals == [80, 10]  # nsys says 20: up to the last event of NVTX


def test_a_push_and_its_pop_recorded_apart_are_a_range(tmp_path: Path) -> None:
    events = [nvtx(10, None, "x", kind=35), nvtx(30, None, "", kind=36), nvtx(40, 50, "y")]
    trace = open_export(tmp_path, StringIds=strings(""), NVTX_EVENTS=events)
    result = warpline.stats(trace, "nvtx_pushpop_sum")
    # nsys lists y alone.
    assert result.columns["name"].to_list() == ["x", "y"]
    assert result.columns["total_ns"].to_list() == [20, 10]


def test_a_range_of_a_domain_without_a_name_is_not_of_the_default_domain(tmp_path: Path) -> None:
    events = [
        nvtx(0, None, "lib", kind=75, domain=1),
        nvtx(10, 15, "x"),
        nvtx(10, 16, "x", domain=1),
        nvtx(10, 17, "x", domain=9),
    ]
    trace = open_export(tmp_path, StringIds=strings(""), NVTX_EVENTS=events)
    result = warpline.stats(trace, "nvtx_sum")
    # nsys adds the one of domain 9 to the one of the default domain.
    assert result.columns["name"].to_list() == ["domain 9:x", "lib:x", "x"]


@pytest.mark.parametrize("table", ["cuda_gpu_sum", "cuda_api_gpu_sum"])
def test_a_copy_of_a_kind_without_a_label_is_counted(tmp_path: Path, table: str) -> None:
    trace = open_export(
        tmp_path,
        StringIds=strings(""),
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy(copyKind=1), copy(copyKind=99)],
    )
    names = warpline.stats(trace, table).columns["name"].to_list()
    assert names == ["[CUDA memcpy Host-to-Device]", "[CUDA memcpy Unknown]"]
