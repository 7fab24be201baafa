"""GPU busy time of many sets of operations, which may overlap and share operations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline import native
from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.tree import Contents, Pairs

# Without the native core: blocks of pairs that fit in the CPU cache are measured twice as fast as
# large ones.
_PAIRS_PER_BLOCK = 2**17


class Coverage(NamedTuple):
    """The times of sets of operations; all 0 for an empty set.

    Attributes:
        busy_ns: Shape (sets,), int64, time during which at least one operation of the set runs on
            a GPU, added over GPUs.
        span_ns: Shape (sets,), int64, time from the first start to the last end on a GPU, added
            over GPUs; never less than busy.
        first_start_ns: Shape (sets,), int64, start of the first operation on any GPU.
        last_end_ns: Shape (sets,), int64, end of the last operation.
    """

    busy_ns: I64
    span_ns: I64
    first_start_ns: I64
    last_end_ns: I64


class Timeline:
    """Operations of several GPUs, of which any sets are measured quickly.

    Args:
        start_ns: Shape (n,), int64, ascending on each GPU.
        end_ns: Shape (n,), int64, none before its start.
        device: Shape (n,), int64, ascending.
        items: Shape (m,), int64, the operation of each item that sets consist of.
    """

    def __init__(self, start_ns: I64, end_ns: I64, device: I64, items: I64) -> None:
        columns = map(np.ascontiguousarray, (start_ns, end_ns, device))
        self._start, self._end, self._device = columns
        self._items = items.astype(np.int32)
        self._bits = len(start_ns).bit_length()

    def measure_contents(
        self, contents: Contents, n_sets: int, sets: Integers | None = None
    ) -> Coverage:
        """Return the times of the operations in intervals.

        Args:
            contents: Intervals, and the items in them.
            n_sets: Number of sets; that of intervals without `sets`.
            sets: Shape (intervals,), the set of each interval, in ``[0, n_sets)``. None: each
                interval is a set.

        Takes O(k) for k pairs of an interval and an item, and O(k log k) without the native
        core.
        """
        coverage = self._measure_natively(contents, n_sets, sets)
        if coverage is not None:
            return coverage
        if sets is None:
            return self.measure(contents.pairs(_PAIRS_PER_BLOCK), n_sets)
        everything = max(int((contents.last - contents.first).sum()), 1)
        pairs = contents.pairs(everything)  # in one block, because a set may not be in two
        return self.measure((Pairs(sets[each.interval], each.point) for each in pairs), n_sets)

    def _measure_natively(
        self, contents: Contents, n_sets: int, sets: Integers | None
    ) -> Coverage | None:
        """Return the same, or None without the native core."""
        core = native.core()
        if core is None:
            return None
        first, last = map(np.ascontiguousarray, (contents.first, contents.last))
        members = self._items[contents.order]
        owners = None if sets is None else np.ascontiguousarray(sets, np.int32)
        coverage = Coverage(*(np.empty(n_sets, np.int64) for _ in Coverage._fields))
        status = core.wl_coverage_i64(
            native.Operations(
                count=len(self._start),
                start=self._start.ctypes.data,
                end=self._end.ctypes.data,
                device=self._device.ctypes.data,
            ),
            native.Sets(
                intervals=len(first),
                first=first.ctypes.data,
                last=last.ctypes.data,
                set=None if owners is None else owners.ctypes.data,
                sets=n_sets,
                members=len(members),
                member=members.ctypes.data,
            ),
            native.Coverage(*(column.ctypes.data for column in coverage)),
        )
        return coverage if status == native.OK else None

    @cached_property
    def _ends(self) -> tuple[I64, I64]:
        """Return the rank of each end, and the ends in ascending order."""
        by_end = np.argsort(self._end, kind="stable")
        rank = np.empty_like(by_end)
        rank[by_end] = np.arange(len(by_end))
        return rank, self._end[by_end]

    def measure(self, blocks: Iterable[Pairs], n_sets: int) -> Coverage:
        """Return the times of each set.

        Args:
            blocks: Sets (`Pairs.interval`, in ``[0, n_sets)``) and the items in them
                (`Pairs.point`), each pair once, in any order; no set is in two blocks.
            n_sets: Number of sets.

        Takes O(k log k) for a block of k pairs.
        """
        coverage = Coverage(*(np.zeros(n_sets, np.int64) for _ in Coverage._fields))
        for block in blocks:
            if len(block.point):
                self._measure(block, coverage)
        return coverage

    def _measure(self, pairs: Pairs, coverage: Coverage) -> None:
        # One sort key per pair: by set, then GPU, then start.
        keys = (pairs.interval << self._bits) | self._items[pairs.point]
        keys.sort()
        owner, place = keys >> self._bits, keys & ((1 << self._bits) - 1)
        start, opens_set = self._start[place], _changes(owner)
        opens = opens_set | _changes(self._device[place])
        reach = self._reach(place, opens)
        # An operation adds to the busy time only after all previous ones have ended.
        begin = start.copy()
        np.maximum(start[1:], reach[:-1], out=begin[1:], where=~opens[1:])
        firsts, sets = np.flatnonzero(opens_set), owner[opens_set]
        coverage.busy_ns[sets] = np.add.reduceat(reach - begin, firsts)
        coverage.first_start_ns[sets] = np.minimum.reduceat(start, firsts)
        coverage.last_end_ns[sets] = np.maximum.reduceat(reach, firsts)
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(place)) - 1
        of_set = np.flatnonzero(opens_set[first])
        coverage.span_ns[sets] = np.add.reduceat(reach[last] - start[first], of_set)

    def _reach(self, place: I64, opens: BoolArray) -> I64:
        """Return the latest end so far in each run, computed on ranks of ends.

        With the run number in the high bits, one running maximum covers all runs.
        """
        end_rank, ends = self._ends
        ranks = (np.cumsum(opens) << self._bits) | end_rank[place]
        np.maximum.accumulate(ranks, out=ranks)
        reach: I64 = ends[ranks & ((1 << self._bits) - 1)]
        return reach


def _changes(values: Integers) -> BoolArray:
    """Return where a value differs from its predecessor; the first one always does."""
    return np.append(np.ones(1, np.bool_), values[1:] != values[:-1])
