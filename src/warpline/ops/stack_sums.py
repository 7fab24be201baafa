"""Sums over stacks: what each function took by itself, and with all that it called.

A function that is in a stack several times, by recursion, counts once for that stack.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import (
    I32,
    I64,
    BoolArray,
    Integers,
    require_equal_length,
    require_integers,
)
from warpline.ops.group import distinct_values, factorize_rows, group_sums, places
from warpline.ops.stacks import Stacks, with_callers
from warpline.ops.tree import nest

_NO_STACK = -1


class FrameSums(NamedTuple):
    """Sums of values by key.

    Attributes:
        own: Shape (keys,), int64, of the stacks whose innermost frame has the key.
        total: Shape (keys,), int64, of the stacks with any frame of the key, each once.
    """

    own: I64
    total: I64


@frozen
class Forest:
    """The stacks that rows refer to, with all their callers, apart for each group of rows.

    Nodes are outermost first: each one comes after its caller. Those of one depth are by group,
    then by stack.

    Attributes:
        group: Shape (nodes,), of the type that was given.
        stack: Shape (nodes,), int32, rows of the stacks.
        parent: Shape (nodes,), int32, the caller's node; 0 for an outermost one.
        levels: Shape (depths + 1,), int64: nodes of depth d are from ``levels[d]`` to before
            ``levels[d + 1]``.
        pair_of_row: Shape (rows,), int32, which pair of a group and a stack each row has.
        node_of_pair: Shape (pairs,), int32, the node of each pair; -1 without a stack.
        whole: The forest of the same stacks as a single group; None if this one is.
        place: Shape (nodes,), int32, the node of each one in the whole.
    """

    group: Integers
    stack: I32
    parent: I32
    levels: I64
    pair_of_row: I32
    node_of_pair: I32
    whole: Forest | None
    place: I32

    def __len__(self) -> int:
        return len(self.stack)

    @property
    def node_of_row(self) -> I32:
        """The node of each row, shape (rows,), int32; -1 without a stack."""
        return self.node_of_pair[self.pair_of_row]

    def bounds(self) -> list[tuple[int, int]]:
        """Return the first node of each depth, and the one after the last."""
        return list(pairwise(self.levels.tolist()))

    def own(self, values: Integers) -> I64:
        """Return the sum of the values of the rows of each node, shape (nodes,).

        Args:
            values: Shape (rows,), of rows with and without stacks.
        """
        of_pair = group_sums(self.pair_of_row, values, len(self.node_of_pair))
        sums = np.zeros(len(self), np.int64)
        has_stack = self.node_of_pair >= 0
        sums[self.node_of_pair[has_stack]] = of_pair[has_stack]
        return sums

    def with_callees(self, own: I64) -> I64:
        """Return the sums of each node and all nodes that it called, shape (nodes,)."""
        total = own.copy()
        for first, last in self.bounds()[:0:-1]:
            called = total[first:last].copy()  # of a view, numpy would copy all of `total`
            np.add.at(total, self.parent[first:last], called)
        return total

    def raised(self, own: I64, is_kept: BoolArray) -> I64:
        """Return `own` with the values of nodes that are not kept at their nearest kept callers.

        Values of stacks without a kept node are dropped.

        Args:
            own: What `own` returned.
            is_kept: Shape (nodes,), such as whether they are Python code.
        """
        left = own.copy()
        for depth, (first, last) in reversed(list(enumerate(self.bounds()))):
            rows = first + np.flatnonzero(~is_kept[first:last])
            if depth:
                np.add.at(left, self.parent[rows], left[rows])
            left[rows] = 0
        return left

    def sums(self, key: Integers, n_keys: int, own: I64, is_outermost: BoolArray) -> FrameSums:
        """Return the sums of each key.

        Args:
            key: Shape (nodes,), in ``[0, n_keys)``, such as the function of each node in its group.
            n_keys: Number of keys.
            own: What `own` returned.
            is_outermost: What `is_outermost` returned for these keys.
        """
        total = self.with_callees(own)
        total *= is_outermost  # in place: nodes may be many more than rows
        return FrameSums(group_sums(key, own, n_keys), group_sums(key, total, n_keys))

    def is_outermost(self, key: Integers) -> BoolArray:
        """Return which nodes have no caller, near or far, with the same key.

        Args:
            key: Shape (stacks,), such as the function of each stack.
        """
        if self.whole is not None:  # callers are the same in all groups
            return self.whole.is_outermost(key)[self.place]
        enter, leave = self._visits()
        return ~nest(enter, leave, key[self.stack]).has_parent

    def _visits(self) -> tuple[I64, I64]:
        """Return when a walk through the forest, callers first, enters and leaves each node."""
        size = self.with_callees(np.ones(len(self), np.int64))
        enter = np.zeros(len(self), np.int64)
        for depth, (first, last) in enumerate(self.bounds()):
            rows = np.arange(first, last)
            parent = self.parent[first:last] if depth else np.zeros(last - first, np.int64)
            order = np.argsort(parent, kind="stable")
            rows, parent = rows[order], parent[order]
            before = np.cumsum(size[rows]) - size[rows]
            opens = np.append(True, parent[1:] != parent[:-1])
            siblings = np.cumsum(opens) - 1
            before -= before[opens][siblings]
            enter[rows] = before + (enter[parent] + 1 if depth else 0)
        return enter, enter + size


def forest(stacks: Stacks, stack: Integers, group: Integers | None = None) -> Forest:
    """Return the forest of the stacks of rows.

    Args:
        stacks: The tree of all stacks.
        stack: Shape (rows,), rows of the tree; -1 for a row without a stack.
        group: Shape (rows,), not negative, such as threads; None for a single group.

    Takes O(rows + nodes) where groups share most stacks, O(n log n) else, and a few steps per
    depth.
    """
    require_integers("stack", stack)
    used = distinct_values(stack)
    used = used[used >= 0]
    whole = _whole(stacks, used)
    # The last entries are those of no stack.
    rank, node = (np.full(len(stacks) + 1, _NO_STACK, np.int32) for _ in range(2))
    rank[used] = np.arange(len(used))  # fewer numbers than nodes make smaller tables
    node[whole.stack] = np.arange(len(whole))
    if group is None:
        pairs = factorize_rows(rank[stack])
        return replace(whole, pair_of_row=pairs.codes, node_of_pair=node[stack[pairs.first]])
    require_equal_length(stack=stack, group=group)
    pairs = factorize_rows(group, rank[stack])
    return _apart(whole, group[pairs.first], node[stack[pairs.first]], pairs.codes)


def _whole(stacks: Stacks, used: Integers) -> Forest:
    """Return the forest of the given stacks as one group, of no rows."""
    by_level = [level for level in with_callers(stacks, used) if len(level)]
    levels = np.cumsum([0, *map(len, by_level)], dtype=np.int64)
    nothing = np.zeros(0, np.int32)
    stack = np.concatenate([nothing, *by_level]).astype(np.int32)
    node = np.zeros(len(stacks), np.int32)
    every = np.arange(len(stack), dtype=np.int32)
    node[stack] = every
    parent = np.where(stacks.depth[stack] > 0, node[stacks.parent[stack]], np.int32(0))
    return Forest(np.zeros_like(stack), stack, parent, levels, nothing, nothing, None, every)


def _apart(whole: Forest, group: Integers, node: I32, pair_of_row: I32) -> Forest:
    """Return the forest with nodes of their own for each group.

    Args:
        whole: All stacks as one group.
        group: Shape (pairs,), the group of each pair of a group and a stack.
        node: Shape (pairs,), the node of its stack in `whole`; -1 without a stack.
        pair_of_row: Passed on.
    """
    of_level = np.searchsorted(whole.levels, node, side="right") - 1  # -1 without a stack
    by_level = np.argsort(of_level, kind="stable")
    bounds = np.searchsorted(of_level[by_level], np.arange(len(whole.levels)))
    del of_level
    levels: list[_Level] = []
    called = np.zeros(0, np.int64)
    for level, (first, last) in reversed(list(enumerate(whole.bounds()))):
        pairs = by_level[bounds[level] : bounds[level + 1]]
        # A group and a node of the level as one number, in their order.
        own = group[pairs].astype(np.int64) * (last - first) + (node[pairs] - first)
        keys = distinct_values(np.concatenate((own, called)))
        of_group = keys // (last - first)
        place = first + keys - of_group * (last - first)
        levels.append(
            _Level(
                pairs,
                of_group.astype(group.dtype),
                place.astype(np.int32),
                places(keys, own),
                places(keys, called),
            )
        )
        if level:
            outer, inner = whole.bounds()[level - 1]
            called = of_group * (inner - outer) + (whole.parent[place] - outer)
    levels.reverse()
    ends = np.cumsum([0, *(len(each.group) for each in levels)], dtype=np.int64)
    node_of_pair = np.full(len(node), _NO_STACK, np.int32)
    parent = np.zeros(ends[-1], np.int32)
    for each, first, last in zip(levels, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        node_of_pair[each.pairs] = first + each.of_pair
        parent[last : last + len(each.of_called)] = first + each.of_called
    place = np.concatenate([np.zeros(0, np.int32), *(each.place for each in levels)])
    of_group = np.concatenate([group[:0], *(each.group for each in levels)])
    stack = whole.stack[place]
    return Forest(of_group, stack, parent, ends, pair_of_row, node_of_pair, whole, place)


class _Level(NamedTuple):
    """The nodes of one depth, by group and place."""

    pairs: I64  # which pairs of a group and a stack have this depth
    group: Integers
    place: I32  # of each node in the whole
    of_pair: I32  # which node each pair is
    of_called: I32  # which node calls each one of the next depth
