"""JSON: each table is an object with its columns and rows, written in blocks of rows."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TextIO

from warpline.exporters import EXPORTERS, Exporter
from warpline.files import complete_file
from warpline.schema import SCHEMA_VERSION, TABLES, Column
from warpline.trace.column import ColumnData
from warpline.trace.recording import meta_to_json
from warpline.trace.trace import Trace

_BLOCK_ROWS = 10_000


def write(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write one document; a row is an array in the order of the table's columns."""
    with complete_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as out:
        out.write(f'{{"schema_version": {SCHEMA_VERSION},\n"tables": [')
        for place, table in enumerate(tables):
            out.write(",\n" if place else "\n")
            _write_table(trace, table, out)
        # Last: reading the rows may add warnings.
        out.write(f'\n],\n"recording": {json.dumps(meta_to_json(trace.meta))}}}\n')


def _write_table(trace: Trace, table: str, out: TextIO) -> None:
    columns = TABLES[table].columns
    names = json.dumps([_shown_name(column) for column in columns])
    out.write(f'{{"name": {json.dumps(table)}, "columns": {names}, "rows": [')
    data = trace.columns(table, *(column.name for column in columns))
    count = trace.row_count(table)
    for first in range(0, count, _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        values = (_values(trace, column, data[column.name].take(rows)) for column in columns)
        lines = (json.dumps(row) for row in zip(*values, strict=True))
        out.write((",\n" if first else "\n") + ",\n".join(lines))
    out.write("]}")


def _shown_name(column: Column) -> str:
    return column.name.removesuffix("_id") if column.ref == "string" else column.name


def _values(trace: Trace, column: Column, data: ColumnData) -> Iterator[Any]:
    """Yield the values of a column; strings and labels replace their ids."""
    for value in data.to_list():
        if value is None:
            yield None
        elif isinstance(value, float):
            yield value if math.isfinite(value) else None  # JSON has no NaN or infinity
        elif column.ref == "string":
            yield trace.strings.text(value)
        else:
            yield value if column.labels is None else column.labels.get(value, value)


EXPORTERS.add(
    "json",
    Exporter(
        name="json",
        doc="One JSON document with the columns of each table and one array per row.",
        ending=".json",
        write=write,
    ),
)
