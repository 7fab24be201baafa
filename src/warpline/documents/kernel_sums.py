"""The counters of each kernel and shape, as `warpline kernels` shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpline.documents.tables import document
from warpline.errors import MissingTableError
from warpline.presentation.kernel_names import short_names
from warpline.result import Document, Numbers, Result, Skipped, Texts
from warpline.result.kernel_pages import NOTABLE_CLOCK_DRIFT
from warpline.trace import Trace
from warpline.units import format_ratio, plural

NAME = "kernel_counter_spread"
# On a screen: medians, what matters most first, and the name at the end, where it is shortened.
# Headings are short, for 100 columns.
_SHOWN = {
    "grid": "Grid",
    "block": "Block",
    "launches": "N",
    "duration_median_ns": "Time (us)",
    "sm_active_median_ratio": "SM %",
    "tensor_median_ratio": "TC %",
    "dram_median_ratio": "DRAM %",
    "occupancy_median_ratio": "Occ %",
    "issue_median_ratio": "Issue %",
    "clock_drift_max_ratio": "Drift %",
    "kernel": "Kernel",
}
_CLOCK = "clock_{}_hz"
_DRIFT = "clock_drift_max_ratio"


def kernel_sums(trace: Trace, *, is_screen: bool) -> Document:
    """Return the counters of each kernel and shape.

    Args:
        trace: The trace.
        is_screen: Whether it is for a screen: the main columns, and short names of kernels.

    Raises:
        MissingTableError: The trace has no profiled launches.
    """
    found = document(trace, [NAME])
    for section in found.sections:
        if isinstance(section, Skipped):
            raise MissingTableError(section.reason, hint=section.hint)
    if not is_screen:
        return found
    results = (section for section in found.sections if isinstance(section, Result))
    note = drift_note(trace)
    return replace(found, sections=tuple(_on_screen(result, note) for result in results))


def drift_note(trace: Trace) -> str | None:
    """Return that the clock differed much between the passes of launches; None if it did not."""
    drift = trace.columns("profiled_kernel", "clock_drift_ratio")["clock_drift_ratio"].filled(0)
    count = int(np.count_nonzero(drift > NOTABLE_CLOCK_DRIFT))
    if not count:
        return None
    launches = plural(count, "launch", "launches")
    return (
        f"SM clock changed by up to {format_ratio(drift.max())} between the passes of {launches}:"
        " metrics of different passes may not fit together"
    )


def _on_screen(result: Result, drift: str | None) -> Result:
    """Return what fits a screen. The drift of clocks is shown if it is notable."""
    shown = [name for name in _SHOWN if drift is not None or name != _DRIFT]
    columns = {name: result.columns[name] for name in shown if name in result.columns}
    columns["kernel"] = _with_short_names(columns["kernel"])
    for name in ("grid", "block"):
        columns[name] = _without_ones(columns[name])
    columns = {name: column for name, column in columns.items() if not _is_empty(column)}
    fields = {field.name: field for field in result.fields}
    return replace(
        result,
        fields=tuple(replace(fields[name], header=_SHOWN[name]) for name in columns),
        columns=columns,
        notes=(*result.notes, *_clock_notes(result), *([] if drift is None else [drift])),
    )


def _with_short_names(kernels: Texts | Numbers) -> Texts:
    assert isinstance(kernels, Texts)
    short = short_names(kernels.values)
    return Texts(kernels.codes, [short[name] for name in kernels.values])


def _without_ones(sizes: Texts | Numbers) -> Texts:
    """Return sizes without ones at the end: ``2048`` for ``2048x1x1``."""
    assert isinstance(sizes, Texts)
    return Texts(sizes.codes, [text.removesuffix("x1").removesuffix("x1") for text in sizes.values])


def _is_empty(column: Texts | Numbers) -> bool:
    """Return whether no row has a number: the metric was not collected."""
    return isinstance(column, Numbers) and column.valid is not None and not column.valid.any()


def _clock_notes(result: Result) -> list[str]:
    """Return at what clock the GPU ran."""
    clocks = {what: result.columns[_CLOCK.format(what)] for what in ("median", "min", "max")}
    known = {
        what: column.values[column.valid] / 1e9
        for what, column in clocks.items()
        if isinstance(column, Numbers) and column.valid is not None
    }
    if not known or not len(known["median"]):
        return []
    low, high = known["min"].min(), known["max"].max()
    return [f"SM clock {np.median(known['median']):.2f} GHz ({low:.2f} to {high:.2f} GHz)"]
