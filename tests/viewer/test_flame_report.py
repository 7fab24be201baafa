"""The data of the page of flame graphs: short nodes are merged, and no sum changes."""

from __future__ import annotations

import numpy as np
import pytest
from support import sampled_stacks

from warpline.derived.flame.call_tree import CallTree, tree_by_thread
from warpline.derived.flame.weighted import choose
from warpline.documents import flame_page
from warpline.frozen import replace
from warpline.viewer import flame_report
from warpline.viewer.flame_report import SMALL, make_flame_report, thinned
from warpline.viewer.page import assets

SMALL_LABEL = 99


def totals(tree):
    """Add up each node and those that it called."""
    found = tree.self_ns.copy()
    for place in range(len(tree) - 1, -1, -1):
        assert tree.parent[place] < place
        if tree.parent[place] >= 0:
            found[tree.parent[place]] += found[place]
    return found


def random_tree(seed):
    """Return a tree of 400 nodes in three groups."""
    random = np.random.default_rng(seed)
    parent, depth = [-1] * 20, [0] * 20
    group = [int(one) for one in random.integers(0, 3, 20)]
    for _ in range(380):
        caller = int(random.integers(0, len(parent)))
        parent.append(caller)
        depth.append(depth[caller] + 1)
        group.append(group[caller])
    order = np.argsort(depth, kind="stable")
    place = np.empty(401, np.int64)
    place[order], place[-1] = np.arange(400), -1
    own = random.integers(0, 1000, 400)
    columns = (np.array(group)[order], place[np.array(parent)[order]], np.array(depth)[order])
    groups, parents, depths = (column.astype(np.int32) for column in columns)
    tree = CallTree(groups, parents, depths, depths, own, own, own % 7)
    return replace(tree, total_ns=totals(tree))


@pytest.mark.parametrize("most", [2, 10, 100, 1000])
def test_sums_stay_when_short_nodes_are_merged(most):
    tree = random_tree(most)

    found, longest = thinned(tree, most, SMALL_LABEL)

    assert len(found) <= most + 3
    assert found.self_ns.sum() == tree.self_ns.sum()
    assert found.count.sum() == tree.count.sum()
    assert np.array_equal(totals(found), found.total_ns)
    small = found.label == SMALL_LABEL
    assert bool((found.total_ns[~small] > longest).all())
    inner = found.parent >= 0
    assert np.array_equal(found.group[inner], found.group[found.parent[inner]])
    for one in range(3):
        assert found.self_ns[found.group == one].sum() == tree.self_ns[tree.group == one].sum()


def test_a_tree_that_fits_stays_as_it_is():
    trace = sampled_stacks.trace()
    tree = tree_by_thread(trace, choose(trace, "cpu"))
    assert thinned(tree, len(tree), SMALL_LABEL) == (tree, 0)


def test_the_page_says_what_is_merged(monkeypatch):
    trace = sampled_stacks.trace()
    monkeypatch.setattr(flame_report, "MOST_NODES", 4)
    content = flame_page.content(trace, choose(trace, "cpu"), ())
    head = make_flame_report(content, assets("flame")).head
    assert [view["of"] for view in head["views"]] == ["cpu", "python", "gpu", "offcpu", "os"]
    assert any(note.startswith("CPU time: ") and SMALL in note for note in head["notes"])
