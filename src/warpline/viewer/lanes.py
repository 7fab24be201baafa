"""Lanes: split nested or overlapping intervals so that no two in a lane overlap."""

from __future__ import annotations

import numpy as np

from warpline import native
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import factorize
from warpline.ops.tree import nest

MAX_LANES = 250
TOO_DEEP = -1


def lanes(start: I64, end: I64, group: I64) -> I32:
    """Return the lane of each interval in its group, 0 for the outermost.

    A nested interval is one lane below its parent. If that leaves overlaps in a lane, as with
    partly overlapping ranges, each interval of the group takes the first free lane at its start.

    Args:
        start: Shape (n,), in any order.
        end: Shape (n,), never before the start.
        group: Shape (n,), such as the thread.

    Returns:
        Shape (n,); `TOO_DEEP` for intervals beyond `MAX_LANES` lanes, which are shown merged.
    """
    lane = _natively(start, end, group)
    return _by_numpy(start, end, group) if lane is None else lane


def _natively(start: I64, end: I64, group: I64) -> I32 | None:
    """Return the lanes, or None without the native core."""
    core = native.core()
    if core is None:
        return None
    starts, ends = np.ascontiguousarray(start), np.ascontiguousarray(end)
    groups, lane = factorize(group), np.empty(len(start), np.int32)
    status = core.wl_lanes_i64(
        starts.ctypes.data,
        ends.ctypes.data,
        groups.codes.ctypes.data,
        len(starts),
        groups.n_groups,
        MAX_LANES,
        lane.ctypes.data,
    )
    return lane if status == native.OK else None


def _by_numpy(start: I64, end: I64, group: I64) -> I32:
    depth = np.zeros(len(start), np.int32)
    rows = np.flatnonzero(np.isin(group, group[_overlapping(start, end, group, depth)]))
    if not len(rows):
        return depth
    depth[rows] = nest(start[rows], end[rows], group[rows]).depth
    crossing = np.unique(
        group[rows][_overlapping(start[rows], end[rows], group[rows], depth[rows])]
    )
    inside = np.flatnonzero(np.isin(group, crossing))
    inside = inside[np.argsort(group[inside], kind="stable")]
    for each in np.split(inside, np.flatnonzero(np.diff(group[inside])) + 1):
        depth[each] = _first_free(start[each], end[each])
    depth[depth >= MAX_LANES] = TOO_DEEP
    return depth


def _overlapping(start: I64, end: I64, group: I64, lane: I32) -> BoolArray:
    """Return which intervals start before an earlier one of their lane ends."""
    order = np.lexsort((~end, start, lane, group))
    same = (np.diff(group[order]) == 0) & (np.diff(lane[order]) == 0)
    overlaps = np.zeros(len(start), np.bool_)
    overlaps[order[1:]] = same & (start[order[1:]] < end[order[:-1]])
    return overlaps


def _first_free(start: I64, end: I64) -> I32:
    """Return the first free lane at the start of each interval of one group."""
    left = np.lexsort((~end, start))
    lane = np.full(len(start), TOO_DEEP, np.int32)
    for number in range(MAX_LANES):
        if not len(left):
            break
        begins = start[left]
        # The next in this lane is the first remaining interval that starts after this one ends.
        follows = np.maximum(np.searchsorted(begins, end[left]), np.arange(len(left)) + 1).tolist()
        chosen = np.zeros(len(left), np.bool_)
        place = 0
        while place < len(follows):
            chosen[place] = True
            place = follows[place]
        lane[left[chosen]] = number
        left = left[~chosen]
    return lane
