"""Omit short events from a report that would be too large, and mark where.

Events are omitted in stages, the least important rows first. Samples of counters are joined
instead: their mean, with the lowest and highest value. A few representative steps and the windows
of the findings stay complete until all other stages are exhausted. In a stage, the shortest
events of each row go first, evenly over time among those of one length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.steps.times import steps
from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.interval import union
from warpline.result import Diagnosis
from warpline.trace import Run
from warpline.units import format_count
from warpline.viewer.container import BlockWriter, write_events
from warpline.viewer.exact_sums import MOST_BINS, Sums, bins_within, exact_sums, write_sums
from warpline.viewer.rows import Row, narrow
from warpline.viewer.sample_groups import inside, joinable, joined

_TIERS = (
    frozenset({"counter"}),  # whose samples are joined
    frozenset({"sample", "thread"}),
    frozenset({"os", "mark"}),
    frozenset({"op"}),
    frozenset({"api"}),
    frozenset({"range"}),
    frozenset({"phase"}),
    frozenset({"stream"}),
    frozenset({"state"}),
)  # steps are never omitted
_LEAST_KEPT = 0.01
_LEAST_EVENTS = 16  # per row, to keep its outline: steps are few and long
_KEPT_STEPS = 3
_MOST_WINDOWS = 30
_MEASUREMENTS = 6
_NEAR = 0.01
_BASE64 = 4 / 3
_SUMS_SHARE = 1 / 8  # of the budget
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
_NOTHING_KEPT = (np.zeros(0, np.int64), np.zeros(0, np.int64))

Kept = Mapping[str, BoolArray]


@dataclass(frozen=True)
class Thinned:
    """The rows of a report; some may lack events.

    Attributes:
        rows: Rows in display order.
        spans: Omitted events by time range, as in the container's head; times of the trace.
        left_out: Total number of omitted events.
        sums: Exact sums of the rows that lack events, by row id.
        is_joined: Whether samples of counters are joined.
    """

    rows: tuple[Row, ...]
    spans: tuple[dict[str, Any], ...] = ()
    left_out: int = 0
    sums: Mapping[str, Sums] = field(default_factory=dict)
    is_joined: bool = False

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
            " Totals, tables, findings, and the busy and idle time of a selection cover the whole"
            " recording. Lists of events and sums by name cover the remaining events only."
        )
        if self.is_joined:
            text += " Samples of counters were joined: the file has their means and ranges."
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


class _Stage(NamedTuple):
    """Rows of one tier that can lack events.

    Attributes:
        rows: The rows.
        kept: Which of their events remain before this stage.
        order: The events that can be omitted, the first to go first.
        before: Size of the events before this stage, and of the sums if there are any then.
        after: Size of the remaining events and the sums once this stage is exhausted.
    """

    rows: tuple[Row, ...]
    kept: tuple[BoolArray, ...]
    order: tuple[Integers, ...]
    before: float
    after: float

    def keeping(self, share: float) -> Kept:
        """Return which events remain if each row keeps a share of those that can be omitted."""
        remaining = {}
        for row, kept, order in zip(self.rows, self.kept, self.order, strict=True):
            count = len(order) - max(int(len(order) * share), _LEAST_EVENTS)
            if count > 0:
                remaining[row.id] = kept.copy()
                remaining[row.id][order[:count]] = False
        return remaining


class Thinner:
    """Omits events from rows until the rest meets a budget.

    Args:
        rows: All rows.
        sizes: Size of each row's events in a report, by row id.
        categories: Category of each name.
        span: Start and end of the timeline.
        complete: Time ranges to keep complete as long as possible.
        limit: Size limit of the whole, which determines the number of bins of the sums.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        sizes: Mapping[str, float],
        categories: I64,
        span: tuple[int, int],
        complete: tuple[I64, I64],
        limit: float,
    ) -> None:
        self._rows, self._sizes, self._complete = rows, sizes, complete
        self._categories, self._span = categories, span
        large = (row for row in rows if row.kind != "counter" and len(row.events) > _LEAST_EVENTS)
        self._bins = bins_within(limit * _SUMS_SHARE, sum(_fineness(row) for row in large))
        self._sums: dict[str, Sums] = {}
        self._stages: list[_Stage] = []

    def to(self, budget: float) -> Thinned:
        """Return the rows with events whose size, with the sums, is probably just in the budget."""
        kept: dict[str, BoolArray] = {}
        size = sum(self._sizes.values())
        for stage in self._all_stages():
            if size <= budget:
                break
            saving = stage.before - stage.after
            if saving <= 0:
                continue
            left = stage.before - (size - budget)
            share = self._share(stage, left, budget) if left > stage.after else _LEAST_KEPT
            kept.update(stage.keeping(share))
            size -= saving
        return self._thinned(kept)

    def _all_stages(self) -> Iterator[_Stage]:
        """Yield the stages: the tiers outside of the complete time ranges, then inside as well."""
        yield from self._stages
        for number in range(len(self._stages), 2 * len(_TIERS)):
            complete = self._complete if number < len(_TIERS) else _NOTHING_KEPT
            before = self._stages[number - len(_TIERS)] if number >= len(_TIERS) else None
            self._stages.append(self._stage(_TIERS[number % len(_TIERS)], before, complete))
            yield self._stages[-1]

    def _stage(
        self, kinds: frozenset[str], before: _Stage | None, complete: tuple[I64, I64]
    ) -> _Stage:
        rows = tuple(row for row in self._rows if row.kind in kinds and len(row.events))
        left = {} if before is None else before.keeping(_LEAST_KEPT)
        kept = tuple(left.get(row.id, np.ones(len(row.events), np.bool_)) for row in rows)
        size = sum(self._sizes[row.id] for row in rows)
        if before is not None:
            size = min(before.before, before.after)
            kept = kept if before.after < before.before else before.kept
        order = tuple(
            _order(row, np.flatnonzero(mask & _can_go(row, complete)))
            for row, mask in zip(rows, kept, strict=True)
        )
        stage = _Stage(rows, kept, order, size, 0.0)
        return stage._replace(after=self._measured(stage, _LEAST_KEPT))

    def _share(self, stage: _Stage, target: float, budget: float) -> float:
        """Return the share of events to keep for a size just below the target."""
        low, high = (_LEAST_KEPT, stage.after - target), (1.0, stage.before - target)
        best = _LEAST_KEPT
        for _ in range(_MEASUREMENTS):
            share = low[0] - low[1] * (high[0] - low[0]) / (high[1] - low[1])
            over = self._measured(stage, share) - target
            # An end that stays counts half: otherwise a curved function keeps the same one.
            if over > 0:
                low, high = (low[0], low[1] / 2), (share, over)
                continue
            low, high, best = (share, over), (high[0], high[1] / 2), share
            if -over < _NEAR * budget:
                break
        return best

    def _measured(self, stage: _Stage, share: float) -> float:
        """Return the size of a stage's remaining events and sums in a report."""
        writer = BlockWriter()
        kept = stage.keeping(share)
        for row in stage.rows:
            write_events(writer, _left(row, kept).events, 0)
        for row in stage.rows:
            if row.id in kept and row.kind != "counter":
                write_sums(writer, self._sums_of(row))
        return sum(len(block.data) for block in writer.blocks()) * _BASE64

    def _sums_of(self, row: Row) -> Sums:
        if row.id not in self._sums:
            events = row.events.loaded()
            bins = min(self._bins * _fineness(row), MOST_BINS)
            self._sums[row.id] = exact_sums(events, self._categories, self._span, bins)
        return self._sums[row.id]

    def _thinned(self, kept: Kept) -> Thinned:
        lacking = [row for row in self._rows if row.id in kept and row.kind != "counter"]
        return Thinned(
            tuple(_left(row, kept) for row in self._rows),
            tuple(span for row in lacking for span in _spans(row, kept[row.id], self._complete)),
            sum(int(np.count_nonzero(~kept[row.id])) for row in lacking),
            {row.id: self._sums_of(row) for row in lacking},
            any(row.id in kept for row in self._rows if row.kind == "counter"),
        )


def _fineness(row: Row) -> int:
    """Return how many bins of sums a row has for each bin of most rows."""
    return 4 if row.kind == "state" else 1  # the busy time of a GPU is shown for every view


def _left(row: Row, kept: Kept) -> Row:
    """Return the row with its remaining events; of a counter, with samples joined."""
    if row.id not in kept:
        return row
    if row.kind == "counter":
        return replace(row, events=joined(row.events.loaded(), kept[row.id]))
    return replace(row, events=row.events.taken(np.flatnonzero(kept[row.id])))


def _outside(row: Row, complete: tuple[I64, I64]) -> BoolArray:
    """Return which events do not overlap the complete time ranges."""
    return ~inside(row.events, complete)


def _can_go(row: Row, complete: tuple[I64, I64]) -> BoolArray:
    """Return which events can be omitted, or, of a counter, joined to the sample before."""
    if row.kind == "counter":
        return joinable(row.events, inside(row.events, complete))
    return _outside(row, complete)


def _order(row: Row, candidates: I64) -> Integers:
    """Return events in the order to omit them: the shortest first; samples evenly over time."""
    # Multiples of the golden ratio, modulo 1: every beginning is spread evenly. The first is last.
    spread = np.argsort(-(np.arange(len(candidates), dtype=np.uint64) * _GOLDEN))
    if row.kind != "counter":
        length = (row.events.end_ns - row.events.start_ns)[candidates]
        spread = spread[np.argsort(length[spread], kind="stable")]
    return narrow(candidates[spread])


def _spans(row: Row, kept: BoolArray, complete: tuple[I64, I64]) -> list[dict[str, Any]]:
    """Return where events of a row were omitted, between the complete time ranges."""
    events = row.events.loaded()
    outside = np.flatnonzero(_outside(row, complete))
    if np.count_nonzero(kept[outside]) != np.count_nonzero(kept) - (len(kept) - len(outside)):
        outside, complete = np.arange(len(kept)), _NOTHING_KEPT  # the time ranges lack events too
    place = np.searchsorted(complete[1], events.start_ns[outside], side="right")
    spans = []
    for gap in np.unique(place).tolist():
        rows = outside[place == gap]
        kept_count = int(np.count_nonzero(kept[rows]))
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
