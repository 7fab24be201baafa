"""A source in memory, for traces that tests and extensions build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline.errors import SchemaError
from warpline.schema import TABLES, Column
from warpline.trace.column import ColumnData, make_column, null_column
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool

_DIMENSIONS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "process": {"pid": [1000]},
    "thread": {"process_id": [0], "tid": [1000]},
    "device": {"gpu_index": [0]},
    "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [False]},
    "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
}


class MemorySource:
    """Tables given as columns of Python values.

    Args:
        tables: Table -> column -> values. Text columns take str or bytes, enumerations take
            numbers, None is null. Omitted columns are null, or 0 (an empty text) if the schema
            does not allow nulls. The dimensions process, thread, device, context and stream have
            one row each by default.
        meta: Facts about the recording.
    """

    def __init__(
        self, tables: Mapping[str, Mapping[str, Sequence[Any]]], meta: TraceMeta | None = None
    ) -> None:
        self.meta = meta or TraceMeta((Path("memory"),), "memory")
        self.strings = StringPool()
        self._tables = {**_DIMENSIONS, **tables}
        self._counts = {name: _row_count(name, columns) for name, columns in self._tables.items()}

    def tables(self) -> Sequence[str]:
        """Return the given tables and the dimensions."""
        return list(self._tables)

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self._counts[table]

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns in the dtypes of the schema."""
        return {name: self._column(table, TABLES[table].column(name)) for name in columns}

    def _column(self, table: str, spec: Column) -> ColumnData:
        given = self._tables[table].get(spec.name)
        if given is None and spec.ref == "string":
            given = self._tables[table].get(spec.name.removesuffix("_id"))
        if given is None:
            if spec.nullable:
                return null_column(spec, self._counts[table])
            given = ["" if spec.ref == "string" else 0] * self._counts[table]
        values = [self._value(value) for value in given]
        valid = np.array([value is not None for value in values], np.bool_)
        return make_column(spec, [0 if value is None else value for value in values], valid)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.strings.intern_text(value)
        return self.strings.intern(value) if isinstance(value, bytes) else value


def _row_count(name: str, columns: Mapping[str, Sequence[Any]]) -> int:
    for column in columns:
        spec = TABLES[name]
        if not spec.has(column) and not spec.has(f"{column}_id"):
            raise SchemaError(f"table {name!r} has no column {column!r}")
    counts = {len(values) for values in columns.values()}
    if len(counts) > 1:
        raise SchemaError(f"table {name!r}: columns have different lengths: {sorted(counts)}")
    return counts.pop() if counts else 0
