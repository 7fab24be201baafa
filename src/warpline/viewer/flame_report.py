"""The page of flame graphs: one self-contained HTML file with the tree of each kind of time.

The data are columns of nodes by thread: the caller, the label, the time and the number of the
stacks that end there. The page adds up what it shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from warpline.derived.flame.call_tree import CallTree
from warpline.derived.flame.profiles import LabelKind, Labels
from warpline.derived.flame.weighted import MEANINGS, TITLES, Choice, Of
from warpline.ops.arrays import I64, Integers
from warpline.ops.group import factorize, factorize_rows, group_sums
from warpline.presentation import Block as Shown
from warpline.units import format_ns, plural
from warpline.viewer.columns import plain
from warpline.viewer.container import BlockWriter
from warpline.viewer.markup import element, join
from warpline.viewer.page import Assets, app, page_of_blocks
from warpline.viewer.report import Report, size_of
from warpline.viewer.static_page import blocks_html

SCHEMA_VERSION = 1
MOST_NODES = 300_000
SMALL = "[smaller functions]"
_NO_SCRIPT = (
    "The flame graph needs JavaScript. The script has no network access. The table below works"
    " without JavaScript."
)


@dataclass(frozen=True)
class FlameView:
    """The tree of one kind of time.

    Attributes:
        of: The kind.
        tree: By thread.
        labels: What its nodes are called.
        threads: The name of each group of the tree, in order.
    """

    of: Of
    tree: CallTree
    labels: Labels
    threads: Sequence[str]


@dataclass(frozen=True)
class FlameContent:
    """What the page shows.

    Attributes:
        title: Names of the recordings.
        notes: What has to be known of the data.
        views: The trees; at least one.
        choice: What is shown at first.
        tables: What the page has as text, with or without its script.
    """

    title: str
    notes: Sequence[str]
    views: Sequence[FlameView]
    choice: Choice
    tables: Sequence[Shown]


def make_flame_report(content: FlameContent, parts: Assets) -> Report:
    """Return the self-contained page.

    Args:
        content: What it shows.
        parts: Its script and style sheets.
    """
    writer, notes = BlockWriter(), [*content.notes]
    views = [_view(writer, view, notes) for view in content.views]
    blocks = writer.blocks()
    head = {
        "schema_version": SCHEMA_VERSION,
        "title": content.title,
        "notes": notes,
        "of": content.choice.of,
        "python_only": content.choice.python_only,
        "views": views,
        "blocks": [{"raw_bytes": block.raw_bytes} for block in blocks],
    }
    title = f"{content.title} · flame graph"
    pieces = list(page_of_blocks(title, _body(content), head, blocks, parts))
    return Report(pieces, size_of(pieces), None, head)


def thinned(tree: CallTree, most: int, small_label: int) -> tuple[CallTree, int]:
    """Return a tree with fewer nodes, and the longest time of a node that was merged.

    It has at most `most` nodes and one per group. Short nodes are merged, with all below them, to
    one node per caller with the label `small_label`. No sum changes. A caller has one such node at
    most, so half of the nodes stay.
    """
    if len(tree) <= most:
        return tree, 0
    longest = int(np.sort(tree.total_ns)[len(tree) - most // 2 - 1])
    is_kept = tree.total_ns > longest
    top = np.flatnonzero(~is_kept & ((tree.parent < 0) | is_kept[tree.parent]))
    groups = factorize_rows(tree.group[top], tree.parent[top])
    first = top[groups.first]
    below = _stacks_below(tree)
    kept = np.flatnonzero(is_kept)
    merged_ns = group_sums(groups.codes, tree.total_ns[top], groups.n_groups)
    merged_count = group_sums(groups.codes, below[top], groups.n_groups)
    rows = np.append(kept, first)
    order = np.argsort(rows, kind="stable")  # by depth, as the tree
    place = np.full(len(tree) + 1, -1, np.int64)  # the last one is of no parent
    place[rows[order]] = np.arange(len(rows))

    def column(of_kept: Integers, of_merged: Integers) -> Integers:
        return np.append(of_kept[kept], of_merged)[order].astype(of_kept.dtype)

    label = np.full(len(first), small_label)
    found = CallTree(
        tree.group[rows[order]],
        place[tree.parent[rows[order]]].astype(np.int32),
        tree.depth[rows[order]],
        column(tree.label, label),
        column(tree.self_ns, merged_ns),
        column(tree.total_ns, merged_ns),
        column(tree.count, merged_count),
    )
    return found, longest


def _stacks_below(tree: CallTree) -> I64:
    """Return the number of stacks that end in each node or below it."""
    found = tree.count.copy()
    bounds = np.searchsorted(tree.depth, np.arange(int(tree.depth.max(initial=0)) + 2)).tolist()
    for first, last in pairwise(bounds[1:][::-1]):
        np.add.at(found, tree.parent[last:first], found[last:first])
    return found


def _view(writer: BlockWriter, view: FlameView, notes: list[str]) -> dict[str, Any]:
    """Add the nodes of a tree, and return its part of the head."""
    labels = view.labels
    tree, longest = thinned(view.tree, MOST_NODES, len(labels))
    if longest:
        labels = labels.chosen(np.arange(len(labels)))
        labels.add([SMALL], LabelKind.OTHER)
        merged = plural(len(view.tree) - len(tree), "node")
        notes.append(
            f"{TITLES[view.of]}: {merged} of at most {format_ns(longest)} each are shown as"
            f" {SMALL}. Sums include them."
        )
    rows = np.arange(len(tree))
    columns = [
        plain("thread", factorize(tree.group).codes.astype(np.int64)),
        plain("caller", np.where(tree.parent >= 0, rows - tree.parent, 0)),
        plain("label", tree.label.astype(np.int64)),
        plain("self", tree.self_ns),
        plain("count", tree.count),
    ]
    block, offset = writer.append("columns", columns)
    described = [column.head() for column in columns]
    nodes = {"block": block, "offset": offset, "count": len(tree), "columns": described}
    texts = {
        "name": labels.name,
        "module": labels.file,
        "line": labels.line,
        "kind": [int(kind) for kind in labels.kind],
        "function": labels.function,
    }
    return {
        "of": view.of,
        "title": TITLES[view.of],
        "meaning": MEANINGS[view.of],
        "threads": list(view.threads),
        "nodes": nodes,
        "texts_block": writer.add("json", json.dumps(texts, separators=(",", ":")).encode()),
    }


def _body(content: FlameContent) -> Iterator[str]:
    yield from app(_NO_SCRIPT)
    tables = element("div", blocks_html(content.tables), class_="wl-page")
    yield element("div", join(tables), id="warpline-static")
    yield "\n"
