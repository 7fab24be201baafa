"""SQLite files, and reading them with the native core and without."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from warpline import native
from warpline.errors import InputError
from warpline.readers.nsys.database import Database, Kind, RawColumn

ROWS = "INSERT INTO t SELECT value FROM json_each('[1,2,3]')"
CORES = ("native", "sqlite3")


@contextmanager
def reading_by(name: str) -> Iterator[None]:
    """Read by one of `CORES`; skip the test if that is not there."""
    loaded = native.core() if name == "native" else None
    if name == "native" and loaded is None:
        pytest.skip("needs the native core")
    with mock.patch.object(native, "core", return_value=loaded):
        yield


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """Open a file, and close it at the end."""
    database = Database.open(path)
    try:
        yield database
    finally:
        database.close()


def make(path: Path, *statements: str) -> Path:
    """Return the path of a file in which statements were run."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def numbers(path: Path, table: str = "t", column: str = "a") -> list[int | None]:
    """Return the numbers of a column."""
    with opened(path) as database:
        raw = database.read(table, {column: Kind.INT64})[column]
    values: list[int | None] = list(raw.values.tolist()) if isinstance(raw, RawColumn) else []
    if raw.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, raw.valid, strict=True)]


def refused(path: Path, kind: type[InputError], *words: str) -> None:
    """Check that a file is refused in one line with these words."""
    with pytest.raises(InputError) as caught:
        Database.open(path)
    assert type(caught.value) is kind
    assert "\n" not in caught.value.message
    for word in (str(path), *words):
        assert word in caught.value.message
