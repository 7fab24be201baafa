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
        part = self._parts(start_ns, end_ns)
        central, late = float((part * self.joules).sum()), self._late(part)
        # What the rest of the time could use more, and the spans less, or the other way round.
        spare = np.maximum(self.most_w * np.diff(self.at_ns) / 1e9 - self.joules, 0)
        is_part = (part > 0) & (part < 1)
        part, joules, spare = part[is_part], self.joules[is_part], spare[is_part]
        less = float(np.minimum(part * joules, (1 - part) * spare).sum())
        more = float(np.minimum((1 - part) * joules, part * spare).sum())
        return Estimate(max(central - less - late, 0.0), central, central + more + late)

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

    def _late(self, part: F64) -> float:
        """Return the energy that may be counted late, where a covered part begins or ends."""
        power = self.joules / np.diff(self.at_ns)
        edges = np.abs(np.diff(part, prepend=0.0, append=0.0))
        around = np.maximum(np.append(power, 0.0), np.append(0.0, power))
        return float((edges * around).sum()) * self.age_ns


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
