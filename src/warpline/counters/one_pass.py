"""Metrics in groups that each take one pass: what one run of a program can count.

CUPTI plans passes for metrics together, and may count the parts of a metric in different passes.
Where each pass is a run of the program, a metric must be counted in one run as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

Counters = frozenset[bytes]


class Pass(Protocol):
    """A pass that counters are added to."""

    def add(self, counters: Counters) -> bool:
        """Add counters, if they and those added before fit in one pass; return whether they do."""


def one_pass_groups(
    needs: Mapping[str, Counters], common: Sequence[str], new_pass: Callable[[], Pass]
) -> list[list[str]]:
    """Return groups of metrics that are counted in one pass each.

    A metric that needs more than one pass alone is in no group.

    Args:
        needs: The counters that each metric needs.
        common: Metrics that are counted in each pass, too. Metrics that fit only without them are
            in groups without them, at the end.
        new_pass: Returns an empty pass.

    Returns:
        The metrics of each group, in the order of `needs`. The common ones come first, where they
        are counted. Groups with many metrics come first, in case a later run fails.
    """
    alike: dict[Counters, list[str]] = {}
    for name, counters in needs.items():
        if name not in common:
            alike.setdefault(counters, []).append(name)
    # Those that need most first, as they are the hardest to place.
    rest = sorted(alike, key=len, reverse=True)
    place = {name: index for index, name in enumerate(needs)}
    groups = []
    for shared in dict.fromkeys((tuple(common), ())):
        packs, rest = _packed(rest, frozenset().union(*map(needs.__getitem__, shared)), new_pass)
        members = [[name for of in pack for name in alike[of]] for pack in packs]
        groups += [
            [*shared, *sorted(names, key=place.__getitem__)]
            for names in sorted(members, key=len, reverse=True)
        ]
    return groups


def _packed(
    wanted: Sequence[Counters], common: Counters, new_pass: Callable[[], Pass]
) -> tuple[list[list[Counters]], list[Counters]]:
    """Return what each pass counts beside what is common to all, and what fits in none."""
    filled: list[_Filled] = []
    left = []
    for counters in wanted:
        # The pass that counts most of them already has to count the least in addition.
        nearest = sorted(filled, key=lambda one: -len(one.counters & counters))
        if any(one.take(counters) for one in nearest):
            continue
        fresh = _Filled(new_pass())
        if fresh.add(common) and fresh.take(counters):
            filled.append(fresh)
        else:
            left.append(counters)
    return [one.taken for one in filled], left


class _Filled:
    """A pass, and what it counts."""

    def __init__(self, empty: Pass) -> None:
        self._pass = empty
        self.counters: Counters = frozenset()
        self.taken: list[Counters] = []
        self._refused: list[Counters] = []

    def take(self, counters: Counters) -> bool:
        """Add the counters of metrics, if they fit."""
        is_added = self.add(counters)
        if is_added:
            self.taken.append(counters)
        return is_added

    def add(self, counters: Counters) -> bool:
        new = counters - self.counters
        # What did not fit will not fit with more.
        if any(refused <= new for refused in self._refused):
            return False
        if new and not self._pass.add(new):
            self._refused.append(new)
            return False
        self.counters |= new
        return True
