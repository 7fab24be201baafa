"""The SQLite export: what it holds reads back as it was, whoever reads it."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import pytest
from support import captures
from support.backtraces import backtraces
from support.canonical_dump import dump

import warpline
from warpline.trace import MemorySource, Trace
from warpline.trace.meta import TraceMeta

# What nsys has a place for, but the exporter leaves out, and what depends on rows of the file.
_NOT_KEPT = re.compile(
    r" (stack|source)=\S+|^ +(stack_id|source_id): .*$"
    r"|(?<=cycles=1) period_ns=\S+|^  period_ns: .*$",
    re.MULTILINE,
)
LEFT_OUT = {
    *("stack", "frame", "counter", "metric", "range_payload", "collective"),
}


def kept(trace):
    """Return the dumps of the tables with rows that the export keeps, by name."""
    parts = dump(trace).strip().split("\n\n")
    found = {part.split(":")[0]: _NOT_KEPT.sub("", part) for part in parts[1:]}
    return {
        name: part for name, part in found.items() if name not in LEFT_OUT and trace.row_count(name)
    }


@pytest.mark.parametrize("name", captures.cases())
def test_a_capture_reads_back_the_same(capture, tmp_path, name):
    trace = warpline.open(capture(name))
    path = warpline.export(trace, tmp_path / "again.sqlite", "sqlite")
    again = warpline.open(path)
    assert kept(again) == kept(trace)
    for table in ("kernel", "range", "os_call"):
        assert again.has(table) == trace.has(table)  # empty is not the same as never recorded


@pytest.mark.parametrize("name", ["rich_metrics_sampling", "ddp_serial.bad.rank0"])
def test_backtraces_read_back_the_same(capture, tmp_path, name):
    trace = warpline.open(capture(name))
    again = warpline.open(warpline.export(trace, tmp_path / "again.sqlite", "sqlite"))
    for table in ("api_call", "os_call", "cpu_sample"):
        if trace.has(table):
            assert backtraces(again, table) == backtraces(trace, table)


HOST_TABLES: dict[str, dict[str, list[Any]]] = {
    "process": {"pid": [5]},
    "thread": {"process_id": [0, 0], "tid": [5, 6], "name": ["main", "worker"]},
    "frame": {
        "symbol": ["main", "step", "load", "__poll"],
        "module": ["/bin/python3", "/app/train.py", "/app/data.py", "libc.so.6"],
        "file": ["main.c", None, None, None],
        "line": [7, 12, 41, None],
        "kind": [1, 3, 3, 1],
        "is_unresolved": [False] * 4,
        "address": [16, None, None, 32],
    },
    "stack": {
        "parent_id": [None, 0, 1, 2, None, 4],
        "frame_id": [0, 1, 2, 3, 1, 2],
        "depth": [0, 1, 2, 3, 0, 1],
    },
    "cpu_sample": {
        "time_ns": [10, 20, 30],
        "thread_id": [0, 1, 0],
        "cycles": [1, 1, 1],
        "period_ns": [999, 1001, None],
        "stack_id": [2, None, 1],
    },
    "sched_event": {
        "time_ns": [5, 15, 35],
        "thread_id": [0, 0, 1],
        "cpu": [0, 0, 1],
        "is_sched_in": [True, False, False],
        "state": [1, 2, None],
        "stack_id": [None, 3, None],
    },
    "python_sample": {
        "time_ns": [10, 11, 20, 30],
        "thread_id": [0, 1, 0, 1],
        "period_ns": [10, 500, 7, 1],
        "is_running": [True, False, None, True],
        "has_gil": [True, False, None, False],
        "stack_id": [5, 4, 5, None],
    },
    "gil_span": {
        "start_ns": [1, 4, 9],
        "end_ns": [4, 9, 12],
        "process_id": [0, 0, 0],
        "thread_id": [0, 1, 0],
        "state": [2, 1, 1],
    },
    "os_call": {
        "start_ns": [15],
        "end_ns": [34],
        "process_id": [0],
        "thread_id": [0],
        "name": ["poll"],
        "stack_id": [3],
    },
    "range": {
        "start_ns": [0],
        "end_ns": [40],
        "process_id": [0],
        "thread_id": [0],
        "name": ["GIL Trace"],
        "source_id": [3],
    },
}


def test_what_threads_did_reads_back_the_same(tmp_path):
    trace = Trace(MemorySource(HOST_TABLES))
    again = trace
    for name in ("once.sqlite", "twice.sqlite"):
        again = warpline.open(warpline.export(again, tmp_path / name, "sqlite"))
        for table in ("cpu_sample", "sched_event", "python_sample", "gil_span", "os_call"):
            rows, expected = again[table].drop("stack_id", strict=False), trace[table]
            assert rows.rows() == expected.drop("stack_id", strict=False).rows(), table
            if table != "gil_span":
                assert backtraces(again, table) == backtraces(trace, table), table
        # As in nsys's own exports, the GIL's times are ranges, too.
        names = again["range"]["name"].to_list()
        assert sorted(names) == ["GIL Trace", "Holding GIL", "Holding GIL", "Waiting for GIL"]
        assert again.row_count("mark") == 4
        assert again.meta.unread == {}


def test_waits_for_the_gil_alone_read_back(tmp_path):
    waits = {column: values[:1] for column, values in HOST_TABLES["gil_span"].items()}
    tables = {name: HOST_TABLES[name] for name in ("process", "thread")}
    trace = Trace(MemorySource({**tables, "gil_span": waits}))
    again = warpline.open(warpline.export(trace, tmp_path / "a.sqlite", "sqlite"))
    assert again["gil_span"].rows() == trace["gil_span"].rows()


def test_columns_that_say_no_more_than_those_of_nsys_are_not_written(tmp_path):
    bare = {
        name: {column: values for column, values in rows.items() if column != "period_ns"}
        for name, rows in HOST_TABLES.items()
        if name in ("process", "thread", "cpu_sample", "stack", "frame")
    }
    frame = {**bare["frame"], "kind": [1, 2, 2, 1], "line": [None] * 4, "file": [None] * 4}
    path = warpline.export(
        Trace(MemorySource({**bare, "frame": frame})), tmp_path / "a.sqlite", "sqlite"
    )
    base = sqlite3.connect(path)
    (declared,) = base.execute("SELECT group_concat(sql) FROM sqlite_master").fetchone()
    base.close()
    assert "SAMPLING_CALLCHAINS" in declared
    assert "warpline" not in declared.lower()


def test_backtraces_are_rows_of_frames_as_in_nsys(capture, tmp_path):
    trace = warpline.open(capture("rich_metrics_sampling"))
    base = sqlite3.connect(warpline.export(trace, tmp_path / "again.sqlite", "sqlite"))
    for frames, source, column in (
        ("CUDA_CALLCHAINS", "CUPTI_ACTIVITY_KIND_RUNTIME", "callchainId"),
        ("OSRT_CALLCHAINS", "OSRT_API", "callchainId"),
        ("SAMPLING_CALLCHAINS", "COMPOSITE_EVENTS", "id"),
    ):
        query = (
            f"SELECT s.start, value, stackDepth FROM {source} s"
            f" JOIN {frames} f ON f.id = s.{column} JOIN StringIds t ON t.id = symbol"
            + (" WHERE eventClass != 31" if source == "OSRT_API" else "")
            + " ORDER BY 1, 3, 2"
        )
        with sqlite3.connect(capture("rich_metrics_sampling")) as original:
            expected = original.execute(query).fetchall()
        assert base.execute(query).fetchall() == expected
        assert expected
    base.close()


def test_backtraces_beyond_what_fits_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("warpline.exporters.nsys_backtraces._MAX_FRAMES", 2)
    tables: dict[str, dict[str, list[Any]]] = {
        "os_call": {"start_ns": [0], "end_ns": [1], "name": ["poll"], "stack_id": [2]},
        "stack": {"parent_id": [None, 0, 1], "frame_id": [0, 0, 0], "depth": [0, 1, 2]},
        "frame": {"symbol": ["f"], "module": ["m"]},
    }
    with pytest.raises(warpline.InputError, match="backtraces of os_call have 3 frames"):
        warpline.export(Trace(MemorySource(tables)), tmp_path / "a.sqlite", "sqlite")
    assert not [*tmp_path.iterdir()]


def test_a_table_without_rows_is_not_in_the_file(capture, tmp_path):
    """nsys takes a table that is there for recorded, and prints nothing where it should skip."""
    path = warpline.export(
        warpline.open(capture("tiny_kernels.fixed")), tmp_path / "a.sqlite", "sqlite"
    )
    base = sqlite3.connect(path)
    named = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in named
    assert "CUPTI_ACTIVITY_KIND_MEMSET" not in named
    base.close()


def test_ranges_keep_their_number(tmp_path):
    table: dict[str, list[Any]] = {"start_ns": [0, 5], "end_ns": [9, 6], "source_id": [7, 3]}
    table["name"] = ["a", "b"]
    path = warpline.export(Trace(MemorySource({"range": table})), tmp_path / "a.sqlite", "sqlite")
    base = sqlite3.connect(path)
    query = "SELECT e.rowid, value FROM NVTX_EVENTS e JOIN StringIds s ON s.id = textId"
    assert sorted(base.execute(query)) == [(3, "b"), (7, "a")]
    base.close()


def test_processes_and_devices_that_share_an_id_stay_apart(tmp_path):
    tables = {
        "process": {"pid": [5, 5]},
        "device": {"gpu_index": [0, 0]},
        "thread": {"process_id": [0, 1], "tid": [5, 5]},
        "context": {"process_id": [0, 1], "device_id": [0, 1], "native_id": [1, 1]},
        "stream": {"process_id": [0, 1], "context_id": [0, 1], "native_id": [7, 7]},
        "kernel": {
            "start_ns": [0, 1],
            "end_ns": [2, 3],
            "process_id": [0, 1],
            "device_id": [0, 1],
            "context_id": [0, 1],
            "stream_id": [0, 1],
        },
    }
    path = warpline.export(Trace(MemorySource(tables)), tmp_path / "a.sqlite", "sqlite")
    frame = warpline.query(
        warpline.open(path),
        "SELECT globalPid / 0x1000000 % 0x1000000 AS pid, globalPid, deviceId"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start",
    )
    assert frame["pid"].to_list() == [5, 5]
    assert frame["globalPid"].n_unique() == 2
    assert frame["deviceId"].to_list() == [0, 1]


def test_only_texts_in_use_are_written(capture, tmp_path):
    part = warpline.open(capture("tiny_kernels.fixed")).window(None, -(10**15))
    path = warpline.export(part, tmp_path / "a.sqlite", "sqlite")
    assert b"cudaLaunchKernel" not in path.read_bytes()


def test_a_folder_that_vanishes_is_one_line(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("warpline.exporters.sqlite.fill", refuse)
    trace = Trace(MemorySource({}))
    with pytest.raises(warpline.InputError, match=r"cannot write .*: disk I/O error"):
        warpline.export(trace, tmp_path / "a.sqlite", "sqlite")
    assert not [*tmp_path.iterdir()]


def test_what_qualifies_the_numbers_is_kept(tmp_path):
    meta = TraceMeta(
        (),
        "x",
        windows_ns=((-5, 10), (20, 35)),
        lost={"kernel": 3, "range": None},
        warnings=("the program was killed",),
        damaged={"memcpy": "cut"},
    )
    path = warpline.export(Trace(MemorySource({}, meta)), tmp_path / "a.sqlite", "sqlite")
    again = warpline.open(path).meta
    assert again.windows_ns == ((-5, 10), (20, 35))
    assert again.lost == {"kernel": 3, "range": None}
    assert again.warnings == ("the program was killed", "memcpy could not be read: cut")
    twice = warpline.export(warpline.open(path), tmp_path / "b.sqlite", "sqlite")
    assert warpline.open(twice).meta.warnings == again.warnings
