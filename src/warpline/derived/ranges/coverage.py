"""How long the devices worked for each of many sets of operations that may overlap and share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.tree import Pairs


class Coverage(NamedTuple):
    """What sets of operations took; 0 everywhere for an empty set.

    Attributes:
        busy_ns: Shape (sets,), int64, time in which at least one operation of the set ran on a
            device, added over devices.
        span_ns: Shape (sets,), int64, time from the first start to the last end on a device,
            added over devices; never less than busy.
        first_start_ns: Shape (sets,), int64, when the first operation began on any device.
        last_end_ns: Shape (sets,), int64, when the last one ended.
    """

    busy_ns: I64
    span_ns: I64
    first_start_ns: I64
    last_end_ns: I64


class Timeline:
    """Operations of several devices, ranked once so that any sets of them are measured quickly.

    Args:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, none before its start.
        device: Shape (n,).
    """

    def __init__(self, start_ns: I64, end_ns: I64, device: Integers) -> None:
        order = np.lexsort((start_ns, device))
        by_end = np.argsort(end_ns[order], kind="stable")
        self._start, self._end, self._device = start_ns[order], end_ns[order], device[order]
        self._place = _inverse(order)
        self._end_rank = _inverse(by_end)
        self._ends = self._end[by_end]
        self._bits = len(order).bit_length()

    def measure(self, blocks: Iterable[Pairs], n_sets: int) -> Coverage:
        """Return what each set took.

        Args:
            blocks: Sets (`Pairs.interval`, in ``[0, n_sets)``) and the operations in them
                (`Pairs.point`), each pair once, in any order; no set is in two blocks.
            n_sets: How many sets there are.

        Takes O(k log k) for a block of k pairs.
        """
        found = Coverage(*(np.zeros(n_sets, np.int64) for _ in Coverage._fields))
        for block in blocks:
            if len(block.point):
                self._measure(block, found)
        return found

    def _measure(self, pairs: Pairs, found: Coverage) -> None:
        # One number per pair, which orders by set, then device, then start.
        keys = (pairs.interval << self._bits) | self._place[pairs.point]
        keys.sort()
        owner, place = keys >> self._bits, keys & ((1 << self._bits) - 1)
        start, opens_set = self._start[place], _changes(owner)
        opens = opens_set | _changes(self._device[place])
        reach = self._reach(place, opens)
        # What an operation adds to the busy time begins where those before it have ended.
        begin = start.copy()
        np.maximum(start[1:], reach[:-1], out=begin[1:], where=~opens[1:])
        firsts, sets = np.flatnonzero(opens_set), owner[opens_set]
        found.busy_ns[sets] = np.add.reduceat(reach - begin, firsts)
        found.first_start_ns[sets] = np.minimum.reduceat(start, firsts)
        found.last_end_ns[sets] = np.maximum.reduceat(reach, firsts)
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(place)) - 1
        of_set = np.flatnonzero(opens_set[first])
        found.span_ns[sets] = np.add.reduceat(reach[last] - start[first], of_set)

    def _reach(self, place: I64, opens: BoolArray) -> I64:
        """Return the latest end so far in each run; ranks of ends stand in for the ends.

        The number of the run above the rank makes one running maximum serve all runs.
        """
        ranks = (np.cumsum(opens) << self._bits) | self._end_rank[place]
        np.maximum.accumulate(ranks, out=ranks)
        reach: I64 = self._ends[ranks & ((1 << self._bits) - 1)]
        return reach


def _changes(values: Integers) -> BoolArray:
    """Return where a value differs from the one before it; the first does."""
    return np.append(np.ones(1, np.bool_), values[1:] != values[:-1])


def _inverse(order: I64) -> I64:
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place
