"""How the columns of a trace's tables are made from events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from warpline.ops.arrays import I64
from warpline.readers.kineto.dimensions import Dimensions
from warpline.readers.kineto.events import Events
from warpline.schema import Column
from warpline.trace.column import ColumnData, make_column


@dataclass(frozen=True)
class Reading:
    """What fields read from.

    Attributes:
        events: The events.
        dimensions: Processes, threads, devices, contexts and streams.
        origin_ns: The file's time that becomes 0 in the trace.
    """

    events: Events
    dimensions: Dimensions
    origin_ns: int


Field = Callable[[Reading, I64, Column], ColumnData]
"""Returns a column for some events."""


def start_ns(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return when events began."""
    return make_column(spec, reading.events.scan.ts_ns[rows] - reading.origin_ns)


def end_ns(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return when events ended, null without a duration."""
    scan = reading.events.scan
    return make_column(spec, scan.ts_ns[rows] - reading.origin_ns + scan.dur_ns[rows])


def process(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the process of CPU events."""
    return make_column(spec, reading.dimensions.processes_of(rows))


def thread(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the thread of CPU events."""
    return make_column(spec, reading.dimensions.threads_of(rows))


def name(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the names of events."""
    return make_column(spec, reading.events.names(rows))


def launcher(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the process that launched GPU operations."""
    dimensions = reading.dimensions
    return make_column(spec, dimensions.places.process[dimensions.places_of(rows)])


def device(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the device of GPU operations."""
    dimensions = reading.dimensions
    return make_column(spec, dimensions.device_row[dimensions.places_of(rows)])


def context(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the context of GPU operations."""
    dimensions = reading.dimensions
    return make_column(spec, dimensions.context_row[dimensions.places_of(rows)])


def stream(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the stream of GPU operations, null if unnamed."""
    dimensions = reading.dimensions
    values, valid = dimensions.stream_row
    places = dimensions.places_of(rows)
    return make_column(spec, values[places], valid[places] if spec.nullable else None)


def correlation(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the correlation that links GPU operations to their launch calls."""
    values, valid = reading.events.correlations(rows)
    return make_column(spec, np.where(valid, values, 0), valid)


def constant(value: int) -> Field:
    """Return the same value for every event."""

    def load(reading: Reading, rows: I64, spec: Column) -> ColumnData:
        return make_column(spec, np.full(len(rows), value))

    return load


def number(*keys: str, null: int | None = None) -> Field:
    """Return an argument as an integer: null, or 0 where the column allows no null.

    Args:
        keys: Its names. The first one present counts.
        null: A value that means none.
    """

    def load(reading: Reading, rows: I64, spec: Column) -> ColumnData:
        values, valid = reading.events.integers(rows, *keys)
        if null is not None:
            valid &= values != null
        values[~valid] = 0
        return make_column(spec, values, valid if spec.nullable else None)

    return load


def text(*keys: str) -> Field:
    """Return a text or JSON argument, null if absent."""

    def load(reading: Reading, rows: I64, spec: Column) -> ColumnData:
        values, valid = reading.events.texts_of(rows, *keys)
        return make_column(spec, values, valid)

    return load
