"""The tree of a flame graph: time of each function below each stack of callers, by thread."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.flame.profiles import Profile, profile
from warpline.derived.flame.weighted import Choice
from warpline.frozen import frozen
from warpline.ops.arrays import I32, I64, Integers, repeated
from warpline.ops.group import factorize, group_sums
from warpline.ops.stack_sums import forest
from warpline.trace import Trace

_NO_PARENT = -1


@frozen
class CallTree:
    """Nodes by depth, the outermost first; each attribute has shape (nodes,).

    Attributes:
        group: The group of each node, such as its thread.
        parent: The caller's node, an earlier one; -1 for an outermost function.
        depth: The number of callers, ascending.
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
    """Return the tree of `profile`, whose groups are rows of the table thread, -1 if unknown."""
    found = profile(trace, choice)
    return call_tree(found, found.thread)


def call_tree(found: Profile, group: Integers) -> CallTree:
    """Add up the weights of a profile's stacks by group and node.

    Args:
        found: The profile.
        group: Shape (stacks,), any values. Stacks of different groups share no nodes.
    """
    groups = factorize(group)
    nodes = forest(found.stacks, found.node, groups.codes)
    own = nodes.own(found.weight_ns)
    depth = np.repeat(np.arange(len(nodes.levels) - 1), np.diff(nodes.levels)).astype(np.int32)
    return CallTree(
        groups.uniques[nodes.group].astype(np.int32),
        np.where(depth > 0, nodes.parent, _NO_PARENT).astype(np.int32),
        depth,
        found.stacks.frame[nodes.stack],
        own,
        nodes.with_callees(own),
        nodes.own(repeated(np.ones(1, np.int64), len(found.node))),
    )


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
    functions = factorize(np.array(found.labels.function, np.int64))
    nodes = forest(found.stacks, found.node)
    of_stack = functions.codes[found.stacks.frame]
    function, size = of_stack[nodes.stack], functions.n_groups
    outermost = nodes.is_outermost(of_stack)
    sums = nodes.sums(function, size, nodes.own(found.weight_ns), outermost)
    count = group_sums(function, nodes.own(repeated(np.ones(1, np.int64), len(found.node))), size)
    label = np.empty(size, np.int64)
    label[functions.codes[::-1]] = np.arange(len(functions.codes))[::-1]  # the first is the last
    order = np.lexsort((label, -sums.total, -sums.own))
    return FunctionSums(label[order], sums.own[order], sums.total[order], count[order])
