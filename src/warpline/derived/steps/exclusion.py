"""Which steps do not stand for the run: the first ones, outliers, and those without an end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray

FIRST, WARM_UP, OUTLIER = "first", "warm-up", "outlier"
LAST, INCOMPLETE, NO_WORK = "last", "incomplete", "no device work"

# A median absolute deviation times this is a standard deviation, of normally distributed times.
_MAD_TO_SIGMA = 1.4826
# How much longer than the median a step must be, beside three standard deviations, to be left
# out: less at the beginning, least where the program was still setting itself up.
_OUTLIER = 1.5
_LEADING = 1.2
_SETTING_UP = 1.05
_SIGMAS = 3
# Below so many steps with a period nothing is usual.
_LEAST_STEPS = 3
_LEAST_FOR_SHORT = 5


class Excluded(NamedTuple):
    """A step that does not stand for the run.

    Attributes:
        step: Its place among the steps.
        reason: Why: "first", "warm-up", "outlier", "last", "incomplete" or "no device work".
    """

    step: int
    reason: str


@dataclass(frozen=True)
class StepFacts:
    """What decides whether a step counts; shape (n,) each, by lane, then time.

    Attributes:
        lane: Steps of one lane follow each other.
        index: Number of the step; lanes with the same numbers run their steps together.
        period_ns: Its time, 0 where it has none.
        setup_calls: Calls in it that a program makes to set itself up: that load modules,
            allocate memory, instantiate graphs.
        is_last: Whether nothing recorded follows it: it has no period.
        has_work: Whether it launched device work.
        is_cut: Whether the recording began or ended inside.
    """

    lane: I64
    index: I64
    period_ns: I64
    setup_calls: I64
    is_last: BoolArray
    has_work: BoolArray
    is_cut: BoolArray


def exclude(facts: StepFacts) -> tuple[Excluded, ...]:
    """Return the steps to leave out, ascending, each with its first reason.

    Without a period are steps that were cut, without device work or last. Of the others, with m
    the median and s the scaled median absolute deviation of their periods:

    - leading ones that took longer than ``1.2 m + 3 s`` are warm-up ("first" if it is one); so is
      one longer than ``1.05 m + 3 s`` with more setup calls than usual. A first one shorter than
      ``m / 1.5 - 3 s`` began with something done already;
    - later ones that took longer than ``1.5 m + 3 s`` are outliers, if they are a single one or
      at most a tenth: what comes more often belongs to the run.

    Lanes whose steps have the same numbers, such as ranks, are judged together, by the longest
    period of each step: a step that counts on one counts on all.
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
    """Return the steps by round: a row per number, a column per lane that runs these numbers."""
    first = np.flatnonzero(np.diff(facts.lane, prepend=-1))
    lanes = np.split(np.arange(len(facts.lane)), first[1:])
    alike: dict[bytes, list[I64]] = {}
    for lane in lanes:
        alike.setdefault(facts.index[lane].tobytes(), []).append(lane)
    return [np.stack(group, axis=1) for group in alike.values()]


def _slow(facts: StepFacts, rounds: I64) -> Iterator[tuple[I64, str]]:
    """Yield the rounds that took too long, each with its reason."""
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
    """Return how many steps at the beginning are unlike the rest, at most half of them."""
    slow = period > _limit(period, _LEADING)
    slow |= (period > _limit(period, _SETTING_UP)) & (setup > 2 * np.median(setup))
    if len(period) >= _LEAST_FOR_SHORT and period[0] < _limit(period, 1 / _OUTLIER, -_SIGMAS):
        return 1
    return int(np.argmin(np.append(slow[: len(slow) // 2], False)))


def _limit(period: I64, times: float, sigmas: float = _SIGMAS) -> float:
    median = float(np.median(period))
    deviation = float(np.median(np.abs(period - median)))
    return times * median + sigmas * _MAD_TO_SIGMA * deviation
