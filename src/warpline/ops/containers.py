"""The shortest container of each interval, for intervals that may overlap partially.

For properly nested intervals, the innermost container is unique, and `ops.tree` finds it fast.
Where intervals cross, the container that starts last is not always the shortest.
"""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import I64, Integers, as_i64
from warpline.ops.group import factorize_rows
from warpline.ops.join import Lookup

_NOTHING = -1


def shortest_containers(start: Integers, end: Integers, group: Integers) -> Lookup:
    """Return the shortest other interval of its group that contains each interval.

    Containment is defined as in `ops.tree`. Among containers of the same length, the one that
    starts first is used. Among equal intervals, it is the later row, which is inside the earlier.
    Takes O(n log^2 n); intervals may be in any order.

    Args:
        start: Shape (n,).
        end: Shape (n,), none before its start.
        group: Shape (n,).
    """
    begin, until = as_i64("start", start), as_i64("end", end)
    order = np.lexsort((~until, begin, group))  # a container comes before what it contains
    begin, until, owner = begin[order], until[order], as_i64("group", group)[order]
    shortest = _shortest_before(begin, until, owner)
    row, has = np.zeros(len(order), np.int64), np.zeros(len(order), np.bool_)
    has[order] = shortest != _NOTHING
    row[order] = np.where(shortest != _NOTHING, order[np.maximum(shortest, 0)], 0)
    return Lookup(row, has)


def _shortest_before(begin: I64, end: I64, group: I64) -> I64:
    """Return the position of the shortest earlier interval that reaches far enough, or _NOTHING.

    Divide and conquer: at each level, the intervals of a left half are candidates for those of
    the adjacent right half, so that every earlier interval is considered once.
    """
    n, length = len(begin), end - begin
    must_reach = np.maximum(end, begin + 1)  # a point inside is followed by a moment inside
    keys = factorize_rows(np.concatenate((group, group)), np.concatenate((end, must_reach))).codes
    reach, wanted = keys[:n].astype(np.int64), keys[n:].astype(np.int64)
    by_length = np.lexsort((-np.arange(n), begin, length))
    rank = np.empty(n, np.int64)
    rank[by_length] = np.arange(n)
    best, place, size = np.full(n, n, np.int64), np.arange(n), 1
    while size < n:
        pair, is_left = place // (2 * size), (place // size) % 2 == 0
        block = pair * (2 * n) + reach
        asked = np.flatnonzero(is_left & (length > 0))
        asked = asked[np.argsort(block[asked], kind="stable")]
        asking = np.flatnonzero(~is_left)
        answer = np.searchsorted(block[asked], pair[asking] * (2 * n) + wanted[asking])
        asking, answer = asking[answer < len(asked)], answer[answer < len(asked)]
        first = asked[answer]
        same = (pair[first] == pair[asking]) & (group[first] == group[asking])
        shortest = _least_from_here(rank[asked], pair[asked], group[asked])
        best[asking[same]] = np.minimum(best[asking[same]], shortest[answer[same]])
        size *= 2
    return np.append(by_length, _NOTHING)[best]


def _least_from_here(rank: I64, *keys: I64) -> I64:
    """Return the minimum rank from each position to the end of its run of equal keys."""
    changes = np.zeros(len(rank), np.bool_)
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    # Going backwards, run numbers decrease, so the minimum restarts with each run.
    above = np.cumsum(changes) * (int(rank.max(initial=0)) + 1)
    least: I64 = np.minimum.accumulate((above + rank)[::-1])[::-1]
    return least - above
