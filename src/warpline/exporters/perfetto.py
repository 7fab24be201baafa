"""Chrome JSON trace format, for Perfetto and chrome://tracing.

Processes and GPUs are groups; CPU threads and streams are tracks. Overlapping events go to extra
tracks of the same name, because the viewers drop events that do not nest. A flow arrow links each
launch call to the GPU operation with the same correlation id. Metrics, and the state of GPUs and of
the machine, are counter tracks; these have no gaps, so that a value lasts until the next one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from warpline.derived.health.clock_limits import ClockLimit
from warpline.derived.health.readings import MACHINE
from warpline.derived.health.series import (
    HealthSeries,
    clock_limit_spans,
    gpu_health_series,
    host_health_series,
)
from warpline.derived.metrics.series import NO_DEVICE, metric_series
from warpline.exporters import EXPORTERS, Exporter
from warpline.exporters.lanes import assign_lanes
from warpline.files import complete_file
from warpline.ops.join import lookup_rows
from warpline.schema import TABLES
from warpline.trace.trace import Trace
from warpline.units import Unit

I64 = npt.NDArray[np.int64]

_HOST = {"range": "ranges", "api_call": "CUDA API", "os_call": "OS runtime"}
_DEVICE = ("kernel", "memcpy", "memset", "graph_launch")
_METRICS = {"counter", "counter_block"}
_WRITTEN = {*_HOST, *_DEVICE, *_METRICS, "mark", "gpu_health", "host_health", "gpu_error"}
_UNITS = {
    Unit.HZ: " [Hz]",
    Unit.WATTS: " [W]",
    Unit.CELSIUS: " [C]",
    Unit.BYTES: " [B]",
    Unit.BYTES_PER_S: " [B/s]",
}
_GRAPH_LEVEL = 0  # of schema.labels.GRAPH_LEVELS: CUDA graphs without node rows
_DETAILS = ("correlation_id", "bytes")


@dataclass(frozen=True)
class _Events:
    """Events of one table, in time order.

    Attributes:
        table: The table.
        rows: Row of each event in the table, shape (n,).
        group: Row of the process or device of each event, shape (n,).
        track: Row of the thread or stream of each event, shape (n,).
        names: Name of each event, as JSON.
        details: Arguments of each event, as JSON.
    """

    table: str
    rows: I64
    group: I64
    track: I64
    start_ns: I64
    end_ns: I64
    names: list[str]
    details: list[str]


def write(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write the CPU calls, ranges, marks, GPU operations and samples among the tables."""
    with complete_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as out:
        _Writing(trace, {*tables}, out).run()


class _Writing:
    def __init__(self, trace: Trace, tables: set[str], out: TextIO) -> None:
        self._trace = trace
        self._tables = {name for name in tables if trace.has(name) and trace.row_count(name)}
        self._out = out
        self._numbers = itertools.count(1)  # an id for each group and track
        self._separator = ""
        self._arrow_numbers = itertools.count(1)
        self._groups: dict[tuple[str, int], int] = {}
        self._places: dict[str, tuple[list[int], list[int]]] = {}
        self._zero_ns = 0

    def run(self) -> None:
        """Write the document."""
        host = [self._read(table) for table in _HOST if table in self._tables]
        device = [self._read(table) for table in _DEVICE if table in self._tables]
        # The viewers cannot show times below 0, which rows from before the recording have.
        self._zero_ns = min([0, *map(self._earliest, self._tables & _WRITTEN)])
        self._out.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        for part in host:
            self._tracks("process", [part], nested=True)
        if device:
            self._tracks("device", device, nested=False)
        calls = [part for part in host if part.table == "api_call"]
        for part in device if calls else ():
            self._arrows(calls[0], part)
        self._marks()
        self._metrics()
        self._gpu_state()
        self._machine_state()
        meta = self._trace.meta
        facts = {
            "producer": meta.producer,
            "zero_ns": self._zero_ns,
            "windows_ns": meta.windows_ns,
            "lost": dict(meta.lost),
            "warnings": list(meta.warnings),
            "damaged": dict(meta.damaged),
        }
        self._out.write(f'\n], "otherData": {json.dumps(facts)}}}\n')

    def _earliest(self, table: str) -> int:
        name = TABLES[table].start
        assert name is not None
        return int(self._trace.columns(table, name)[name].values.min())

    def _read(self, table: str) -> _Events:
        is_host = table in _HOST
        group, track = ("process_id", "thread_id") if is_host else ("device_id", "stream_id")
        columns = self._trace.columns(table, "start_ns", "end_ns", group, track)
        start, end = columns["start_ns"].values, columns["end_ns"].values
        order = np.lexsort((-end, start))
        if table == "graph_launch":
            level = self._trace.columns(table, "level")["level"].values
            order = order[level[order] == _GRAPH_LEVEL]
        rows = order.tolist()
        names, details = self._names(table), self._details(table)
        return _Events(
            table,
            order,
            columns[group].values[order].astype(np.int64),
            columns[track].values[order].astype(np.int64),
            start[order],
            end[order],
            [names[row] for row in rows],
            [details[row] for row in rows],
        )

    def _names(self, table: str) -> list[str]:
        """Return the name of each event, as JSON."""
        if table in {"memset", "graph_launch"}:
            return [json.dumps(table)] * self._trace.row_count(table)
        key = {"kernel": "short_name_id", "memcpy": "kind"}.get(table, "name_id")
        data = self._trace.columns(table, key)[key]
        values, codes = np.unique(data.values, return_inverse=True)
        labels = TABLES[table].column(key).labels
        if labels is not None:
            texts = [f"memcpy {labels.get(value, value)}" for value in values.tolist()]
        else:
            has_text = len(self._trace.strings) > 0
            texts = self._trace.strings.texts(values) if has_text else [""] * len(values)
        quoted = [json.dumps(text) for text in texts]
        named = zip(codes.tolist(), data.is_valid().tolist(), strict=True)
        return [quoted[code] if is_named else '""' for code, is_named in named]

    def _details(self, table: str) -> list[str]:
        """Return the arguments of each event, as JSON."""
        keys = [key for key in _DETAILS if TABLES[table].has(key)]
        if not keys:
            return ["{}"] * self._trace.row_count(table)
        data = self._trace.columns(table, *keys)
        return [
            json.dumps(
                {key: value for key, value in zip(keys, row, strict=True) if value is not None}
            )
            for row in zip(*(data[key].to_list() for key in keys), strict=True)
        ]

    def _tracks(self, kind: str, parts: Sequence[_Events], *, nested: bool) -> None:
        """Write events, with as many tracks per thread or stream as they need."""
        group = np.concatenate([part.group for part in parts])
        track = np.concatenate([part.track for part in parts])
        start = np.concatenate([part.start_ns for part in parts])
        end = np.concatenate([part.end_ns for part in parts])
        names = [name for part in parts for name in part.names]
        details = [text for part in parts for text in part.details]
        tables = [part.table for part in parts for _ in part.names]
        numbers = np.zeros(len(start), np.int64)
        order = np.lexsort((-end, start, track, group))
        edges = np.flatnonzero(np.diff(group[order]) | np.diff(track[order])) + 1
        for rows in np.split(order, edges):
            if not len(rows):
                continue
            pid = self._group(kind, int(group[rows[0]]))
            lanes = assign_lanes(start[rows].tolist(), end[rows].tolist(), nested=nested)
            title = self._track_title(kind, parts[0].table, int(track[rows[0]]))
            tids = [self._track(pid, title, lane) for lane in range(max(lanes) + 1)]
            numbers[rows] = np.array(tids, np.int64)[lanes]
            for row, lane in zip(rows.tolist(), lanes, strict=True):
                first = int(start[row])
                self._emit(
                    f'{{"ph": "X", "pid": {pid}, "tid": {tids[lane]}, "ts": {self._us(first)},'
                    f' "dur": {_us(int(end[row]) - first)}, "cat": "{tables[row]}",'
                    f' "name": {names[row]}, "args": {details[row]}}}'
                )
        self._remember(kind, parts, group, numbers)

    def _remember(self, kind: str, parts: Sequence[_Events], group: I64, numbers: I64) -> None:
        """Store the track of each event, for the arrows."""
        first = 0
        for part in parts:
            last = first + len(part.names)
            pids = [self._group(kind, row) for row in group[first:last].tolist()]
            self._places[part.table] = pids, numbers[first:last].tolist()
            first = last

    def _arrows(self, calls: _Events, work: _Events) -> None:
        """Write a flow arrow from each launch call to each GPU operation that it launched."""
        # Rows without a correlation id match nothing: the two sides use different fill values.
        index, found = lookup_rows(self._keys(work, -1), self._keys(calls, -2))
        for row in np.flatnonzero(found).tolist():
            number = next(self._arrow_numbers)
            for phase, part, place in (("s", calls, int(index[row])), ("f", work, row)):
                pids, tids = self._places[part.table]
                self._emit(
                    f'{{"ph": "{phase}", "bp": "e", "id": {number}, "cat": "launch",'
                    f' "name": "launch", "pid": {pids[place]}, "tid": {tids[place]},'
                    f' "ts": {self._us(int(part.start_ns[place]))}}}'
                )

    def _keys(self, part: _Events, fill: int) -> tuple[I64, I64]:
        columns = self._trace.columns(part.table, "process_id", "correlation_id")
        process = columns["process_id"].values.astype(np.int64)
        return process[part.rows], columns["correlation_id"].filled(fill)[part.rows]

    def _marks(self) -> None:
        if "mark" not in self._tables:
            return
        data = self._trace.columns("mark", "time_ns", "process_id", "thread_id")
        tracks: dict[tuple[int, int], int] = {}
        values = (data[key].values.tolist() for key in ("time_ns", "process_id", "thread_id"))
        for time_ns, process, thread, name in zip(*values, self._names("mark"), strict=True):
            pid = self._group("process", process)
            if (process, thread) not in tracks:
                title = self._track_title("process", "mark", thread)
                tracks[process, thread] = self._track(pid, title, 0)
            self._emit(
                f'{{"ph": "i", "s": "t", "pid": {pid}, "tid": {tracks[process, thread]},'
                f' "ts": {self._us(time_ns)}, "cat": "mark", "name": {name}}}'
            )

    def _metrics(self) -> None:
        if not self._tables & _METRICS:
            return
        for series in metric_series(self._trace):
            kind = "machine" if series.device == NO_DEVICE else "device"
            pid = self._group(kind, series.device)
            self._counter(pid, series.name, series.start_ns, series.value)

    def _gpu_state(self) -> None:
        """Write the readings of the GPUs, what limits their clocks, and their errors."""
        if "gpu_health" in self._tables:
            for series in gpu_health_series(self._trace):
                self._health(self._group("device", series.of), series)
            for spans in clock_limit_spans(self._trace):
                pid = self._group("device", spans.device)
                tid = self._track(pid, "clock limits", 0)
                arrays = (spans.start_ns, spans.end_ns, spans.limit)
                for start, end, limit in zip(*(each.tolist() for each in arrays), strict=True):
                    self._emit(
                        f'{{"ph": "X", "pid": {pid}, "tid": {tid}, "ts": {self._us(start)},'
                        f' "dur": {_us(end - start)}, "cat": "gpu_health",'
                        f' "name": {json.dumps(ClockLimit.at(limit).label)}}}'
                    )
        if "gpu_error" in self._tables:
            columns = self._trace.columns("gpu_error", "time_ns", "device_id", "xid")
            for at_ns, device, xid in zip(
                *(column.values.tolist() for column in columns.values()), strict=True
            ):
                pid = self._group("device", device)
                self._emit(
                    f'{{"ph": "i", "s": "p", "pid": {pid}, "tid": {pid},'
                    f' "ts": {self._us(at_ns)}, "cat": "gpu_error", "name": "Xid {xid}"}}'
                )

    def _machine_state(self) -> None:
        if "host_health" not in self._tables:
            return
        for series in host_health_series(self._trace):
            kind = "machine" if series.of == MACHINE else "process"
            self._health(self._group(kind, series.of), series)

    def _health(self, pid: int, series: HealthSeries) -> None:
        name = series.label + _UNITS.get(series.unit, "")
        self._counter(pid, name, series.start_ns, series.value)

    def _counter(self, pid: int, name: str, start_ns: I64, values: npt.NDArray[np.float64]) -> None:
        """Write a counter track."""
        quoted = json.dumps(name)
        for time_ns, value in zip(start_ns.tolist(), values.tolist(), strict=True):
            self._emit(
                f'{{"ph": "C", "pid": {pid}, "ts": {self._us(time_ns)},'
                f' "name": {quoted}, "args": {{"value": {value!r}}}}}'
            )

    def _group(self, kind: str, row: int) -> int:
        """Return the id of a process or GPU; write its name on first use."""
        number = self._groups.get((kind, row))
        if number is None:
            number = self._groups[kind, row] = next(self._numbers)
            self._name("process_name", number, number, self._group_title(kind, row))
        return number

    def _track(self, pid: int, title: str, lane: int) -> int:
        number = next(self._numbers)
        self._name("thread_name", pid, number, title if not lane else f"{title} ({lane + 1})")
        return number

    def _name(self, what: str, pid: int, tid: int, name: str) -> None:
        event = {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}
        self._emit(json.dumps(event))

    def _group_title(self, kind: str, row: int) -> str:
        if kind == "machine":
            return "machine"
        key = "pid" if kind == "process" else "gpu_index"
        number = self._trace.columns(kind, key)[key].values[row]
        return (
            f"{'GPU' if kind == 'device' else 'process'} {number} {self._text(kind, row)}".strip()
        )

    def _track_title(self, kind: str, table: str, row: int) -> str:
        if kind == "device":
            return f"stream {self._trace.columns('stream', 'native_id')['native_id'].values[row]}"
        tid = self._trace.columns("thread", "tid")["tid"].values[row]
        thread = f"thread {tid} {self._text('thread', row)}".strip()
        return f"{thread}: {_HOST.get(table, 'marks')}"

    def _text(self, table: str, row: int) -> str:
        data = self._trace.columns(table, "name_id")["name_id"]
        is_named = data.valid is None or bool(data.valid[row])
        return self._trace.strings.text(int(data.values[row])) if is_named else ""

    def _emit(self, event: str) -> None:
        self._out.write(self._separator + event)
        self._separator = ",\n"

    def _us(self, time_ns: int) -> str:
        return _us(max(time_ns - self._zero_ns, 0))


def _us(duration_ns: int) -> str:
    """Return exact microseconds: a float would round the nanoseconds."""
    return f"{duration_ns // 1000}.{duration_ns % 1000:03d}"


EXPORTERS.add(
    "perfetto",
    Exporter(
        name="perfetto",
        doc="Chrome JSON trace for ui.perfetto.dev, with threads and streams as tracks.",
        ending=".perfetto.json",
        write=write,
    ),
)
