"""A recording with what PyTorch's profiler recorded of the same processes: operators and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpline.errors import InputError
from warpline.injected.operators import CLOCK
from warpline.ops.arrays import I64, BoolArray
from warpline.schema import TABLES, Column
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace.column import ColumnData, concatenate, make_column, null_column, translated
from warpline.trace.common_events import Fit, Rows, shift_of
from warpline.trace.replaced import ReplacedTables
from warpline.trace.same_ranges import NamedSpans, are_among
from warpline.trace.trace import Trace
from warpline.units import plural

_OPERATORS = "op"
_THREAD = "thread"
_ADDED = ("range", _OPERATORS, "python_frame", "allocator_event", "collective")
_NOT_THERE = -1
_SHOWN = 4  # process ids in a message


def with_framework_records(
    ours: Trace,
    traces: Sequence[Trace],
    *,
    monotonic_origin_ns: int | None = None,
    warnings: Sequence[str] = (),
) -> Trace:
    """Return a recording with the operators of PyTorch traces of the same processes.

    Added are operators, Python functions, allocations, ranges that the recording does not have by
    name and time, and collectives where it has none. Its own rows stay as they are. Processes are
    the same by their ids, threads by theirs, and times are shifted by `common_events`. A warning
    says how well each trace fits.

    Args:
        ours: The recording.
        traces: The traces, each of a file of its own.
        monotonic_origin_ns: The monotonic time that is 0 in the recording, if the traces are of its
            session: processes that are missing, which had nothing else to record, are added.
        warnings: Warnings to add to those of the recording.

    Raises:
        InputError: The recording has operators of the same time, or a trace is not of its processes
            and time.
    """
    builder = _Builder(ours, warnings)
    for trace in traces:
        if monotonic_origin_ns is not None:
            builder.add_processes(trace)
        builder.add(trace, monotonic_origin_ns)
    return Trace(builder.source())


class _Builder:
    """Collects the rows that are added to a recording."""

    def __init__(self, ours: Trace, warnings: Sequence[str]) -> None:
        self._ours = ours
        read_texts(ours)
        self._pids = _rows_by_number(ours, "process", "pid")
        self._threads = _threads(ours)
        self._new: dict[str, list[dict[str, int]]] = {"process": [], _THREAD: []}
        self._parts: dict[str, dict[str, list[ColumnData]]] = {}
        self._operators = ours.row_count(_OPERATORS) if ours.has(_OPERATORS) else 0
        self._starts: dict[int, list[I64]] = {}  # of operators, by process
        self._notes = [*warnings]
        self._costs: list[Any] = []

    def add_processes(self, theirs: Trace) -> None:
        """Add the processes of a trace that the recording does not have."""
        columns = theirs.columns("process", "pid", "name_id")
        names = translated(columns["name_id"], theirs.strings, self._ours.strings)
        for pid, name in zip(columns["pid"].values.tolist(), names.values.tolist(), strict=True):
            if pid not in self._pids:
                self._pids[pid] = len(self._pids)
                self._new["process"].append({"pid": pid, "name_id": name})

    def add(self, theirs: Trace, monotonic_origin_ns: int | None) -> None:
        """Add the rows of a trace."""
        rows = self._dimensions(theirs)
        fit = shift_of(self._ours, theirs, rows, monotonic_origin_ns)
        if fit is None:
            raise InputError(
                f"{_name(theirs)} cannot be aligned with {_name(self._ours)}: neither UTC times nor"
                " CUDA API calls in common",
                hint="record both in the same run",
            )
        self._refuse_other_time(theirs, fit)
        self._refuse_same_operators(theirs, rows, fit)
        rows = self._with_new_threads(theirs, rows)
        devices = _devices(self._ours, theirs)
        first_operator = self._operators
        for table in _ADDED:
            if theirs.has(table) and not self._has_better(table):
                self._add_rows(theirs, table, rows, devices, fit.shift_ns, first_operator)
        if monotonic_origin_ns is None:
            self._notes.append(f"{_name(theirs)}: {fit}")
        self._notes += theirs.meta.warnings
        self._costs.append(theirs.meta.operator_cost_ns)

    def source(self) -> ReplacedTables:
        """Return the recording with the rows that were added."""
        ours, tables = self._ours, {}
        for table, added in self._parts.items():
            own = ours.columns(table, *added) if ours.has(table) else {}
            tables[table] = {
                name: concatenate([own[name], *parts] if name in own else parts)
                for name, parts in added.items()
            }
        tables |= {table: self._with_new(table, rows) for table, rows in self._new.items() if rows}
        meta = ours.meta
        cost = meta.operator_cost_ns or next(iter(self._costs), None)
        warnings = (*meta.warnings, *dict.fromkeys(self._notes))
        meta = replace(meta, warnings=warnings, operator_cost_ns=cost)
        return ReplacedTables(ours, tables, meta)

    def _dimensions(self, theirs: Trace) -> Rows:
        """Return the processes and threads of a trace in the recording."""
        pids = theirs.columns("process", "pid")["pid"].values.tolist()
        process = np.array([self._pids.get(pid, _NOT_THERE) for pid in pids], np.int64)
        if not (process >= 0).any():
            raise InputError(
                f"{_name(theirs)} is of {_pids(pids)}, {_name(self._ours)} of"
                f" {_pids([*self._pids])}",
                hint="merge the trace that was written in the recorded run",
            )
        left_out = int(np.count_nonzero(process < 0))
        if left_out:
            missing = plural(left_out, "process", "processes")
            self._notes.append(f"{_name(theirs)}: {missing} left out, not in the recording")
        columns = theirs.columns(_THREAD, "process_id", "tid")
        of_thread = process[columns["process_id"].values].tolist()
        keys = zip(of_thread, columns["tid"].values.tolist(), strict=True)
        thread = [self._threads.get(key, _NOT_THERE) for key in keys]
        return Rows(process, np.array(thread, np.int64))

    def _with_new_threads(self, theirs: Trace, rows: Rows) -> Rows:
        """Add the threads that the recording does not have."""
        columns = theirs.columns(_THREAD, "process_id", "tid")
        thread = rows.thread.copy()
        for row in np.flatnonzero(thread < 0).tolist():
            process = int(rows.process[columns["process_id"].values[row]])
            if process >= 0:
                key = process, int(columns["tid"].values[row])
                self._new[_THREAD].append({"process_id": process, "tid": key[1]})
                thread[row] = self._threads[key] = len(self._threads)
        return Rows(rows.process, thread)

    def _with_new(self, table: str, rows: Sequence[Mapping[str, int]]) -> dict[str, ColumnData]:
        """Return a table of the recording with more rows, with values of some columns."""
        spec = TABLES[table]
        own = self._ours.columns(table, *(column.name for column in spec.columns))
        return {
            column.name: concatenate(
                [
                    own[column.name],
                    make_column(column, [row[column.name] for row in rows])
                    if column.name in rows[0]
                    else null_column(column, len(rows)),
                ]
            )
            for column in spec.columns
        }

    def _refuse_other_time(self, theirs: Trace, fit: Fit) -> None:
        span, theirs_span = self._ours.meta.span_ns, _span_of_operators(theirs)
        if span is None or theirs_span is None:
            return
        start, end = (time + fit.shift_ns for time in theirs_span)
        if end < span[0] or start > span[1]:
            raise InputError(
                f"{_name(theirs)} was recorded at another time than {_name(self._ours)}",
                hint="merge the trace that was written in the recorded run",
            )

    def _refuse_same_operators(self, theirs: Trace, rows: Rows, fit: Fit) -> None:
        """Refuse to have operators twice: those of a process at one time are of one trace."""
        if not theirs.has(_OPERATORS):
            return
        columns = theirs.columns(_OPERATORS, "process_id", "start_ns")
        of_process = rows.process[columns["process_id"].values]
        for process in np.unique(of_process[of_process >= 0]).tolist():
            starts = columns["start_ns"].values[of_process == process] + fit.shift_ns
            first, last = int(starts.min()), int(starts.max())
            known = self._starts.setdefault(process, [self._own_starts(process)])
            if any(((own >= first) & (own <= last)).any() for own in known):
                raise InputError(
                    f"{_name(self._ours)} has operators of the time of {_name(theirs)} already",
                    hint="merge each trace once, into the recording that warpline profile wrote",
                )
            known.append(starts)

    def _own_starts(self, process: int) -> I64:
        """Return when the operators of a process begin that the recording has."""
        if not self._ours.has(_OPERATORS):
            return np.zeros(0, np.int64)
        columns = self._ours.columns(_OPERATORS, "process_id", "start_ns")
        starts: I64 = columns["start_ns"].values[columns["process_id"].values == process]
        return starts

    def _has_better(self, table: str) -> bool:
        return table == "collective" and self._ours.has(table) and self._ours.row_count(table) > 0

    def _add_rows(
        self,
        theirs: Trace,
        table: str,
        rows: Rows,
        devices: I64,
        shift_ns: int,
        first_operator: int,
    ) -> None:
        spec = TABLES[table]
        columns = theirs.columns(table, *(column.name for column in spec.columns))
        is_kept = rows.process[columns["process_id"].values] >= 0
        if table == _OPERATORS:
            self._operators += int(np.count_nonzero(is_kept))
        if table == "range":
            is_kept &= ~self._known_ranges(theirs, rows, shift_ns)
        chosen = np.flatnonzero(is_kept)
        parts = self._parts.setdefault(table, {column.name: [] for column in spec.columns})
        places = {
            "process": rows.process,
            _THREAD: rows.thread,
            "device": devices,
            _OPERATORS: _places(theirs, rows, first_operator),
        }
        for column in spec.columns:
            data = columns[column.name].take(chosen)
            if column.ref == "string":
                data = translated(data, theirs.strings, self._ours.strings)
            elif column.ref is not None:
                data = _renumbered(column, data, places.get(column.ref))
            elif column.is_time:
                data = make_column(column, data.values + shift_ns, data.valid)
            parts[column.name].append(data)

    def _known_ranges(self, theirs: Trace, rows: Rows, shift_ns: int) -> BoolArray:
        """Return which ranges the recording has already, or that only have a time."""
        columns = theirs.columns("range", "name_id", "domain_id", "thread_id", "start_ns", "end_ns")
        names, domains, threads, *times = columns.values()
        distinct, codes = np.unique(names.filled(0), return_inverse=True)
        texts = theirs.strings.texts(distinct.tolist()) if len(codes) else []
        tell_time = np.array([text.startswith(CLOCK) for text in texts], np.bool_)[codes]
        own_names = translated(names, theirs.strings, self._ours.strings).values.astype(np.int64)
        spans = NamedSpans(
            own_names, rows.thread[threads.values], *(time.values + shift_ns for time in times)
        )
        is_known: BoolArray = tell_time | are_among(spans, self._ranges())
        of_modules = theirs.strings.find(MODULE_DOMAIN)
        if of_modules is not None and self._has_modules():
            is_known |= domains.is_valid() & (domains.values == of_modules)
        return is_known

    def _has_modules(self) -> bool:
        if self._ours.has("range"):
            self._ours.columns("range", "domain_id")  # so that the pool has its texts
        return self._ours.strings.find(MODULE_DOMAIN) is not None

    def _ranges(self) -> NamedSpans:
        """Return the named ranges of the recording."""
        if not self._ours.has("range"):
            return NamedSpans(*(np.zeros(0, np.int64) for _ in NamedSpans._fields))
        columns = self._ours.columns("range", "name_id", "thread_id", "start_ns", "end_ns")
        rows = np.flatnonzero(columns["name_id"].is_valid())
        return NamedSpans(*(data.values[rows].astype(np.int64) for data in columns.values()))


def read_texts(trace: Trace) -> None:
    """Have the source read its texts: sources do with their first text, before texts are added."""
    for table in trace.tables:
        for column in TABLES[table].columns:
            if column.ref == "string" and not len(trace.strings):
                trace.columns(table, column.name)


def _name(trace: Trace) -> str:
    return trace.meta.paths[0].name if trace.meta.paths else "the recording"


def _pids(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:_SHOWN])) + (", ..." if len(pids) > _SHOWN else "")
    return f"process {shown}" if len(pids) == 1 else f"processes {shown}"


def _rows_by_number(trace: Trace, table: str, column: str) -> dict[int, int]:
    numbers = trace.columns(table, column)[column].values.tolist() if trace.has(table) else []
    return {number: row for row, number in enumerate(numbers)}


def _threads(trace: Trace) -> dict[tuple[int, int], int]:
    if not trace.has(_THREAD):
        return {}
    columns = trace.columns(_THREAD, "process_id", "tid")
    keys = zip(columns["process_id"].values.tolist(), columns["tid"].values.tolist(), strict=True)
    return {key: row for row, key in enumerate(keys)}


def _devices(ours: Trace, theirs: Trace) -> I64:
    """Return the device of the recording for each of a trace, by index; -1 for none."""
    if not theirs.has("device"):
        return np.zeros(0, np.int64)
    known = _rows_by_number(ours, "device", "gpu_index")
    indices = theirs.columns("device", "gpu_index")["gpu_index"].values.tolist()
    return np.array([known.get(index, _NOT_THERE) for index in indices], np.int64)


def _span_of_operators(trace: Trace) -> tuple[int, int] | None:
    if not trace.has(_OPERATORS) or not trace.row_count(_OPERATORS):
        return trace.meta.span_ns
    columns = trace.columns(_OPERATORS, "start_ns", "end_ns")
    return int(columns["start_ns"].values.min()), int(columns["end_ns"].values.max())


def _places(theirs: Trace, rows: Rows, first: int) -> I64:
    """Return the row of each operator of a trace among all that are added; -1 if it is not."""
    if not theirs.has(_OPERATORS):
        return np.zeros(0, np.int64)
    is_kept = rows.process[theirs.columns(_OPERATORS, "process_id")["process_id"].values] >= 0
    return np.where(is_kept, first + np.cumsum(is_kept) - 1, _NOT_THERE)


def _renumbered(column: Column, data: ColumnData, places: I64 | None) -> ColumnData:
    """Return references by the rows in the recording, null where there is none."""
    if places is None or not len(places):
        return null_column(column, len(data))
    found = np.where(data.is_valid(), places[data.values], _NOT_THERE)
    return make_column(column, np.maximum(found, 0), found >= 0 if column.nullable else None)
