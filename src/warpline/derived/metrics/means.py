"""Means of samples over spans of time, weighted by time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.metrics.series import MetricSeries
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.interval import union

_LEAST_COVERED = 0.5  # of a span: with fewer samples, it has no mean
_LEAST_SAMPLES = 2.0  # in a span: shorter ones are not resolved


class Means(NamedTuple):
    """The mean of a metric in spans.

    Attributes:
        value: Shape (n,), float64, in the metric's unit; 0 where there is none.
        is_known: Shape (n,), bool.
    """

    value: F64
    is_known: BoolArray


class Integral:
    """The sums of a metric over time, for means in many spans.

    Args:
        series: The samples.

    Attributes:
        period_ns: The median length of a sample; 0 without samples.
    """

    def __init__(self, series: MetricSeries) -> None:
        self._series = series
        lengths = (series.end_ns - series.start_ns).astype(np.float64)
        self.period_ns = float(np.median(lengths)) if len(series) else 0.0
        # Up to each start of a sample, the sums of all before.
        self._covered = np.append(0.0, np.cumsum(lengths))
        self._weighted = np.append(0.0, np.cumsum(series.value * lengths))

    def mean(self) -> float | None:
        """Return the mean of all samples; None if they cover no time."""
        covered_ns = float(self._covered[-1])
        return float(self._weighted[-1]) / covered_ns if covered_ns > 0 else None

    def means_in(self, start_ns: I64, end_ns: I64) -> Means:
        """Return the mean in each span. Of a sample, the part that lies in the span counts.

        A span has none if it is shorter than two samples, or if samples cover less than half of it.

        Args:
            start_ns: Shape (n,), int64, of spans in any order.
            end_ns: Shape (n,), int64, none before its start.
        """
        value, covered_ns = self._sums(start_ns, end_ns)
        length = end_ns - start_ns
        known = (covered_ns > 0) & (covered_ns >= _LEAST_COVERED * length)
        known &= length >= _LEAST_SAMPLES * self.period_ns
        return Means(np.divide(value, covered_ns, out=np.zeros_like(value), where=known), known)

    def mean_of(self, start_ns: I64, end_ns: I64) -> float | None:
        """Return the mean over some spans together; None where `means_in` would have none.

        Args:
            start_ns: Shape (n,), int64, of spans in any order; time in several counts once.
            end_ns: Shape (n,), int64, none before its start.
        """
        start, end = union(start_ns, end_ns)
        value, covered_ns = self._sums(start, end)
        is_long = end - start >= _LEAST_SAMPLES * self.period_ns
        sampled = float(covered_ns[is_long].sum())
        if sampled <= 0 or sampled < _LEAST_COVERED * float((end - start)[is_long].sum()):
            return None
        return float(value[is_long].sum()) / sampled

    def _sums(self, start_ns: I64, end_ns: I64) -> tuple[F64, F64]:
        """Return in each span the sum of value times ns, and the ns that have samples."""
        if not len(self._series):
            return np.zeros(len(start_ns)), np.zeros(len(start_ns))
        (value, ns), (value_before, ns_before) = self._until(end_ns), self._until(start_ns)
        return value - value_before, ns - ns_before

    def _until(self, times: I64) -> tuple[F64, F64]:
        series = self._series
        place = np.searchsorted(series.start_ns, times, side="right") - 1
        at = np.maximum(place, 0)
        inside = np.clip(times, series.start_ns[at], series.end_ns[at]) - series.start_ns[at]
        inside = np.where(place >= 0, inside, 0)
        return self._weighted[at] + series.value[at] * inside, self._covered[at] + inside


def mean_of_spans(series: MetricSeries, start_ns: I64, end_ns: I64) -> float | None:
    """Return the mean over some spans together, see `Integral.mean_of`."""
    return Integral(series).mean_of(start_ns, end_ns)
