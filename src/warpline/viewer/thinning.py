"""Omit short events from a report that would be too large, and mark where.

A few representative steps and the windows of the findings stay complete. Elsewhere the shortest
events are omitted, starting with the least important rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpline.derived.steps.times import steps
from warpline.ops.arrays import I64
from warpline.ops.interval import union
from warpline.result import Diagnosis
from warpline.trace import Run
from warpline.units import format_count
from warpline.viewer.rows import Row

_TIERS = (
    frozenset({"os", "mark"}),
    frozenset({"op"}),
    frozenset({"api"}),
    frozenset({"counter", "range"}),
    frozenset({"phase"}),
    frozenset({"stream", "state"}),
)  # steps are never omitted
_LEAST_KEPT = 0.01
_LEAST_EVENTS = 16  # per row, to keep its outline: steps are few and long
_KEPT_STEPS = 3
_MOST_WINDOWS = 30
NOTHING_KEPT = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Thinned:
    """The rows of a report; some may lack events.

    Attributes:
        rows: Rows in display order.
        spans: Omitted events by time range, as in the container's head; times of the trace.
        left_out: Total number of omitted events.
    """

    rows: tuple[Row, ...]
    spans: tuple[dict[str, Any], ...] = ()
    left_out: int = 0

    def head(self, offset_ns: int) -> dict[str, Any] | None:
        """Return the entry of the container's head; None if no events were omitted."""
        if not self.left_out:
            return None
        spans = [
            {
                **span,
                "start_ns": span["start_ns"] - offset_ns,
                "end_ns": span["end_ns"] - offset_ns,
            }
            for span in self.spans
        ]
        text = (
            f"{format_count(self.left_out)} short events were omitted to limit the file size."
            " Totals, tables, and findings cover the whole recording. Statistics of a selected"
            " area cover the remaining events only."
        )
        return {"text": text, "spans": spans}


def kept_windows(run: Run, diagnosis: Diagnosis) -> tuple[I64, I64]:
    """Return the time ranges to keep complete: starts and ends, ascending and disjoint.

    Args:
        run: The trace, and the choice of its steps.
        diagnosis: Of that trace.
    """
    windows = [
        window
        for finding in diagnosis.findings
        for item in finding.evidence
        for window in item.windows_ns[:2]
    ][:_MOST_WINDOWS]
    run_steps = steps(run)
    period = run_steps.period_ns
    chosen = np.flatnonzero(run_steps.included & (period > 0))
    if len(chosen):
        distance = np.abs(period[chosen] - np.median(period[chosen]))
        nearest = chosen[np.argsort(distance, kind="stable")][:_KEPT_STEPS]
        for step in nearest.tolist():
            device = np.flatnonzero(run_steps.window_step == step)
            low = min(
                int(run_steps.host_start_ns[step]), int(run_steps.window_start_ns[device].min())
            )
            high = max(int(run_steps.host_end_ns[step]), int(run_steps.window_end_ns[device].max()))
            windows.append((low, high))
    start, end = (np.array([window[side] for window in windows], np.int64) for side in (0, 1))
    return union(start, np.maximum(start, end))


def thin(
    rows: Sequence[Row], sizes: Mapping[str, float], budget: float, kept: tuple[I64, I64]
) -> Thinned:
    """Return the rows with enough short events omitted to probably meet the budget.

    Args:
        rows: All rows.
        sizes: Size of each row's events, by row id.
        budget: Total size limit.
        kept: Time ranges to keep complete.
    """
    excess = sum(sizes.values()) - budget
    shares: dict[str, float] = {}
    for tier in _TIERS:
        members = [row for row in rows if row.kind in tier and len(row.events)]
        outside = {row.id: sizes[row.id] * float(np.mean(_outside(row, kept))) for row in members}
        total = sum(outside.values())
        if excess <= 0 or total <= 0:
            continue
        share = max(1 - excess / total, _LEAST_KEPT)
        shares.update(dict.fromkeys(outside, share))
        excess -= total * (1 - share)
    thinned = [_thinned(row, shares.get(row.id, 1.0), kept) for row in rows]
    spans = tuple(span for each in thinned for span in each.spans)
    return Thinned(
        tuple(row for each in thinned for row in each.rows),
        spans,
        sum(each.left_out for each in thinned),
    )


def _outside(row: Row, kept: tuple[I64, I64]) -> Any:
    """Return which events do not overlap the kept time ranges."""
    start, end = kept
    starts_ns = row.events.start_ns
    upcoming = np.searchsorted(end, starts_ns, side="right")
    begins = np.append(start, np.iinfo(np.int64).max)[upcoming]
    return begins >= np.maximum(row.events.end_ns, starts_ns + 1)


def _thinned(row: Row, share: float, kept: tuple[I64, I64]) -> Thinned:
    outside = np.flatnonzero(_outside(row, kept)) if share < 1 else np.zeros(0, np.int64)
    count = len(outside) - max(int(len(outside) * share), _LEAST_EVENTS)
    if count <= 0:
        return Thinned((row,))
    events = row.events
    if row.kind == "counter":
        gone = outside[np.linspace(0, len(outside) - 1, count).astype(np.int64)]
    else:
        length = (events.end_ns - events.start_ns)[outside]
        gone = outside[np.argpartition(length, count - 1)[:count]]
    is_kept = np.ones(len(events), np.bool_)
    is_kept[gone] = False
    left = replace(row, events=events.taken(np.flatnonzero(is_kept)))
    return Thinned((left,), tuple(_spans(row, outside, is_kept, kept)), count)


def _spans(row: Row, outside: I64, is_kept: Any, kept: tuple[I64, I64]) -> list[dict[str, Any]]:
    """Return where events of a row were omitted, between the kept time ranges."""
    events = row.events.loaded()
    place = np.searchsorted(kept[1], events.start_ns[outside], side="right")
    spans = []
    for gap in np.unique(place).tolist():
        rows = outside[place == gap]
        kept_count = int(np.count_nonzero(is_kept[rows]))
        if kept_count < len(rows):
            spans.append(
                {
                    "rows": [row.id],
                    "start_ns": int(events.start_ns[rows[0]]),
                    "end_ns": int(events.end_ns[rows[-1]]),
                    "kept": kept_count,
                    "total": len(rows),
                }
            )
    return spans
