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


def period_ns(series: MetricSeries) -> float:
    """Return the median length of a sample; 0 without samples."""
    return float(np.median(series.end_ns - series.start_ns)) if len(series) else 0.0


def mean(series: MetricSeries) -> float | None:
    """Return the mean of all samples by time; None if they cover none."""
    value, covered_ns = _sums(series, series.start_ns[:1], series.end_ns[-1:])
    return float(value[0] / covered_ns[0]) if len(covered_ns) and covered_ns[0] > 0 else None


def means_in(series: MetricSeries, start_ns: I64, end_ns: I64) -> Means:
    """Return the mean in each span. A sample counts with the part of it that lies in the span.

    A span has none if it is shorter than two samples, or if samples cover less than half of it.

    Args:
        series: The samples.
        start_ns: Shape (n,), int64, of spans in any order.
        end_ns: Shape (n,), int64, none before its start.
    """
    value, covered_ns = _sums(series, start_ns, end_ns)
    length = end_ns - start_ns
    known = (covered_ns > 0) & (covered_ns >= _LEAST_COVERED * length)
    known &= length >= _LEAST_SAMPLES * period_ns(series)
    return Means(np.divide(value, covered_ns, out=np.zeros_like(value), where=known), known)


def mean_of_spans(series: MetricSeries, start_ns: I64, end_ns: I64) -> float | None:
    """Return the mean over all spans together; None where none of them has one.

    Args:
        series: The samples.
        start_ns: Shape (n,), int64, of spans in any order; time in several counts once.
        end_ns: Shape (n,), int64, none before its start.
    """
    start, end = union(start_ns, end_ns)
    value, covered_ns = _sums(series, start, end)
    long = end - start >= _LEAST_SAMPLES * period_ns(series)
    sampled = float(covered_ns[long].sum())
    if sampled <= 0 or sampled < _LEAST_COVERED * float((end - start)[long].sum()):
        return None
    return float(value[long].sum()) / sampled


def _sums(series: MetricSeries, start_ns: I64, end_ns: I64) -> tuple[F64, F64]:
    """Return in each span the sum of value times ns, and the ns that have samples."""
    if not len(series):
        return np.zeros(len(start_ns)), np.zeros(len(start_ns))
    lengths = (series.end_ns - series.start_ns).astype(np.float64)
    # Up to each start of a sample: the sums of all before.
    covered = np.append(0.0, np.cumsum(lengths))
    weighted = np.append(0.0, np.cumsum(series.value * lengths))

    def until(times: I64) -> tuple[F64, F64]:
        place = np.searchsorted(series.start_ns, times, side="right") - 1
        at = np.maximum(place, 0)
        inside = np.clip(times - series.start_ns[at], 0, lengths[at])
        inside = np.where(place >= 0, inside, 0.0)
        return weighted[at] + series.value[at] * inside, covered[at] + inside

    (value, ns), (value_before, ns_before) = until(end_ns), until(start_ns)
    return value - value_before, ns - ns_before
