"""The longest event per bin of time, for any bin width, without visiting all events.

Bin widths are powers of two in ns, so that bins of one width nest in those of a larger one. For a
few widths, the longest event of every non-empty bin is stored; wider bins follow from these. A
width is only stored if it has at most half as many bins as the previous one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64, U8

NOTHING = -1
_SHARE = 8  # events per bin of the finest stored width
_FEWEST = 64
_PIECE = 2**19

Weigh = Callable[[I64], "I64 | F64"]


class _Level(NamedTuple):
    """Bins of ``2**shift`` ns in which an event starts, in time order.

    Attributes:
        shift: Power of two.
        first: The first event that starts in each bin, shape (bins,).
        best: The heaviest event that starts there, except the last, or `NOTHING`; shape (bins,).
    """

    shift: int
    first: I64
    best: I64


class RangeMax:
    """Finds the heaviest of the events that start in each bin, except the last.

    The last event that starts in a bin is left to the caller: it may extend into the next bin.
    """

    def __init__(self, start_ns: I64, origin_ns: int, weigh: Weigh) -> None:
        """Index events.

        Args:
            start_ns: Shape (n,), ascending, not before the origin.
            origin_ns: Start of the first bin.
            weigh: Returns the weights of events by number; negative for events to ignore.
        """
        self._weigh = weigh
        self._count = len(start_ns)
        self._levels: list[_Level] = []
        apart = _apart(start_ns, origin_ns)
        bins = np.cumsum(np.bincount(apart, minlength=64)[::-1])[::-1]  # by minimum shift
        wanted = self._count // _SHARE
        first = best = None
        for shift in range(63):
            count = int(bins[shift + 1])
            if count > wanted or count < _FEWEST:
                continue
            if first is None or best is None:
                groups = np.flatnonzero(apart > shift)
                first, best = groups, self._best(None, None, groups)
            else:
                groups = np.flatnonzero(apart[first] > shift)
                first, best = first[groups], self._best(first, best, groups)
            self._levels.append(_Level(shift, first, best))
            wanted = count // 2

    def best(self, shift: int, edges: I64) -> I64:
        """Return the heaviest of the events ``[edges[i], edges[i + 1])``, except the last.

        Args:
            shift: The runs are the events that start in bins of ``2**shift`` ns.
            edges: Ascending, shape (runs + 1,).

        Returns:
            Shape (runs,): numbers of events, or `NOTHING`.
        """
        heaviest = np.full(len(edges) - 1, NOTHING, np.int64)
        is_filled = edges[1:] > edges[:-1]
        begins = edges[:-1][is_filled]
        if not len(begins):
            return heaviest
        high = int(edges[-1])
        usable = [level for level in self._levels if level.shift <= shift]
        if not usable:
            low = int(begins[0])
            best = self._best(np.arange(low, high), None, begins - low, high)
        else:
            level = usable[-1]
            place = np.searchsorted(level.first, begins)
            low = int(place[0])
            span = slice(low, int(np.searchsorted(level.first, high)))
            best = self._best(level.first[span], level.best[span], place - low, high)
        heaviest[is_filled] = best
        return heaviest

    def _best(
        self, first: I64 | None, best: I64 | None, groups: I64, end: int | None = None
    ) -> I64:
        """Return the heaviest event of each group of bins, except the last.

        Args:
            first: First event of each bin; None for one bin per event.
            best: Heaviest event of each bin, except its last; None for none.
            groups: First bin of each group, ascending from 0.
            end: End of the events of the last bin; None for the end of the row.
        """
        count = self._count if first is None else len(first)
        end = self._count if end is None else end
        heaviest = np.full(len(groups), NOTHING, np.int64)
        begin = 0
        while begin < len(groups):
            until = int(np.searchsorted(groups, groups[begin] + _PIECE, side="right")) - 1
            until = len(groups) if groups[-1] < groups[begin] + _PIECE else max(until, begin + 1)
            low = int(groups[begin])
            high = int(groups[until]) if until < len(groups) else count
            last = self._last(first, low, high, end)
            own = None if best is None else best[low:high]
            heaviest[begin:until] = self._heaviest(last, own, groups[begin:until] - low)
            begin = until
        return heaviest

    @staticmethod
    def _last(first: I64 | None, low: int, high: int, end: int) -> I64:
        """Return the last event of each of the bins ``[low, high)``."""
        if first is None:
            return np.arange(low, high)
        return np.append(first[low + 1 : high + 1], end)[: high - low] - 1

    def _heaviest(self, last: I64, best: I64 | None, groups: I64) -> I64:
        """Return the heaviest of the best and last events of each group, except the final one."""
        ends = np.empty_like(groups)
        ends[:-1], ends[-1] = groups[1:], len(last)
        weight = self._weigh(last)
        weight[ends - 1] = NOTHING
        candidate = last
        if best is not None:
            own = np.where(best >= 0, self._weigh(np.maximum(best, 0)), NOTHING)
            candidate = np.where(weight > own, last, best)
            weight = np.maximum(weight, own)
        most = np.maximum.reduceat(weight, groups)
        hit = np.flatnonzero(weight == np.repeat(most, ends - groups))
        heaviest: I64 = candidate[hit[np.searchsorted(hit, groups)]]  # the first of equal weights
        heaviest[most < 0] = NOTHING
        return heaviest


def _apart(start_ns: I64, origin_ns: int) -> U8:
    """Return the smallest shift at which each event shares a bin with the previous one, or 63."""
    apart = np.empty(len(start_ns), np.uint8)
    apart[:1] = 63
    for begin in range(1, len(start_ns), _PIECE):
        piece = start_ns[begin - 1 : begin + _PIECE] - origin_ns
        changed = (piece[1:] ^ piece[:-1]).astype(np.float64)
        apart[begin : begin + _PIECE] = np.frexp(changed)[1]
    return apart
