"""What became of each finding: fixed, new, better or worse."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from warpline.result.comparison import FindingChange, FindingDifference
from warpline.result.diagnosis import Severity, severity_rank
from warpline.result.profile import Problem

OF_RECORDING = "capture-quality"  # the rule about the recording, not about the program
_LEAST = 0.1  # relative difference of a saving that counts as better or worse
_NUMBER = re.compile(r"\d+")
_ORDER: tuple[FindingChange, ...] = ("fixed", "new", "worse", "better", "same")


class Judged(Protocol):
    """A run, or a kernel of one, that rules have judged."""

    @property
    def findings(self) -> Sequence[Problem]:
        """What they found."""


def finding_differences(
    before: Sequence[Judged], after: Sequence[Judged]
) -> tuple[FindingDifference, ...]:
    """Return what became of each finding: fixed first, then new, worse, better, same.

    A side has a finding if most of its runs have it. Findings of one rule with the same title are
    one, apart from numbers; the one with the highest severity, then the largest saving,
    represents them. A rule words a smaller problem differently, so what is left of a rule on both
    sides is matched in order of severity and saving, except findings about the recording.
    """
    differences = [_difference(*pair) for pair in _pairs(_found(before), _found(after))]

    def order(item: FindingDifference) -> tuple[int, int, int]:
        saving = max(item.before_saving_ns or 0, item.after_saving_ns or 0)
        return _ORDER.index(item.change), severity_rank(item.severity), -saving

    return tuple(sorted(differences, key=order))


def _pairs(
    old: Mapping[tuple[str, str], Problem], new: Mapping[tuple[str, str], Problem]
) -> list[tuple[Problem | None, Problem | None]]:
    """Return which findings of both sides, by rule and title, are the same problem."""
    pairs: list[tuple[Problem | None, Problem | None]] = [
        (old[name], new[name]) for name in old if name in new
    ]
    for rule in dict.fromkeys(rule for rule, _ in (*old, *new)):
        gone, come = (
            sorted(
                (side[name] for name in side if name[0] == rule and name not in other), key=_weight
            )
            for side, other in ((old, new), (new, old))
        )
        if rule == OF_RECORDING:
            pairs += [*((item, None) for item in gone), *((None, item) for item in come)]
        else:
            pairs += itertools.zip_longest(gone, come)
    return pairs


def _found(runs: Sequence[Judged]) -> Mapping[tuple[str, str], Problem]:
    """Return the findings that more than half of the runs have, by rule and title."""
    found: dict[tuple[str, str], list[Problem]] = {}
    for run in runs:
        own: dict[tuple[str, str], Problem] = {}
        for item in run.findings:
            name = item.rule, _NUMBER.sub("", item.title)
            own[name] = min(own.get(name, item), item, key=_weight)
        for name, item in own.items():
            found.setdefault(name, []).append(item)
    return {
        name: sorted(items, key=_weight)[len(items) // 2]
        for name, items in found.items()
        if 2 * len(items) > len(runs)
    }


def _weight(item: Problem) -> tuple[int, int]:
    return severity_rank(item.severity), -(item.saving_ns or 0)


def _difference(old: Problem | None, new: Problem | None) -> FindingDifference:
    shown = new or old
    assert shown is not None
    severity: Severity = min(
        (item.severity for item in (old, new) if item is not None), key=severity_rank
    )
    return FindingDifference(
        shown.rule,
        _change(old, new),
        shown.title,
        severity,
        old.saving_ns if old else None,
        new.saving_ns if new else None,
    )


def _change(old: Problem | None, new: Problem | None) -> FindingChange:
    if old is None or new is None:
        return "new" if old is None else "fixed"
    if old.saving_ns is None or new.saving_ns is None:
        rise = severity_rank(old.severity) - severity_rank(new.severity)
        return "same" if not rise else "worse" if rise > 0 else "better"
    extra = new.saving_ns - old.saving_ns
    if abs(extra) <= _LEAST * max(old.saving_ns, new.saving_ns):
        return "same"
    return "worse" if extra > 0 else "better"
