"""Tiling of overlapping intervals: each covered time is assigned to exactly one interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline import native
from warpline.errors import SchemaError
from warpline.ops.arrays import I32, I64, BoolArray, Integers, is_repeated, is_sorted
from warpline.ops.group import distinct_values
from warpline.ops.interval import checked

# One bit of an int64 for each level; the sign bit is not used.
MAX_LEVELS = 62
_LEVELS_IN_A_BYTE = 6

_CUTS_PER_BLOCK = 2**18  # they take a few MB
_FEW_GROUPS = 8  # one pass for each takes less time than a sort


class Tiles(NamedTuple):
    """Ascending, disjoint pieces of time; together they are the intervals' union.

    Attributes:
        start_ns: Shape (k,), int64.
        end_ns: Shape (k,), int64, after the start.
        owner: Shape (k,), int64, the interval that each piece is assigned to. Pieces of one
            interval are never adjacent.
    """

    start_ns: I64
    end_ns: I64
    owner: I64


def tile(start_ns: I64, end_ns: I64, level: Integers) -> Tiles:
    """Assign each covered time to the interval with the lowest level, then the earliest start.

    Ties go to the first row. Zero-length intervals get nothing.

    Args:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64; SchemaError if one is before its start.
        level: Shape (n,), in ``[0, MAX_LEVELS)``; SchemaError outside.

    Takes O(n log n), or O(n) for a single level with ascending starts.
    """
    start, end = checked(start_ns, end_ns)
    if len(level) and not 0 <= int(level.min()) <= int(level.max()) < MAX_LEVELS:
        raise SchemaError(f"a level outside [0, {MAX_LEVELS})")
    tiles = _tile_natively(start, end, level)
    if tiles is not None:
        return tiles
    parts = [
        _of_level(start, end, np.flatnonzero(level == each)) for each in distinct_values(level)
    ]
    parts = [part for part in parts if len(part.owner)]
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Tiles(nothing, nothing, nothing)
    return parts[0] if len(parts) == 1 else _layered(parts)


def _tile_natively(start: I64, end: I64, level: Integers) -> Tiles | None:
    """Return the same as `tile`, or None without the native core."""
    core = native.core()
    if core is None:
        return None
    order = None if is_sorted(start) else np.argsort(start, kind="stable")
    if order is not None:
        start, end, level = start[order], end[order], level[order]
    start, end = map(np.ascontiguousarray, (start, end))
    of_row = np.ascontiguousarray(level, np.int8)
    rows = start.ctypes.data, end.ctypes.data, of_row.ctypes.data, len(start)
    count = core.wl_tile_i64(*rows, None, None, None)
    if count < 0:
        return None
    tiles = Tiles(*(np.empty(count, np.int64) for _ in Tiles._fields))
    core.wl_tile_i64(*rows, *(column.ctypes.data for column in tiles))
    return tiles if order is None else tiles._replace(owner=order[tiles.owner])


def _of_level(start: I64, end: I64, rows: I64) -> Tiles:
    """Return the tiles of intervals of one level: a piece for each one not fully covered.

    From an interval's start on, the earlier ones cover everything up to their latest end.
    """
    rows = rows[end[rows] > start[rows]]
    begin = start[rows]
    if np.any(begin[1:] < begin[:-1]):
        rows = rows[np.argsort(begin, kind="stable")]
        begin = start[rows]
    finish = end[rows]
    reach = np.maximum.accumulate(finish)
    begin = begin.copy()
    np.maximum(begin[1:], reach[:-1], out=begin[1:])
    left = np.flatnonzero(finish > begin)
    return Tiles(begin[left], finish[left], rows[left])


def _layered(parts: list[Tiles]) -> Tiles:
    """Return the tiles of several levels, lowest first, from the tiles of each."""
    time = np.concatenate([column for part in parts for column in part[:2]])
    width = np.int8 if len(parts) <= _LEVELS_IN_A_BYTE else np.int64
    bits = np.concatenate(
        [np.full(2 * len(part.owner), 1 << place, width) for place, part in enumerate(parts)]
    )
    order = np.argsort(time, kind="stable")
    time = time[order]
    # Tiles of a level alternate between start and end, so each of these flips its bit.
    covering = np.bitwise_xor.accumulate(bits[order])
    del bits, order  # of two rows per tile, as the columns below
    settled = np.append(time[1:] != time[:-1], True)
    time, covering = time[settled], covering[settled]
    busy = np.flatnonzero(covering[:-1])
    begin, finish, covering = time[busy], time[busy + 1], covering[busy]
    del time
    lowest = covering & -covering
    owner = np.zeros(len(busy), np.int64)
    for place, part in enumerate(parts):
        here = np.flatnonzero(lowest == 1 << place)
        owner[here] = part.owner[np.searchsorted(part.start_ns, begin[here], side="right") - 1]
    opens = _opens(begin, finish, owner)
    closes = np.append(opens[1:], True)
    return Tiles(begin[opens], finish[closes], owner[opens])


def _opens(begin: I64, finish: I64, owner: I64) -> BoolArray:
    """Return where a piece does not continue the previous one."""
    goes_on = (begin[1:] == finish[:-1]) & (owner[1:] == owner[:-1])
    return np.append(True, ~goes_on)


class Cuts(NamedTuple):
    """Intersections of spans with other intervals, by span and start.

    Attributes:
        span: Shape (k,), int64, rows of the spans.
        row: Shape (k,), int64, rows of the other intervals.
        start_ns: Shape (k,), int64.
        end_ns: Shape (k,), int64, after the start.
    """

    span: I64
    row: I64
    start_ns: I64
    end_ns: I64


class Grouped(NamedTuple):
    """Intervals in groups; only intervals of the same group intersect.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, none before its start.
        group: Shape (n,).
    """

    start_ns: I64
    end_ns: I64
    group: Integers


def cut(spans: Grouped, others: Grouped) -> Cuts:
    """Return the intersections of each span with the other intervals of its group.

    Args:
        spans: In any order; may overlap.
        others: By group and start; disjoint within a group.

    Takes O((n + k) log m), plus a few steps for each group.
    """
    first, last = _reached(spans, others)
    count = np.maximum(last - first, 0)
    span = np.repeat(np.arange(len(count)), count)
    row = np.arange(len(span)) - np.repeat(np.cumsum(count) - count - first, count)
    start, end = others.start_ns[row], others.end_ns[row]
    # The others are disjoint: only the first and the last one of a span reach beyond it.
    cutting = np.flatnonzero(count)
    behind = np.cumsum(count)[cutting]
    head, tail = behind - count[cutting], behind - 1
    start[head] = np.maximum(start[head], spans.start_ns[cutting])
    end[tail] = np.minimum(end[tail], spans.end_ns[cutting])
    lasting = end > start
    if lasting.all():
        return Cuts(span, row, start, end)
    return Cuts(span[lasting], row[lasting], start[lasting], end[lasting])


def sum_cuts(
    spans: Grouped,
    others: Grouped,
    code: Integers | None = None,
    n_codes: int = 1,
    *,
    slot: Integers | None = None,
    n_slots: int = 1,
) -> I64:
    """Return the sums of the lengths of `cut`, shape (n_slots, n_codes), int64.

    Args:
        spans: In any order; may overlap.
        others: By group and start; disjoint within a group.
        code: Shape (others,), in ``[0, n_codes)``, or negative to leave one out; None for 0.
        n_codes: Number of codes.
        slot: Shape (spans,), in ``[0, n_slots)``; None for 0.
        n_slots: Number of slots.

    Takes O(n log m + k) for k cuts, and no memory for them.
    """
    first, last = _reached(spans, others)
    slots = None if slot is None else np.ascontiguousarray(slot, np.int32)
    sums = _sum_natively(spans, others, first, last, (code, n_codes), (slots, n_slots))
    if sums is not None:
        return sums
    sums = np.zeros((n_slots, n_codes), np.int64)
    reach = np.cumsum(np.maximum(last - first, 0))
    begin = 0
    while begin < len(reach):
        done = int(reach[begin - 1]) if begin else 0
        behind = int(np.searchsorted(reach, done + _CUTS_PER_BLOCK, side="right"))
        rows = slice(begin, max(behind, begin + 1))
        cuts = cut(Grouped(*(column[rows] for column in spans)), others)
        codes = np.zeros(len(cuts.row), np.int64) if code is None else code[cuts.row]
        owner = np.zeros_like(cuts.span) if slots is None else slots[rows][cuts.span]
        length = np.where(codes < 0, 0, cuts.end_ns - cuts.start_ns)
        np.add.at(sums, (owner, np.maximum(codes, 0)), length)
        begin = rows.stop
    return sums


def _sum_natively(
    spans: Grouped,
    others: Grouped,
    first: I64,
    last: I64,
    code: tuple[Integers | None, int],
    slot: tuple[I32 | None, int],
) -> I64 | None:
    """Return the same as `sum_cuts`, or None without the native core."""
    core = native.core()
    if core is None:
        return None
    times = [np.ascontiguousarray(column) for pair in (spans, others) for column in pair[:2]]
    codes = None if code[0] is None else np.ascontiguousarray(code[0], np.int32)
    sums = np.empty((slot[1], code[1]), np.int64)
    asked = native.Spans(
        len(first),
        *(column.ctypes.data for column in (*times[:2], first, last)),
        None if slot[0] is None else slot[0].ctypes.data,
    )
    status = core.wl_sum_cuts_i64(
        asked,
        *(column.ctypes.data for column in times[2:]),
        None if codes is None else codes.ctypes.data,
        len(times[2]),
        slot[1],
        code[1],
        sums.ctypes.data,
    )
    return sums if status == native.OK else None


def _reached(spans: Grouped, others: Grouped) -> tuple[I64, I64]:
    """Return for each span the first of its group's intervals in it, and the one after the last."""
    first, last = (np.zeros(len(spans.group), np.int64) for _ in range(2))
    for rows in by_group(spans.group):
        lo, hi = rows_of(others.group, int(spans.group[rows[0]]))
        first[rows] = lo + np.searchsorted(others.end_ns[lo:hi], spans.start_ns[rows], side="right")
        last[rows] = lo + np.searchsorted(others.start_ns[lo:hi], spans.end_ns[rows], side="left")
    return first, last


def rows_of(group: Integers, number: int) -> tuple[int, int]:
    """Return the first row of a group, and the one after its last; groups ascend."""
    if is_repeated(group):
        return 0, len(group) if len(group) and group[0] == number else 0
    first, last = np.searchsorted(group, (number, number + 1)).tolist()
    return first, last


def rest(spans: Grouped, cuts: Cuts) -> Cuts:
    """Return the spans minus their disjoint cuts; the result's `row` has no meaning."""
    every = np.arange(len(spans.group))
    owner = np.concatenate((every, cuts.span))
    # Cuts of a span ascend, so starts and ends stay aligned.
    by_start = np.argsort(owner, kind="stable")
    by_end = np.argsort(np.concatenate((cuts.span, every)), kind="stable")
    start = np.concatenate((spans.start_ns, cuts.end_ns))[by_start]
    end = np.concatenate((cuts.start_ns, spans.end_ns))[by_end]
    owner = owner[by_start]
    lasting = end > start
    return Cuts(
        owner[lasting], np.zeros(int(lasting.sum()), np.int64), start[lasting], end[lasting]
    )


def by_group(group: Integers) -> list[I64]:
    """Return the rows of each group in their original order, groups ascending."""
    if not len(group):
        return []
    low, high = int(group.min()), int(group.max())
    if low == high:
        return [np.arange(len(group))]
    if high - low < _FEW_GROUPS:
        parts = (np.flatnonzero(group == each) for each in range(low, high + 1))
        return [rows for rows in parts if len(rows)]
    order = order_of_groups(group)
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def order_of_groups(group: Integers) -> I64:
    """Return the rows by group, those of a group in their original order."""
    # Sorting 16-bit numbers takes linear time.
    fits = len(group) > 0 and int(group.min()) >= 0 and int(group.max()) < 1 << 15
    return np.argsort(group.astype(np.int16) if fits else group, kind="stable")
