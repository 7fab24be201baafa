"""Which steps do not stand for the run: the first ones, outliers, and those without an end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64, BoolArray

# A median absolute deviation times this is a standard deviation, of normally distributed times.
_MAD_TO_SIGMA = 1.4826


class Excluded(NamedTuple):
    """A step that does not stand for the run.

    Attributes:
        step: Its place among the steps.
        reason: Why: "first", "warm-up", "outlier", "last", "incomplete" or "no device work".
    """

    step: int
    reason: str


class StepFacts(NamedTuple):
    """What decides whether a step counts; shape (n,) each, by lane, then time.

    Attributes:
        lane: Steps of one lane follow each other.
        period_ns: Its time, 0 where it has none.
        is_last: Whether nothing recorded follows it: it has no period.
        has_work: Whether it launched device work.
        is_cut: Whether the recording began or ended inside.
    """

    lane: I64
    period_ns: I64
    is_last: BoolArray
    has_work: BoolArray
    is_cut: BoolArray


def exclude(facts: StepFacts) -> tuple[Excluded, ...]:
    """Return the steps to leave out, ascending, each with its first reason.

    With m the median and s the scaled median absolute deviation of a lane's periods:

    - the leading steps that took longer than ``1.2 m + 3 s`` are warm-up, or "first" if it is one;
    - later ones that took longer than ``1.5 m + 3 s`` are outliers, if they are at most a tenth of
      the lane's steps or a single one: what comes more often belongs to the run.
    """
    reasons: dict[int, str] = {}
    for kind, chosen in (
        ("incomplete", facts.is_cut),
        ("no device work", ~facts.has_work),
        ("last", facts.is_last),
        ("incomplete", facts.period_ns <= 0),
    ):
        for step in np.flatnonzero(chosen).tolist():
            reasons.setdefault(step, kind)
    measured = np.ones(len(facts.lane), np.bool_)
    measured[[*reasons]] = False
    for lane in np.unique(facts.lane).tolist():
        rows = np.flatnonzero((facts.lane == lane) & measured)
        slow = _leading(facts.period_ns[rows])
        reasons |= {int(row): "warm-up" if slow > 1 else "first" for row in rows[:slow]}
        later = rows[slow:]
        reasons |= {int(row): "outlier" for row in later[_outliers(facts.period_ns[later])]}
    return tuple(Excluded(step, reasons[step]) for step in sorted(reasons))


def _leading(period_ns: I64) -> int:
    """Return how many steps at the beginning are slower than the rest, at most half of them."""
    if len(period_ns) < 3:
        return 0
    median, spread = _centre(period_ns)
    slow = period_ns > 1.2 * median + 3 * spread
    return int(np.argmin(np.append(slow[: len(slow) // 2], False)))


def _outliers(period_ns: I64) -> I64:
    if len(period_ns) < 3:
        return np.zeros(0, np.int64)
    median, spread = _centre(period_ns)
    slow = np.flatnonzero(period_ns > 1.5 * median + 3 * spread)
    return slow if len(slow) <= max(1, len(period_ns) // 10) else slow[:0]


def _centre(values: I64) -> tuple[float, float]:
    """Return the median and the scaled median absolute deviation."""
    median = float(np.median(values))
    distance: F64 = np.abs(values - median)
    return median, _MAD_TO_SIGMA * float(np.median(distance))
