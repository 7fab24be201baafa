"""A whole trace as stable text: every table and column by a checksum, and its first rows.

Traces with the same dump have the same values in the same order. A changed dump shows the
difference. Row numbers of texts, which depend on the order of reading, are replaced by the texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from warpline.schema import TABLES, Column
from warpline.trace import ColumnData, Trace

FIRST_ROWS = 3


def dump(trace: Trace) -> str:
    """Return the dump, without the file's name and format."""
    lines = list(_meta(trace))
    for name in trace.tables:
        columns = TABLES[name].columns
        data = trace.columns(name, *(column.name for column in columns))
        lines += ["", f"{name}: {trace.row_count(name)} rows"]
        lines += [_summary(trace, column, data[column.name]) for column in columns]
        for row in range(min(FIRST_ROWS, trace.row_count(name))):
            shown = (_shown(trace, c, data[c.name], row) for c in columns)
            lines.append(f"  row {row}: " + " ".join(text for text in shown if text))
    return "\n".join(lines) + "\n"


def _meta(trace: Trace) -> Iterator[str]:
    meta = trace.meta
    for name in ("producer", "format_version", "command", "host", "origin_utc_ns", "span_ns"):
        yield f"{name}: {getattr(meta, name)}"
    for name in ("lost", "unread", "damaged"):
        yield f"{name}: {dict(sorted(getattr(meta, name).items()))}"
    for text in meta.warnings:
        yield f"warning: {text}"


def _summary(trace: Trace, column: Column, data: ColumnData) -> str:
    null_count = 0 if data.valid is None else int((~data.valid).sum())
    if len(data) and null_count == len(data):
        return f"  {column.name}: null"
    nulls = f", {null_count} null" if null_count else ""
    return f"  {column.name}: {_checksum(trace, column, data)}{nulls}"


def _checksum(trace: Trace, column: Column, data: ColumnData) -> str:
    digest = hashlib.sha256(data.is_valid().tobytes())
    if column.ref == "string":
        rows, codes = np.unique(data.filled(-1), return_inverse=True)
        texts = [trace.strings.raw(row) if row >= 0 else b"" for row in rows.tolist()]
        for code in codes.tolist():
            digest.update(texts[code] + b"\n")
    else:
        digest.update(np.ascontiguousarray(data.values).tobytes())
    return digest.hexdigest()[:12]


def _shown(trace: Trace, column: Column, data: ColumnData, row: int) -> str:
    if data.valid is not None and not data.valid[row]:
        return ""
    value: Any = data.values[row].item()
    if column.ref == "string":
        value = trace.strings.text(value)
        value = repr(value if len(value) <= 60 else f"{value[:57]}...")
    elif column.labels is not None:
        value = repr(column.labels.get(value, value))
    return f"{column.name.removesuffix('_id')}={value}"
