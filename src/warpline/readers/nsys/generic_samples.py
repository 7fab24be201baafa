"""Rows of the table counter from generic events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.ops.arrays import taken
from warpline.readers.nsys.fields import Reading
from warpline.readers.nsys.generic import GenericEvents
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column


class GenericSamples:
    """The samples that are generic events, a row per metric.

    Args:
        reading: What rows refer to.
        generic: The events.
    """

    def __init__(self, reading: Reading, generic: GenericEvents) -> None:
        self._reading = reading
        self._generic = generic

    def __len__(self) -> int:
        return len(self._generic.samples.time_ns)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table counter."""
        return {name: self._column(name) for name in columns}

    def _column(self, name: str) -> ColumnData:
        spec, samples = TABLES["counter"].column(name), self._generic.samples
        metrics, dimensions = self._reading.metrics, self._reading.dimensions
        if name == "time_ns":
            return make_column(spec, samples.time_ns)
        if name == "value":
            return make_column(spec, samples.values / metrics.generic_divisors[samples.series])
        if name == "metric_id":
            rows = [dimensions.metric_row[series.name] for series in metrics.generic_series]
            return make_column(spec, taken(np.array(rows, np.int32), samples.series))
        gpus = [series.gpu for series in metrics.generic_series]
        devices = [0 if gpu is None else dimensions.device_row[gpu] for gpu in gpus]
        is_valid = np.array([gpu is not None for gpu in gpus], np.bool_)
        values = taken(np.array(devices, np.int32), samples.series)
        return make_column(spec, values, taken(is_valid, samples.series))
