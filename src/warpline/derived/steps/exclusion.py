"""Which steps are not representative: warm-up, outliers and incomplete steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray

FIRST, WARM_UP, OUTLIER = "first", "warm-up", "outlier"
LAST, INCOMPLETE, NO_WORK = "last", "incomplete", "no device work"

# Converts a median absolute deviation into a standard deviation, for a normal distribution.
_MAD_TO_SIGMA = 1.4826
# Multiples of the median above which, plus three standard deviations, a step is excluded: lower for
# leading steps, lowest for leading steps with setup calls.
_OUTLIER = 1.5
_LEADING = 1.2
_SETTING_UP = 1.05
_SIGMAS = 3
# With fewer steps, typical values are unknown.
_LEAST_STEPS = 3
_LEAST_FOR_SHORT = 5


class Excluded(NamedTuple):
    """An excluded step.

    Attributes:
        step: Index of the step.
        reason: "first", "warm-up", "outlier", "last", "incomplete" or "no device work".
    """

    step: int
    reason: str

    @property
    def is_warm_up(self) -> bool:
        """Whether it is a leading step that took longer, or began before recording."""
        return self.reason in {FIRST, WARM_UP}


@dataclass(frozen=True)
class StepFacts:
    """The facts that decide whether a step is included; shape (n,) each, by loop, then time.

    Attributes:
        loop: A process, or one of its threads, whose steps run one after another.
        index: Number of the step; loops with the same numbers run their steps together.
        period_ns: Duration, 0 if unknown.
        setup_calls: Number of setup calls: loading modules, allocating memory, instantiating
            graphs.
        is_last: Whether no recorded step follows, so that it has no period.
        has_work: Whether it launched device work.
        is_cut: Whether the recording began or ended within it.
    """

    loop: I64
    index: I64
    period_ns: I64
    setup_calls: I64
    is_last: BoolArray
    has_work: BoolArray
    is_cut: BoolArray


def exclude(facts: StepFacts) -> tuple[Excluded, ...]:
    """Return the steps to exclude, ascending, each with its first reason.

    Incomplete steps, steps without device work and last steps have no period. Of the others, with
    m the median and s the scaled median absolute deviation of their periods:

    - Leading steps longer than ``1.2 m + 3 s`` are warm-up ("first" if there is only one), as are
      those longer than ``1.05 m + 3 s`` with more setup calls than usual. A first step shorter
      than ``m / 1.5 - 3 s`` is excluded too, as part of its work was done before.
    - Later steps longer than ``1.5 m + 3 s`` are outliers, if there is only one or at most a tenth
      of the steps. More frequent ones are part of the run's normal behavior.

    Loops whose steps have the same numbers, such as ranks, are decided together, by the longest
    period of each step. A step is included on all of them or on none.
    """
    reasons: dict[int, str] = {}
    for kind, chosen in (
        (INCOMPLETE, facts.is_cut),
        (NO_WORK, ~facts.has_work),
        (LAST, facts.is_last),
        (INCOMPLETE, facts.period_ns <= 0),
    ):
        for step in np.flatnonzero(chosen).tolist():
            reasons.setdefault(step, kind)
    for rounds in _together(facts):
        known = np.array([not any(int(s) in reasons for s in row) for row in rounds], np.bool_)
        for row, reason in _slow(facts, rounds[known]):
            reasons |= dict.fromkeys(row.tolist(), reason)
    return tuple(Excluded(step, reasons[step]) for step in sorted(reasons))


def _together(facts: StepFacts) -> list[I64]:
    """Return the steps by round: one row per number, one column per loop with these numbers."""
    first = np.flatnonzero(np.diff(facts.loop, prepend=-1))
    loops = np.split(np.arange(len(facts.loop)), first[1:])
    alike: dict[bytes, list[I64]] = {}
    for loop in loops:
        alike.setdefault(facts.index[loop].tobytes(), []).append(loop)
    return [np.stack(group, axis=1) for group in alike.values()]


def _slow(facts: StepFacts, rounds: I64) -> Iterator[tuple[I64, str]]:
    """Yield the rounds to exclude for their duration, each with its reason."""
    if len(rounds) < _LEAST_STEPS:
        return
    period = facts.period_ns[rounds].max(axis=1)
    setup = facts.setup_calls[rounds].sum(axis=1)
    leading = _leading(period, setup)
    for row in rounds[:leading]:
        yield row, WARM_UP if leading > 1 else FIRST
    rounds, period = rounds[leading:], period[leading:]
    slow = np.flatnonzero(period > _limit(period, _OUTLIER))
    if len(slow) <= max(1, len(period) // 10):
        for row in rounds[slow]:
            yield row, OUTLIER


def _leading(period: I64, setup: I64) -> int:
    """Return the number of leading steps that differ from the rest, at most half of them."""
    slow = period > _limit(period, _LEADING)
    slow |= (period > _limit(period, _SETTING_UP)) & (setup > 2 * np.median(setup))
    if len(period) >= _LEAST_FOR_SHORT and period[0] < _limit(period, 1 / _OUTLIER, -_SIGMAS):
        return 1
    return int(np.argmin(np.append(slow[: len(slow) // 2], False)))


def _limit(period: I64, times: float, sigmas: float = _SIGMAS) -> float:
    median = float(np.median(period))
    deviation = float(np.median(np.abs(period - median)))
    return times * median + sigmas * _MAD_TO_SIGMA * deviation
