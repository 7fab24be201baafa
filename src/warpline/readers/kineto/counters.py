"""The table counter and its dimension metric: the sampled values of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64
from warpline.readers.kineto.fields import Reading
from warpline.readers.kineto.kinds import Kind
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column

_PLAIN_KEYS = frozenset(("", "value"))


class _Samples(NamedTuple):
    """One row per value: the event, the row of its metric, and the value."""

    event: I64
    metric: I64
    value: F64


class Counters:
    """Rows of counter. An event holds one value, or several by name."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __len__(self) -> int:
        return len(self._samples.event)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, in the order of their rows."""
        return self._read[1]

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table counter."""
        return {name: self._column(name) for name in columns}

    def _column(self, name: str) -> ColumnData:
        spec = TABLES["counter"].column(name)
        events, samples = self._reading.events, self._samples
        if name == "time_ns":
            return make_column(spec, events.scan.ts_ns[samples.event] - self._reading.origin_ns)
        if name == "device_id":
            numbers = events.per_pid(samples.event)
            rows, known = self._reading.dimensions.devices_of(numbers)
            return make_column(spec, rows, known)
        return make_column(spec, samples.metric if name == "metric_id" else samples.value)

    @property
    def _samples(self) -> _Samples:
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[_Samples, list[str]]:
        events = self._reading.events
        rows = events.rows(Kind.COUNTER)
        names: dict[str, int] = {}
        parts = [_Samples(rows[:0], rows[:0], np.zeros(0))]
        for key, (owners, values) in (events.reals(rows) if len(rows) else {}).items():

            def metric(text: str, key: str = key) -> int:
                full = text if key in _PLAIN_KEYS or key == text else f"{text} {key}".strip()
                return names.setdefault(full, len(names))

            parts.append(_Samples(owners, events.per_name(owners, metric), values))
        joined = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return _Samples(*joined), list(names)


class Metrics:
    """Rows of metric."""

    def __init__(self, reading: Reading, counters: Counters) -> None:
        self._reading = reading
        self._counters = counters

    def __len__(self) -> int:
        return len(self._counters.metrics)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the dimension metric."""
        intern = self._reading.events.pool.intern_text
        rows = np.array([intern(name) for name in self._counters.metrics], np.int32)
        return {name: make_column(TABLES["metric"].column(name), rows) for name in columns}
