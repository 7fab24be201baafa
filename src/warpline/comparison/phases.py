"""The time of each range's work on both sides, and in which range a difference is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warpline.comparison.items import RATE
from warpline.comparison.statistics import difference_p, false_discovery
from warpline.result.comparison import PartChange, PhaseChange
from warpline.result.profile import Phases, Profile

_MOST = 0.8  # of a difference: what a range must have to be where it is


def mean_phases(runs: Sequence[Profile]) -> Phases:
    """Return the mean over runs of the time of each path of ranges, by part."""
    sums: dict[tuple[str, ...], dict[tuple[str, str], float]] = {}
    for run in runs:
        for path, parts in run.phases.items():
            own = sums.setdefault(path, {})
            for part, ns in parts.items():
                own[part] = own.get(part, 0.0) + ns / len(runs)
    return sums


def phase_changes(
    before: Sequence[Profile], after: Sequence[Profile], *, paired: bool
) -> tuple[PhaseChange, ...]:
    """Return the time of each path on both sides, the largest difference first.

    Several runs of each side show how the time of a path varies; steps of one run do not, because
    recordings are divided by ranges as a whole.

    Args:
        before: The runs of one side.
        after: The runs of the other side.
        paired: Whether the runs were made in turn.
    """
    old, new = mean_phases(before), mean_phases(after)
    changes = [
        PhaseChange(path, _total(old.get(path)), _total(new.get(path)))
        for path in dict.fromkeys([*old, *new])
    ]
    if min(len(before), len(after)) > 1:
        changes = _tested(changes, before, after, paired=paired)
    return tuple(sorted(changes, key=lambda item: -abs(item.delta_ns)))


def _tested(
    changes: Sequence[PhaseChange],
    before: Sequence[Profile],
    after: Sequence[Profile],
    *,
    paired: bool,
) -> list[PhaseChange]:
    """Return the changes with the probability of each that both sides have."""
    p_values = [
        difference_p(_of_runs(item, before), _of_runs(item, after), paired=paired)
        if item.before_ns and item.after_ns
        else None
        for item in changes
    ]
    tested = [p for p in p_values if p is not None]
    found = iter(false_discovery(tested, RATE).tolist())
    return [
        item if p is None else replace(item, p=p, is_significant=next(found))
        for item, p in zip(changes, p_values, strict=True)
    ]


def _of_runs(item: PhaseChange, runs: Sequence[Profile]) -> list[list[float]]:
    return [[sum(run.phases.get(item.path, {}).values())] for run in runs]


def _total(parts: Mapping[tuple[str, str], float] | None) -> int | None:
    return None if parts is None else round(sum(parts.values()))


def where(part: PartChange, before: Phases, after: Phases) -> tuple[str, ...]:
    """Return the innermost path of ranges with most of a part's difference; empty for none."""
    key = (part.category, part.kind)
    best: tuple[str, ...] = ()
    for path in dict.fromkeys([*before, *after]):
        old, new = (side.get(path, {}).get(key, 0.0) for side in (before, after))
        share = (new - old) / part.delta_ns if part.delta_ns else 0.0
        if share >= _MOST and len(path) > len(best) and path[: len(best)] == best:
            best = path
    return best
