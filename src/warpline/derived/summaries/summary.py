"""The common shape of all summaries: one row per group of events, largest total first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.derived.summaries.events import Events
from warpline.derived.texts import labelled
from warpline.ops.arrays import I64
from warpline.ops.group import CollectedStats, GroupStats, group_stats
from warpline.result import Field, Numbers, Result, Values
from warpline.units import Unit

_SHARE = "Share of the total time of all rows in this table, not of the program's time."
AnyStats = GroupStats | CollectedStats
PERCENTS = (95, 99)

_STATISTICS: Mapping[str, Callable[[AnyStats], npt.NDArray[Any]]] = {
    "total": lambda stats: stats.sum,
    "instances": lambda stats: stats.count,
    "mean": lambda stats: stats.mean,
    "median": lambda stats: stats.median,
    "min": lambda stats: stats.min,
    "max": lambda stats: stats.max,
    "stddev": lambda stats: stats.stddev,
    "p95": lambda stats: stats.percentile(95),
    "p99": lambda stats: stats.percentile(99),
}

# Statistic -> heading, description of the statistic of some quantity, digits.
_SPREAD: Mapping[str, tuple[str, str, int | None]] = {
    "mean": ("Avg", "Mean {}.", 1),
    "median": ("Med", "Median {}.", 1),
    "min": ("Min", "Minimum {}.", None),
    "max": ("Max", "Maximum {}.", None),
    "stddev": ("StdDev", "Sample standard deviation of the {}; 0 for a single value.", 1),
}
_SPREAD_EXTRA: Mapping[str, tuple[str, str, int | None]] = {
    "p95": ("P95", "95th percentile of the {}, interpolated.", 1),
    "p99": ("P99", "99th percentile of the {}, interpolated.", 1),
}
_COUNTED = {"Instances": "instances", "Num Calls": "calls", "Count": "operations"}


def time_fields(labels: Sequence[Field], *, count: str = "Instances") -> tuple[Field, ...]:
    """Return the fields of a summary of durations.

    Args:
        labels: The fields that name a row's group; as in nsys, they follow the statistics.
        count: nsys's heading for the number of events.
    """
    share = Field("time_ratio", Unit.RATIO, _SHARE, "Time (%)", 100.0, 1)
    return (share, *_value_fields(labels, Unit.NS, "Total Time", count))


def size_fields(labels: Sequence[Field], *, count: str = "Count") -> tuple[Field, ...]:
    """Return the fields of a summary of sizes, shown in text as MB of 10**6 bytes."""
    return _value_fields(labels, Unit.BYTES, "Total", count)


def _value_fields(labels: Sequence[Field], unit: Unit, total: str, count: str) -> tuple[Field, ...]:
    shown, scale, whole, real = ("MB", 1e-6, 3, 3) if unit is Unit.BYTES else ("ns", 1.0, None, 1)

    subject = "size" if unit is Unit.BYTES else "duration"

    def value(name: str, heading: str, doc: str, digits: int | None) -> Field:
        text = doc.format(subject)
        return Field(f"{name}_{unit.value}", unit, text, f"{heading} ({shown})", scale, digits)

    def values(statistics: Mapping[str, tuple[str, str, int | None]]) -> tuple[Field, ...]:
        return tuple(
            value(name, heading, doc, whole if digits is None else real)
            for name, (heading, doc, digits) in statistics.items()
        )

    return (
        value("total", total, "Total {}.", whole),
        Field("instances", Unit.COUNT, f"Number of {_COUNTED[count]}.", count),
        *values(_SPREAD),
        *labels,
        *values(_SPREAD_EXTRA),
    )


def spread_fields(
    prefix: str, heading: str, subject: str = "kernel duration", *, extra: bool = False
) -> tuple[Field, ...]:
    """Return the fields of `spread`.

    Args:
        prefix: Prefix of the names: ``queue_`` gives ``queue_mean_ns``.
        heading: Prefix of nsys's headings: ``Q`` gives ``QAvg (ns)``.
        subject: The quantity in the descriptions: ``queue time`` gives ``Mean queue time.``
        extra: Whether the fields are the percentiles, which nsys does not have.
    """
    shown = _SPREAD_EXTRA if extra else _SPREAD
    return tuple(
        Field(
            f"{prefix}{name}_ns",
            Unit.NS,
            doc.format(subject),
            f"{heading}{short} (ns)",
            digits=digits,
        )
        for name, (short, doc, digits) in shown.items()
    )


def spread(stats: AnyStats, prefix: str, order: I64, *, extra: bool = False) -> dict[str, Values]:
    """Return mean, median, min, max and StdDev, or percentiles, of groups in a given order."""
    shown = _SPREAD_EXTRA if extra else _SPREAD
    return {f"{prefix}{name}_ns": Numbers(_STATISTICS[name](stats)[order]) for name in shown}


def summarize(
    name: tuple[str, ...],
    title: str,
    fields: tuple[Field, ...],
    events: Events,
    labels: Mapping[str, Sequence[str | None]],
    notes: Sequence[str] = (),
    *,
    rarer_first: bool = False,
) -> Result:
    """Return one row per group, by decreasing total; ties keep the order of the groups.

    Args:
        name: Name of the analysis and its arguments.
        title: Heading.
        fields: From `time_fields` or `size_fields`.
        events: The events to summarize.
        labels: Text of each group, by field name; together they are the key of the rows.
        notes: Caveats shown with the table.
        rarer_first: Whether ties are ordered by increasing number of events.
    """
    stats = group_stats(events.codes, events.values, len(events.labels))
    order = np.lexsort((stats.count if rarer_first else np.zeros_like(stats.count), -stats.sum))
    columns: dict[str, Values] = {}
    for field in fields:
        if field.name in labels:
            columns[field.name] = labelled(order, labels[field.name])
        elif field.name == "time_ratio":
            columns[field.name] = _shares(stats.sum[order])
        else:
            statistic = _STATISTICS[field.name.split("_")[0]]
            columns[field.name] = Numbers(statistic(stats)[order])
    return Result(
        name=":".join(name),
        title=title,
        fields=fields,
        columns=columns,
        key=tuple(labels),
        notes=tuple(notes),
    )


def _shares(totals: I64) -> Numbers:
    """Return each total's share of their sum; invalid if the sum is 0."""
    whole = sum(totals.tolist())  # Python integers: the sum may exceed 64 bits.
    if not whole:
        return Numbers(np.zeros(len(totals)), np.zeros(len(totals), np.bool_))
    return Numbers(totals / float(whole))
