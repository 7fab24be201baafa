"""Rows of values sampled at regular times: metrics of GPUs, state of GPUs and of the machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived.health.clock_limits import ClockLimit
from warpline.derived.health.readings import MACHINE
from warpline.derived.health.series import (
    HealthSeries,
    clock_limit_spans,
    gpu_health_series,
    host_health_series,
    of_device,
)
from warpline.derived.metrics.series import NO_DEVICE, metric_series
from warpline.ops.arrays import F64, I64
from warpline.trace import Trace
from warpline.units import Unit
from warpline.viewer.metric_labels import ShownMetric, shown_metric
from warpline.viewer.names import Names, category
from warpline.viewer.rows import Events, Row

MACHINE_ID = "machine"
_CATEGORIES = {
    ClockLimit.HW_THERMAL: "clock-limit-heat",
    ClockLimit.SW_THERMAL: "clock-limit-heat",
    ClockLimit.HW_SLOWDOWN: "clock-limit-heat",
    ClockLimit.POWER_CAP: "clock-limit-power",
    ClockLimit.POWER_BRAKE: "clock-limit-power",
}
_OTHER_LIMIT = "clock-limit-setting"


def metric_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the metrics of each GPU, after the header of their group."""
    times = _Times()
    last, used = NO_DEVICE, set[tuple[str, str]]()
    for series in metric_series(trace):
        if series.device == NO_DEVICE:
            continue
        if series.device != last:
            last, used = series.device, set()
            yield _group(f"gpu{last}/metrics", f"gpu{last}", "GPU metrics", last)
        shown = shown_metric(series, of_device(trace, last, "clock_hz"))
        if (shown.label, shown.unit) in used:  # another metric of the same meaning
            shown = shown._replace(label=series.name)
        used.add((shown.label, shown.unit))
        yield _metric(shown, names, times, f"gpu{last}/metrics")


def gpu_state_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the state of each GPU over time, after the header of its group."""
    rows: dict[int, list[Row]] = {}
    for row in (*_limits(trace, names), *_errors(trace, names)):
        assert row.device is not None
        rows.setdefault(row.device, []).append(row)
    for series in gpu_health_series(trace):
        row = _health(series, names, f"gpu{series.of}/health", device=series.of)
        rows.setdefault(series.of, []).append(row)
    for device in sorted(rows):
        yield _group(f"gpu{device}/health", f"gpu{device}", "GPU state", device)
        yield from rows[device]


def machine_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the machine's state over time, after the header of its group."""
    times = _Times()
    rows = [
        _process(trace, series, names)
        if series.of != MACHINE
        else _health(series, names, MACHINE_ID)
        for series in host_health_series(trace)
    ]
    rows += [
        _metric(shown_metric(series), names, times, MACHINE_ID)
        for series in metric_series(trace)
        if series.device == NO_DEVICE
    ]
    if rows:
        yield _group(MACHINE_ID, None, "Machine", None)
        yield from rows


def sample_count(trace: Trace) -> int:
    """Return the approximate number of values in these rows, without reading them."""
    count = sum(trace.row_count(table) for table in ("counter", "gpu_health") if trace.has(table))
    if trace.has("counter_block"):
        count += int(trace.columns("counter_block", "samples")["samples"].values.sum())
    return count


def _group(row_id: str, parent: str | None, label: str, device: int | None) -> Row:
    return Row(row_id, parent, label, "group", device=device, is_collapsed=True)


def _metric(shown: ShownMetric, names: Names, times: _Times, parent: str) -> Row:
    own = shown.series
    start, end, value = times.with_gaps(own.start_ns, own.end_ns, own.value)
    return Row(
        f"{parent}/{own.metric}",
        parent,
        shown.label,
        "counter",
        device=None if own.device == NO_DEVICE else own.device,
        unit=shown.unit,
        title=own.name,
        axis_max=shown.axis_max,
        is_sampled=True,
        events=_events(names, shown.label, start, end, value),
    )


def _health(
    series: HealthSeries,
    names: Names,
    parent: str,
    label: str | None = None,
    device: int | None = None,
) -> Row:
    start, end, value = _Times().with_gaps(series.start_ns, series.end_ns, series.value)
    own = label or series.label
    tail = "" if label is None else f"/{series.of}"
    return Row(
        f"{parent}/{series.key}{tail}",
        parent,
        own,
        "counter",
        unit="none" if series.unit is Unit.NONE else series.unit.value,
        axis_max=series.highest,
        is_sampled=True,
        device=device,
        events=_events(names, own, start, end, value),
    )


def _process(trace: Trace, series: HealthSeries, names: Names) -> Row:
    columns = trace.columns("process", "pid", "name_id")
    pid, name = (columns[key].to_list()[series.of] for key in columns)
    label = f"{series.label}: process {pid}"
    label += "" if name is None else f" {trace.strings.text(name)}"
    return _health(series, names, MACHINE_ID, label)


def _limits(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield what limits the clock of each GPU, where something does."""
    for spans in clock_limit_spans(trace):
        device, name = spans.device, np.zeros(len(spans.limit), np.int64)
        for each in np.unique(spans.limit).tolist():
            limit = ClockLimit.at(each)
            place = category(_CATEGORIES.get(limit, _OTHER_LIMIT))
            text = f"{limit.label}: {limit.meaning}"
            name[spans.limit == each] = names.add(text, place, limit.label)
        parent = f"gpu{device}/health"
        events = Events(spans.start_ns, spans.end_ns, name)
        row_id, label = f"{parent}/clock_limits", "clock limits"
        yield Row(row_id, parent, label, "limit", device=device, events=events)


def _errors(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the errors of each GPU as marks."""
    if not trace.has("gpu_error") or not trace.row_count("gpu_error"):
        return
    columns = trace.columns("gpu_error", "time_ns", "device_id", "xid")
    time, device, xid = (columns[key].values for key in columns)
    place = category("gpu-error")
    for one in np.unique(device).tolist():
        rows = np.flatnonzero(device == one)
        rows = rows[np.argsort(time[rows], kind="stable")]
        name = np.array([names.add(f"Xid {number}", place) for number in xid[rows].tolist()])
        parent, at_ns = f"gpu{one}/health", time[rows]
        events = Events(at_ns, at_ns, name)
        row_id = f"{parent}/errors"
        yield Row(row_id, parent, "errors (Xid)", "mark", device=one, events=events)


def _events(names: Names, label: str, start: I64, end: I64, value: F64) -> Events:
    # One name for all samples, without an array of them.
    name = np.broadcast_to(np.int64(names.add(label, category("counter"))), len(start))
    return Events(start, end, name, value=value)


class _Times:
    """Makes samples that are valid to the next one of samples with ends.

    Metrics of a GPU are sampled at the same times: these arrays are then the same, too.
    """

    def __init__(self) -> None:
        self._of: tuple[I64, I64] | None = None
        self._made: tuple[I64, I64, I64] | None = None

    def with_gaps(self, start: I64, end: I64, value: F64) -> tuple[I64, I64, F64]:
        """Return starts, ends and values with a missing value (NaN) at each gap and at the end."""
        if self._made is None or self._of is None or not _are_same(self._of, (start, end)):
            places = np.flatnonzero(np.append(end[:-1] < start[1:], True)) + 1
            starts = np.insert(start, places, end[places - 1])
            self._of, self._made = (start, end), (starts, np.append(starts[1:], end[-1:]), places)
        starts, ends, places = self._made
        return starts, ends, np.insert(value, places, np.nan)


def _are_same(one: tuple[I64, I64], other: tuple[I64, I64]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
