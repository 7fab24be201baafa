"""Recordings of the ranks of a simulated job: the step of a real recording, again and again.

All events of the step, of CPU and GPU, follow the simulated times of its collectives: what lies
between two collectives is stretched to the time between them. A planted gap is inserted where
neither the CPU nor the GPU does anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from job_timeline import F64, Step, Timeline

from warpline import api
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.frozen import replace
from warpline.schema import TABLES
from warpline.trace import Run, Trace
from warpline.trace.column import ColumnData, make_column
from warpline.trace.meta import TraceMeta
from warpline.trace.recording import write_recording
from warpline.trace.strings import StringPool

I64 = npt.NDArray[np.int64]
_GPU = ("kernel", "memcpy", "memset")
_JOINED = ("stream_wait", "event_record")
_DIMENSIONS = ("process", "thread", "device", "context", "stream")
_TIMES = ("start_ns", "end_ns", "device_time_ns")
_DROPPED = ("stack_id", "op_id")


@dataclass(frozen=True)
class Template:
    """The step of a recording that is repeated.

    Attributes:
        trace: The recording.
        rows: Its rows of each table.
        step: Its work and transfers.
        anchors_ns: Shape (2 + 2 x collectives,): begin, start and end of each collective, end.
        quiet_ns: A moment before the first collective at which nothing happens.
        steps: The name of its range without the number.
    """

    trace: Trace
    rows: Mapping[str, I64]
    step: Step
    anchors_ns: I64
    quiet_ns: int
    name: str


def template(path: Path, number: int = 2) -> Template:
    """Return a step of a real recording of one rank.

    Args:
        path: The recording.
        number: Which of its steps.
    """
    trace = api.open(path)
    found = steps(Run(trace))
    low, high = int(found.host_start_ns[number]), int(found.host_start_ns[number + 1])
    window = int(np.flatnonzero(found.window_step == number)[0])
    begin, end = int(found.window_start_ns[window]), int(found.window_end_ns[window])
    rows = _rows(trace, low, high)
    kernels = operations(trace)
    is_collective = operation_categories(trace) == TimePart.COLLECTIVE
    own = is_collective & (kernels.table == 0) & np.isin(kernels.row, rows["kernel"])
    start, stop = kernels.start_ns[own], kernels.end_ns[own]
    order = np.argsort(start)
    start, stop = start[order], stop[order]
    assert (start[1:] >= stop[:-1]).all(), "collectives overlap"
    anchors = np.concatenate(([begin], np.stack((start, stop), axis=1).reshape(-1), [end]))
    pieces = np.diff(anchors).astype(np.float64)
    return Template(
        trace,
        rows,
        Step(pieces[::2], pieces[1::2]),
        anchors,
        _quiet(trace, rows, begin, int(start[0])),
        found.source.removeprefix("range:"),
    )


def _rows(trace: Trace, low: int, high: int) -> dict[str, I64]:
    """Return the rows of a step: calls that begin in it, and what they launched."""
    rows = {}
    for name in ("api_call", "range"):
        start = trace.columns(name, "start_ns")["start_ns"].values
        rows[name] = np.flatnonzero((start >= low) & (start < high))
    ids = trace.columns("api_call", "correlation_id")["correlation_id"].values[rows["api_call"]]
    for name in (*_GPU, *_JOINED):
        if trace.has(name):
            own = trace.columns(name, "correlation_id")["correlation_id"].values
            rows[name] = np.flatnonzero(np.isin(own, ids))
    return rows


def _quiet(trace: Trace, rows: Mapping[str, I64], low: int, high: int) -> int:
    """Return the middle of the longest time without calls and operations."""
    spans = []
    for name in ("api_call", *_GPU):
        columns = trace.columns(name, "start_ns", "end_ns")
        start, end = (columns[key].values[rows[name]] for key in ("start_ns", "end_ns"))
        near = (end > low) & (start < high)
        spans += list(zip(start[near].tolist(), end[near].tolist(), strict=True))
    best, reach = (0, low), low
    for start, end in sorted(spans):
        best = max(best, (start - reach, (start + reach) // 2)) if start > reach else best
        reach = max(reach, end)
    return best[1]


class Replicated:
    """A source of tables: a rank of a simulated job."""

    def __init__(self, base: Template, times: Timeline, rank: int, meta: TraceMeta) -> None:
        self._base, self._times, self._rank = base, times, rank
        self._meta = meta
        self._strings = base.trace.strings  # it only grows
        self._steps = times.arrival_ns.shape[1]
        stem = base.name.removesuffix("*")
        self._names = [self._strings.intern_text(f"{stem}{i}") for i in range(self._steps)]
        self._maps = [self._map(step) for step in range(self._steps)]

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording."""
        return self._meta

    @property
    def strings(self) -> StringPool:
        """The texts."""
        return self._strings

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return [*self._base.rows, *_DIMENSIONS]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        if table in _DIMENSIONS:
            return self._base.trace.row_count(table)
        return int(len(self._base.rows[table]) * self._steps)

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return some columns."""
        wanted = [name for name in columns if name not in _DROPPED]
        given = self._base.trace.columns(table, *wanted)
        if table in _DIMENSIONS:
            return {name: self._dimension(table, name, data) for name, data in given.items()}
        rows = self._base.rows[table]
        return {name: self._repeated(table, name, data.take(rows)) for name, data in given.items()}

    def _dimension(self, table: str, name: str, data: ColumnData) -> ColumnData:
        if (table, name) == ("process", "rank"):
            return make_column(TABLES[table].column(name), np.full(len(data), self._rank))
        return data

    def _repeated(self, table: str, name: str, data: ColumnData) -> ColumnData:
        values, count = data.values, len(data)
        if name in _TIMES:
            parts: list[npt.NDArray[Any]] = [
                self._moved(step, values) for step in range(self._steps)
            ]
        elif name in {"correlation_id", "event_sync_id", "source_id"}:
            parts = [values.astype(np.int64) + step * _SPAN for step in range(self._steps)]
        elif (table, name) == ("range", "name_id"):
            parts = [self._renamed(values, step) for step in range(self._steps)]
        else:
            parts = [values] * self._steps
        valid = None if data.valid is None else np.tile(data.valid, self._steps)
        merged = np.concatenate(parts) if count else values
        return make_column(TABLES[table].column(name), merged, valid)

    def _renamed(self, values: npt.NDArray[np.int32], step: int) -> npt.NDArray[np.int32]:
        texts = self._base.trace.strings
        stem = self._base.name.removesuffix("*")
        is_step = {row for row in set(values.tolist()) if texts.text(row).startswith(stem)}
        renamed = [self._names[step] if row in is_step else row for row in values.tolist()]
        return np.array(renamed, np.int32)

    def _map(self, step: int) -> tuple[F64, F64]:
        """Return times of the template and where they are in a step, on the rank's clock."""
        times, rank = self._times, self._rank
        begin, end = times.begin_ns[rank, step], times.begin_ns[rank, step + 1]
        pairs = np.stack((times.arrival_ns[rank, step], times.end_ns[rank, step]), axis=1)
        new = np.concatenate(([begin], pairs.reshape(-1), [end]))
        old = self._base.anchors_ns.astype(np.float64)
        gap = times.gap_ns[rank, step]
        if gap:
            quiet = float(self._base.quiet_ns)
            rate = (new[1] - gap - begin) / (old[1] - old[0])
            before = begin + (quiet - old[0]) * rate
            old = np.concatenate((old[:1], [quiet, quiet + 1.0], old[1:]))
            new = np.concatenate((new[:1], [before, before + gap], new[1:]))
        return old, self._times.on_clock(rank, new)

    def _moved(self, step: int, values: I64) -> I64:
        old, new = self._maps[step]
        at = values.astype(np.float64)
        moved = np.interp(at, old, new)
        moved += np.where(at < old[0], at - old[0], 0) + np.where(at > old[-1], at - old[-1], 0)
        result: I64 = np.rint(moved).astype(np.int64)
        return result


_SPAN = 1_000_000_000  # between ids of two steps


def write(base: Template, times: Timeline, rank: int, path: Path, host: str) -> None:
    """Write the recording of a rank."""
    meta = replace(base.trace.meta, paths=(path,), host=host, span_ns=None, warnings=())
    write_recording(Trace(Replicated(base, times, rank, meta)), path)
