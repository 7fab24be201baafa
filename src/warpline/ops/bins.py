"""Equal bins of time: sums, means and maxima of what is in each."""

from __future__ import annotations

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import I64, Integers


@frozen
class Bins:
    """Adjacent bins of equal width.

    Attributes:
        start_ns: Start of the first one.
        width_ns: At least 1.
        count: At least 1.
    """

    start_ns: int
    width_ns: int
    count: int

    @property
    def edges_ns(self) -> I64:
        """Shape (count + 1,), int64, their starts and the end of the last one."""
        return self.start_ns + self.width_ns * np.arange(self.count + 1, dtype=np.int64)

    def of(self, time_ns: I64) -> I64:
        """Return the bin of each time, shape (n,); the first or last one for times outside."""
        return np.clip((time_ns - self.start_ns) // self.width_ns, 0, self.count - 1)

    def covered_ns(self, start_ns: I64, end_ns: I64) -> I64:
        """Return the time in each bin of all intervals, overlapped time as often as it is covered.

        Args:
            start_ns: Shape (n,), int64.
            end_ns: Shape (n,), int64, none before its start.
        """
        # Up to each edge, the time since all starts less that since all ends. Sums may exceed 64
        # bits and wrap around; their differences are right if they fit themselves.
        edges = self.edges_ns
        return np.diff(_elapsed(start_ns, edges) - _elapsed(end_ns, edges))

    def most(self, start_ns: I64, end_ns: I64) -> I64:
        """Return how many of the intervals are open at once in each bin, at most.

        Args:
            start_ns: Shape (n,), int64.
            end_ns: Shape (n,), int64, none before its start. Empty intervals are never open.
        """
        edges = self.edges_ns
        lasting = end_ns > start_ns
        start, end = np.sort(start_ns[lasting]), np.sort(end_ns[lasting])
        open_ = np.searchsorted(start, edges[:-1], "right") - np.searchsorted(
            end, edges[:-1], "right"
        )
        # The number grows at starts only: what ends at that moment is no longer open.
        depth = np.searchsorted(start, start, "right") - np.searchsorted(end, start, "right")
        inside = (start >= edges[0]) & (start < edges[-1])
        np.maximum.at(open_, self.of(start[inside]), depth[inside])
        return open_.astype(np.int64)


def equal_bins(low_ns: int, high_ns: int, most: int) -> Bins:
    """Return at most `most` bins that cover a span; a single one of 1 ns for an empty span."""
    length = max(high_ns - low_ns, 1)
    width = -(-length // most)
    return Bins(low_ns, width, -(-length // width))


def _elapsed(times_ns: I64, edges_ns: I64) -> I64:
    """Return the sum of the time from each of `times_ns` to the edges after it, modulo 2**64."""
    ordered = np.sort(times_ns)
    sums = np.append(np.int64(0), np.cumsum(ordered))
    count = np.searchsorted(ordered, edges_ns, "right")
    return count * edges_ns - sums[count]


def power_bins(values: Integers, per_doubling: int) -> I64:
    """Return the lower bound of each value's bin; bins are whole numbers, 2**(1/n) apart.

    Values below 1 have bin 0.

    Args:
        values: Shape (n,), nonnegative.
        per_doubling: Bins per factor of two.
    """
    bounds = power_bounds(per_doubling)
    return bounds[np.searchsorted(bounds, values, "right") - 1]


def power_bounds(per_doubling: int) -> I64:
    """Return the ascending bounds of `power_bins`: 0, 1 and on to 2**62."""
    exact = 2.0 ** (np.arange(62 * per_doubling + 1) / per_doubling)
    return np.append(np.int64(0), np.unique(np.rint(exact).astype(np.int64)))
