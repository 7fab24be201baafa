"""The native page scanner, the sqlite3 fallback and a plain query agree on any database."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpline import native
from warpline.errors import WarplineError
from warpline.readers.nsys.database import Database, Kind, Raw, RawCodes, RawText

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

Value = int | float | str | bytes | None

INTEGER_EDGES = sorted(
    {sign * (2**bits + step) for bits in (0, 7, 15, 23, 31, 47, 53, 62) for sign in (1, -1)
     for step in (-1, 0, 1)} | {-(2**63), 2**63 - 1}
)  # fmt: skip
REAL_EDGES = [0.0, -0.0, 0.5, 3.0, -7.0, 1e300, 5e-324, math.inf, -math.inf, 2.0**53, 2.0**53 + 2]

VALUES = st.one_of(
    st.none(),
    st.sampled_from(INTEGER_EDGES),
    st.sampled_from(REAL_EDGES),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.integers(0, 4000).map(lambda size: "é" * (size // 2)),
    st.binary(max_size=12),
    st.integers(0, 4000).map(lambda size: bytes(range(256)) * (size // 256)),
)
DECLARED_TYPES = ["", "INTEGER", "TEXT", "REAL", "BLOB", "NUMERIC", "VARCHAR(9)", "FLOAT", "INT"]
KEYS = ["", "id INTEGER PRIMARY KEY,", "id INTEGER PRIMARY KEY DESC,", "id INT PRIMARY KEY,"]


@dataclass(frozen=True)
class Recipe:
    """Parameters of a database."""

    page_size: int
    reserved: int
    encoding: str
    auto_vacuum: int
    journal_mode: str
    key: str
    without_rowid: bool
    types: list[str]
    rows: list[list[Value]]
    copies: int
    first_id: int
    delete_every: int
    added: list[str]


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    types = draw(st.lists(st.sampled_from(DECLARED_TYPES), min_size=1, max_size=24))
    width = len(types)
    page_size = draw(st.sampled_from([512, 1024, 4096, 65536]))
    key = draw(st.sampled_from(KEYS))
    return Recipe(
        page_size=page_size,
        reserved=draw(st.sampled_from([0, 0, 0, 8, 32])),
        encoding=draw(st.sampled_from(["UTF-8", "UTF-8", "UTF-8", "UTF-16le", "UTF-16be"])),
        auto_vacuum=draw(st.sampled_from([0, 1, 2])),
        journal_mode=draw(st.sampled_from(["DELETE", "DELETE", "WAL"])),
        key=key,
        without_rowid=bool(key) and draw(st.booleans()),
        types=types,
        rows=draw(st.lists(st.lists(VALUES, min_size=width, max_size=width), max_size=6)),
        copies=draw(st.sampled_from([1, 1, 20])),
        first_id=draw(st.sampled_from([1, -5, -(2**63), 2**63 - 500])),
        delete_every=draw(st.sampled_from([0, 2, 3])),
        added=draw(st.lists(st.sampled_from(["INTEGER", "TEXT DEFAULT 'x'", "REAL DEFAULT 2"]),
                            max_size=2)),
    )  # fmt: skip


def start_database(path: Path, recipe: Recipe) -> None:
    """Create a database without tables, with reserved bytes in each page."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={recipe.page_size}")
        connection.execute(f"PRAGMA encoding='{recipe.encoding}'")
        connection.execute(f"PRAGMA auto_vacuum={recipe.auto_vacuum}")
        connection.execute("PRAGMA user_version=1")
    page = bytearray(path.read_bytes())
    page[20] = recipe.reserved
    page[105:107] = ((recipe.page_size - recipe.reserved) % 65536).to_bytes(2, "big")
    path.write_bytes(page)


def make_database(path: Path, recipe: Recipe) -> None:
    start_database(path, recipe)
    columns = ", ".join(f"c{i} {declared}" for i, declared in enumerate(recipe.types))
    suffix = " WITHOUT ROWID" if recipe.without_rowid else ""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={recipe.journal_mode}")
        connection.execute(f"CREATE TABLE t ({recipe.key} {columns}){suffix}")
        insert_rows(connection, recipe)
        for i, declared in enumerate(recipe.added):
            connection.execute(f"ALTER TABLE t ADD COLUMN added{i} {declared}")
        if recipe.added and not recipe.key:
            connection.execute("INSERT INTO t (added0) VALUES (7)")
        connection.execute("CREATE INDEX covering ON t (c0)")
        connection.commit()


def insert_rows(connection: sqlite3.Connection, recipe: Recipe) -> None:
    names = [f"c{i}" for i in range(len(recipe.types))]
    if recipe.key or recipe.first_id != 1:
        names.insert(0, "id" if recipe.key else "rowid")
    marks = ", ".join("?" * len(names))
    insert = f"INSERT INTO t ({', '.join(names)}) VALUES ({marks})"
    for i, row in enumerate(recipe.rows * recipe.copies):
        keys = [recipe.first_id + i] if len(names) > len(row) else []
        connection.execute(insert, [*keys, *row])
    if recipe.delete_every:
        id_name = "id" if recipe.key else "rowid"
        connection.execute(f"DELETE FROM t WHERE {id_name}% {recipe.delete_every} = 0")


def expected(kind: Kind, stored_type: str, value: Value) -> int | float | bytes | str | None:
    """Return the expected value; 'mismatch' if it does not fit the type."""
    kind = kind.uncoded
    if stored_type == "null":
        return None
    if kind is Kind.TEXT or kind is Kind.BLOB:
        fits = stored_type == "text" or (kind is Kind.BLOB and stored_type == "blob")
        return value if fits else "mismatch"
    if stored_type not in {"integer", "real"}:
        return "mismatch"
    assert isinstance(value, int | float)
    if kind is Kind.FLOAT64:
        return float(value)
    if stored_type == "integer":
        return value
    exact = abs(value) <= 2**53 and value == math.floor(value)
    return int(value) if exact else "mismatch"


def query(path: Path, column: str, order: str) -> list[tuple[str, Value]]:
    """Query a column with sqlite3, in a process that may write next to the file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return [
            (stored_type.decode(), value)
            for stored_type, value in connection.execute(
                f"SELECT typeof(t.{column}), t.{column} FROM t ORDER BY {order}"
            )
        ]


def as_list(raw: Raw) -> list[int | float | bytes | None]:
    if isinstance(raw, RawText):
        blob, offsets = raw.blob.tobytes(), raw.offsets.tolist()
        rows: list[int | float | bytes | None] = [blob[a:b] for a, b in pairwise(offsets)]
    elif isinstance(raw, RawCodes):
        assert isinstance(raw.keys, tuple) or sorted(set(raw.keys.tolist())) == raw.keys.tolist()
        keys = list(raw.keys) if isinstance(raw.keys, tuple) else raw.keys.tolist()
        rows = [keys[code] if code >= 0 else None for code in raw.codes.tolist()]
    else:
        rows = raw.values.tolist()
    if raw.valid is None:
        return rows
    return [row if valid else None for row, valid in zip(rows, raw.valid.tolist(), strict=True)]


def assert_same(one: Raw, other: Raw) -> None:
    assert type(one) is type(other)
    for a, b in zip(*([getattr(raw, name) for name in raw.__match_args__] for raw in (one, other)),
                    strict=True):  # fmt: skip
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()
        else:
            assert a == b


@contextmanager
def opened(path: Path, *, scan: bool) -> Iterator[Database]:
    core = native.core() if scan else None
    with mock.patch.object(native, "core", return_value=core):
        database = Database.open(path)
    try:
        yield database
    finally:
        database.close()


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(recipe=recipes(), kind=st.sampled_from(Kind))
def test_scanner_fallback_and_query_agree(recipe: Recipe, kind: Kind) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.sqlite"
        make_database(path, recipe)
        before = path.read_bytes()
        with opened(path, scan=True) as scanned, opened(path, scan=False) as plain:
            asked = {column.name: kind for column in scanned.tables["t"]}
            fast, slow = scanned.read("t", asked), plain.read("t", asked)
            assert scanned.row_count("t") == plain.row_count("t")
        assert sorted(file.name for file in Path(folder).iterdir()) == ["any.sqlite"]
        assert path.read_bytes() == before
        for column in asked:
            assert_same(fast[column], slow[column])
            rows = query(path, column, "id" if recipe.without_rowid else "rowid")
            wanted = [expected(kind, *row) for row in rows]
            assert fast[column].mismatched == wanted.count("mismatch")
            valid = [None if want == "mismatch" else want for want in wanted]
            assert as_list(fast[column]) == valid


def test_many_leaves_are_split_over_threads_in_order(tmp_path: Path) -> None:
    path = tmp_path / "many.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        rows = [(i * i - 7, "x" * (i % 700)) for i in range(5000)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        connection.commit()
    with opened(path, scan=True) as database:
        read = database.read("t", {"B": Kind.TEXT, "a": Kind.INT64})
    assert as_list(read["a"]) == [a for a, _ in rows]
    assert as_list(read["B"]) == [b.encode() for _, b in rows]


def small_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL)")
        connection.execute("CREATE TABLE narrow (a)")
        for i in range(120):
            row = (i**7, "text" * (i * 5), i / 3)
            connection.execute("INSERT INTO t (a, b, c) VALUES (?, ?, ?)", row)
            connection.execute("INSERT INTO narrow VALUES (?)", (i,))
        connection.commit()


@pytest.fixture(scope="module")
def sound_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "sound.sqlite"
    small_database(path)
    return path.read_bytes()


def read_everything(path: Path, *, scan: bool) -> int:
    """Read all columns of all tables; return the number of readable ones."""
    readable = 0
    try:
        with opened(path, scan=scan) as database:
            for table, columns in database.tables.items():
                for kind in Kind:
                    try:
                        rows = database.row_count(table)
                        read = database.read(table, {column.name: kind for column in columns})
                    except WarplineError:
                        continue
                    readable += 1
                    assert all(len(as_list(raw)) == rows for raw in read.values())
    except WarplineError:
        return readable
    return readable


# Half of the changes are at the start of a page, which contains a b-tree's structure.
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 2**20),
        st.one_of(st.integers(0, 24), st.integers(0, 511)),
        st.one_of(st.sampled_from([0, 1, 2, 5, 10, 13, 127, 128, 255]), st.integers(0, 255)),
    ),
    max_size=6,
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, cut=st.one_of(st.none(), st.integers(0, 2**20)))
def test_damage_gives_an_error_or_data_but_nothing_else(
    sound_bytes: bytes, changes: list[tuple[int, int, int]], cut: int | None
) -> None:
    damaged = bytearray(sound_bytes)
    for page, offset, value in changes:
        damaged[(page * 512) % len(damaged) + offset] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.sqlite"
        path.write_bytes(damaged[: cut % len(damaged)] if cut is not None else damaged)
        intact = cut is None and not changes
        readable = [read_everything(path, scan=scan) for scan in (True, False)]
        assert not intact or readable == [2 * len(Kind)] * 2
        assert [file.name for file in Path(folder).iterdir()] == ["damaged.sqlite"]


def test_too_many_distinct_values_are_numbered_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "distinct.sqlite"
    rows = [(i * 7919 % 70_001 - 9, f"text {i}", i % 3) for i in range(70_000)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT, c INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.commit()
    kinds = {"a": Kind.INT64_CODES, "b": Kind.TEXT_CODES, "c": Kind.INT64_CODES}
    with opened(path, scan=True) as scanned, opened(path, scan=False) as plain:
        fast, slow = scanned.read("t", kinds), plain.read("t", kinds)
    for column in kinds:
        assert_same(fast[column], slow[column])
    assert as_list(fast["a"]) == [a for a, _, _ in rows]
    assert as_list(fast["b"]) == [b.encode() for _, b, _ in rows]
