"""Reading tables and columns of SQLite files."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.sqlite_files import CORES, ROWS, make, numbers, opened, reading_by

from warpline.readers.nsys.database import Database, Kind, Raw, RawCodes, RawColumn, RawText


@pytest.fixture(params=CORES, autouse=True)
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test with the native core and without."""
    with reading_by(request.param):
        yield


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


def test_what_was_read_outlives_the_database(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE t (a)", ROWS)
    database = Database.open(path)
    raw = database.read("t", {"a": Kind.INT64})["a"]
    database.close()
    database.close()
    assert isinstance(raw, RawColumn)
    assert raw.values.tolist() == [1, 2, 3]
