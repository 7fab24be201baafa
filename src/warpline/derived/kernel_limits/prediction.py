"""How long a kernel takes after a change: the next limiter.

The time of a kernel is governed by its busiest resource or, where none is busy, by latency. A
repair takes demand away, or hides more latency; then what is busiest now governs. Where resources
are used together, they add up by a norm (`Ceilings.overlap`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.derived.kernel_limits.ceilings import CHOSEN, Ceilings
from warpline.derived.kernel_limits.demands import Demands, busiest_sm
from warpline.derived.kernel_limits.resources import GROUPS, PLACE, RESOURCES
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64, BoolArray

_MOST = 1e6  # times as much latency that is hidden: then none is left


@frozen
class Change:
    """What a repair changes in each launch.

    Attributes:
        kept: Part of the use of each resource that remains, shape (launches, resources).
        kept_least: The same at best, which the floor rests on.
        added: Use that is added, as a share of the present time, same shape.
        hides: Factor by which more latency is hidden, at least 1, shape (launches,).
        hides_least: The same at worst, shape (launches,).
        balances: Whether all SMs then work the same time, shape (launches,).
    """

    kept: F64
    kept_least: F64
    added: F64
    hides: F64
    hides_least: F64
    balances: BoolArray

    @classmethod
    def of(
        cls,
        count: int,
        kept: Mapping[str, F64] | None = None,
        *,
        kept_least: Mapping[str, F64] | None = None,
        added: Mapping[str, F64] | None = None,
        hides: F64 | None = None,
        hides_least: F64 | None = None,
        balances: bool = False,
    ) -> Change:
        """Return a change of launches, with columns by the name of their resource.

        Args:
            count: Number of launches.
            kept: Parts that remain; others stay as they are.
            kept_least: Parts that remain at best, by default the same.
            added: Shares of the present time that are added.
            hides: Factor by which more latency is hidden.
            hides_least: The same at worst, by default the same.
            balances: Whether all SMs then work the same time.
        """
        scale, more = np.ones((count, len(RESOURCES))), np.zeros((count, len(RESOURCES)))
        for name, part in (kept or {}).items():
            scale[:, PLACE[name]] = np.clip(part, 0, 1)
        best = scale.copy()
        for name, part in (kept_least or {}).items():
            best[:, PLACE[name]] = np.minimum(np.clip(part, 0, 1), scale[:, PLACE[name]])
        for name, share in (added or {}).items():
            more[:, PLACE[name]] = share
        factor = np.ones(count) if hides is None else np.clip(hides, 1.0, _MOST)
        least = factor if hides_least is None else np.clip(hides_least, 1.0, factor)
        return cls(scale, best, more, factor, least, np.full(count, balances))

    def then(self, other: Change) -> Change:
        """Return both changes, this one first."""
        return Change(
            self.kept * other.kept,
            self.kept_least * other.kept_least,
            self.added * other.kept + other.added,
            self.hides * other.hides,
            self.hides_least * other.hides_least,
            self.balances | other.balances,
        )

    def where(self, is_changed: BoolArray) -> Change:
        """Return the change of some launches, shape (launches,), and none of the others."""
        column = is_changed[:, None]
        return Change(
            np.where(column, self.kept, 1.0),
            np.where(column, self.kept_least, 1.0),
            np.where(column, self.added, 0.0),
            np.where(is_changed, self.hides, 1.0),
            np.where(is_changed, self.hides_least, 1.0),
            self.balances & is_changed,
        )


@frozen
class Prediction:
    """How long launches take after a change, shape (launches,) each.

    Attributes:
        low_ns: Floor: with the best use of the next limiter.
        likely_ns: Expected.
        high_ns: With a poor use of it, and what no resource explains as it was.
        limiter: Place of the next limiter among the resources.
    """

    low_ns: F64
    likely_ns: F64
    high_ns: F64
    limiter: I64


def predict(demands: Demands, change: Change, ceilings: Ceilings = CHOSEN) -> Prediction:
    """Return how long launches take after a change; never longer than now."""
    time_ns = demands.time_ns
    now = demands.on_busiest_sm
    imbalance = np.where(change.balances, 1.0, demands.imbalance)
    after = busiest_sm(demands.used * change.kept + change.added, imbalance)
    at_best = busiest_sm(demands.used * change.kept_least + change.added, imbalance)

    def longest(used: F64, ceiling: F64) -> F64:
        # A share that was measured is possible.
        share: F64 = (used / np.maximum(ceiling, now)).max(axis=1)
        return share * time_ns

    start = ceilings.start_ns
    likely = np.maximum(
        _quotient(now, after, change.hides, ceilings) * time_ns,
        longest(after, ceilings.likely()) + start.likely,
    )
    unexplained = (1 - now.max(axis=1)) * time_ns / change.hides_least
    low = np.minimum(longest(at_best, ceilings.best()) + start.best, time_ns)
    high = np.minimum(longest(after, ceilings.poor()) + start.poor + unexplained, time_ns)
    likely = np.clip(likely, low, time_ns)
    limiter = (after / np.maximum(ceilings.likely(), now)).argmax(axis=1)
    return Prediction(low, likely, np.maximum(high, likely), limiter)


def _quotient(now: F64, after: F64, hides: F64, ceilings: Ceilings) -> F64:
    """Return time after the change over time now, as resources and latency add up."""
    p = ceilings.overlap
    of_now, of_after = _norm(now, p), _norm(after, p)
    is_busy = now.max(axis=1, initial=0) >= ceilings.busy
    by_resources = np.divide(of_after, of_now, out=np.ones(len(of_now)), where=of_now > 0)
    latency = np.maximum(1 - of_now**p, 0) / hides**p
    return np.where(is_busy, by_resources, (of_after**p + latency) ** (1 / p))


def _norm(used: F64, p: float) -> F64:
    """Return the norm over groups of resources, each with its busiest member."""
    busiest = np.stack([used[:, list(group)].max(axis=1) for group in GROUPS])
    norm: F64 = (busiest**p).sum(axis=0) ** (1 / p)
    return norm
