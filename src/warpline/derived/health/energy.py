"""Energy that a GPU used in spans of time, from readings that are further apart than the spans.

The energy between two readings is known, how it was spent between them is not. A span that covers
all of the time between two readings used all of that energy, a span that covers a part of it used
anything from none to all; in the middle is the part in proportion to time. So consecutive steps are
known well together, and hardly one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.health.readings import Readings
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.interval import union

# The driver updates its counter every 20 to 100 ms, depending on the GPU: a reading may be as old.
COUNTER_AGE_NS = 100_000_000


class Meter(NamedTuple):
    """The energy that a GPU used between readings.

    Attributes:
        at_ns: Shape (n,), int64, strictly ascending.
        joules: Shape (n - 1,), float64, energy from each time to the next.
        age_ns: By how much the energy at a time may be that of an earlier one.
        is_counter: Whether it is from the GPU's energy counter; otherwise from power x time.
    """

    at_ns: I64
    joules: F64
    age_ns: int
    is_counter: bool

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
        central = float((part * self.joules).sum())
        is_part = (part > 0) & (part < 1)
        less = float((part * self.joules)[is_part].sum())
        more = float(((1 - part) * self.joules)[is_part].sum())
        late = self._late(part)
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


def meter_of(readings: Readings) -> Meter | None:
    """Return the energy between the readings of a GPU; None with fewer than two.

    It is from the energy counter, or where there is none, from power x time, which is linear
    between readings. None also if the counter fell, as when a driver is loaded again.
    """
    for name in ("energy_j", "power_w"):
        known = readings.known(name)
        _, rows = np.unique(known.at_ns, return_index=True)
        at_ns, values = known.at_ns[rows], known.values[rows]
        if len(at_ns) < 2:
            continue
        if name == "power_w":
            seconds = np.diff(at_ns) / 1e9
            return Meter(at_ns, (values[1:] + values[:-1]) / 2 * seconds, 0, is_counter=False)
        if (np.diff(values) < 0).any():
            return None
        read_ns = int((readings.end_ns - readings.start_ns).max())
        return Meter(at_ns, np.diff(values), COUNTER_AGE_NS + read_ns, is_counter=True)
    return None
