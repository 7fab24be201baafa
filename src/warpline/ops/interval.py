"""Sets of half-open intervals ``[start, end)`` on int64 coordinates.

Inputs are two arrays of equal length, in any order, overlapping or not. A zero-length interval
contains no point: set operations ignore it, and only `overlap_mask` treats it as a point. An
interval that ends before it starts raises SchemaError. Set operations return the canonical form:
ascending, nonempty intervals with a gap between neighbors. All are O(n log n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from warpline import native
from warpline.errors import SchemaError
from warpline.ops.arrays import (
    I64,
    INT64_MAX,
    INT64_MIN,
    BoolArray,
    Integers,
    as_i64,
    exact_sum,
    is_sorted,
    require_equal_length,
)


class Intervals(NamedTuple):
    """Intervals ``[start, end)``.

    Attributes:
        start: Shape (n,), int64.
        end: Shape (n,), int64.
    """

    start: I64
    end: I64


class StepFunction(NamedTuple):
    """A step function, 0 before the first time.

    Attributes:
        time: Shape (n,), int64, strictly ascending.
        depth: Shape (n,), int64, the value from ``time[i]`` until ``time[i + 1]``; neighbors
            differ and the last is 0.
    """

    time: I64
    depth: I64


def checked(start: Integers, end: Integers) -> Intervals:
    """Return the intervals as int64; raises SchemaError if one ends before it starts."""
    pair = Intervals(as_i64("start", start), as_i64("end", end))
    require_equal_length(start=pair.start, end=pair.end)
    reversed_rows = pair.end < pair.start
    if reversed_rows.any():
        row = int(reversed_rows.argmax())
        raise SchemaError(f"row {row} ends at {pair.end[row]}, before its start {pair.start[row]}")
    return pair


def union(start: Integers, end: Integers, chosen: BoolArray | None = None) -> Intervals:
    """Return the union; overlapping and adjacent intervals merge.

    Args:
        start: Shape (n,).
        end: Shape (n,).
        chosen: Shape (n,), which intervals count; None for all.
    """
    natively = _united_natively(start, end, chosen)
    if natively is not None:
        return natively
    pair = checked(start, end)
    if chosen is not None:
        pair = Intervals(pair.start[chosen], pair.end[chosen])
    if not is_sorted(pair.start):
        # Most inputs are a few ascending runs, which a stable sort merges.
        order = np.argsort(pair.start, kind="stable")
        pair = Intervals(pair.start[order], pair.end[order])
    return _united_natively(*pair, None) or _merge(pair)


def _united_natively(start: Integers, end: Integers, chosen: BoolArray | None) -> Intervals | None:
    """Return the same as `union`; None for unsorted intervals, or without the native core."""
    core = native.core()
    if core is None:
        return None
    pair = Intervals(*map(np.ascontiguousarray, (as_i64("start", start), as_i64("end", end))))
    require_equal_length(start=pair.start, end=pair.end)
    mask = None if chosen is None else np.ascontiguousarray(chosen)
    if mask is not None:
        require_equal_length(start=pair.start, chosen=mask)
    rows = (
        pair.start.ctypes.data,
        pair.end.ctypes.data,
        None if mask is None else mask.ctypes.data,
        len(pair.start),
    )
    count = core.wl_union_i64(*rows, None, None)
    if count < 0:
        return None
    joined = Intervals(np.empty(count, np.int64), np.empty(count, np.int64))
    core.wl_union_i64(*rows, *(column.ctypes.data for column in joined))
    return joined


def merge_sorted(start: Integers, end: Integers) -> Intervals:
    """Return `union` in O(n) for intervals sorted by start; raises SchemaError otherwise."""
    pair = checked(start, end)
    if not is_sorted(pair.start):
        row = int(np.argmax(pair.start[1:] < pair.start[:-1])) + 1
        raise SchemaError(f"row {row} starts at {pair.start[row]}, before the row above it")
    return _merge(pair)


def total(start: Integers, end: Integers) -> int:
    """Return the exact sum of the lengths; time covered twice counts twice."""
    pair = checked(start, end)
    # The difference of two int64 always fits in 64 unsigned bits.
    return exact_sum(pair.end.view(np.uint64) - pair.start.view(np.uint64))


def covered(start: Integers, end: Integers) -> int:
    """Return the exact length of the union; time covered twice counts once."""
    return total(*union(start, end))


def covered_by_group(start: Integers, end: Integers, group: Integers, n_groups: int) -> I64:
    """Return for each group what its intervals cover, time covered twice once.

    Shape (n_groups,), int64. Exact for sums below 2^63.

    Args:
        start: Shape (n,).
        end: Shape (n,). Raises SchemaError for an interval that ends before it starts.
        group: Shape (n,), group numbers in ``[0, n_groups)``; IndexError outside.
        n_groups: Number of groups; some may be empty.
    """
    pair = checked(start, end)
    require_equal_length(start=pair.start, group=group)
    if not is_sorted(pair.start):
        order = np.argsort(pair.start, kind="stable")
        pair, group = Intervals(pair.start[order], pair.end[order]), group[order]
    groups = np.ascontiguousarray(group, np.int64)
    times = _covered_natively(pair, groups, n_groups)
    return _covered_by_numpy(pair, groups, n_groups) if times is None else times


def _covered_natively(pair: Intervals, group: I64, n_groups: int) -> I64 | None:
    """Return the covered times, or None without the native core."""
    core = native.core()
    if core is None:
        return None
    start, end = map(np.ascontiguousarray, pair)
    times = np.empty(n_groups, np.int64)
    status = core.wl_covered_i64(
        start.ctypes.data,
        end.ctypes.data,
        group.ctypes.data,
        len(start),
        n_groups,
        times.ctypes.data,
    )
    return times if status == native.OK else None


def _covered_by_numpy(pair: Intervals, group: I64, n_groups: int) -> I64:
    order = np.argsort(group, kind="stable")
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    times = np.zeros(n_groups, np.int64)
    for rows in np.split(order, firsts[1:]) if len(order) else []:
        times[group[rows[0]]] = covered(pair.start[rows], pair.end[rows])
    return times


def covered_until(times: Intervals, moments: I64) -> I64:
    """Return the time that disjoint, ascending intervals cover before each moment.

    Shape (moments,), int64 ns.
    """
    place = np.searchsorted(times.start, moments, side="right")
    length = np.append(0, np.cumsum(times.end - times.start))
    last = np.append(np.iinfo(np.int64).min, times.end)[place]
    before: I64 = length[place] - np.where(last > moments, last - moments, 0)
    return before


def intersect(a: tuple[Integers, Integers], b: tuple[Integers, Integers]) -> Intervals:
    """Return the intersection of two sets, each given as a pair (start, end)."""
    return _combine(a, b, lambda in_a, in_b: in_a & in_b)


def subtract(a: tuple[Integers, Integers], b: tuple[Integers, Integers]) -> Intervals:
    """Return the set difference `a` minus `b`, each given as a pair (start, end)."""
    return _combine(a, b, lambda in_a, in_b: in_a & ~in_b)


def gaps(start: Integers, end: Integers, lo: int, hi: int) -> Intervals:
    """Return the gaps between the intervals within the window ``[lo, hi)``."""
    low, high = _window(lo, hi)
    window = (np.array([low], np.int64), np.array([high], np.int64))
    return subtract(window, (start, end))


def clip(start: Integers, end: Integers, lo: int, hi: int) -> Intervals:
    """Return every row clipped to the window ``[lo, hi)``.

    Rows outside the window become zero-length intervals at its nearer edge, so that the result
    stays aligned with other columns. Raises SchemaError if `lo` is after `hi`.
    """
    pair = checked(start, end)
    low, high = _window(lo, hi)
    if not len(pair.start) or (pair.start.min() >= low and pair.end.max() <= high):
        return pair
    return Intervals(np.clip(pair.start, low, high), np.clip(pair.end, low, high))


def overlap_mask(start: Integers, end: Integers, lo: int, hi: int) -> BoolArray:
    """Return True for the rows that overlap the window ``[lo, hi)``.

    A zero-length row at t counts as the point t: it overlaps if ``lo <= t < hi``. Nothing
    overlaps an empty window. Raises SchemaError if `lo` is after `hi`.
    """
    pair = checked(start, end)
    low, high = _window(lo, hi)
    if low == high:
        return np.zeros(len(pair.start), np.bool_)
    first_instant = (pair.start == low) & (pair.end == low)
    mask: BoolArray = (pair.start < high) & ((pair.end > low) | first_instant)
    return mask


def concurrency(start: Integers, end: Integers) -> StepFunction:
    """Return the number of intervals that cover each time, as a step function."""
    pair = checked(start, end)
    time = np.sort(np.concatenate(pair))
    begun = np.searchsorted(np.sort(pair.start), time, side="right")
    ended = np.searchsorted(np.sort(pair.end), time, side="right")
    depth = (begun - ended).astype(np.int64, copy=False)
    changes = np.diff(depth, prepend=0) != 0
    return StepFunction(time[changes], depth[changes])


def _merge(pair: Intervals) -> Intervals:
    """Return the canonical form of intervals sorted by start."""
    start, end = _not_empty(pair)
    if not len(start):
        return Intervals(start, end)
    reach = np.maximum.accumulate(end)
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return Intervals(start[opens], reach[closes])


def _combine(
    a: tuple[Integers, Integers],
    b: tuple[Integers, Integers],
    keep: Callable[[BoolArray, BoolArray], BoolArray],
) -> Intervals:
    """Return the canonical form of the points accepted by `keep`, given the coverage of a and b."""
    one, other = union(*a), union(*b)
    time = np.sort(np.concatenate((*one, *other)))
    inside = keep(_covers(one, time), _covers(other, time))
    # Nothing covers the last time, so every open run is closed.
    changes = time[np.diff(inside, prepend=False)]
    return Intervals(changes[0::2].copy(), changes[1::2].copy())


def _covers(canonical: Intervals, time: I64) -> BoolArray:
    begun = np.searchsorted(canonical.start, time, side="right")
    ended = np.searchsorted(canonical.end, time, side="right")
    return begun > ended


def _not_empty(pair: Intervals) -> Intervals:
    lasting = pair.end > pair.start
    if lasting.all():
        return pair
    return Intervals(pair.start[lasting], pair.end[lasting])


def _window(lo: int, hi: int) -> tuple[int, int]:
    """Return the window clamped to int64, so that any Python int may bound it."""
    if lo > hi:
        raise SchemaError(f"the window ends at {hi}, before its start {lo}")
    return min(max(lo, INT64_MIN), INT64_MAX), min(max(hi, INT64_MIN), INT64_MAX)
