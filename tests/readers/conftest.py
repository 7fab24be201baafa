"""What the tests of readers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.nsys_exports import write_export

import warpline
from warpline.schema import TABLES
from warpline.trace import Trace


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Trace]:
    """Return the trace of an export with the given tables; see `nsys_exports.write_export`."""

    def open_tables(tables: dict[str, Any], **options: Any) -> Trace:
        return warpline.open(write_export(tmp_path / "small.sqlite", tables, **options))

    return open_tables


def rows_of(trace: Trace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return rows of a table as Python values, texts and labels in place of numbers."""
    spec = TABLES[table]
    loaded = trace.columns(table, *columns)
    shown = []
    for name in columns:
        values = loaded[name].to_list()
        column = spec.column(name)
        if column.ref == "string":
            values = [None if value is None else trace.strings.text(value) for value in values]
        elif column.labels is not None:
            values = [None if v is None else column.labels.get(v, v) for v in values]
        shown.append(values)
    return list(zip(*shown, strict=True))


@pytest.fixture(name="rows_of")
def rows_of_fixture() -> Callable[..., list[tuple[Any, ...]]]:
    """Return `rows_of`."""
    return rows_of
