"""The findings of each launch, ranked, with the time that each of them would save.

Excesses are removed one after another, the most expensive one first, and each is priced on what
remains. So savings of a launch never add up to more than its time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change, Prediction
from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.derived.kernel_limits.rules import KernelRule, Kind, Proposal
from warpline.frozen import frozen
from warpline.ops.arrays import F64

LEAST_SHARE = 0.05  # of the kernel's time, for a finding


@frozen
class Priced:
    """A finding of a launch.

    Attributes:
        rule: Id of the rule.
        proposal: What was found.
        before_ns: Time before the repair: that of the launch, or after the findings above.
        low_ns: Floor of the time after it.
        likely_ns: Expected time after it; None with a floor only.
        high_ns: Most time after it.
        limiter: What limits the launch then.
    """

    rule: str
    proposal: Proposal
    before_ns: float
    low_ns: float
    likely_ns: float | None
    high_ns: float
    limiter: str

    @property
    def rank_ns(self) -> float:
        """Saving by which findings are ranked.

        Between a floor and the present time nothing is more likely; their geometric mean counts.
        """
        likely = self.likely_ns
        if likely is None:
            likely = float(np.sqrt(self.low_ns * self.before_ns))
        return self.before_ns - likely


def priced(launches: Launches, rules: Iterable[KernelRule]) -> list[list[Priced]]:
    """Return the findings of each launch, the largest saving first.

    Args:
        launches: The launches. Those without the counters that a prediction needs have none.
        rules: The rules.
    """
    found = [(rule.name, proposal) for rule in rules for proposal in rule.judge(launches)]
    of_launches: list[list[Priced]] = [[] for _ in range(len(launches))]
    removing = [item for item in found if item[1].kind is Kind.REMOVES]
    for row, item in _chain(launches, removing):
        of_launches[row].append(item)
    now = launches.demands.time_ns
    for rule, proposal in found:
        if proposal.kind is Kind.REMOVES:
            continue
        after = launches.predict(proposal.change)
        applies = proposal.applies & launches.demands.has_all
        if proposal.kind.has_floor_only:
            applies &= now - after.low_ns >= LEAST_SHARE * now
        for row in np.flatnonzero(applies).tolist():
            of_launches[row].append(_item(rule, proposal, after, now, row))
    for findings in of_launches:
        findings.sort(key=_rank)
    return of_launches


def _rank(item: Priced) -> tuple[int, float]:
    """Return what findings are sorted by: faults first, what is done last."""
    kind = item.proposal.kind
    return (0 if kind.is_fault else kind.value), -item.rank_ns


def _chain(launches: Launches, found: list[tuple[str, Proposal]]) -> Iterable[tuple[int, Priced]]:
    """Yield rows and findings of excesses that are removed one after another."""
    count = len(launches)
    done, before = Change.of(count), launches.demands.time_ns
    is_open = np.array([item.applies & launches.demands.has_all for _, item in found], np.bool_)
    least = LEAST_SHARE * launches.demands.time_ns
    for _ in found:
        changes = [done.then(item.change) for _, item in found]
        afters = [launches.predict(change) for change in changes]
        gains = np.where(is_open, np.array([before - after.likely_ns for after in afters]), -1.0)
        best = gains.argmax(axis=0)
        is_worth = (gains.max(axis=0) >= least) & (least > 0)
        if not is_worth.any():
            return
        for place, (rule, proposal) in enumerate(found):
            is_next = is_worth & (best == place)
            if not is_next.any():
                continue
            for row in np.flatnonzero(is_next).tolist():
                yield row, _item(rule, proposal, afters[place], before, row)
            done = done.then(proposal.change.where(is_next))
            before = np.where(is_next, afters[place].likely_ns, before)
            is_open[place] &= ~is_next


def _item(rule: str, proposal: Proposal, after: Prediction, before: F64, row: int) -> Priced:
    now = float(before[row])
    label = RESOURCES[int(after.limiter[row])].label
    low, likely, high = (
        min(float(times[row]), now) for times in (after.low_ns, after.likely_ns, after.high_ns)
    )
    if proposal.kind.has_floor_only:
        return Priced(rule, proposal, now, low, None, now, label)
    if proposal.kind is Kind.REMOVES:
        return Priced(rule, proposal, now, low, likely, high, label)
    return Priced(rule, proposal, now, low, now, now, label)
