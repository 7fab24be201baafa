"""Tables of an export that are read a block of rows at a time are those that are read whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.nsys_exports import OTHER_THREAD, Row, call, event, kernel, strings, write_export

import warpline
from warpline import native
from warpline.readers.nsys import export, source
from warpline.schema import TABLES
from warpline.trace import ColumnData, Trace

MARK, PUSH, POP, START, END, DOMAIN = 34, 35, 36, 37, 38, 75
EVENTS, KERNELS = "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


@contextmanager
def small_blocks() -> Iterator[None]:
    """Read all tables in blocks of at least 100 rows: those of whole pages."""
    with (
        mock.patch.object(export, "LARGE_TABLE_ROWS", 0),
        mock.patch.object(source, "ROWS_PER_BLOCK", 100),
        mock.patch("warpline.derived.summaries.range_sweep.LARGE_TABLE_ROWS", 0),
    ):
        yield


def _events() -> list[Row]:
    """Return ranges with what may be missing: marks between them, halves, no ends, no names."""
    rows: list[Row] = [event(0, kind=DOMAIN, text="lib", domainId=1)]
    for at in range(0, 4000, 10):
        rows += [
            event(at, at + 9, text=f"op {at % 70}", endGlobalTid=OTHER_THREAD if at % 3 else None),
            event(at + 1, kind=MARK, text="seen"),
            event(at + 2, kind=PUSH, textId=at % 3, domainId=1),
            event(at + 4, kind=POP, domainId=1),
            event(at + 5, None if at % 400 == 0 else at + 6, kind=60, domainId=at % 2),
        ]
    return rows


def _tables() -> dict[str, Any]:
    calls = [call(at, at + 2, 2, correlationId=at // 3) for at in range(3, 4000, 3)]
    kernels = [kernel(at, at + 5, at % 4, correlationId=at // 3) for at in range(1, 4000, 2)]
    return {
        "StringIds": strings("a", "b", "c", "d"),
        EVENTS: _events(),
        CALLS: calls,
        KERNELS: kernels,
    }


def _values(trace: Trace, table: str, name: str, data: ColumnData) -> list[Any]:
    values = data.to_list()
    if TABLES[table].column(name).ref == "string":
        return [None if value is None else trace.strings.text(value) for value in values]
    return values


@pytest.mark.parametrize("table", ["range", "mark", "api_call", "kernel"])
def test_blocks_are_parts_of_the_whole(opened, table):
    whole = opened(_tables())
    in_blocks = warpline.open(whole.meta.paths[0])
    names = [column.name for column in TABLES[table].columns]
    columns = whole.columns(table, *names, ordered=False)
    with small_blocks():
        blocks = list(in_blocks.blocks(table, *names))
        assert in_blocks.row_count(table) == whole.row_count(table)
    assert len(blocks) > 3
    for name in names:
        found = [
            value for block in blocks for value in _values(in_blocks, table, name, block[name])
        ]
        assert found == _values(whole, table, name, columns[name]), name


@pytest.mark.parametrize("table", ["nvtx_kern_sum", "nvtx_gpu_proj_sum"])
def test_tables_of_ranges_from_blocks(opened, table):
    whole = opened(_tables())
    expected = warpline.stats(whole, table).rows()
    assert len(expected) > 5
    with small_blocks():
        assert warpline.stats(warpline.open(whole.meta.paths[0]), table).rows() == expected


def test_rows_that_are_not_in_order_are_read_whole(tmp_path, opened):
    expected = warpline.stats(opened(_tables()), "nvtx_kern_sum").rows()
    tables = _tables()
    tables[EVENTS] = [*tables[EVENTS][:1], *tables[EVENTS][:0:-1]]
    tables[CALLS] = [*tables[CALLS][700:], *tables[CALLS][:700]]
    path = write_export(tmp_path / "shuffled.sqlite", tables)
    with small_blocks():
        assert warpline.stats(warpline.open(path), "nvtx_kern_sum").rows() == expected


def test_impossible_times_and_wrong_types_are_counted_once(opened):
    tables = _tables()
    for row in tables[EVENTS][1:2000:500]:
        row["end"] = -5
    tables[CALLS][900]["correlationId"] = "text"
    whole = opened(tables)
    in_blocks = warpline.open(whole.meta.paths[0])
    for _ in range(2):
        warpline.stats(whole, "nvtx_kern_sum")
        with small_blocks():
            warpline.stats(in_blocks, "nvtx_kern_sum")
    assert whole.meta.warnings
    assert in_blocks.meta.warnings == whole.meta.warnings


def test_a_damaged_table_is_reported(tmp_path: Path, opened):
    path = opened(_tables()).meta.paths[0]
    content = bytearray(path.read_bytes())
    content[-5000:] = bytes(5000)
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(content)
    whole, in_blocks = warpline.open(damaged), warpline.open(damaged)
    expected = warpline.stats(whole, "nvtx_kern_sum")
    with small_blocks():
        found = warpline.stats(in_blocks, "nvtx_kern_sum")
    assert type(found) is type(expected)
    assert in_blocks.meta.damaged == whole.meta.damaged
