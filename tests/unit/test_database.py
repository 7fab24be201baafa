"""Opening and reading SQLite files in every state in which users have them."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from warpline import native
from warpline.errors import CorruptTraceError, InputError, UnknownFormatError
from warpline.readers.nsys.database import (
    Database,
    Kind,
    Raw,
    RawCodes,
    RawColumn,
    RawText,
)
from warpline.readers.nsys.sqlite_scan import Scanner


@pytest.fixture(params=["native", "sqlite3"], autouse=True)
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test with the native core and without."""
    loaded = native.core()
    if request.param == "native" and loaded is None:
        pytest.skip("needs the native core")
    with mock.patch.object(
        native, "core", return_value=loaded if request.param == "native" else None
    ):
        yield


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    database = Database.open(path)
    try:
        yield database
    finally:
        database.close()


def make(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def numbers(path: Path, table: str = "t", column: str = "a") -> list[int | None]:
    with opened(path) as database:
        raw = database.read(table, {column: Kind.INT64})[column]
    values: list[int | None] = list(raw.values.tolist()) if isinstance(raw, RawColumn) else []
    if raw.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, raw.valid, strict=True)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


ROWS = "INSERT INTO t SELECT value FROM json_each('[1,2,3]')"


def test_columns_and_their_masks(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (a INTEGER, b REAL, c TEXT)",
        "INSERT INTO t VALUES (1, 1.5, 'one'), (NULL, 2, CAST(x'ff00' AS TEXT)), ('x', 'y', x'01')",
    )
    with opened(path) as database:
        assert list(database.tables) == ["t"]
        assert [column.name for column in database.tables["t"]] == ["a", "b", "c"]
        assert database.row_count("T") == 3
        read = database.read("t", {"A": Kind.INT64, "b": Kind.FLOAT64, "c": Kind.TEXT})
    a, b, c = read["A"], read["b"], read["c"]
    assert isinstance(a, RawColumn)
    assert isinstance(b, RawColumn)
    assert isinstance(c, RawText)
    assert a.values.dtype == np.int64
    assert b.values.dtype == np.float64
    assert (a.values.tolist(), a.mismatched) == ([1, 0, 0], 1)
    assert (b.values.tolist(), b.mismatched) == ([1.5, 2, 0], 1)
    assert (c.blob.tobytes(), c.offsets.tolist(), c.mismatched) == (b"one\xff\0", [0, 3, 5, 5], 1)
    for raw, valid in ((a, [True, False, False]), (b, [True] * 2 + [False])):
        assert raw.valid is not None
        assert raw.valid.tolist() == valid


@pytest.mark.parametrize("before", [0, 70])
def test_rows_that_are_stored_in_many_ways(tmp_path: Path, before: int) -> None:
    """Integers of each width, reals, texts, blobs, gaps and overflow pages, over many leaves."""
    choose = random.Random(before)
    common: list[object] = [None, 0, 1, -1, 200, 40_000, 2**31, 2**40, -(2**62), "a", "bc" * 40]
    rare: list[object] = [2.0, 0.5, 2.0**60, b"blob", "long" * 300, ""]
    stored = [
        [choose.choice(rare if choose.random() < 0.02 else common) for _ in range(3)]
        if choose.random() < 0.5
        else [7, row, "text"]
        for row in range(12_000)
    ]
    path, nulls = tmp_path / "t.sqlite", "NULL, " * before
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 512")
        columns = "".join(f"n{number}, " for number in range(before))
        connection.execute(f"CREATE TABLE t ({columns}a, b, c)")
        connection.executemany(f"INSERT INTO t VALUES ({nulls}?, ?, ?)", stored)
        connection.commit()
    kinds = {"a": Kind.INT64_CODES, "b": Kind.INT64, "c": Kind.TEXT_CODES}
    with opened(path) as database:
        codes, ints, texts = database.read("t", kinds).values()
        sizes = database.read("t", {"a": Kind.BLOB, "b": Kind.TEXT})
        reals = database.read("t", {"c": Kind.FLOAT64})["c"]

    def integer(value: object) -> int | None:
        whole = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
        return int(value) if isinstance(value, int) or whole else None  # type: ignore[call-overload]

    def read(raw: Raw, values: Sequence[object]) -> list[object]:
        valid = [True] * len(values) if raw.valid is None else raw.valid.tolist()
        return [value if ok else None for value, ok in zip(values, valid, strict=True)]

    assert isinstance(codes, RawCodes)
    assert isinstance(ints, RawColumn)
    assert isinstance(texts, RawCodes)
    assert isinstance(reals, RawColumn)
    keys = np.asarray(codes.keys)
    assert read(codes, keys[codes.codes].tolist()) == [integer(a) for a, _, _ in stored]
    assert sorted(set(keys.tolist())) == keys.tolist()
    assert read(ints, ints.values.tolist()) == [integer(b) for _, b, _ in stored]
    expected = [c.encode() if isinstance(c, str) else None for *_, c in stored]
    assert read(texts, [texts.keys[code] for code in texts.codes]) == expected
    assert list(texts.keys) == [text for text in dict.fromkeys(expected) if text is not None]
    assert read(reals, reals.values.tolist()) == [
        float(c) if isinstance(c, (int, float)) else None for *_, c in stored
    ]
    for place, (name, fitting) in enumerate([("a", (str, bytes)), ("b", (str,))]):
        raw = sizes[name]
        assert isinstance(raw, RawText)
        content, ends = raw.blob.tobytes(), raw.offsets.tolist()
        parts = [content[begin:end] for begin, end in pairwise(ends)]
        wanted = [row[place] if isinstance(row[place], fitting) else None for row in stored]
        assert read(raw, parts) == [
            value.encode() if isinstance(value, str) else value for value in wanted
        ]
    unfit = [value for _, value, _ in stored if value is not None and integer(value) is None]
    assert ints.mismatched == len(unfit)


def test_minus_zero_beside_a_gap_keeps_its_sign(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)")
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany("INSERT INTO t VALUES (?)", [(None,), (-0.0,)])
        connection.commit()
    with opened(path) as database:
        raw = database.read("t", {"a": Kind.FLOAT64})["a"]
    assert isinstance(raw, RawColumn)
    assert np.signbit(raw.values).tolist() == [False, True]


def test_columns_without_gaps_have_no_mask(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)", ROWS)
    with opened(path) as database:
        assert database.read("t", {"a": Kind.INT64})["a"].valid is None


def test_an_empty_table_has_typed_columns(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a, b)")
    with opened(path) as database:
        read = database.read("t", {"a": Kind.FLOAT64, "b": Kind.TEXT})
        assert database.read("t", {}) == {}
    text = read["b"]
    assert isinstance(text, RawText)
    assert isinstance(read["a"], RawColumn)
    assert read["a"].values.dtype == np.float64
    assert text.blob.dtype == np.uint8
    assert text.offsets.dtype == np.int64
    assert (read["a"].values.size, text.blob.size, text.offsets.tolist()) == (0, 0, [0])


def test_what_is_not_there_is_a_key_error(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)")
    with opened(path) as database:
        with pytest.raises(KeyError, match="nothing"):
            database.row_count("nothing")
        with pytest.raises(KeyError, match="nothing"):
            database.read("t", {"nothing": Kind.INT64})


def test_names_may_be_odd(tmp_path: Path) -> None:
    path = make(
        tmp_path / "o'dd ?#%20é.sqlite",
        'CREATE TABLE "select ""x"" é" ("from [1]" INTEGER, "A" INTEGER, "_rowid_" INTEGER)',
        'INSERT INTO "select ""x"" é" VALUES (5, 6, 7)',
    )
    assert numbers(path, 'select "x" é', "from [1]") == [5]
    assert numbers(path, 'SELECT "x" é', "a") == [6]
    assert numbers(path, 'select "x" é', "_rowid_") == [7]


def test_an_integer_primary_key_is_the_rowid(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (b, a INTEGER PRIMARY KEY)",
        "CREATE TABLE falling (b, a INTEGER PRIMARY KEY DESC)",
        "INSERT INTO t (a) VALUES (9), (-4)",
        "INSERT INTO falling (a) VALUES (9), (-4)",
    )
    with opened(path) as database:
        assert [column.is_rowid for column in database.tables["t"]] == [False, True]
        assert [column.is_rowid for column in database.tables["falling"]] == [False, False]
    assert numbers(path) == [-4, 9]
    assert numbers(path, "falling") == [9, -4]


def test_rows_from_before_a_column_have_its_default(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (b)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 42",
        "ALTER TABLE t ADD COLUMN c INTEGER",
        "INSERT INTO t VALUES (1, 2, 3)",
    )
    assert numbers(path) == [42, 2]
    assert numbers(path, column="c") == [None, 3]


def test_computed_columns_are_read(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (x, twice AS (x * 2), a, square AS (x * x) STORED)",
        "INSERT INTO t VALUES (3, 4)",
    )
    assert [numbers(path, column=name) for name in ("x", "twice", "a", "square")] == [
        [3], [6], [4], [9]
    ]  # fmt: skip


def test_views_and_internal_tables_are_left_out(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)",
        "CREATE VIEW endless AS WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a FROM n) "
        "SELECT a FROM n",
    )
    with opened(path) as database:
        assert list(database.tables) == ["t"]


def test_tables_without_rowid_keep_one_order(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (k TEXT PRIMARY KEY, a INTEGER) WITHOUT ROWID",
        "CREATE INDEX by_a ON t (a)",
        "INSERT INTO t VALUES ('x', 3), ('y', 1), ('z', 2)",
    )
    assert numbers(path) == [3, 1, 2]


def refused(path: Path, kind: type[InputError], *words: str) -> None:
    with pytest.raises(InputError) as caught:
        Database.open(path)
    assert type(caught.value) is kind
    assert "\n" not in caught.value.message
    for word in (str(path), *words):
        assert word in caught.value.message


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


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_texts_of_any_encoding_come_as_utf8(tmp_path: Path, encoding: str) -> None:
    path = make(
        tmp_path / "a.sqlite",
        f"PRAGMA encoding='{encoding}'",
        "CREATE TABLE t (a TEXT)",
        "INSERT INTO t VALUES ('é𝄞')",
    )
    with opened(path) as database:
        text = database.read("t", {"a": Kind.TEXT})["a"]
    assert isinstance(text, RawText)
    assert text.blob.tobytes().decode() == "é𝄞"


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


def test_what_was_read_outlives_the_database(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)", ROWS)
    database = Database.open(path)
    raw = database.read("t", {"a": Kind.INT64})["a"]
    database.close()
    database.close()
    assert isinstance(raw, RawColumn)
    assert raw.values.tolist() == [1, 2, 3]


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
