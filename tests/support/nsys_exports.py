"""Small exports of Nsight Systems, written table by table, for tests of its reader."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Rows = Sequence[Row]

TEXT_COLUMNS = {
    *("value", "text", "name", "jsonText", "binaryData", "description", "metricName"),
    *("uuid", "busLocation", "chipName", "utcTime", "devStateName"),
    *("data", "unit", "des", "filename", "content"),
}
REAL_COLUMNS = {"doubleValue", "floatValue"}


def global_id(pid: int, tid: int = 0, machine: int = 1) -> int:
    """Return nsys's serialized id of a process or a thread."""
    return (machine << 48) | (pid << 24) | tid


PROCESS = global_id(4242)
THREAD = global_id(4242, 4242)
OTHER_PROCESS = global_id(4300)
OTHER_THREAD = global_id(4300, 4301)

PLACE = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": PROCESS}


def write_export(
    path: Path,
    tables: Mapping[str, Rows],
    *,
    version: str | None = "3.20.3",
    meta_table: str = "META_DATA_EXPORT",
    captured: Sequence[str] | None = None,
    is_lazy: bool = True,
) -> Path:
    """Write the tables, with columns from the keys of their rows; missing keys are NULL.

    Tables without rows get the columns ``start`` and ``end``.
    """
    facts = {} if version is None else {"EXPORT_SCHEMA_VERSION": version}
    facts["EXPORT_LAZY"] = "true" if is_lazy else "false"
    meta: dict[str, Rows] = {meta_table: [{"name": k, "value": v} for k, v in facts.items()]}
    if captured is not None:
        kinds = [{"name": "CAPTURE_EVENT_TYPE", "value": kind} for kind in captured]
        meta["META_DATA_CAPTURE"] = [*tables.get("META_DATA_CAPTURE", ()), *kinds]
    base = sqlite3.connect(path)
    with base:
        for name, rows in {**tables, **meta}.items():
            _write_table(base, name, rows)
    base.close()
    return path


def _write_table(base: sqlite3.Connection, name: str, rows: Rows) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row)) or ["start", "end"]
    declared = ", ".join(f'"{column}" {_type(column, rows)}' for column in columns)
    base.execute(f'CREATE TABLE "{name}" ({declared})')
    places = ", ".join("?" * len(columns))
    values = [[row.get(column) for column in columns] for row in rows]
    base.executemany(f'INSERT INTO "{name}" VALUES ({places})', values)


def _type(column: str, rows: Rows) -> str:
    if column in TEXT_COLUMNS and not any(isinstance(row.get(column), int) for row in rows):
        return "TEXT"
    return "REAL" if column in REAL_COLUMNS else "INTEGER"


def strings(*texts: str) -> Rows:
    """Return StringIds with ids 0, 1, ..."""
    return [{"id": number, "value": text} for number, text in enumerate(texts)]


def kernel(start: Any, end: int, name: int | None = 0, **more: Any) -> Row:
    """Return a row of CUPTI_ACTIVITY_KIND_KERNEL."""
    row = {"start": start, "end": end, **PLACE, "correlationId": 1}
    return {**row, "demangledName": name, "shortName": name, **more}


def call(start: int, end: int, name: int = 0, **more: Any) -> Row:
    """Return a row of CUPTI_ACTIVITY_KIND_RUNTIME."""
    row = {"start": start, "end": end, "globalTid": THREAD, "correlationId": 1, "nameId": name}
    return {**row, "returnValue": 0, "callchainId": None, **more}


def event(start: int, end: int | None = None, kind: int = 59, **more: Any) -> Row:
    """Return a row of NVTX_EVENTS."""
    row = {"start": start, "end": end, "eventType": kind, "text": None, "textId": None}
    return {**row, "globalTid": THREAD, "endGlobalTid": None, "domainId": 0, **more}
