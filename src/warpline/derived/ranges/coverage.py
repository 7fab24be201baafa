"""GPU busy time of many sets of operations, which may overlap and share operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.tree import Pairs


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
    """Operations of several GPUs, ranked once so that any sets of them are measured quickly.

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
        """Return the times of each set.

        Args:
            blocks: Sets (`Pairs.interval`, in ``[0, n_sets)``) and the operations in them
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
        keys = (pairs.interval << self._bits) | self._place[pairs.point]
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
        ranks = (np.cumsum(opens) << self._bits) | self._end_rank[place]
        np.maximum.accumulate(ranks, out=ranks)
        reach: I64 = self._ends[ranks & ((1 << self._bits) - 1)]
        return reach


def _changes(values: Integers) -> BoolArray:
    """Return where a value differs from its predecessor; the first one always does."""
    return np.append(np.ones(1, np.bool_), values[1:] != values[:-1])


def _inverse(order: I64) -> I64:
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place
