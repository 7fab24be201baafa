"""Event attributes in the details panel, in addition to name and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warpline.schema import TABLES, Column, DType
from warpline.trace import Trace
from warpline.units import Unit
from warpline.viewer.columns import Packed, float64, plain, smallest
from warpline.viewer.container import BlockWriter
from warpline.viewer.names import Names, category, cut

# The order is that of `Row.table` in the container.
EVENT_TABLES = (
    *("kernel", "memcpy", "memset", "graph_launch"),
    *("api_call", "range", "mark", "op", "python_frame", "os_call", "overhead", "library_call"),
)
_SHOWN_ELSEWHERE = {"start_ns", "end_ns", "time_ns", "name_id"}
_TABLE_END = "_id"


def write_attributes(writer: BlockWriter, trace: Trace, names: Names) -> list[dict[str, Any]]:
    """Add the columns of the event tables and return their descriptions.

    Columns without values, columns implied by the event's row, and backtrace numbers are omitted.
    """
    described = []
    for table in EVENT_TABLES:
        if not trace.has(table) or not trace.row_count(table):
            continue
        packed = list(_columns(trace, names, table))
        if not packed:
            continue
        block, offset = writer.append("attributes", [column for column, _ in packed])
        described.append(
            {
                "table": table,
                "count": trace.row_count(table),
                "block": block,
                "offset": offset,
                "columns": [{**column.head(), **facts} for column, facts in packed],
            }
        )
    return described


def row_attributes(trace: Trace, table: str, row: int) -> list[dict[str, Any]]:
    """Return the attributes of one row: name, unit, meaning, and value of each column."""
    attributes = []
    specs = _shown(table)
    columns = trace.columns(table, *(spec.name for spec in specs))
    for spec in specs:
        values, valid = columns[spec.name].values, columns[spec.name].valid
        if valid is not None and not valid.any():
            continue
        value = values[row].item() if valid is None or valid[row] else None
        unit = Unit.NONE if spec.ref == "string" else spec.unit
        if value is not None and spec.ref == "string":
            value = cut(trace.strings.text(value))
        elif value is not None and spec.labels is not None:
            value = spec.labels.get(value, value)
        name = spec.name.removesuffix(_TABLE_END) if spec.ref == "string" else spec.name
        facts = {"name": name, "unit": unit.value or "none", "doc": spec.doc}
        attributes.append({**facts, "value": int(value) if isinstance(value, bool) else value})
    return attributes


def _shown(table: str) -> list[Column]:
    """Return the columns that are shown where they have values."""
    return [
        spec
        for spec in TABLES[table].columns
        if spec.name not in _SHOWN_ELSEWHERE and spec.ref in {None, "string"}
    ]


def _columns(trace: Trace, names: Names, table: str) -> Iterator[tuple[Packed, dict[str, Any]]]:
    for name, data in trace.passing(table, *(spec.name for spec in _shown(table))):
        spec = TABLES[table].column(name)
        if data.valid is not None and not data.valid.any():
            continue
        facts: dict[str, Any] = {"unit": spec.unit.value or "none", "doc": spec.doc}
        if spec.labels is not None:
            facts["labels"] = {str(value): label for value, label in spec.labels.items()}
        if spec.ref == "string":
            facts = {**facts, "unit": Unit.NONE.value or "none", "texts": True}
        yield _packed(names, spec, data.values, data.valid), facts


def _packed(names: Names, spec: Column, values: Any, valid: Any) -> Packed:
    name = spec.name
    if spec.ref == "string":
        chosen = np.where(valid, values, -1) if valid is not None else values
        places = names.add_all(chosen, category("attribute")).astype(np.int64)
        return smallest(name.removesuffix(_TABLE_END), places, valid)
    if spec.dtype is DType.FLOAT64:
        return float64(name, values if valid is None else np.where(valid, values, np.nan))
    if spec.dtype is DType.BOOL:
        return plain(name, values.astype(np.uint8))
    return smallest(name, values.astype(np.int64), valid)
