"""Sums over stacks: what each function took by itself, and with all that it called.

A function that is in a stack several times, by recursion, counts once for that stack.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import I64, BoolArray, Integers, as_i64, require_equal_length
from warpline.ops.group import distinct_values, group_sums
from warpline.ops.stacks import Stacks
from warpline.ops.tree import nest


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

    Nodes are outermost first: each one comes after its caller.

    Attributes:
        group: Shape (nodes,), int64.
        stack: Shape (nodes,), int64, rows of the stacks.
        parent: Shape (nodes,), int64, the caller's node; 0 for an outermost one.
        levels: Shape (depths + 1,), int64: nodes of depth d are from ``levels[d]`` to before
            ``levels[d + 1]``.
        node_of_row: Shape (rows,), int64, the node of each row; -1 without a stack.
    """

    group: I64
    stack: I64
    parent: I64
    levels: I64
    node_of_row: I64

    def __len__(self) -> int:
        return len(self.stack)

    def own(self, values: Integers) -> I64:
        """Return the sum of the values of the rows of each node, shape (nodes,).

        Args:
            values: Shape (rows,), of rows with and without stacks.
        """
        has_stack = self.node_of_row >= 0
        if has_stack.all():
            return group_sums(self.node_of_row, values, len(self))
        return group_sums(self.node_of_row[has_stack], values[has_stack], len(self))

    def with_callees(self, own: I64) -> I64:
        """Return the sums of each node and all nodes that it called, shape (nodes,)."""
        total = own.copy()
        for first, last in self._levels_inwards()[:0:-1]:
            np.add.at(total, self.parent[first:last], total[first:last])
        return total

    def raised(self, own: I64, is_kept: BoolArray) -> I64:
        """Return `own` with the values of nodes that are not kept at their nearest kept callers.

        Values of stacks without a kept node are dropped.

        Args:
            own: What `own` returned.
            is_kept: Shape (nodes,), such as whether they are Python code.
        """
        left = own.copy()
        for depth, (first, last) in reversed(list(enumerate(self._levels_inwards()))):
            rows = first + np.flatnonzero(~is_kept[first:last])
            if depth:
                np.add.at(left, self.parent[rows], left[rows])
            left[rows] = 0
        return left

    def sums(self, key: Integers, n_keys: int, own: I64) -> FrameSums:
        """Return the sums of each key.

        Args:
            key: Shape (nodes,), in ``[0, n_keys)``, such as the function of each node in its group.
            n_keys: Number of keys.
            own: What `own` returned.
        """
        outer = self.is_outermost(key)
        total = self.with_callees(own)
        return FrameSums(group_sums(key, own, n_keys), group_sums(key[outer], total[outer], n_keys))

    def is_outermost(self, key: Integers) -> BoolArray:
        """Return which nodes have no caller, near or far, with the same key in the same group."""
        enter, leave = self._visits()
        return ~nest(enter, leave, key).has_parent

    def _levels_inwards(self) -> list[tuple[int, int]]:
        ends = self.levels.tolist()
        return list(pairwise(ends))

    def _visits(self) -> tuple[I64, I64]:
        """Return when a walk through the forest, callers first, enters and leaves each node."""
        size = self.with_callees(np.ones(len(self), np.int64))
        enter = np.zeros(len(self), np.int64)
        for depth, (first, last) in enumerate(self._levels_inwards()):
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
        stack: Shape (rows,), rows of the tree; negative for a row without a stack.
        group: Shape (rows,), not negative, such as threads; None for a single group.

    Takes O(rows + nodes log nodes), and a few steps per depth.
    """
    rows = as_i64("stack", stack)
    width = max(len(stacks), 1)
    key = rows
    if group is not None:
        require_equal_length(stack=rows, group=group)
        key = np.where(rows >= 0, as_i64("group", group) * width + rows, -1)
    used = distinct_values(key)
    used = used[used >= 0]
    depth = stacks.depth[used % width].astype(np.int64)
    by_level: list[I64] = []
    callers = np.zeros(0, np.int64)
    for level in range(int(depth.max(initial=-1)), -1, -1):
        keys = distinct_values(np.concatenate((used[depth == level], callers)))
        by_level.append(keys)
        of_stack = keys % width
        callers = keys - of_stack + stacks.parent[of_stack]
    by_level.reverse()
    levels = np.cumsum([0, *(len(keys) for keys in by_level)], dtype=np.int64)
    keys = np.concatenate([np.zeros(0, np.int64), *by_level])
    parent = np.zeros(len(keys), np.int64)
    for level in range(1, len(by_level)):
        of_stack = by_level[level] % width
        caller = by_level[level] - of_stack + stacks.parent[of_stack]
        parent[levels[level] : levels[level + 1]] = levels[level - 1] + np.searchsorted(
            by_level[level - 1], caller
        )
    order = np.argsort(keys, kind="stable")
    place = np.full(len(key), -1, np.int64)
    has_stack = np.flatnonzero(key >= 0)
    if len(order):
        place[has_stack] = order[np.searchsorted(keys[order], key[has_stack])]
    return Forest(keys // width, keys % width, parent, levels, place)
