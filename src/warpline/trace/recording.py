"""The recording file: a trace whose columns can be mapped, so that it opens instantly.

The file is a ZIP of uncompressed ``.npy`` members (see `warpline.container`): ``meta.json``, one
member per column (``kernel/start_ns.npy``), one per validity mask
(``kernel/correlation_id.valid.npy``), and the texts as ``string/blob.npy``, split at
``string/offsets.npy``. Rows are in the total order of their table. An omitted nullable column is
all null. numpy alone can read the file.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from warpline.container import META, ContainerWriter
from warpline.files import cannot_write
from warpline.schema import TABLES, Column, dimensions
from warpline.schema.recording import BLOB, FORMAT, MASK_ENDING, NPY_TYPES, OFFSETS, VERSION
from warpline.trace.column import ColumnData
from warpline.trace.meta import TraceMeta
from warpline.trace.trace import Trace

_Columns = dict[tuple[str, str], ColumnData]


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
    columns = _load(trace, names)
    used = None if foreign else _use_texts(columns, len(trace.strings))
    # After loading, because loading adds warnings.
    meta = {
        "format": FORMAT,
        "version": ".".join(map(str, VERSION)),
        "rows": {**{name: trace.row_count(name) for name in names}, **foreign_rows},
        "recording": meta_to_json(trace.meta),
    }
    try:
        with ContainerWriter(path) as writer:
            writer.add_json(META, meta)
            for (table, name), data in columns.items():
                _add_column(writer, TABLES[table].column(name), f"{table}/{name}", data)
            rows = range(len(trace.strings)) if used is None else used
            _add_texts(writer, [trace.strings.raw(row) for row in rows])
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


def _load(trace: Trace, names: Collection[str]) -> _Columns:
    """Return the columns that are not all null, by table and name."""
    columns: _Columns = {}
    for table in names:
        # All in one call, because a reader may scan its file in each call.
        loaded = trace.columns(table, *(column.name for column in TABLES[table].columns))
        for name, data in loaded.items():
            if data.valid is None or bool(data.valid.any()):
                columns[table, name] = data
    return columns


def _use_texts(columns: _Columns, text_count: int) -> list[int]:
    """Renumber texts in place so that only used ones remain; return their old numbers."""
    named = [key for key in columns if TABLES[key[0]].column(key[1]).ref == "string"]
    is_used = np.zeros(text_count, np.bool_)
    for key in named:
        data = columns[key]
        is_used[data.values if data.valid is None else data.values[data.valid]] = True
    places = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    for key in named:
        data = columns[key]
        if data.valid is None:
            columns[key] = ColumnData(places[data.values])
        else:
            values = np.zeros(len(data), np.int32)
            values[data.valid] = places[data.values[data.valid]]
            columns[key] = ColumnData(values, data.valid)
    return np.flatnonzero(is_used).tolist()


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
