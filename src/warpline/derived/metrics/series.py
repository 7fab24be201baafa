"""The samples of each hardware metric, from both forms in which recordings have them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from warpline.derived import derived
from warpline.errors import CorruptTraceError
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64
from warpline.schema.counters import BLOCK_SAMPLES
from warpline.trace import Trace

NO_DEVICE = -1  # the device of a metric that is not of a GPU, such as of a network adapter
_LONGEST_NS = 1 << 50  # of a block: 13 days


@frozen
class MetricSeries:
    """The samples of one metric of one GPU.

    Attributes:
        device: Row of the device table; `NO_DEVICE` if the metric is not of a GPU.
        metric: Row of the metric table.
        name: The metric's name with its unit, as recorded.
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64. Intervals are half-open and do not overlap; there may be gaps.
        value: Shape (n,), float64, finite.
    """

    device: int
    metric: int
    name: str
    start_ns: I64
    end_ns: I64
    value: F64

    def __len__(self) -> int:
        return len(self.value)

    @property
    def covered_ns(self) -> int:
        """The time that has samples."""
        return int((self.end_ns - self.start_ns).sum())

    def between(self, low_ns: int, high_ns: int) -> MetricSeries:
        """Return the samples that overlap ``[low_ns, high_ns)``, whole."""
        first = int(np.searchsorted(self.end_ns, low_ns, side="right"))
        last = max(int(np.searchsorted(self.start_ns, high_ns, side="left")), first)
        part = slice(first, last)
        return MetricSeries(
            self.device,
            self.metric,
            self.name,
            self.start_ns[part],
            self.end_ns[part],
            self.value[part],
        )


@derived
def metric_series(trace: Trace) -> tuple[MetricSeries, ...]:
    """Return the samples of each metric that has some, by device and row of the metric.

    Values with a time of their own (table counter) last until the next one of their metric, the
    last one as long as most. Values that are not finite are left out. In a part of a trace, samples
    are those that overlap its time.

    Raises:
        CorruptTraceError: A block has impossible times, or refers to codes that do not exist.
    """
    parts: dict[tuple[int, int], list[tuple[I64, I64, F64]]] = defaultdict(list)
    for key, part in _timed(trace):
        parts[key].append(part)
    for key, part in _blocks(trace):
        parts[key].append(part)
    names = _names(trace)
    times: tuple[I64, I64] | None = None
    found: list[MetricSeries] = []
    for device, metric in sorted(parts):
        pieces = parts.pop((device, metric))
        start, end, value = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        if len(pieces) > 1:
            order = np.argsort(start, kind="stable")
            start, end, value = start[order], end[order], value[order]
        end[:-1] = np.minimum(end[:-1], start[1:])
        # Metrics that were sampled together share their times: these are most of the memory.
        if times is not None and all(map(np.array_equal, times, (start, end))):
            start, end = times
        times = start, end
        series = MetricSeries(device, metric, names[metric], start, end, value)
        found.append(series if trace.is_whole else series.between(*trace.span()))
    return tuple(series for series in found if len(series))


def _timed(trace: Trace) -> Iterator[tuple[tuple[int, int], tuple[I64, I64, F64]]]:
    """Yield the values of the table counter: device and metric; starts, ends and values."""
    if not trace.has("counter") or not trace.row_count("counter"):
        return
    columns = trace.columns("counter", "time_ns", "device_id", "metric_id", "value")
    device = columns["device_id"].filled(NO_DEVICE).astype(np.int64)
    metric, value = columns["metric_id"].values.astype(np.int64), columns["value"].values
    cell = device * (1 << 32) + metric
    cell = np.where(np.isfinite(value), cell, np.iinfo(np.int64).min)
    order = np.argsort(cell, kind="stable")  # rows are in order of time
    begins = np.flatnonzero(np.diff(cell[order], prepend=np.iinfo(np.int64).min))
    for rows in np.split(order, begins)[1:]:
        start = columns["time_ns"].values[rows]
        steps = np.diff(start)
        last = int(np.median(steps)) if len(steps) else 0
        end = start + np.append(steps, last)
        yield (int(device[rows[0]]), int(metric[rows[0]])), (start, end, value[rows])


def _blocks(trace: Trace) -> Iterator[tuple[tuple[int, int], tuple[I64, I64, F64]]]:
    """Yield each block of regular samples: device and metric; starts, ends and values."""
    if not trace.has("counter_block"):
        return
    keys = ("start_ns", "end_ns", "samples", "scale", "device_id", "metric_id", "first_code_id")
    columns = trace.columns("counter_block", *keys)
    codes = np.zeros(0, np.uint16)
    if trace.has("counter_code"):
        codes = trace.columns("counter_code", "code")["code"].values
    start, end, samples, scale = (columns[key].values.tolist() for key in keys[:4])
    device = columns["device_id"].filled(NO_DEVICE).tolist()
    metric = columns["metric_id"].values.tolist()
    first = columns["first_code_id"].filled(-1).tolist()
    for row, count in enumerate(samples):
        place = first[row]
        is_right = 0 < count <= BLOCK_SAMPLES and 0 <= end[row] - start[row] <= _LONGEST_NS
        if not is_right or (place >= 0 and place + count > len(codes)):
            raise CorruptTraceError(
                "the sampled metrics are damaged: a block has impossible times or no values",
                hint="the other tables can be read; record again for the metrics",
            )
        edges = start[row] + (end[row] - start[row]) * np.arange(count + 1) // count
        value = np.full(count, scale[row])
        if place >= 0:
            value = codes[place : place + count] * float(scale[row])
        if np.isfinite(scale[row]):
            yield (device[row], metric[row]), (edges[:-1], edges[1:], value)


def _names(trace: Trace) -> list[str]:
    if not trace.has("metric"):
        return []
    rows = trace.columns("metric", "name_id")["name_id"].values.tolist()
    return [trace.strings.text(row) for row in rows]
