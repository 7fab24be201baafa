"""Rows of a table as Python values."""

from __future__ import annotations

from typing import Any

from warpline.result.kernel_pages import MetricNumber
from warpline.schema import TABLES, Column
from warpline.trace import Trace


class Rows:
    """The rows of a table as Python values, with texts and labels."""

    def __init__(self, trace: Trace, table: str) -> None:
        spec = TABLES[table]
        self.columns: dict[str, list[Any]] = {}
        if not trace.has(table):
            self.columns = {_key(column): [] for column in spec.columns}
            return
        loaded = trace.columns(table, *(column.name for column in spec.columns))
        for column in spec.columns:
            values = loaded[column.name].to_list()
            if column.ref == "string":
                texts = {row: trace.strings.text(row) for row in {*values} - {None}}
                values = [texts.get(row) for row in values]
            elif column.labels is not None:
                values = [column.labels.get(value) for value in values]
            self.columns[_key(column)] = values

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _key(column: Column) -> str:
    """Return the name of a column whose texts stand in place of their rows."""
    return column.name.removesuffix("_id") if column.ref == "string" else column.name


def values_of(table: Rows) -> list[MetricNumber]:
    """Return the values of a table: its texts, then its integers, then its numbers."""
    return [
        text if text is not None else whole if whole is not None else number
        for text, whole, number in zip(table["text"], table["integer"], table["value"], strict=True)
    ]


def native_id(trace: Trace, table: str, row: int | None) -> int | None:
    """Return CUDA's id of a row of `context` or `stream`; None without a row."""
    if row is None:
        return None
    return int(trace.columns(table, "native_id")["native_id"].values[row])
