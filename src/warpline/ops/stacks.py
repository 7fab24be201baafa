"""Stacks of frames as a tree, in which stacks that begin with the same callers share rows.

A stack is a row: its innermost frame, and the row of its caller's stack, which is an earlier row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from warpline.errors import SchemaError
from warpline.frozen import frozen
from warpline.ops.arrays import I32, I64, U64, BoolArray, Integers, as_i64, require_equal_length
from warpline.ops.group import factorize, factorize_rows


@frozen
class Stacks:
    """A tree of stacks.

    Attributes:
        parent: Shape (n,), int32, the row of the caller's stack, an earlier row; 0 without one.
        depth: Shape (n,), int32, the number of callers: 0 for an outermost frame.
        frame: Shape (n,), int32, the innermost frame.
    """

    parent: I32
    depth: I32
    frame: I32

    def __len__(self) -> int:
        return len(self.depth)


def intern(chain: Integers, position: Integers, frame: Integers) -> tuple[Stacks, I64, I32]:
    """Build the tree of stacks from a row per frame, in O(n log n) for stacks of any depth.

    Stacks are numbered by depth, then by first occurrence in the chains' ascending order.

    Args:
        chain: Shape (n,), the chain of callers that the frame is in, any values.
        position: Shape (n,), ascending from the innermost frame; of equal ones the first is inner.
        frame: Shape (n,), numbers of frames, not negative.

    Returns:
        The stacks; the distinct chains, shape (m,), ascending; and the stack of each.
    """
    order, first = _outermost_first(as_i64("chain", chain), as_i64("position", position))
    require_equal_length(chain=chain, frame=frame)
    lengths = np.diff(np.append(first, len(order)))
    frames = np.asarray(frame)[order]
    depth = np.arange(len(order)) - np.repeat(first, lengths)
    codes, found = _equal_prefixes(frames, depth)
    ranked = np.lexsort((found, depth[found]))
    rank = np.empty(len(found), np.int32)
    rank[ranked] = np.arange(len(found), dtype=np.int32)
    stack, kept = rank[codes], found[ranked]
    parent = np.where(depth[kept] > 0, stack[kept - 1], 0).astype(np.int32)
    stacks = Stacks(parent, depth[kept].astype(np.int32), frames[kept].astype(np.int32))
    return stacks, np.asarray(chain)[order[first]].astype(np.int64), stack[first + lengths - 1]


def ancestors(stacks: Stacks, rows: Integers) -> tuple[I64, I64]:
    """Return every stack that the given ones consist of, innermost first.

    Args:
        stacks: The tree.
        rows: Shape (m,), rows of stacks.

    Returns:
        The place in `rows` and the row of a stack, each of shape (k,): k is the number of frames
        of the given stacks.
    """
    sizes = stacks.depth[rows].astype(np.int64) + 1
    place = np.repeat(np.arange(len(rows)), sizes)
    distance = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return place, ancestor(stacks, as_i64("rows", rows)[place], distance)


def ancestor(stacks: Stacks, rows: Integers, distance: Integers) -> I64:
    """Return the stack of a caller of each given stack, shape (m,), int64.

    Args:
        stacks: The tree.
        rows: Shape (m,), rows of stacks.
        distance: Shape (m,), which caller: 0 for the stack itself, at most its depth.
    """
    row, left = as_i64("rows", rows).copy(), as_i64("distance", distance).copy()
    jump = stacks.parent.astype(np.int64)
    while left.any():  # by powers of two: one pass per bit of the depth
        is_odd = (left & 1).astype(np.bool_)
        row[is_odd] = jump[row[is_odd]]
        left >>= 1
        jump = jump[jump]
    return row


def merge(stacks: Stacks, label: Integers, rows: Integers) -> tuple[Stacks, I32]:
    """Build the tree of labels: stacks whose frames have equal labels, caller by caller, are one.

    Stacks are numbered by depth. Recursive calls stay as they are.

    Args:
        stacks: The tree.
        label: Shape (frames,), the label of each frame; negative to leave the frame out.
        rows: Shape (m,), the rows of stacks that are needed; they may repeat.

    Returns:
        The tree, whose frames are labels; and for each of `rows` its stack there, -1 if all of its
        frames are left out, shape (m,).
    """
    levels = with_callers(stacks, rows)
    kept = np.full(len(stacks), -1, np.int32)  # the innermost frame that is not left out
    above = np.full(len(stacks), -1, np.int32)  # that of the callers
    depth = np.zeros(len(stacks), np.int32)
    for level, of_level in enumerate(levels):
        if level:
            above[of_level] = kept[stacks.parent[of_level]]
        is_kept = label[stacks.frame[of_level]] >= 0
        kept[of_level] = np.where(is_kept, of_level, above[of_level])
        has_caller = above[of_level] >= 0
        depth[of_level] = np.where(has_caller, depth[above[of_level]] + 1, 0)
    needed = np.concatenate([*levels, np.zeros(0, np.int64)])
    needed = needed[kept[needed] == needed]
    number = np.full(len(stacks), -1, np.int32)
    parts: list[tuple[I32, I32, I32]] = []
    count = 0
    for level, of_level in enumerate(_by_depth(depth[needed], needed)):
        caller = number[above[of_level]] if level else np.zeros(len(of_level), np.int32)
        labels = np.asarray(label)[stacks.frame[of_level]].astype(np.int32)
        groups = factorize_rows(caller, labels)
        number[of_level] = count + groups.codes
        count += groups.n_groups
        repeated = np.full(groups.n_groups, level, np.int32)
        parts.append((caller[groups.first], repeated, labels[groups.first]))
    columns = [np.concatenate([np.zeros(0, np.int32), *each]) for each in zip(*parts, strict=True)]
    merged = Stacks(*(columns or [np.zeros(0, np.int32)] * 3))
    inner = kept[rows]
    return merged, np.where(inner >= 0, number[inner], np.int32(-1)).astype(np.int32)


def with_callers(stacks: Stacks, rows: Integers) -> list[I64]:
    """Return the given stacks and those of their callers by depth, each once."""
    is_needed = np.zeros(len(stacks), np.bool_)
    is_needed[rows] = True
    levels = _by_depth(stacks.depth, np.arange(len(stacks)))
    found: list[I64] = []
    for level in range(len(levels) - 1, -1, -1):
        of_level = levels[level][is_needed[levels[level]]]
        if level:
            is_needed[stacks.parent[of_level]] = True
        found.append(of_level)
    return found[::-1]


def _by_depth(depth: I32, rows: I64) -> list[I64]:
    """Split rows by their depth: the first part has depth 0."""
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=-1)) + 1))
    return [rows[part] for part in np.split(order, bounds)] if len(rows) else []


def check(parent: Integers, has_parent: BoolArray, depth: Integers) -> None:
    """Raise SchemaError unless the columns describe a tree.

    Each parent must be an earlier row, so that there are no cycles, and each depth that of its
    parent plus 1.
    """
    require_equal_length(parent=parent, has_parent=has_parent, depth=depth)
    rows = np.flatnonzero(has_parent)
    if bool((parent[rows] >= rows).any()) or bool((parent[rows] < 0).any()):
        raise SchemaError("a caller's stack is not an earlier row")
    expected = np.zeros(len(depth), np.int64)
    expected[rows] = np.asarray(depth)[parent[rows]] + 1
    if not np.array_equal(expected, depth):
        raise SchemaError("the depth of a stack is not the number of its callers")


def _outermost_first(chain: I64, position: I64) -> tuple[I64, I64]:
    """Return the rows by chain, outermost first, and the place of each chain's first row."""
    require_equal_length(chain=chain, position=position)
    keys = factorize_rows(chain, position).codes
    order = np.argsort(keys, kind="stable")
    ascending = chain[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = ascending[1:] != ascending[:-1]
    first = np.flatnonzero(is_first)
    lengths = np.diff(np.append(first, len(order)))
    mirrored = np.repeat(2 * first + lengths - 1, lengths) - np.arange(len(order))
    return order[mirrored], first


def _equal_prefixes(frames: Integers, depth: I64) -> tuple[I32, I64]:
    """Number equal beginnings of chains equally, and return the first place of each number.

    Beginnings with the same random sum are taken for equal, and that is then verified: places of
    the same number must have the same depth and frame, and so must, by induction, the places
    before them. If two sums coincide by chance, others are drawn, so the result is exact.
    """
    before = np.maximum(np.arange(len(depth)) - 1, 0)
    for sums in _random_sums(frames, depth):
        codes = factorize(sums).codes
        first = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last write, of the first place, wins
        alike = first[codes]
        is_equal = (depth == depth[alike]) & (frames == frames[alike])
        is_equal &= (depth == 0) | (codes[before] == codes[np.maximum(alike - 1, 0)])
        if bool(is_equal.all()):
            return codes, first
    raise AssertionError("unreachable")


def _random_sums(frames: Integers, depth: I64) -> Iterator[I64]:
    """Yield, for each place of the chains, a sum over its beginning modulo 2**64."""
    starts = np.arange(len(depth)) - depth
    for seed in count():
        random = np.random.default_rng(seed)
        of_frame: U64 = random.integers(0, 2**64, int(frames.max(initial=-1)) + 1, np.uint64)
        of_depth: U64 = random.integers(0, 2**64, int(depth.max(initial=-1)) + 1, np.uint64)
        terms = of_frame[frames] * (of_depth[depth] | np.uint64(1))
        sums = np.cumsum(terms, dtype=np.uint64)
        yield (sums - (sums - terms)[starts]).view(np.int64)
