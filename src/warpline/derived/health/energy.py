"""Energy that a GPU used in spans of time, from readings that are further apart than the spans.

The energy between two readings is known, how it was spent between them is not. A span that covers
all of the time between two readings used all of that energy, a span that covers a part of it used
anything from none to all; in the middle is the part in proportion to time. No part can use more
than the GPU's power permits, nor can the rest. So consecutive steps are known well together, and
hardly one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived.health.readings import Readings, gpu_readings
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.interval import union
from warpline.trace import Trace

# The driver updates its counter every 20 to 100 ms, depending on the GPU: a reading may be as old.
COUNTER_AGE_NS = 100_000_000
# A GPU keeps its power limit on average: for milliseconds, it may exceed it, by less than this.
_OF_POWER_LIMIT = 2.0


class Meter(NamedTuple):
    """The energy that a GPU used between readings.

    Attributes:
        at_ns: Shape (n,), int64, strictly ascending.
        joules: Shape (n - 1,), float64, energy from each time to the next.
        age_ns: By how much the energy at a time may be that of an earlier one.
        is_counter: Whether it is from the GPU's energy counter; otherwise from power x time.
        most_w: The most power that the GPU can use for milliseconds; infinite if unknown.
    """

    at_ns: I64
    joules: F64
    age_ns: int
    is_counter: bool
    most_w: float = math.inf

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
        part, joules = self._parts(start_ns, end_ns), self.joules
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
        return Estimate(max(min(float(low), central), 0.0), central, max(float(high), central))

    def _parts(self, start_ns: I64, end_ns: I64) -> F64:
        """Return which part of the time between readings some spans cover, shape (n - 1,)."""
        start, end = union(start_ns, end_ns)
        if not len(start):
            return np.zeros(len(self.joules))
        before = np.cumsum(end - start) - (end - start)
        place = np.searchsorted(start, self.at_ns, side="right") - 1
        at = np.maximum(place, 0)
        inside = np.minimum(self.at_ns - start[at], (end - start)[at])
        covered = np.where(place >= 0, before[at] + inside, 0)
        share: F64 = np.diff(covered) / np.diff(self.at_ns)
        return share

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
        age_ns = COUNTER_AGE_NS + read_ns
        return Meter(at_ns, np.diff(values), age_ns, is_counter=True, most_w=most_w)
    return None
