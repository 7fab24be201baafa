"""SQLite files that are none, or damaged: one-line errors, and the tables that are left."""

from __future__ import annotations

import gc
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from support.sqlite_files import CORES, make, numbers, opened, reading_by, refused

from warpline.errors import CorruptTraceError, InputError, UnknownFormatError
from warpline.readers.nsys.database import Database, Kind
from warpline.readers.nsys.sqlite_scan import Scanner


@pytest.fixture(params=CORES, autouse=True)
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test with the native core and without."""
    with reading_by(request.param):
        yield


def test_bad_paths_are_refused_in_one_line(tmp_path: Path) -> None:
    refused(tmp_path / "missing.sqlite", InputError, "no such file")
    refused(tmp_path, InputError, "directory")
    refused(tmp_path / "nul\0.sqlite", InputError, "cannot be read")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(pipe, InputError, "not a regular file")


@pytest.mark.parametrize(
    ("content", "kind", "word"),
    [
        (b"", InputError, "empty"),
        (b"{}", UnknownFormatError, "not a SQLite database"),
        (b"\x8f" * 8192, UnknownFormatError, "encrypted"),
        (b"SQLite for", CorruptTraceError, "truncated after 10 bytes"),
        (b"SQLite format 3\0" + b"\0" * 4080, CorruptTraceError, "page size"),
        (b"SQLite format 3\0\x10\0" + b"\xff" * 4078, InputError, ""),
    ],
)
def test_files_that_are_no_databases_are_refused(
    tmp_path: Path, content: bytes, kind: type[InputError], word: str
) -> None:
    path = tmp_path / "bad.sqlite"
    path.write_bytes(content)
    with pytest.raises(kind) as caught:
        Database.open(path)
    assert word in caught.value.message


def test_a_forbidden_file_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)")
    with mock.patch.object(Path, "open", side_effect=PermissionError(13, "Permission denied")):
        refused(path, InputError, "permission denied")


def test_a_cut_file_gives_the_tables_that_are_left(tmp_path: Path) -> None:
    path = make(
        tmp_path / "cut.sqlite",
        "CREATE TABLE first (a)",
        "INSERT INTO first VALUES (1)",
        "CREATE TABLE last (a, b)",
        "INSERT INTO last SELECT value, zeroblob(4000) FROM json_each('[1,2,3,4,5,6,7,8]')",
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:-5000])
    with opened(path) as database:
        assert database.missing_bytes == 5000
        assert database.row_count("first") == 1
        with pytest.raises(CorruptTraceError, match="table last") as caught:
            database.read("last", {"b": Kind.BLOB})
    assert caught.value.hint is not None
    assert "recover" in caught.value.hint
    assert numbers(path, "first") == [1]
    path.write_bytes(whole[: 2 * 4096])  # even the first page of `last` is lost
    with opened(path) as database, pytest.raises(CorruptTraceError, match="table last"):
        database.row_count("last")
    assert numbers(path, "first") == [1]
    path.write_bytes(whole[:2000])
    refused(path, CorruptTraceError, "first page")


def test_a_file_cut_within_its_schema_is_refused(tmp_path: Path) -> None:
    path = make(
        tmp_path / "cut.sqlite",
        "CREATE TABLE t (a)",
        *(f"CREATE TABLE t{i} ({', '.join(f'column{j}' for j in range(50))})" for i in range(99)),
    )
    path.write_bytes(path.read_bytes()[: 4096 * 50])
    refused(path, CorruptTraceError, "damaged")


def test_a_damaged_leaf_names_its_table(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (a, b)",
        "INSERT INTO t SELECT value, zeroblob(3000) FROM json_each('[1,2,3,4,5,6,7,8]')",
    )
    damaged = bytearray(path.read_bytes())
    damaged[4096 * 4 : 4096 * 4 + 8] = b"\xff" * 8
    path.write_bytes(damaged)
    with opened(path) as database, pytest.raises(CorruptTraceError, match="table t is damaged"):
        database.read("t", {"a": Kind.INT64})


def change(path: Path, at: int, content: bytes) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[at : at + len(content)] = content
    path.write_bytes(damaged)


def test_a_schema_that_is_no_sql_is_damaged(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)")
    change(path, path.read_bytes().index(b"CREATE TABLE"), b"CREATE \xff\xfeBLE")
    refused(path, CorruptTraceError, "is damaged")


def test_names_that_are_no_text_are_shown_with_marks(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE tXt (aXa)", "CREATE TABLE u (a)")
    path.write_bytes(path.read_bytes().replace(b"tXt", b"t\xfft").replace(b"aXa", b"a\xffa"))
    with opened(path) as database:
        assert list(database.tables) == ["t\ufffdt", "u"]
        assert database.tables["t\ufffdt"][0].name == "a\ufffda"
        assert database.row_count("u") == 0


def test_a_tree_that_meets_itself_is_damaged(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (a, b)",
        "INSERT INTO t SELECT value, zeroblob(3000) FROM json_each('[1,2,3,4,5,6,7,8]')",
    )
    change(path, 4096 + 8, (2).to_bytes(4, "big"))  # the root's last child: the root
    with opened(path) as database, pytest.raises(CorruptTraceError, match="table t is damaged"):
        database.read("t", {"a": Kind.INT64})


def test_rows_that_share_their_bytes_do_not_fill_the_memory(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (a)",
        "INSERT INTO t VALUES (zeroblob(1000000))",
    )
    page = path.read_bytes()[4096:8192]
    change(path, 4096 + 3, (400).to_bytes(2, "big"))  # 400 rows, all of them the one there is
    change(path, 4096 + 8, page[8:10] * 400)
    with opened(path) as database, pytest.raises(CorruptTraceError, match="larger than the file"):
        database.read("t", {"a": Kind.BLOB})


def test_the_copy_of_a_file_that_cannot_be_read_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copies = tmp_path / "cut.sqlite", tmp_path / "copies"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(20000));")
    path.write_bytes(path.read_bytes()[:-100])  # a page is not whole
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))

    def reject(*_: object) -> None:
        raise CorruptTraceError("damaged")

    monkeypatch.setattr(Scanner, "open", reject)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(CorruptTraceError):
            Database.open(path)
        gc.collect()
    assert [*copies.iterdir()] == []
    assert [str(each.message) for each in caught] == []
