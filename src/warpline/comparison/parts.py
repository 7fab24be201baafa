"""The exact difference of the mean step: parts in whole nanoseconds that sum to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from warpline.result.comparison import PartChange
from warpline.result.profile import PartName, Profile


def mean_parts(runs: Sequence[Profile]) -> Mapping[PartName, Fraction]:
    """Return the mean time per step by part: the mean over runs of each run's exact mean."""
    sums: dict[PartName, Fraction] = {}
    for run in runs:
        for part, ns in run.parts.items():
            sums[part] = sums.get(part, Fraction(0)) + ns / len(runs)
    return sums


def rounded(values: Sequence[Fraction]) -> list[int]:
    """Round values by largest remainder: the results sum to the rounded sum of the values.

    Each result differs from its value by less than 1.
    """
    floors = [math.floor(value) for value in values]
    missing = round(sum(values, Fraction(0))) - sum(floors)
    by_remainder = sorted(range(len(values)), key=lambda place: floors[place] - values[place])
    for place in by_remainder[:missing]:
        floors[place] += 1
    return floors


def part_changes(
    before: Mapping[PartName, Fraction], after: Mapping[PartName, Fraction]
) -> tuple[PartChange, ...]:
    """Return the parts of both sides, the largest difference first.

    The times of a side sum to its rounded mean step, so the differences sum exactly to that of the
    steps.
    """
    names = list(dict.fromkeys([*before, *after]))
    sides = (rounded([times.get(name, Fraction(0)) for name in names]) for times in (before, after))
    changes = (
        PartChange(name.category, name.kind, old, new, name.meaning)
        for name, old, new in zip(names, *sides, strict=True)
        if old or new
    )
    return tuple(sorted(changes, key=lambda item: -abs(item.delta_ns)))
