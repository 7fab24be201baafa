"""Nesting of intervals, such as the ranges that a thread pushes and pops.

An interval contains another if every point of that other is a point of its own; a zero-length
interval stands for the point at which it starts, and contains nothing. Of two intervals with the
same start and end, the earlier row contains the later one. The innermost container is the one that
starts last, and of those that start together the one that ends first. For intervals that nest
properly this is the stack of pushes; intervals that partly overlap do not contain each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I32, I64, BoolArray, Integers, as_i64, require_equal_length
from warpline.ops.interval import Intervals, checked
from warpline.ops.join import Lookup

_NOTHING = -1


class Nesting(NamedTuple):
    """Where each interval stands among those that contain it.

    Attributes:
        parent: Shape (n,), int64, row of the innermost container; 0 where there is none.
        has_parent: Shape (n,), bool.
        depth: Shape (n,), int32, number of ancestors, 0 for an outermost interval.
    """

    parent: I64
    has_parent: BoolArray
    depth: I32


def nest(start: Integers, end: Integers, group: Integers | None = None) -> Nesting:
    """Find each interval's innermost container, in O(n log n).

    Args:
        start: Shape (n,), in any order.
        end: Shape (n,); SchemaError if one is before its start.
        group: Shape (n,), for example a thread: intervals nest within one group only. None puts
            all into one.
    """
    pair = checked(start, end)
    groups = _groups(group, pair.start)
    parent, depth = _innermost(pair, groups)
    found = parent != _NOTHING
    return Nesting(np.where(found, parent, 0), found, depth)


def enclosing(
    points: Integers,
    start: Integers,
    end: Integers,
    *,
    point_group: Integers | None = None,
    group: Integers | None = None,
) -> Lookup:
    """Find the innermost interval ``[start, end)`` that holds each point, in O((n + m) log(n + m)).

    Args:
        points: Shape (m,), in any order.
        start: Shape (n,), in any order.
        end: Shape (n,); SchemaError if one is before its start.
        point_group: Shape (m,), the group in which to look for each point; with `group` only.
        group: Shape (n,), the intervals' groups.
    """
    pair, at = checked(start, end), as_i64("points", points)
    groups = np.concatenate((_groups(group, pair.start), _groups(point_group, at)))
    joint = Intervals(np.concatenate((pair.start, at)), np.concatenate((pair.end, at)))
    index = _innermost(joint, groups)[0][len(pair.start) :]
    found = index != _NOTHING
    return Lookup(np.where(found, index, 0), found)


def _groups(group: Integers | None, like: I64) -> I64:
    if group is None:
        return np.zeros(len(like), np.int64)
    groups = as_i64("group", group)
    require_equal_length(group=groups, interval=like)
    return groups


def _innermost(pair: Intervals, group: I64) -> tuple[I64, I32]:
    """Return the row of each interval's innermost container, or _NOTHING, and its depth.

    Outer intervals come first in the sweep. An open interval that ends before the one at hand can
    contain nothing that comes later, because the one at hand would be nearer: it leaves the
    stack for good, and the ends on the stack descend from bottom to top.
    """
    order = np.lexsort((~pair.end, pair.start, group))  # ~end descends as end ascends
    parents: list[int] = []
    depths: list[int] = []
    open_rows: list[int] = []
    open_ends: list[int] = []
    current = None
    columns = (order, pair.start[order], pair.end[order], group[order])
    for row, start, end, owner in zip(*(column.tolist() for column in columns), strict=True):
        if owner != current:
            open_rows.clear()
            open_ends.clear()
            current = owner
        must_reach = max(end, start + 1)  # a point inside is followed by a moment inside
        while open_ends and open_ends[-1] < must_reach:
            open_ends.pop()
            open_rows.pop()
        parents.append(open_rows[-1] if open_rows else _NOTHING)
        depths.append(len(open_rows))
        open_rows.append(row)
        open_ends.append(end)
    parent, depth = np.empty(len(order), np.int64), np.empty(len(order), np.int32)
    parent[order], depth[order] = parents, depths
    return parent, depth
