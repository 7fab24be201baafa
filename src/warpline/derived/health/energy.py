"""Energy that a GPU used in spans of time, from readings that are further apart than the spans.

The energy between two readings is known, how it was spent between them is not. A span that covers
all of the time between two readings used all of that energy, a span that covers a part of it used
anything from none to all; in the middle is the part in proportion to time, or to power times time
where power was read more often than the energy counter. No part can use more than the GPU's power
permits, nor can the rest: these are the bounds. Readings of power do not narrow them, because NVML
averages power over about a second, of which some GPUs sample a quarter. So consecutive steps are
known well together, and hardly one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived.health.readings import Known, Readings, gpu_readings
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.interval import union
from warpline.trace import Trace

# The driver updates its counter every 20 to 100 ms, depending on the GPU: a reading may be as old.
COUNTER_AGE_NS = 100_000_000
# A GPU keeps its power limit on average: for milliseconds, it may exceed it, by less than this.
_OF_POWER_LIMIT = 2.0


class Profile(NamedTuple):
    """How energy divides among shorter times, by readings of power.

    Attributes:
        at_ns: Shape (n,), int64, strictly ascending; it has all times of the energy's readings.
        joules: Shape (n - 1,), float64, energy from each time to the next. Between two readings of
            the energy, the sum is theirs.
        period_ns: The median time between two readings of power.
    """

    at_ns: I64
    joules: F64
    period_ns: float


class Meter(NamedTuple):
    """The energy that a GPU used between readings.

    Attributes:
        at_ns: Shape (n,), int64, strictly ascending.
        joules: Shape (n - 1,), float64, energy from each time to the next.
        age_ns: By how much the energy at a time may be that of an earlier one.
        is_counter: Whether it is from the GPU's energy counter; otherwise from power x time.
        most_w: The most power that the GPU can use for milliseconds; infinite if unknown.
        profile: How it divides among shorter times; None in proportion to time.
    """

    at_ns: I64
    joules: F64
    age_ns: int
    is_counter: bool
    most_w: float = math.inf
    profile: Profile | None = None

    @property
    def period_ns(self) -> float:
        """The median time between two readings."""
        return float(np.median(np.diff(self.at_ns)))

    def covers(self, start_ns: I64, end_ns: I64) -> BoolArray:
        """Return which spans lie between the first and the last reading, shape (n,)."""
        within: BoolArray = (start_ns >= self.at_ns[0]) & (end_ns <= self.at_ns[-1])
        return within

    def used(self, start_ns: I64, end_ns: I64) -> Estimate:
        """Return the energy in J during the union of some spans, with bounds.

        Args:
            start_ns: Shape (n,), int64, of spans that `covers`, in any order.
            end_ns: Shape (n,), int64.
        """
        spans = union(start_ns, end_ns)
        part, joules = _parts(self.at_ns, *spans), self.joules
        most = self.most_w * np.diff(self.at_ns) / 1e9
        is_whole, has_any = part == 1, part > 0
        in_rest = np.multiply(1 - part, most, out=np.zeros_like(part), where=~is_whole)
        in_part = np.multiply(part, most, out=np.zeros_like(part), where=has_any)
        # Of the time between two readings, spans use at least what the rest cannot, and at most
        # what they can. Where these are all of the energy, they grow with it.
        at_least = has_any & (is_whole | (joules > in_rest))
        at_most = has_any & (is_whole | (joules <= in_part))
        low = (joules - in_rest)[at_least].sum() - self._late(-at_least.astype(np.int64))
        high = np.minimum(joules, in_part)[has_any & ~is_whole].sum() + joules[is_whole].sum()
        high += self._late(at_most.astype(np.int64))
        central = float((part * joules).sum())
        low, high = max(min(float(low), central), 0.0), max(float(high), central)
        if self.profile is not None:
            divided = float((_parts(self.profile.at_ns, *spans) * self.profile.joules).sum())
            central = min(max(divided, low), high)
        return Estimate(low, central, high)

    def _late(self, grows: I64) -> float:
        """Return by how much a sum may be too small, because the counter is late at each reading.

        Args:
            grows: Shape (n - 1,), by how much the sum grows with the energy between two readings.
                Energy that a reading misses is in the time after it instead of the time before.
        """
        shown = np.append(0.0, np.cumsum(self.joules))
        # A reading that is this much later has all of the energy up to a time.
        later = np.searchsorted(self.at_ns, self.at_ns + self.age_ns)
        most = self._most_w * self.age_ns / 1e9
        late = np.where(
            later < len(shown), shown[np.minimum(later, len(shown) - 1)] - shown, math.inf
        )
        ends = -np.diff(grows, prepend=0, append=0)
        return float((np.maximum(ends, 0) * np.minimum(late, most)).sum())

    @property
    def _most_w(self) -> float:
        """The most power; if unknown, the highest mean between readings."""
        if math.isfinite(self.most_w):
            return self.most_w
        return float((self.joules / np.diff(self.at_ns) * 1e9).max())


def _parts(at_ns: I64, start: I64, end: I64) -> F64:
    """Return which part of the time between readings some disjoint spans cover, shape (n - 1,)."""
    if not len(start):
        return np.zeros(len(at_ns) - 1)
    before = np.cumsum(end - start) - (end - start)
    place = np.searchsorted(start, at_ns, side="right") - 1
    at = np.maximum(place, 0)
    inside = np.minimum(at_ns - start[at], (end - start)[at])
    covered = np.where(place >= 0, before[at] + inside, 0)
    share: F64 = np.diff(covered) / np.diff(at_ns)
    return share


def meters(trace: Trace) -> Mapping[int, Meter]:
    """Return the energy between readings of each GPU, by row of the device table.

    GPUs without two readings of energy or power have none.
    """
    found = {}
    for readings in gpu_readings(trace):
        limit = trace.columns("device", "power_limit_w")["power_limit_w"].filled(0.0)[readings.of]
        meter = _meter(readings, _OF_POWER_LIMIT * float(limit) if limit > 0 else math.inf)
        if meter is not None:
            found[readings.of] = meter
    return found


def _meter(readings: Readings, most_w: float) -> Meter | None:
    """Return the energy between the readings of a GPU; None with fewer than two.

    It is from the energy counter, or where there is none, from power x time, which is linear
    between readings. None also if the counter falls below its first value, as when a driver is
    loaded again. Smaller falls come from several recordings of a GPU, whose clocks differ a little.
    """
    for name in ("energy_j", "power_w"):
        known = readings.known(name)
        _, rows = np.unique(known.at_ns, return_index=True)
        at_ns, values = known.at_ns[rows], known.values[rows]
        if len(at_ns) < 2:
            continue
        if name == "power_w":
            seconds = np.diff(at_ns) / 1e9
            joules = (values[1:] + values[:-1]) / 2 * seconds
            return Meter(at_ns, joules, 0, is_counter=False, most_w=most_w)
        if (values[0] - values).max() > 0:
            return None
        values = np.maximum.accumulate(values)
        read_ns = int((readings.end_ns - readings.start_ns).max())
        age_ns, joules = COUNTER_AGE_NS + read_ns, np.diff(values)
        profile = _profile(at_ns, joules, readings.known("power_w"))
        return Meter(at_ns, joules, age_ns, is_counter=True, most_w=most_w, profile=profile)
    return None


def _profile(at_ns: I64, joules: F64, power: Known) -> Profile | None:
    """Return how energy divides among the readings of power between those of the counter.

    A reading of power is that of the time before it. None if power was not read more often.
    """
    within = (power.at_ns > at_ns[0]) & (power.at_ns < at_ns[-1])
    times = np.union1d(at_ns, power.at_ns[within])
    if len(times) == len(at_ns):
        return None
    length = np.diff(times)
    next_read = np.searchsorted(power.at_ns, times[1:])
    weight = power.values[np.minimum(next_read, len(power.values) - 1)] * length
    interval = np.searchsorted(at_ns, times[:-1], side="right") - 1
    count = len(joules)
    has_power = np.bincount(interval, weight, count) > 0
    weight = np.where(has_power[interval], weight, length)
    whole = np.bincount(interval, weight, count)
    return Profile(
        times,
        weight * (joules / whole)[interval],
        float(np.median(np.diff(power.at_ns[within]))) if within.sum() > 1 else 0.0,
    )
