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
_BLOCK_COLUMNS = (
    *("start_ns", "end_ns", "samples", "scale"),
    *("device_id", "metric_id", "first_code_id"),
)
_REGULAR = 0.9  # share of the times between values that differ by at most half from the median
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
    last one as long as most. If most are equally far apart, none lasts longer than that: what is
    missing then is a gap. Values that are not finite are left out. In a part of a trace, samples
    are those that overlap its time.

    Raises:
        CorruptTraceError: A block has impossible times, or refers to codes that do not exist.
    """
    timed, blocks, names = dict(_timed(trace)), _Blocks(trace), _names(trace)
    found: list[MetricSeries] = []
    for key in sorted({*timed, *blocks.rows}):
        pieces = [*blocks.samples(key), *([timed[key]] if key in timed else [])]
        if not pieces:
            continue
        start, end, value = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        if np.any(start[1:] < start[:-1]):
            order = np.argsort(start, kind="stable")
            start, end, value = start[order], end[order], value[order]
        end[:-1] = np.minimum(end[:-1], start[1:])
        if found and _are_same((start, end), (found[-1].start_ns, found[-1].end_ns)):
            # Metrics of a pass are sampled at the same times: they are in memory once.
            start, end = found[-1].start_ns, found[-1].end_ns
        found.append(MetricSeries(*key, names[key[1]], start, end, value))
    if not trace.is_whole:
        found = [series.between(*trace.span()) for series in found]
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
        yield (int(device[rows[0]]), int(metric[rows[0]])), (start, _ends(start), value[rows])


def _ends(start: I64) -> I64:
    """Return when values end that begin at some times, shape (n,): as `metric_series` says."""
    steps = np.diff(start)
    usual = int(np.median(steps)) if len(steps) else 0
    is_usual = np.abs(steps - usual) <= usual // 2
    if len(steps) and is_usual.mean() >= _REGULAR:
        steps = np.minimum(steps, np.where(is_usual, steps, usual))
    end: I64 = start + np.append(steps, usual)
    return end


class _Blocks:
    """The blocks of regular samples.

    Attributes:
        rows: Rows of the table by device and metric.
    """

    def __init__(self, trace: Trace) -> None:
        self.rows: dict[tuple[int, int], list[int]] = defaultdict(list)
        if not trace.has("counter_block"):
            return
        columns = trace.columns("counter_block", *_BLOCK_COLUMNS)
        self._start, self._end, self._count, self._scale = (
            columns[key].values.tolist() for key in _BLOCK_COLUMNS[:4]
        )
        device = columns["device_id"].filled(NO_DEVICE).tolist()
        metric = columns["metric_id"].values.tolist()
        for row, key in enumerate(zip(device, metric, strict=True)):
            self.rows[key].append(row)
        self._first = columns["first_code_id"].filled(-1).tolist()
        self._codes = np.zeros(0, np.uint16)
        if trace.has("counter_code"):
            self._codes = trace.columns("counter_code", "code")["code"].values

    def samples(self, key: tuple[int, int]) -> Iterator[tuple[I64, I64, F64]]:
        """Yield starts, ends and values of each block of a metric."""
        for row in self.rows.get(key, ()):
            start, end, count = self._start[row], self._end[row], self._count[row]
            place, scale = self._first[row], float(self._scale[row])
            is_right = 0 < count <= BLOCK_SAMPLES and 0 <= end - start <= _LONGEST_NS
            if not is_right or (place >= 0 and place + count > len(self._codes)):
                raise CorruptTraceError(
                    "the sampled metrics are damaged: a block has impossible times or no values",
                    hint="the other tables can be read; record again for the metrics",
                )
            if not np.isfinite(scale):
                continue
            edges = start + (end - start) * np.arange(count + 1) // count
            value = np.full(count, scale)
            if place >= 0:
                value = self._codes[place : place + count] * scale
            yield edges[:-1], edges[1:], value


def _are_same(one: tuple[I64, I64], other: tuple[I64, I64]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _names(trace: Trace) -> list[str]:
    if not trace.has("metric"):
        return []
    rows = trace.columns("metric", "name_id")["name_id"].values.tolist()
    return [trace.strings.text(row) for row in rows]
