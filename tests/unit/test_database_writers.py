"""SQLite files that others write, or were writing when they died."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.sqlite_files import CORES, ROWS, make, numbers, opened, reading_by, refused

from warpline.errors import InputError
from warpline.readers.nsys.database import Kind


@pytest.fixture(params=CORES, autouse=True)
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test with the native core and without."""
    with reading_by(request.param):
        yield


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_locked_file_is_refused_at_once(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)", ROWS)
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as locker:
        assert locker.stdout is not None
        assert locker.stdin is not None
        assert locker.stdout.readline() == b"locked\n"
        refused(path, InputError, "locked by another program")
        locker.stdin.close()
    assert numbers(path) == [1, 2, 3]


def test_a_log_whose_writer_lives_is_read_in_place(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "PRAGMA journal_mode=WAL", "CREATE TABLE t (a)", ROWS)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO t VALUES (4)")
        before = files(tmp_path)
        assert {"a.sqlite-wal", "a.sqlite-shm"} <= set(before)
        assert numbers(path) == [1, 2, 3, 4]
        assert set(files(tmp_path)) == set(before)
        assert path.read_bytes() == before["a.sqlite"]


def leftovers(path: Path, folder: Path) -> Path:
    """Copy a database in the middle of a transaction, as a killed program leaves it."""
    folder.mkdir()
    for neighbour in path.parent.glob("a.sqlite*"):
        if not neighbour.name.endswith("-shm"):
            shutil.copy(neighbour, folder)
    return folder / path.name


def test_a_log_whose_writer_died_is_applied_to_a_copy(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "PRAGMA journal_mode=WAL", "CREATE TABLE t (a)", ROWS)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO t VALUES (4)")
        copy = leftovers(path, tmp_path / "left")
    before = files(copy.parent)
    assert "a.sqlite-wal" in before
    assert numbers(copy) == [1, 2, 3, 4]
    assert files(copy.parent) == before


def test_a_journal_whose_writer_died_is_rolled_back_in_a_copy(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a, b)", "INSERT INTO t (a) VALUES (1)")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size=1")
        writer.execute("BEGIN")
        writer.execute("UPDATE t SET a = 2")
        for _ in range(50):
            writer.execute("INSERT INTO t VALUES (3, zeroblob(5000))")
        copy = leftovers(path, tmp_path / "left")
    before = files(copy.parent)
    assert "a.sqlite-journal" in before
    assert numbers(copy) == [1]
    assert files(copy.parent) == before


@pytest.mark.parametrize("content", [b"", b"not a log" * 99])
def test_a_log_that_says_nothing_changes_nothing(tmp_path: Path, content: bytes) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)", ROWS)
    (tmp_path / "a.sqlite-wal").write_bytes(content)
    before = files(tmp_path)
    assert numbers(path) == [1, 2, 3]
    assert files(tmp_path) == before


def test_a_log_mode_file_alone_stays_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "PRAGMA journal_mode=WAL", "CREATE TABLE t (a)", ROWS)
    before = files(tmp_path)
    assert set(before) == {"a.sqlite"}
    assert numbers(path) == [1, 2, 3]
    assert files(tmp_path) == before


def test_a_file_that_changes_meanwhile_is_told(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)", "CREATE TABLE u (a)", ROWS)
    with opened(path) as database:
        assert database.row_count("t") == 3
        make(path, "INSERT INTO t VALUES (4)")
        with pytest.raises(InputError, match="changed during reading"):
            database.row_count("u")
        path.write_bytes(b"")
        with pytest.raises(InputError):
            database.read("t", {"a": Kind.INT64})


def test_a_growing_log_is_read_at_one_state(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "PRAGMA journal_mode=WAL", "CREATE TABLE t (a)", ROWS)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO t VALUES (4)")
        with opened(path) as database:
            assert database.row_count("t") == 4
            writer.execute("INSERT INTO t VALUES (5)")
            assert database.row_count("t") == 4
