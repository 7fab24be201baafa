"""Metrics as the page shows them: their label, unit and values."""

from __future__ import annotations

from typing import NamedTuple

from warpline.derived.metrics.series import MetricSeries

_PERCENT = (".pct_of_peak_sustained_elapsed", ".pct_of_peak_sustained_active", ".pct")


class ShownMetric(NamedTuple):
    """A metric for people.

    Attributes:
        label: A short name; the recorded one if the metric is unknown.
        unit: Unit of the values: of `warpline.units.Unit`, ``percent``, or ``none``.
        axis_max: The most that the values can be; None if that is not known.
        series: Its samples.
    """

    label: str
    unit: str
    axis_max: float | None
    series: MetricSeries


def shown_metric(series: MetricSeries) -> ShownMetric:
    """Return the label of a metric, and its values with their unit.

    A name of nsys has the unit in brackets, a name of CUPTI in its ending.
    """
    name = series.name
    if name.endswith(_PERCENT) or "%" in name.rpartition("[")[2]:
        return ShownMetric(name, "percent", 100.0, series)
    return ShownMetric(name, "none", None, series)
