"""Which rank a finding is about, where ranks differ."""

from __future__ import annotations

import re
from dataclasses import replace

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import steps
from warpline.lazy import lazy_pattern
from warpline.result import Finding, OnDevice
from warpline.trace import Run
from warpline.units import format_ns

_ONLY = 0.05  # of the most affected rank: others with less are not affected
_ALIKE = 0.75  # of the most affected rank: others with more are affected alike
# Of the difference in idle time: a GPU in a collective is not idle, whatever its CPU does.
_WAITS_INSTEAD = 0.5
_SPEAKS_OF_RANKS = lazy_pattern(r"\branks?\b|\bprocess [0-9]+ on\b", re.IGNORECASE)


def named(run: Run, item: Finding) -> Finding:
    """Return a finding with the rank that its numbers are about, if ranks differ.

    Unchanged for a single rank, for ranks that are affected alike, and where the claim speaks of
    ranks already.
    """
    count = len(step_partition(run).ranks)
    if count < 2 or not item.on_devices or _SPEAKS_OF_RANKS.search(item.claim):
        return item
    each = sorted(((fact.ns / max(fact.steps, 1), fact) for fact in item.on_devices), key=_first)
    most, worst = each[-1]
    second = each[-2][0] if len(each) > 1 else 0.0
    if second > _ALIKE * most:
        return item
    others = "the other rank" if count == 2 else "the other ranks"
    if worst.number is None and _most_waiting_ns(run) >= _WAITS_INSTEAD * (most - second):
        wait = "waits" if count == 2 else "wait"
        claim = f"This is {_label(worst)}: {others} {wait} in collectives meanwhile."
        return replace(item, claim=f"{item.claim} {claim}")
    if second <= _ONLY * most:
        title, claim = f"{item.title} on {_label(worst)}", f"Only {_label(worst)} is affected."
        return replace(item, title=title, claim=f"{item.claim} {claim}")
    limit = ": " if count == 2 else ": at most "
    claim = f"{_label(worst).capitalize()} is affected most; {others}{limit}{format_ns(second)}"
    return replace(item, claim=f"{item.claim} {claim}{' per step' if worst.steps else ''}.")


def _most_waiting_ns(run: Run) -> float:
    """Return how long a rank waits in collectives per step while its GPU computes nothing."""
    waits = rank_waits(run)
    return float(waits.exposed_wait_ns.max(initial=0)) / max(steps_counted(steps(run)), 1)


def _first(pair: tuple[float, OnDevice]) -> float:
    return pair[0]


def _label(fact: OnDevice) -> str:
    if fact.rank is not None:
        return f"rank {fact.rank}"
    where = f"device {fact.device}"
    return where if fact.process is None else f"process {fact.process} on {where}"
