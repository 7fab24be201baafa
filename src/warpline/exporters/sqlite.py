"""SQLite with the tables and columns of an Nsight Systems export, so that SQL for nsys runs.

Native ids are packed as nsys packs them: a globalTid holds virtual machine, process and thread.
If processes of a merged trace share a pid, they differ in the virtual machine. If GPUs share an
index, they are renumbered.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.errors import InputError
from warpline.exporters import EXPORTERS, Exporter
from warpline.exporters.nsys_backtraces import CHAIN_TABLES, frame_columns
from warpline.exporters.nsys_python import (
    COLUMNS,
    DOMAINS,
    TWINS,
    WAS_SAMPLED,
    gil_names,
    sample_columns,
    twin_rows,
)
from warpline.exporters.nsys_tables import (
    ENUMERATIONS,
    GRAPHS,
    NVTX,
    SCHEMA_VERSION,
    SQL_TABLES,
    Extra,
    Filled,
    Inline,
    RowNumber,
    Source,
)
from warpline.files import complete_file
from warpline.ops.group import factorize_rows
from warpline.schema import TABLES
from warpline.trace import reservations
from warpline.trace.trace import Trace

I64 = npt.NDArray[np.int64]

_PID_MASK, _PID_BITS = 0xFF_FFFF, 24
_GRAPH_LEVEL = 0  # of schema.labels.GRAPH_LEVELS
_DOMAIN, _CATEGORY, _MARK = 75, 33, 34
_RANGE_TYPES = np.array([59, 60])  # by style: push/pop, start/end
_NVTX = (
    "start",
    "end",
    "eventType",
    "category",
    "color",
    "text",
    "globalTid",
    "endGlobalTid",
    "textId",
    "domainId",
)
_GPU: Mapping[str, Source] = {
    "name": Inline("name_id"),
    "uuid": Inline("uuid_id"),
    "busLocation": Inline("bus_id"),
    "chipName": Inline("chip_id"),
    "smCount": "sm_count",
    "totalMemory": "memory_bytes",
    "memoryBandwidth": "memory_bytes_per_s",
    "l2CacheSize": "l2_bytes",
    "clockRate": "clock_hz",
    "computeMajor": "compute_major",
    "computeMinor": "compute_minor",
}
_CONTEXT: Mapping[str, Source] = {
    "deviceId": "device_id",
    "contextId": "native_id",
    "isGreenContext": "is_green",
    "parentContextId": "parent_native_id",
}
_STREAM: Mapping[str, Source] = {
    "contextId": "context_id",
    "streamId": "native_id",
    "priority": "priority",
    "flag": "kind",
}
_TYPES = {
    **dict.fromkeys(("text", "value", "name", "label", "uuid", "busLocation", "chipName"), "TEXT"),
    "binaryData": "BLOB",
}
_GRAPH_COLUMNS = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_CAPTURED = {"Cuda": "kernel", "NvtxEvents": "range", "OSRuntime": "os_call"}

Columns = Mapping[str, Sequence[Any]]


def write(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write an export without counters and tables that nsys does not have."""
    with complete_file(path) as unfinished:
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as base:
                base.execute("PRAGMA journal_mode = OFF")
                base.execute("PRAGMA synchronous = OFF")
                fill(trace, base, tables, with_empty=False)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise InputError(f"cannot write {path}: {error}") from error


def fill(
    trace: Trace, base: sqlite3.Connection, tables: Collection[str], *, with_empty: bool
) -> None:
    """Write tables of a trace into an open, empty database.

    Args:
        trace: The trace.
        base: The database.
        tables: Tables of the trace.
        with_empty: Whether to create tables without rows. In a file, nsys takes an existing table
            as recorded, so they are omitted. A query should find the table and no rows.
    """
    base.execute("BEGIN")
    _Filling(trace, base, {*tables}, with_empty=with_empty).run()
    base.execute("COMMIT")


class _Filling:
    def __init__(
        self, trace: Trace, base: sqlite3.Connection, tables: set[str], *, with_empty: bool
    ) -> None:
        self._trace = trace
        self._base = base
        self._tables = tables & {*trace.tables}
        self._with_empty = with_empty
        self._used = np.zeros(0, np.bool_)  # strings that rows reference

    def run(self) -> None:
        for item in SQL_TABLES:
            if item.table in self._tables:
                count = self._trace.row_count(item.table)
                columns = {
                    name: self._values(item.table, source, count)
                    for name, source in item.columns.items()
                    if not isinstance(source, Extra) or self._is_known(item.table, source)
                }
                self._insert(item.name, columns)
        if "graph_launch" in self._tables:
            self._graph_launches()
        if self._tables & {"range", "mark", *DOMAINS}:
            self._nvtx()
        for table in CHAIN_TABLES.keys() & self._tables:
            self._backtraces(table)
        self._dimensions()
        self._facts()
        rows = np.flatnonzero(self._used)
        self._insert("StringIds", {"id": rows.tolist(), "value": self._texts(rows)}, "id")

    # --- values ---

    def _is_known(self, table: str, source: Extra) -> bool:
        valid = self._trace.columns(table, source.column)[source.column].valid
        return valid is None or bool(valid.any())

    def _values(self, table: str, source: Source, count: int) -> Sequence[Any]:
        if isinstance(source, int):
            return [source] * count
        if isinstance(source, RowNumber):
            return range(1, count + 1)
        name = source if isinstance(source, str) else source.column
        column = TABLES[table].column(name)
        data = self._trace.columns(table, name)[name]
        values, valid = data.values, data.valid
        if column.ref == "string":
            self._use(values if valid is None else values[valid])
            if isinstance(source, Inline):
                present, codes = np.unique(values, return_inverse=True)
                texts = np.array([*self._texts(present), None], object)
                values = texts[codes] if len(present) else values
        elif column.ref is not None:
            ids = self._native[column.ref]
            values = ids[values] if len(ids) else values
        if isinstance(source, Filled) and valid is not None:
            values, valid = np.where(valid, values, source.fill), None
        cells: list[Any] = values.tolist()
        if valid is None:
            return cells
        return [value if ok else None for value, ok in zip(cells, valid.tolist(), strict=True)]

    def _use(self, rows: npt.NDArray[Any]) -> None:
        missing = len(self._trace.strings) - len(self._used)
        self._used = np.concatenate((self._used, np.zeros(missing, np.bool_)))
        self._used[rows] = True

    def _texts(self, rows: npt.NDArray[Any]) -> list[str]:
        return self._trace.strings.texts(rows) if len(self._trace.strings) else [""] * len(rows)

    @cached_property
    def _native(self) -> Mapping[str, I64]:
        """The native id of each row of each dimension."""
        process = self._global_pids()
        owner = self._dimension("thread", "process_id")
        tid = self._dimension("thread", "tid") & _PID_MASK
        gpu = self._dimension("device", "gpu_index")
        is_unique = len(np.unique(gpu)) == len(gpu)
        return {
            "process": process,
            "thread": process[owner] | tid if len(owner) else tid,
            "device": gpu if is_unique else np.arange(len(gpu)),
            "context": self._dimension("context", "native_id"),
            "stream": self._dimension("stream", "native_id"),
            "stack": np.arange(1, len(self._dimension("stack", "depth")) + 1),
        }

    def _global_pids(self) -> I64:
        seen: dict[int, int] = {}
        keys = []
        for pid in (self._dimension("process", "pid") & _PID_MASK).tolist():
            seen[pid] = machine = seen.get(pid, 0) + 1
            keys.append((machine & 0xFF) << 2 * _PID_BITS | pid << _PID_BITS)
        return np.array(keys, np.int64)

    def _dimension(self, table: str, column: str) -> I64:
        if not self._trace.has(table):
            return np.zeros(0, np.int64)
        return self._trace.columns(table, column)[column].values.astype(np.int64)

    # --- tables that are not one to one ---

    def _graph_launches(self) -> None:
        """Write CUDA graphs traced at graph level; nodes have their own rows."""
        level = self._trace.columns("graph_launch", "level")["level"].values
        rows = np.flatnonzero(level == _GRAPH_LEVEL).tolist()
        names = ("start_ns", "end_ns", "device_id", "context_id", "stream_id", "correlation_id")
        ours = (*names, "process_id", "graph_id", "graph_exec_id")
        values = [self._values("graph_launch", name, len(level)) for name in ours]
        columns = dict(zip((*_GRAPH_COLUMNS, "graphId", "graphExecId"), values, strict=True))
        self._insert(GRAPHS, {name: [v[row] for row in rows] for name, v in columns.items()})

    def _backtraces(self, table: str) -> None:
        """Write the frames of a table's backtraces, a row each."""
        if not self._trace.has("stack"):
            return
        columns = frame_columns(self._trace, table)
        self._use(columns["symbol"].values)
        self._use(columns["module"].values)
        if "warplineFile" in columns:
            file = columns["warplineFile"]
            self._use(file.values[file.is_valid()])
        values = {name: data.to_list() for name, data in columns.items()}
        self._insert(CHAIN_TABLES[table], values)

    def _nvtx(self) -> None:
        names: dict[tuple[int, ...], Mapping[str, Any]] = {}
        more = COLUMNS if "python_sample" in self._tables else ()
        # What nsys recorded of the GIL is among the ranges.
        gil_is_written = "range" in self._tables and len(twin_rows(self._trace, "range")) > 0
        left = () if gil_is_written else ("gil_span",)
        for table in ("range", "mark", "python_sample", *left):
            if table in self._tables:
                columns = self._events(table) if table in TWINS else self._python_events(table)
                count = len(columns["start"])
                columns |= {name: [None] * count for name in more if name not in columns}
                self._insert(NVTX, columns)
                self._collect_names(columns, names)
        rows = [*names.values()]
        self._insert(NVTX, {name: [row.get(name) for row in rows] for name in (*_NVTX, *more)})

    def _python_events(self, table: str) -> dict[str, Sequence[Any]]:
        """Return the events of Python samples or of the GIL."""
        self._trace.columns("thread", "name_id")  # the file's own texts come before new ones
        count = self._trace.row_count(table)
        columns: dict[str, Sequence[Any]] = {name: [None] * count for name in _NVTX}
        is_sample = table == "python_sample"
        columns |= {
            "start": self._values(table, "time_ns" if is_sample else "start_ns", count),
            "eventType": [_MARK if is_sample else int(_RANGE_TYPES[0])] * count,
            "globalTid": self._values(table, "thread_id", count),
            "category": [0] * count,
            "domainId": [self._trace.strings.intern_text(DOMAINS[table]) + 1] * count,
        }
        if is_sample:
            more, used = sample_columns(self._trace)
            columns |= more
        else:
            names, used = gil_names(self._trace)
            columns |= {"end": self._values(table, "end_ns", count), "textId": names.tolist()}
        self._use(used)
        return columns

    def _events(self, table: str) -> dict[str, Sequence[Any]]:
        count = self._trace.row_count(table)
        sources: dict[str, Source] = {
            "start": "start_ns",
            "end": "end_ns",
            "color": "color",
            "globalTid": "thread_id",
            "endGlobalTid": "end_thread_id",
            "textId": "name_id",
        }
        if table == "mark":
            sources = {**sources, "start": "time_ns", "end": "color", "endGlobalTid": "color"}
        columns: dict[str, Sequence[Any]] = dict.fromkeys(_NVTX, ())
        for name, source in sources.items():
            columns[name] = self._values(table, source, count)
        if table == "mark":
            columns |= {name: [None] * count for name in ("end", "endGlobalTid")}
            columns["eventType"] = [_MARK] * count
        else:
            columns |= self._range_columns(columns["end"])
        columns["text"] = [None] * count
        columns |= self._numbered(table)
        if table != "mark" or "python_sample" not in self._tables:
            return columns
        rows = np.delete(np.arange(count), twin_rows(self._trace, table)).tolist()
        return {name: [values[row] for row in rows] for name, values in columns.items()}

    def _numbered(self, table: str) -> dict[str, Sequence[Any]]:
        columns = {}
        # A domain or category id is the number of its string plus 1; 0 is the default.
        for name, source in (("domainId", "domain_id"), ("category", "category_id")):
            ids = self._trace.columns(table, source)[source]
            columns[name] = (ids.values + ids.is_valid()).tolist()
        return columns

    def _range_columns(self, ends: Sequence[Any]) -> dict[str, Sequence[Any]]:
        ranges = self._trace.columns("range", "style", "is_truncated", "source_id")
        is_open = ranges["is_truncated"].values.tolist()
        columns: dict[str, Sequence[Any]] = {
            "end": [None if open_ else end for end, open_ in zip(ends, is_open, strict=True)],
            "eventType": _RANGE_TYPES[ranges["style"].values].tolist(),
        }
        source = ranges["source_id"].values
        if len(np.unique(source)) == len(source) and (source > 0).all():
            columns["rowid"] = source.tolist()  # shown as RangeId by nsys
        return columns

    def _collect_names(
        self, columns: Columns, names: dict[tuple[int, ...], Mapping[str, Any]]
    ) -> None:
        """Add the rows with the names of each process's domains and categories."""
        parts = (columns[name] for name in ("globalTid", "domainId", "category"))
        thread, domain, category = (np.array(part, np.int64) for part in parts)
        process = thread >> _PID_BITS
        groups = factorize_rows(process, domain, category)
        for first in groups.first.tolist():
            row = {name: columns[name][first] for name in ("start", "globalTid", "domainId")}
            key: tuple[int, ...] = (int(process[first]), int(domain[first]))
            for kind, number in ((_DOMAIN, key[1]), (_CATEGORY, int(category[first]))):
                if number:
                    row = {**row, "eventType": kind, "text": self._trace.strings.text(number - 1)}
                    if kind == _CATEGORY:
                        key, row = (*key, number), {**row, "category": number}
                    names.setdefault(key, row)

    def _dimensions(self) -> None:
        process, thread = self._native["process"], self._native["thread"]
        if self._trace.has("process"):
            names = self._values("process", Inline("name_id"), len(process))
            pids = self._dimension("process", "pid").tolist()
            rows = {"globalPid": process.tolist(), "pid": pids, "name": names}
            self._insert("PROCESSES", rows)
        if self._trace.has("thread"):
            names = self._values("thread", "name_id", len(thread))
            priorities = self._values("thread", "priority", len(thread))
            known = [row for row, name in enumerate(names) if name is not None]
            columns = {"nameId": names, "priority": priorities, "globalTid": thread.tolist()}
            picked = {name: [v[row] for row in known] for name, v in columns.items()}
            self._insert("ThreadNames", picked)
        if self._trace.has("device"):
            self._devices()
        for name, table in (("CONTEXT_INFO", "context"), ("STREAM", "stream")):
            if self._trace.has(table):
                self._insert(f"TARGET_INFO_CUDA_{name}", self._owned(table))

    def _devices(self) -> None:
        count = len(self._native["device"])
        columns: dict[str, Sequence[Any]] = {"id": self._native["device"].tolist()}
        for name, source in _GPU.items():
            columns[name] = self._values("device", source, count)
        self._insert("TARGET_INFO_GPU", columns)
        pids = self._dimension("process", "pid").tolist()
        pairs = [(gpu, pid) for gpu in columns["id"] for pid in pids]
        ids = [gpu for gpu, _ in pairs]
        seen = {"gpuId": ids, "cudaId": ids, "pid": [pid for _, pid in pairs]}
        self._insert("TARGET_INFO_CUDA_DEVICE", seen)

    def _owned(self, table: str) -> Columns:
        """Return the rows that declare contexts or streams."""
        owner = self._dimension(table, "process_id")
        key = self._native["process"][owner]
        columns: dict[str, Sequence[Any]] = {
            "hwId": [0] * len(owner),
            "vmId": (key >> 2 * _PID_BITS & 0xFF).tolist(),
            "processId": (key >> _PID_BITS & _PID_MASK).tolist(),
        }
        sources = _CONTEXT if table == "context" else _STREAM
        for name, source in sources.items():
            columns[name] = self._values(table, source, len(owner))
        return columns

    def _facts(self) -> None:
        meta = self._trace.meta
        exported = {
            "EXPORT_PRODUCT_NAME": meta.producer or "Warpline",
            "EXPORT_SCHEMA_VERSION": SCHEMA_VERSION,
            "EXPORT_SCHEMA_VERSION_MAJOR": SCHEMA_VERSION.split(".")[0],
            "EXPORT_SCHEMA_VERSION_MINOR": SCHEMA_VERSION.split(".")[1],
        }
        self._insert("META_DATA_EXPORT", {"name": [*exported], "value": [*exported.values()]})
        captured = [kind for kind, table in _CAPTURED.items() if table in self._tables]
        settings = [("CAPTURE_EVENT_TYPE", kind) for kind in captured]
        settings += [WAS_SAMPLED] if "python_sample" in self._tables else []
        if meta.command is not None:
            keys = ("PROCESS_0:COMMAND", reservations.COMMAND)
            settings += [(key, meta.command) for key in keys]
        settings += reservations.to_pairs(meta)
        names, values = ([setting[part] for setting in settings] for part in (0, 1))
        self._insert("META_DATA_CAPTURE", {"name": names, "value": values})
        start = {"utcEpochNs": [meta.origin_utc_ns]} if meta.origin_utc_ns is not None else {}
        self._insert("TARGET_INFO_SESSION_START_TIME", start or {"utcEpochNs": []})
        if meta.span_ns is not None:
            first, last = meta.span_ns
            details = {"globalVid": [0], "duration": [last], "startTime": [first]}
            self._insert("ANALYSIS_DETAILS", {**details, "stopTime": [last]})
        host = {
            "name": ["Hostname"] if meta.host else [],
            "value": [meta.host] if meta.host else [],
        }
        self._insert("TARGET_INFO_SYSTEM_ENV", host)
        for name, labels in ENUMERATIONS.items():
            texts = [*labels.values()]
            self._insert(name, {"id": [*labels], "name": texts, "label": texts}, "id")

    def _insert(self, table: str, columns: Columns, key: str | None = None) -> None:
        """Write rows; create the table on first use."""
        if not any(map(len, columns.values())) and not self._with_empty:
            return
        named = [name for name in columns if name != "rowid"]
        is_text = table != "CUPTI_ACTIVITY_KIND_MEMSET"  # its value is a number
        declared = ", ".join(
            f'"{name}" {_TYPES.get(name, "INTEGER") if is_text else "INTEGER"}'
            + (" PRIMARY KEY" if name == key else "")
            for name in named
        )
        self._base.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({declared})')
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        rows = zip(*columns.values(), strict=True)
        # The names are declared in this module, and the values are bound.
        self._base.executemany(
            f'INSERT INTO "{table}" ({names}) VALUES ({marks})',  # noqa: S608
            rows,
        )


EXPORTERS.add(
    "sqlite",
    Exporter(
        name="sqlite",
        doc="SQLite with the tables of an Nsight Systems export, readable by nsys stats.",
        ending=".sqlite",
        write=write,
    ),
)
