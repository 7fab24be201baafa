"""GPU operations and calls of two sides: what is new, gone, divided or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from warpline.comparison.matching import Listed, Match, match
from warpline.comparison.statistics import difference_p, false_discovery
from warpline.result.comparison import Change, ItemChange, Work
from warpline.result.profile import F64, I64, OF_CPU, ItemName, Items, Profile

RATE = 0.05  # of false discoveries among the differences that are called significant
# An item is tested if it takes this share of the step on a side. The choice does not depend on the
# difference, which would bias the test.
_LEAST_SHARE = 2e-3
_MOST_TESTS = 200
_LEAST_COUNT = 0.01  # difference in executions per step that counts as a change


class SideItems(NamedTuple):
    """The items of one side: the mean over its runs.

    Attributes:
        names: What each item is.
        executions: Shape (items,), float64, per step.
        ns: Shape (items,), float64, time per step.
        duration_ns: Shape (items,), float64, mean duration.
        bytes: Shape (items,), float64, bytes per step.
        position_ns: Shape (items,), float64, mean start in the step.
        of_run: For each run, the place of each of its items here; -1 for items that are left out.
    """

    names: tuple[ItemName, ...]
    executions: F64
    ns: F64
    duration_ns: F64
    bytes: F64
    position_ns: F64
    of_run: tuple[I64, ...]


def side_items(runs: Sequence[Profile]) -> SideItems:
    """Return the items of all runs of a side, each the mean over the runs."""
    places: dict[ItemName, int] = {}
    of_run = tuple(
        np.array([places.setdefault(name, len(places)) for name in run.items.names], np.int64)
        for run in runs
    )

    def mean(column: str) -> F64:
        sums = np.zeros(len(places))
        for run, place in zip(runs, of_run, strict=True):
            values: F64 = getattr(run.items, column)
            np.add.at(sums, place, values / len(runs))
        return sums

    def per_execution(column: str) -> F64:
        sums = np.zeros(len(places))
        for run, place in zip(runs, of_run, strict=True):
            values: F64 = getattr(run.items, column)
            np.add.at(sums, place, values * run.items.executions / len(runs))
        means: F64 = np.where(count > 0, sums / np.where(count > 0, count, 1), 0.0)
        return means

    count, ns = mean("executions"), mean("ns")
    # What runs only outside the counted steps is not on this side.
    kept = np.flatnonzero((count > 0) | (ns > 0))
    place_of = np.full(len(places), -1)
    place_of[kept] = np.arange(len(kept))
    names = tuple(places)
    return SideItems(
        names=tuple(names[place] for place in kept.tolist()),
        executions=count[kept],
        ns=ns[kept],
        duration_ns=per_execution("duration_ns")[kept],
        bytes=mean("bytes")[kept],
        position_ns=per_execution("position_ns")[kept],
        of_run=tuple(place_of[own] for own in of_run),
    )


def item_changes(
    before: Sequence[Profile], after: Sequence[Profile], *, paired: bool
) -> tuple[ItemChange, ...]:
    """Return what became of each item, the largest difference in time first.

    Args:
        before: The runs of one side.
        after: The runs of the other side.
        paired: Whether the runs were made in turn.
    """
    sides = side_items(before), side_items(after)
    before_items, after_items = (
        Listed(side.names, side.executions.tolist(), side.position_ns.tolist()) for side in sides
    )
    matches = match(before_items, after_items)
    changes = [_change(item, *sides) for item in matches]
    p_values = _p_values(matches, changes, (before, after), sides, paired=paired)
    tested = [place for place, p in enumerate(p_values) if p is not None]
    mask = false_discovery(np.array([p_values[place] for place in tested], np.float64), RATE)
    significant = {place for place, is_found in zip(tested, mask.tolist(), strict=True) if is_found}
    judged = [
        _judged(item, p, is_significant=place in significant)
        for place, (item, p) in enumerate(zip(changes, p_values, strict=True))
    ]
    return tuple(sorted(judged, key=lambda item: (-abs(item.delta_ns), item.kind, item.name)))


def _change(item: Match, before: SideItems, after: SideItems) -> ItemChange:
    old, new = _work(item.before, before), _work(item.after, after)
    name = after.names[item.after[0]] if item.after else before.names[item.before[0]]
    change: Change = "same"
    if old is None or new is None:
        change = "new" if old is None else "gone"
    elif len(item.before) != len(item.after):
        change = "split" if len(item.before) < len(item.after) else "merged"
    elif item.matched_by != "shape":
        change = "changed"
    return ItemChange(name.kind, name.category, change, item.matched_by, old, new)


def _work(places: Sequence[int], side: SideItems) -> Work | None:
    if not places:
        return None
    rows = np.array(places)
    count = float(side.executions[rows].sum())
    total_ns = float((side.duration_ns[rows] * side.executions[rows]).sum())
    return Work(
        names=tuple(dict.fromkeys(side.names[place].name for place in places)),
        shapes=tuple(dict.fromkeys(side.names[place].shape for place in places)),
        count=count,
        ns=float(side.ns[rows].sum()),
        duration_ns=total_ns / count if count else 0.0,
        bytes=float(side.bytes[rows].sum()),
    )


def _judged(item: ItemChange, p: float | None, *, is_significant: bool) -> ItemChange:
    """Return an item that both runs have as changed if its time or its number differs."""
    change = item.change
    if change == "same" and item.before and item.after:
        differs = abs(item.after.count - item.before.count) > _LEAST_COUNT * item.before.count
        change = "changed" if is_significant or differs else "same"
    return replace(item, change=change, p=p, is_significant=is_significant)


def _p_values(
    matches: Sequence[Match],
    changes: Sequence[ItemChange],
    runs: tuple[Sequence[Profile], Sequence[Profile]],
    sides: tuple[SideItems, SideItems],
    *,
    paired: bool,
) -> list[float | None]:
    """Return the p-value of each item that takes long enough and is on both sides."""
    p_values: list[float | None] = [None] * len(matches)
    if any(len(run.step_ns) < 2 for side in runs for run in side):
        return p_values
    step_ns = max(float(run.step_ns.mean()) for side in runs for run in side)
    longest = [
        max(item.before.ns, item.after.ns) if item.before and item.after else 0.0
        for item in changes
    ]
    by_time = sorted(range(len(matches)), key=lambda place: -longest[place])
    for place in by_time[:_MOST_TESTS]:
        if longest[place] < _LEAST_SHARE * step_ns:
            break
        series = [
            [
                _series(run, np.flatnonzero(np.isin(of_run, own)))
                for run, of_run in zip(side, items.of_run, strict=True)
            ]
            for side, items, own in zip(
                runs, sides, (matches[place].before, matches[place].after), strict=True
            )
        ]
        share = float(changes[place].kind in OF_CPU)
        p_values[place] = difference_p(
            series[0], series[1], paired=paired, cpu_shares=(share, share)
        )
    return p_values


def _series(run: Profile, own: I64) -> F64:
    """Return the time of some items of a run in each of its steps."""
    items: Items = run.items
    bounds = np.searchsorted(items.cell_item, np.stack((own, own + 1)))
    ns = np.zeros(len(run.step_ns))
    for low, high in bounds.T.tolist():
        np.add.at(ns, items.cell_place[low:high], items.cell_ns[low:high])
    return ns
