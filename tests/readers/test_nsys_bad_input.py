"""Files that are cut, damaged, locked, foreign or hostile: one line and a hint, or what is left."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.nsys_exports import call, event, kernel, strings, write_export

import warpline
from warpline.errors import (
    CorruptTraceError,
    InputError,
    UnknownFormatError,
    WarplineError,
)
from warpline.schema import TABLES
from warpline.trace import Trace

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def small(path: Path, count: int = 400) -> Path:
    """Write an export whose tables take several pages each."""
    names = [f"kernel_{number}_{'x' * 60}" for number in range(50)]
    tables = {
        "StringIds": strings(*names),
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(i, i + 1, i % 50) for i in range(count)],
        KERNELS: [kernel(i, i + 1, i % 50) for i in range(count)],
        "NVTX_EVENTS": [event(i, i + 1, text=f"range {i}") for i in range(count)],
    }
    return write_export(path, tables)


def read_all(trace: Trace) -> None:
    for table in trace.tables:
        trace.columns(table, *(column.name for column in TABLES[table].columns))


def assert_one_line(error: WarplineError) -> None:
    assert error.message
    assert "\n" not in error.message
    assert "\n" not in (error.hint or "")


def test_a_file_cut_anywhere_gives_an_error_or_the_rest_with_its_loss(tmp_path):
    whole = small(tmp_path / "whole.sqlite").read_bytes()
    cut = tmp_path / "cut.sqlite"
    outcomes = set()
    for size in sorted({1, 15, 16, 50, 99, 100, 1000, *range(4096, len(whole), 5000)}):
        cut.write_bytes(whole[:size])
        try:
            trace = warpline.open(cut)
        except InputError as error:
            assert_one_line(error)
            outcomes.add("refused")
        else:
            read_all(trace)
            assert any("the file is truncated" in text for text in trace.meta.warnings)
            outcomes.add("partial" if trace.meta.damaged else "whole")
    assert {"refused", "partial"} <= outcomes


def test_of_a_cut_file_the_undamaged_tables_are_right(tmp_path):
    path = small(tmp_path / "whole.sqlite")
    whole = warpline.open(path)
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    trace = warpline.open(cut)
    damaged = set(trace.meta.damaged)
    assert "range" in damaged, "the last table lies in the part that is missing"
    assert "api_call" not in damaged
    for table in {"api_call", "kernel"} - damaged:
        names = ("start_ns", "end_ns", "correlation_id")
        for name, data in trace.columns(table, *names).items():
            assert data.values.tolist() == whole.columns(table, name)[name].values.tolist()
    assert trace.row_count("range") == 0


def test_a_damaged_page_names_the_table_and_leaves_the_others(tmp_path):
    path = small(tmp_path / "x.sqlite")
    base = sqlite3.connect(path)
    root = base.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNELS,)).fetchone()
    base.close()
    content = bytearray(path.read_bytes())
    content[(root[0] - 1) * 4096 : root[0] * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    trace = warpline.open(path)
    assert trace.row_count("api_call") == 400
    assert trace.row_count("kernel") == 0
    assert KERNELS in trace.meta.damaged["kernel"]
    read_all(trace)
    assert trace.columns("api_call", "process_id", "name_id")


def test_without_its_strings_an_export_still_has_its_times(tmp_path):
    path = small(tmp_path / "x.sqlite")
    base = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'StringIds'"
    root = base.execute(query).fetchone()[0]
    base.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    trace = warpline.open(path)
    names = trace.columns("kernel", "name_id")["name_id"].values
    assert trace.strings.text(int(names[0])) == "[missing string 0]"
    assert "StringIds" in trace.meta.damaged


def test_flipped_bytes_give_an_error_or_a_trace_and_nothing_else(tmp_path):
    path = small(tmp_path / "x.sqlite", 60)
    whole = path.read_bytes()
    for place in range(20, len(whole), 997):
        content = bytearray(whole)
        content[place] ^= 0x5A
        path.write_bytes(content)
        try:
            read_all(warpline.open(path))
        except WarplineError as error:
            assert_one_line(error)


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (b"", InputError, "is empty"),
        (b"\0" * 5000, UnknownFormatError, "unsupported file format"),
        (b"not a database at all", UnknownFormatError, "unsupported file format"),
        (b"SQLite format 3\0" + b"\xff" * 4080, InputError, "damaged"),
        (b"SQLite format 3\0", CorruptTraceError, "truncated after 16 bytes"),
    ],
)
@pytest.mark.parametrize("name", ["x.sqlite", "x.txt"])
def test_files_that_are_no_database(tmp_path, content, error, text, name):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error, match=text) as caught:
        warpline.open(path)
    assert_one_line(caught.value)
    assert caught.value.hint


def test_a_missing_file_a_folder_and_a_device(tmp_path):
    (tmp_path / "run.sqlite").write_bytes(b"x")
    with pytest.raises(InputError, match="does not exist") as caught:
        warpline.open(tmp_path / "run.nsys-rep")
    assert caught.value.hint == "did you mean run.sqlite?"
    with pytest.raises(InputError, match="is a directory"):
        warpline.open(tmp_path)
    with pytest.raises(InputError, match="not a regular file"):
        warpline.open(os.devnull)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.sqlite")
    with pytest.raises(InputError, match="not a regular file"):
        warpline.open(tmp_path / "pipe.sqlite")


def test_another_database_is_named_by_its_tables(tmp_path):
    path = tmp_path / "app.sqlite"
    base = sqlite3.connect(path)
    for name in ("users", "orders", "items", "logs"):
        base.execute(f"CREATE TABLE {name} (id INTEGER)")
    base.close()
    with pytest.raises(UnknownFormatError, match=r"other tables \(users, orders, items, \.\.\.\)"):
        warpline.open(path)


def test_an_empty_database_is_named(tmp_path):
    path = tmp_path / "empty.sqlite"
    base = sqlite3.connect(path)
    base.execute("PRAGMA user_version = 1")
    base.close()
    with pytest.raises(UnknownFormatError, match="without tables"):
        warpline.open(path)


def test_the_text_of_a_name_may_be_large(tmp_path):
    tables = {"StringIds": strings("k" * 3_000_000), KERNELS: [kernel(1, 2)]}
    trace = warpline.open(write_export(tmp_path / "x.sqlite", tables))
    row = int(trace.columns("kernel", "name_id")["name_id"].values[0])
    assert len(trace.strings.text(row)) == 3_000_000


def test_ids_at_the_ends_of_64_bits(tmp_path):
    tables = {
        "StringIds": [{"id": -(2**63), "value": "low"}, {"id": 2**63 - 1, "value": "high"}],
        KERNELS: [
            kernel(1, 2, -(2**63), streamId=2**63 - 1, deviceId=-(2**63), globalPid=-(2**63)),
            kernel(2**63 - 2, 2**63 - 1, 2**63 - 1, contextId=-1, globalPid=-1),
        ],
        "NVTX_EVENTS": [event(1, 2, globalTid=2**63 - 1, domainId=-1, category=-(2**63))],
    }
    trace = warpline.open(write_export(tmp_path / "x.sqlite", tables))
    read_all(trace)
    names = trace.columns("kernel", "name_id")["name_id"].values
    assert trace.strings.texts(names) == ["low", "high"]


HOLD_LOCK = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_writes_is_refused_soon(tmp_path):
    path = small(tmp_path / "x.sqlite", 10)
    command = [sys.executable, "-c", HOLD_LOCK, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as holder:  # type: ignore[call-overload]
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(InputError, match="lock") as caught:
            warpline.open(path)
        assert_one_line(caught.value)
        assert caught.value.hint
        holder.stdin.close()


def test_write_ahead_logs_are_read_and_nothing_is_left_beside_the_file(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    path = small(folder / "x.sqlite", 10)
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA wal_autocheckpoint = 0")
    base.execute(f"DELETE FROM {KERNELS} WHERE start >= 4")
    base.commit()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
    base.close()
    before = sorted(item.name for item in copy.iterdir())
    assert before == ["x.sqlite", "x.sqlite-wal"]
    assert warpline.open(copy / "x.sqlite").row_count("kernel") == 4
    assert sorted(item.name for item in copy.iterdir()) == before
    (copy / "x.sqlite-wal").unlink()
    assert warpline.open(copy / "x.sqlite").row_count("kernel") == 10
    assert sorted(item.name for item in copy.iterdir()) == ["x.sqlite"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_read_only_folder(tmp_path):
    folder = tmp_path / "ro"
    folder.mkdir()
    path = small(folder / "x.sqlite", 10)
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        read_all(warpline.open(path))
        assert [item.name for item in folder.iterdir()] == ["x.sqlite"]
    finally:
        folder.chmod(0o755)
