"""Metrics as the page shows them: their label, unit and values."""

from __future__ import annotations

from typing import NamedTuple

from warpline.derived.metrics.known import in_unit, known_metric
from warpline.derived.metrics.series import MetricSeries
from warpline.units import Unit

_CLOCK = "gpu_clock"
_PERCENT = (".pct_of_peak_sustained_elapsed", ".pct_of_peak_sustained_active", ".pct")


class ShownMetric(NamedTuple):
    """A metric for people.

    Attributes:
        label: A short name; the recorded one if the meaning is unknown.
        unit: Unit of the values: of `warpline.units.Unit`, ``percent``, or ``none``.
        axis_max: The most that the values can be; None if that is not known.
        series: Its samples, in the unit.
    """

    label: str
    unit: str
    axis_max: float | None
    series: MetricSeries


def shown_metric(series: MetricSeries, clock_hz: float | None = None) -> ShownMetric:
    """Return the label of a metric, and its values with their unit.

    Args:
        series: Its samples.
        clock_hz: The highest clock of its GPU's SMs, if that is known.
    """
    name = series.name
    known = known_metric(name)
    if known is not None:
        label = name if known.is_part else known.meaning.label
        unit = known.meaning.unit
        most = 1.0 if unit is Unit.RATIO else None
        if known.meaning.id == _CLOCK:
            most = clock_hz
        return ShownMetric(label, unit.value, most, in_unit(series, known.form))
    # A name of nsys has the unit in brackets, a name of CUPTI in its ending.
    if name.endswith(_PERCENT) or "%" in name.rpartition("[")[2]:
        return ShownMetric(name, "percent", 100.0, series)
    return ShownMetric(name, "none", None, series)
