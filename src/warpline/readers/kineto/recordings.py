"""The table event_record, from event-record events or from waits that name a recording."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I64
from warpline.readers.kineto.fields import Reading
from warpline.readers.kineto.kinds import Kind
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column


class EventRecords:
    """Rows of event_record. Its ``event_sync_id`` is the correlation of the call that recorded.

    A trace may have an event for each recording. Most have none, so only recordings referred to
    by a wait are known.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __len__(self) -> int:
        return len(self._places)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns, without those that are entirely null."""
        dimensions = self._reading.dimensions
        values = {
            "device_id": dimensions.device_row[self._places],
            "context_id": dimensions.context_row[self._places],
            "stream_id": self._streams,
            "process_id": dimensions.places.process[self._places],
            "correlation_id": self._correlations,
            "event_id": self._numbers,
            "event_sync_id": self._correlations,
        }
        spec = TABLES["event_record"]
        return {n: make_column(spec.column(n), values[n]) for n in columns if n in values}

    @cached_property
    def _own_rows(self) -> I64:
        return self._reading.events.rows(Kind.EVENT_RECORD)

    @cached_property
    def _places(self) -> I64:
        dimensions = self._reading.dimensions
        if len(self._own_rows):
            return dimensions.places_of(self._own_rows)
        return dimensions.recordings.wait

    @cached_property
    def _streams(self) -> np.ndarray:
        dimensions = self._reading.dimensions
        if len(self._own_rows):
            return dimensions.stream_row[0][self._places]
        return dimensions.recorded_stream_row

    @cached_property
    def _correlations(self) -> I64:
        if len(self._own_rows):
            return self._reading.events.correlations(self._own_rows)[0]
        return self._reading.dimensions.recordings.correlation

    @cached_property
    def _numbers(self) -> I64:
        rows = self._reading.dimensions.places.rows[self._places]
        keys = ("event_id", "cuda_event_id", "wait_on_cuda_event_id")
        return self._reading.events.integers(rows, *keys)[0]
