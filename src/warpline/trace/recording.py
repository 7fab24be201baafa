"""The recording file: a trace whose columns can be mapped, so that it opens instantly.

The file is a ZIP of uncompressed ``.npy`` members (see `warpline.container`): ``meta.json``, one
member per column (``kernel/start_ns.npy``), one per validity mask
(``kernel/correlation_id.valid.npy``), and the texts as ``string/blob.npy``, split at
``string/offsets.npy``. Rows are in the total order of their table. An omitted nullable column is
all null. numpy alone can read the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from warpline.container import META, ContainerWriter
from warpline.files import cannot_write
from warpline.schema import TABLES, Column, dimensions
from warpline.schema.recording import BLOB, FORMAT, MASK_ENDING, NPY_TYPES, OFFSETS, VERSION
from warpline.trace.column import Array, BoolArray, ColumnData
from warpline.trace.meta import TraceMeta
from warpline.trace.trace import Trace

# Recordings up to this size are kept in memory while they are written.
_MOST_IN_MEMORY = 2**25


class _Place(NamedTuple):
    """Where a column is kept, and how many rows it has."""

    offset: int
    rows: int
    has_mask: bool


class _Columns:
    """Columns on their way from a trace to a recording file, in a file without a name.

    What comes first in the recording is known only when all columns are read: warnings, and which
    texts are used. Memory holds one column, however large the recording is.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[tuple[str, str], _Place] = {}

    def add(self, table: str, name: str, data: ColumnData) -> None:
        """Keep a column."""
        self._places[table, name] = _Place(self._file.tell(), len(data), data.valid is not None)
        self._file.write(np.ascontiguousarray(data.values).data)
        if data.valid is not None:
            self._file.write(np.ascontiguousarray(data.valid).data)

    def __iter__(self) -> Iterator[tuple[str, Column, ColumnData]]:
        """Yield the columns in their order, with their tables."""
        for (table, name), place in self._places.items():
            column = TABLES[table].column(name)
            self._file.seek(place.offset)
            values = self._read(place.rows, np.dtype(column.dtype.value))
            valid = self._read(place.rows, np.dtype(np.bool_)) if place.has_mask else None
            yield table, column, ColumnData(values, valid)

    def _read(self, rows: int, dtype: np.dtype[Any]) -> Array:
        return np.frombuffer(self._file.read(rows * dtype.itemsize), dtype)


def write_recording(trace: Trace, path: Path, tables: Collection[str] | None = None) -> None:
    """Write a trace to a recording file.

    Args:
        trace: The trace, or a part of one.
        path: Output file. It appears when it is complete.
        tables: Names of the tables to write. Tables that they refer to, and dimension tables, are
            always included. None for all.

    If a whole recording is written, its members that are unknown to this version are kept.
    Otherwise unused texts are omitted. Raises InputError if the file cannot be written; an
    existing file at `path` then stays intact.
    """
    foreign = trace.foreign if tables is None else {}
    foreign_rows = trace.foreign_rows if tables is None else {}
    names = written_tables(trace, tables)
    try:
        folder = path.absolute().parent
        with (
            tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY, dir=str(folder)) as file,
            ContainerWriter(path) as writer,
        ):
            columns = _Columns(file)
            used = _load(trace, names, columns)
            places = np.cumsum(used, dtype=np.int32) - np.int32(1)
            # After loading, because loading adds warnings.
            meta = {
                "format": FORMAT,
                "version": ".".join(map(str, VERSION)),
                "rows": {**{name: trace.row_count(name) for name in names}, **foreign_rows},
                "recording": meta_to_json(trace.meta),
            }
            writer.add_json(META, meta)
            for table, column, data in columns:
                is_text = column.ref == "string" and not foreign
                shown = _renumbered(data, places) if is_text else data
                _add_column(writer, column, f"{table}/{column.name}", shown)
            texts = range(len(trace.strings)) if foreign else np.flatnonzero(used).tolist()
            _add_texts(writer, [trace.strings.raw(text) for text in texts])
            for name, content in foreign.items():
                writer.add_bytes(name, [content], len(content))
    except OSError as error:
        raise cannot_write(path, error) from error


def written_tables(trace: Trace, tables: Collection[str] | None) -> list[str]:
    """Return the recorded tables among `tables`, the tables they refer to, and the dimensions."""
    if tables is None:
        return list(trace.tables)
    wanted = {*tables, *(spec.name for spec in dimensions.TABLES)}
    refs: set[str] = wanted
    while refs:
        refs = {column.ref for name in refs for column in TABLES[name].columns if column.ref}
        refs = refs & TABLES.keys() - wanted
        wanted |= refs
    return [name for name in trace.tables if name in wanted]


def meta_to_json(meta: TraceMeta) -> dict[str, Any]:
    """Return the facts about a recording as stored in its file: file names without directories."""
    return {
        "sources": [path.name for path in meta.paths],
        "source_format": meta.format,
        "producer": meta.producer,
        "source_version": meta.format_version,
        "command": meta.command,
        "host": meta.host,
        "origin_utc_ns": meta.origin_utc_ns,
        "span_ns": meta.span_ns,
        "windows_ns": meta.windows_ns,
        "ends": [asdict(end) for end in meta.ends],
        "lost": dict(meta.lost),
        "unread": dict(meta.unread),
        "warnings": list(meta.warnings),
        "unrecorded": [asdict(cause) for cause in meta.unrecorded],
        "damaged": dict(meta.damaged),
        "environment": dict(meta.environment),
        "software": dict(meta.software),
        "record_cost_ns": dict(meta.record_cost_ns),
        "call_cost_ns": meta.call_cost_ns,
        "operator_cost_ns": meta.operator_cost_ns,
    }


def _load(trace: Trace, names: Collection[str], columns: _Columns) -> BoolArray:
    """Keep the columns that are not all null; return which texts they use."""
    used = np.zeros(0, np.bool_)
    for table in names:
        spec = TABLES[table]
        for name, data in trace.passing(table, *(column.name for column in spec.columns)):
            if data.valid is not None and not bool(data.valid.any()):
                continue
            columns.add(table, name, data)
            if spec.column(name).ref == "string":
                used = np.concatenate((used, np.zeros(len(trace.strings) - len(used), np.bool_)))
                used[data.values if data.valid is None else data.values[data.valid]] = True
    return np.concatenate((used, np.zeros(len(trace.strings) - len(used), np.bool_)))


def _renumbered(data: ColumnData, places: Array) -> ColumnData:
    """Return the numbers of texts among the used ones."""
    if data.valid is None:
        return ColumnData(places[data.values])
    values = np.zeros(len(data), np.int32)
    values[data.valid] = places[data.values[data.valid]]
    return ColumnData(values, data.valid)


def _add_column(writer: ContainerWriter, column: Column, name: str, data: ColumnData) -> None:
    kind = NPY_TYPES[column.dtype]
    values = np.ascontiguousarray(data.values.astype(kind, copy=False))
    writer.add_array(name, kind, len(values), [values.data])
    if data.valid is not None:
        mask = np.ascontiguousarray(data.valid)
        writer.add_array(name + MASK_ENDING, "|b1", len(mask), [mask.data])


def _add_texts(writer: ContainerWriter, texts: Collection[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)], dtype="<i8")
    writer.add_array(OFFSETS, "<i8", len(offsets), [offsets.data])
    blob = b"".join(texts)
    writer.add_array(BLOB, "|u1", len(blob), [blob])
