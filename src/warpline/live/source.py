"""The tables of decoded logs, as a source of a trace."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline.capture.finishing.raw_session import RawSession
from warpline.schema import TABLES, Column, DType
from warpline.trace.column import ColumnData, null_column
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool

SOURCE_FORMAT = "warpline-live"


class LiveSource:
    """A sealed session. Columns are copied out of it when they are asked for.

    Args:
        session: It must stay open as long as columns may be asked for.
        rows: Rows by table, of those that are recorded.
        meta: Facts about the recording.
    """

    def __init__(self, session: RawSession, rows: Mapping[str, int], meta: TraceMeta) -> None:
        self.meta = meta
        self._session, self._rows = session, rows
        self.strings = _pool(session)

    def tables(self) -> Sequence[str]:
        """Return the names of the recorded tables."""
        return list(self._rows)

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        return self._rows[table]

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns; those that are all null are omitted."""
        found = {name: self._column(table, TABLES[table].column(name)) for name in columns}
        return {name: data for name, data in found.items() if data is not None}

    def _column(self, table: str, spec: Column) -> ColumnData | None:
        rows, place = self._rows[table], f"{table}/{spec.name}"
        nulls = self._session.nulls(place, rows) if spec.nullable else 0
        if nulls is None or (spec.nullable and nulls == rows):
            return null_column(spec, rows)
        values: Any = np.empty(rows, np.uint8 if spec.dtype is DType.BOOL else spec.dtype.value)
        valid = np.empty(rows, np.bool_) if nulls else None
        self._session.fill(place, rows, _at(values), None if valid is None else _at(valid))
        return ColumnData(values.view(spec.dtype.value), valid)


def empty_meta(name: str) -> TraceMeta:
    """Return the facts of a recording in progress of which nothing but the name is known."""
    return TraceMeta((Path(name),), SOURCE_FORMAT)


def _at(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _pool(session: RawSession) -> StringPool:
    ends = np.empty(session.rows("string"), np.int64)
    session.fill("string/offsets", len(ends), _at(ends), None)
    blob = np.empty(int(ends[-1]), np.uint8)
    session.fill("string/blob", len(blob), _at(blob), None)
    raw, pool = blob.tobytes(), StringPool()
    bounds = ends.tolist()
    for begin, end in itertools.pairwise(bounds):
        pool.intern(raw[begin:end])
    return pool
