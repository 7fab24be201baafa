"""Nesting of intervals, such as push/pop ranges of a thread, and the points inside them.

An interval contains another if it contains all its points. A zero-length interval represents the
point at which it starts and contains nothing. Of two intervals with the same start and end, the
earlier row contains the later one. The innermost container is the one that starts last and, among
ties, ends first. For properly nested intervals this is the stack of pushes. Partially overlapping
intervals do not contain each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline import native
from warpline.frozen import frozen
from warpline.ops.arrays import (
    I32,
    I64,
    BoolArray,
    Integers,
    as_i64,
    is_repeated,
    is_sorted,
    require_equal_length,
)
from warpline.ops.group import factorize, factorize_rows, pack
from warpline.ops.interval import Intervals, checked
from warpline.ops.join import Lookup

_NOTHING = -1

_MOST_ANCESTORS = 64  # to visit one by one
_MOST_LEVELS = 1000  # deeper nesting takes longer level by level than row by row

_MOST_SWEPT_GROUPS = 2**20  # each takes a stack of 24 bytes or more

# Building a block of this many pairs takes about 50 MB.
_PAIRS_PER_BLOCK = 2**20


class Nesting(NamedTuple):
    """Parent and depth of each interval.

    Attributes:
        parent: Shape (n,), int64, row of the innermost container; 0 if there is none.
        has_parent: Shape (n,), bool.
        depth: Shape (n,), int32, number of ancestors, 0 for an outermost interval.
    """

    parent: I64
    has_parent: BoolArray
    depth: I32


class Pairs(NamedTuple):
    """Pairs of an interval and a point in it.

    Attributes:
        interval: Shape (k,), int64, rows of the intervals, ascending.
        point: Shape (k,), int64, rows of the points, in order of time for each interval.
    """

    interval: I64
    point: I64


@frozen
class Contents:
    """The points in each interval, in space independent of the number of pairs.

    Interval i contains the points ``order[first[i]:last[i]]``, so ``last - first`` counts them,
    and a difference of running sums over ``values[order]`` sums their values.

    Attributes:
        order: Shape (m,), int64, rows of the points, by group, then time, then row.
        first: Shape (n,), int64.
        last: Shape (n,), int64.
    """

    order: I64
    first: I64
    last: I64

    def pairs(self, block: int = _PAIRS_PER_BLOCK) -> Iterator[Pairs]:
        """Yield every pair (interval, point) once, with ascending intervals and none in two blocks.

        Args:
            block: Pairs to yield at a time; more only if a single interval has more.
        """
        count = self.last - self.first
        reach = np.cumsum(count)
        begin, done = 0, 0
        while begin < len(count):
            end = max(begin + 1, int(np.searchsorted(reach, done + block, side="right")))
            counts = count[begin:end]
            # Position of each pair minus position of its interval's first pair.
            skipped = self.first[begin:end] - (reach[begin:end] - counts - done)
            place = np.arange(int(counts.sum())) + np.repeat(skipped, counts)
            if len(place):
                yield Pairs(np.repeat(np.arange(begin, end), counts), self.order[place])
            begin, done = end, int(reach[end - 1])


def nest(start: Integers, end: Integers, group: Integers | None = None) -> Nesting:
    """Find each interval's innermost container, in O(n log n).

    Args:
        start: Shape (n,), in any order.
        end: Shape (n,); SchemaError if one is before its start.
        group: Shape (n,), for example a thread: intervals nest within a group only. None for a
            single group.
    """
    return nest_or_cross(start, end, group)[0]


def nest_or_cross(
    start: Integers, end: Integers, group: Integers | None = None
) -> tuple[Nesting, bool]:
    """Return what `nest` returns, and whether any two intervals of a group overlap partially."""
    pair = checked(start, end)
    if group is not None and is_repeated(group):  # as of the only thread
        require_equal_length(group=group, interval=pair.start)
        group = None
    parent, depth, crosses = _innermost(pair, _groups(group, pair.start))
    found = parent != _NOTHING
    return Nesting(np.maximum(parent, 0, out=parent), found, depth), crosses


def enclosing(
    points: Integers,
    start: Integers,
    end: Integers,
    *,
    point_group: Integers | None = None,
    group: Integers | None = None,
) -> Lookup:
    """Find the innermost interval ``[start, end)`` around each point, in O((n + m) log(n + m)).

    Args:
        points: Shape (m,), in any order.
        start: Shape (n,), in any order.
        end: Shape (n,); SchemaError if one is before its start.
        point_group: Shape (m,), each point's group; only with `group`.
        group: Shape (n,), the intervals' groups.
    """
    pair, at = checked(start, end), as_i64("points", points)
    if not len(at) or not len(pair.start):
        return Lookup(np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_))
    if group is not None and point_group is not None:
        around = _enclosing_natively(at, pair, point_group, group)
        if around is not None:
            return around
    owner, point_owner = _groups(group, pair.start), _groups(point_group, at)
    if _is_one_group(owner, point_owner):
        owner = point_owner = None
        if bool(np.all(pair.start[1:] >= pair.end[:-1])):
            return _among_disjoint(at, pair)
        around = _among_nested(at, pair)
        if around is not None:
            return around
    both = None
    if owner is not None or point_owner is not None:
        both = np.concatenate((_or_zeros(owner, pair.start), _or_zeros(point_owner, at)))
    joint = Intervals(np.concatenate((pair.start, at)), np.concatenate((pair.end, at)))
    index = _innermost(joint, both)[0][len(pair.start) :]
    return Lookup(np.maximum(index, 0), index != _NOTHING)


def contents(
    points: Integers,
    start: Integers,
    end: Integers,
    *,
    point_group: Integers | None = None,
    group: Integers | None = None,
) -> Contents:
    """Find all points in each interval ``[start, end)``, in O((n + m) log m).

    The intervals may overlap in any way: a point belongs to every interval that contains it.

    Args:
        points: Shape (m,), in any order.
        start: Shape (n,), in any order.
        end: Shape (n,); SchemaError if one is before its start.
        point_group: Shape (m,), each point's group; it belongs only to intervals of that group.
        group: Shape (n,), the intervals' groups.
    """
    pair, at = checked(start, end), as_i64("points", points)
    n = len(pair.start)
    own, point_own = _groups(group, pair.start), _groups(point_group, at)
    if n and len(at) and _is_one_group(own, point_own):
        by_time = np.arange(len(at))
        if not is_sorted(at):
            by_time = np.argsort(at, kind="stable")
            at = at[by_time]
        return Contents(by_time, *(np.searchsorted(at, side) for side in pair))
    owner = _or_zeros(own, pair.start)
    groups = np.concatenate((owner, owner, _or_zeros(point_own, at)))
    times = np.concatenate((*pair, at))
    keys = pack(groups, times)
    if keys is None:
        keys = factorize_rows(groups, times).codes.astype(np.int64)
    order = np.argsort(keys[2 * n :], kind="stable")
    ascending = keys[2 * n :][order]
    return Contents(
        order, np.searchsorted(ascending, keys[:n]), np.searchsorted(ascending, keys[n : 2 * n])
    )


def _is_one_group(*groups: I64 | None) -> bool:
    """Return whether all groups are the same one; None is group 0."""
    known = [group for group in groups if group is not None]
    first = int(known[0][0]) if len(known) == len(groups) else 0
    return all(bool((group == first).all()) for group in known)


def _enclosing_natively(
    points: I64, pair: Intervals, point_group: Integers, group: Integers
) -> Lookup | None:
    """Return the same as `enclosing` for ascending points and starts, and few groups.

    None for others, or without the native core.
    """
    core, groups = native.core(), (as_i64("group", point_group), as_i64("group", group))
    require_equal_length(point_group=point_group, point=points)
    require_equal_length(group=group, interval=pair.start)
    low = min(int(each.min()) for each in groups)
    n_groups = max(int(each.max()) for each in groups) - low + 1
    if core is None or n_groups > _MOST_SWEPT_GROUPS:
        return None
    codes = [(each - low).astype(np.int32) for each in groups] if n_groups > 1 else None
    points, start, end = map(np.ascontiguousarray, (points, *pair))
    row = np.empty(len(points), np.int64)
    status = core.wl_enclosing_i64(
        points.ctypes.data,
        None if codes is None else codes[0].ctypes.data,
        len(points),
        start.ctypes.data,
        end.ctypes.data,
        None if codes is None else codes[1].ctypes.data,
        len(start),
        n_groups,
        row.ctypes.data,
    )
    if status != native.OK:
        return None
    found = row != _NOTHING
    return Lookup(np.maximum(row, 0, out=row), found)


def _among_disjoint(points: I64, pair: Intervals) -> Lookup:
    """Return the same as `enclosing` for ascending intervals that do not overlap."""
    place = np.searchsorted(pair.start, points, side="right") - 1
    found = place >= 0
    found &= points < pair.end[place]
    return Lookup(np.where(found, place, 0), found)


def _among_nested(points: I64, pair: Intervals) -> Lookup | None:
    """Return the same as `enclosing` for one group; None if too many ancestors are visited.

    The last interval to start contains the point, or ended before it. In the second case each
    interval that is open at the point contains it too, so the nearest one is an ancestor.
    """
    order = None
    if not bool(np.all(pair.start[1:] > pair.start[:-1])):
        order = np.lexsort((~pair.end, pair.start))
    start = pair.start if order is None else pair.start[order]
    row = np.searchsorted(start, points, side="right") - 1
    found = row >= 0
    np.maximum(row, 0, out=row)
    row = row if order is None else order[row]
    left = np.flatnonzero(found & (pair.end[row] <= points))
    parent = _innermost(pair, None)[0] if len(left) else row
    for _ in range(_MOST_ANCESTORS):
        above = parent[row[left]]
        found[left], row[left] = above != _NOTHING, above
        left = left[above != _NOTHING]
        left = left[pair.end[row[left]] <= points[left]]
        if not len(left):
            return Lookup(np.where(found, row, 0), found)
    return None


def accumulate_up(nesting: Nesting, values: Integers) -> I64:
    """Return each interval's value plus those of all its descendants.

    Args:
        nesting: Of n intervals.
        values: Shape (n,), values of the intervals; their sum must fit in int64.

    Takes O(n log n), with one numpy pass per nesting level.
    """
    sums = as_i64("values", values).copy()
    require_equal_length(values=sums, nesting=nesting.depth)
    order = np.argsort(nesting.depth, kind="stable")
    deepest = int(nesting.depth.max(initial=0))
    bounds = np.searchsorted(nesting.depth[order], np.arange(1, deepest + 2))
    for level in range(deepest, 0, -1):
        rows = order[bounds[level - 1] : bounds[level]]
        np.add.at(sums, nesting.parent[rows], sums[rows])
    return sums


def _groups(group: Integers | None, like: I64) -> I64 | None:
    if group is None:
        return None
    groups = as_i64("group", group)
    require_equal_length(group=groups, interval=like)
    return groups


def _or_zeros(group: I64 | None, like: I64) -> I64:
    return np.zeros(len(like), np.int64) if group is None else group


def _innermost(pair: Intervals, group: I64 | None) -> tuple[I64, I32, bool]:
    """Return the row of each interval's innermost container, or _NOTHING, and its depth.

    The third result is whether any two intervals overlap without one being inside the other.
    """
    nesting = _innermost_natively(pair, group)
    if nesting is None:
        nesting = _of_stacks(pair, _or_zeros(group, pair.start))
    return _sweep(pair, _or_zeros(group, pair.start)) if nesting is None else nesting


def _innermost_natively(pair: Intervals, group: I64 | None) -> tuple[I64, I32, bool] | None:
    """Return the same, or None without the native core."""
    core = native.core()
    if core is None:
        return None
    start, end = np.ascontiguousarray(pair.start), np.ascontiguousarray(pair.end)
    groups = None if group is None else factorize(group)
    parent, depth = np.empty(len(start), np.int64), np.empty(len(start), np.int32)
    crosses = np.zeros(1, np.int32)
    status = core.wl_nest_i64(
        start.ctypes.data,
        end.ctypes.data,
        None if groups is None else groups.codes.ctypes.data,
        len(start),
        1 if groups is None else groups.n_groups,
        parent.ctypes.data,
        depth.ctypes.data,
        crosses.ctypes.data,
    )
    return (parent, depth, bool(crosses[0])) if status == native.OK else None


def _of_stacks(pair: Intervals, group: I64) -> tuple[I64, I32, bool] | None:
    """Return the same with numpy for intervals that nest like calls; None if any partly overlap.

    The number of intervals that are open at a start is the depth, if all of these also reach the
    end. The parent is then the last one before with the depth above, so only its end is checked.
    """
    if not len(group) or not _is_one_group(group):
        return None
    order = np.lexsort((~pair.end, pair.start))  # ~end descends as end ascends
    start, end = pair.start[order], pair.end[order]
    is_point = start == end
    points = np.cumsum(is_point) - is_point
    ended = np.searchsorted(np.sort(end[~is_point]), start, side="right")
    depth = np.arange(len(order)) - points - ended
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=0)) + 2))
    if len(bounds) > _MOST_LEVELS:
        return None
    around = np.full(len(order), _NOTHING)
    for low, middle, high in zip(bounds[:-2], bounds[1:-1], bounds[2:], strict=True):
        inner = by_depth[middle:high]
        outer = by_depth[low:middle]
        outer = outer[~is_point[outer]]
        place = np.searchsorted(outer, inner) - 1
        if len(inner) and place.min() < 0:
            return None
        outer = outer[place]
        if np.any((end[outer] < end[inner]) | (end[outer] <= start[inner])):
            return None
        around[inner] = outer
    parent, depths = np.full(len(order), _NOTHING), np.empty(len(order), np.int32)
    inside = around >= 0
    parent[order[inside]] = order[around[inside]]
    depths[order] = depth
    return parent, depths, False


def _sweep(pair: Intervals, group: I64) -> tuple[I64, I32, bool]:
    """Return the same as the native core, in plain Python.

    Outer intervals come first in the sweep. An open interval that ends before the current one
    cannot be the parent of a later one, because the current one would be closer. It is popped, so
    the ends on the stack descend from bottom to top.
    """
    order = np.lexsort((~pair.end, pair.start, group))  # ~end descends as end ascends
    parents: list[int] = []
    depths: list[int] = []
    open_rows: list[int] = []
    open_ends: list[int] = []
    current, crosses = None, False
    columns = (order, pair.start[order], pair.end[order], group[order])
    for row, start, end, owner in zip(*(column.tolist() for column in columns), strict=True):
        if owner != current:
            open_rows.clear()
            open_ends.clear()
            current = owner
        must_reach = max(end, start + 1)  # a point inside is followed by a moment inside
        while open_ends and open_ends[-1] < must_reach:
            crosses = crosses or open_ends[-1] > start
            open_ends.pop()
            open_rows.pop()
        parents.append(open_rows[-1] if open_rows else _NOTHING)
        depths.append(len(open_rows))
        open_rows.append(row)
        open_ends.append(end)
    parent, depth = np.empty(len(order), np.int64), np.empty(len(order), np.int32)
    parent[order], depth[order] = parents, depths
    return parent, depth, crosses
