"""The time of each range's work on both sides, and in which range a difference is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def phase_changes(before: Phases, after: Phases) -> tuple[PhaseChange, ...]:
    """Return the time of each path on both sides, the largest difference first."""
    changes = (
        PhaseChange(path, _total(before.get(path)), _total(after.get(path)))
        for path in dict.fromkeys([*before, *after])
    )
    return tuple(sorted(changes, key=lambda item: -abs(item.delta_ns)))


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
