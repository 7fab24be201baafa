"""The tree of a flame graph: time of each function below each stack of callers, by thread."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.flame.profiles import Profile, profile
from warpline.derived.flame.weighted import Choice
from warpline.frozen import frozen
from warpline.ops.arrays import I32, I64, Integers
from warpline.ops.group import factorize, factorize_rows, group_sums
from warpline.ops.stacks import Stacks, ancestors
from warpline.trace import Trace

_NO_PARENT = -1
_PAIRS_PER_BLOCK = 2**23


@frozen
class CallTree:
    """Nodes by group, such as thread, then depth; each attribute has shape (nodes,).

    Attributes:
        group: The group of each node, ascending.
        parent: The caller's node, an earlier one; -1 for an outermost function.
        depth: The number of callers.
        label: Places in the labels of the profile.
        self_ns: Weight of the stacks that end here.
        total_ns: Weight of those and of all below.
        count: Number of stacks that end here.
    """

    group: I32
    parent: I32
    depth: I32
    label: I32
    self_ns: I64
    total_ns: I64
    count: I64

    def __len__(self) -> int:
        return len(self.parent)


@derived
def tree_by_thread(trace: Trace, choice: Choice) -> CallTree:
    """Return the tree of `profile`, whose groups are rows of the table thread."""
    found = profile(trace, choice)
    return call_tree(found, found.thread)


def call_tree(found: Profile, group: Integers) -> CallTree:
    """Add up the weights of a profile's stacks by group and node.

    Args:
        found: The profile.
        group: Shape (stacks,), any values. Stacks of different groups share no nodes.
    """
    stacks, size = found.stacks, max(len(found.stacks), 1)
    groups = factorize(group)
    samples = factorize(groups.codes.astype(np.int64) * size + found.node)
    known = samples.uniques  # a key is a group and a node
    levels = _levels(stacks, known, size)
    keys = np.sort(np.concatenate([np.zeros(0, np.int64), *levels]))
    order = np.lexsort((keys, stacks.depth[keys % size], keys // size))
    place = np.empty(len(keys), np.int32)
    place[order] = np.arange(len(keys), dtype=np.int32)
    ordered = keys[order]
    node = ordered % size
    depth = stacks.depth[node]
    parent = np.full(len(keys), _NO_PARENT, np.int32)
    inner = np.flatnonzero(depth > 0)
    callers = ordered[inner] - node[inner] + stacks.parent[node[inner]]
    parent[inner] = place[np.searchsorted(keys, callers)]
    own, count = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    where = place[np.searchsorted(keys, known)]
    own[where] = group_sums(samples.codes, found.weight_ns, samples.n_groups)
    count[where] = np.bincount(samples.codes, minlength=samples.n_groups)
    total = _totals(own, parent, depth)
    of_group = groups.uniques[ordered // size].astype(np.int32)
    return CallTree(of_group, parent, depth, stacks.frame[node], own, total, count)


def _levels(stacks: Stacks, known: I64, size: int) -> list[I64]:
    """Return the keys of nodes and of all their callers, each once, the innermost level first."""
    depth = stacks.depth[known % size]
    found: list[I64] = []
    callers = np.zeros(0, np.int64)
    for level in range(int(depth.max(initial=-1)), -1, -1):
        keys = np.unique(np.append(known[depth == level], callers))
        found.append(keys)
        node = keys % size
        callers = keys - node + stacks.parent[node]
    return found


def _totals(own: I64, parent: I32, depth: I32) -> I64:
    total = own.copy()
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    for level in range(len(bounds) - 2, 0, -1):
        rows = order[bounds[level] : bounds[level + 1]]
        np.add.at(total, parent[rows], total[rows])
    return total


@frozen
class FunctionSums:
    """The time of each function, the longest self time first; shape (functions,).

    Attributes:
        label: A label of the function, without regard to its line.
        self_ns: Time in the function itself.
        total_ns: Time in it and in what it called; recursive calls count once.
        count: Stacks that end in it.
    """

    label: I64
    self_ns: I64
    total_ns: I64
    count: I64


@derived
def function_sums(trace: Trace, choice: Choice) -> FunctionSums:
    """Return the sums of each function over all threads."""
    found = profile(trace, choice)
    function = np.array(found.labels.function, np.int64)
    weight = group_sums(found.node, found.weight_ns, len(found.stacks))
    count = np.bincount(found.node, minlength=len(found.stacks))
    nodes = np.flatnonzero(count)
    size = int(function.max(initial=-1)) + 1
    inner = function[found.stacks.frame[nodes]]
    own = group_sums(inner, weight[nodes], size)
    counts = group_sums(inner, count[nodes], size)
    total = np.zeros(size, np.int64)
    ends = np.cumsum(found.stacks.depth[nodes].astype(np.int64) + 1)
    blocks = np.searchsorted(ends, np.arange(0, int(ends.max(initial=0)), _PAIRS_PER_BLOCK)[1:])
    for part in np.split(nodes, blocks):
        place, row = ancestors(found.stacks, part)
        pairs = factorize_rows(place, function[found.stacks.frame[row]]).first
        of_pair = function[found.stacks.frame[row[pairs]]]
        total += group_sums(of_pair, weight[part[place[pairs]]], size)
    label = np.zeros(size, np.int64)
    label[function[::-1]] = np.arange(len(function))[::-1]
    order = np.lexsort((label, -total, -own))
    order = order[total[order] > 0]
    return FunctionSums(label[order], own[order], total[order], counts[order])
