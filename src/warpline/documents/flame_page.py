"""The content of the page of flame graphs: the tree of each kind of time that was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline import progress
from warpline.derived.flame.call_tree import tree_by_thread
from warpline.derived.flame.profiles import profile
from warpline.derived.flame.threads import thread_name
from warpline.derived.flame.weighted import Choice, available
from warpline.presentation import Block
from warpline.result.facts import source_name, warnings_of
from warpline.trace import Trace
from warpline.viewer.flame_report import FlameContent, FlameView


def content(trace: Trace, choice: Choice, tables: Sequence[Block]) -> FlameContent:
    """Return what the page shows.

    Args:
        trace: The trace.
        choice: What is shown at first. Its threads are the only ones on the page.
        tables: What the page has as text.
    """
    views = []
    kinds = available(trace)
    with progress.task("Adding up stacks", len(kinds)) as advance:
        for of in kinds:
            own = Choice(of, threads=choice.threads)  # the page leaves frames out by itself
            tree = tree_by_thread(trace, own)
            threads = [thread_name(trace, row).text for row in np.unique(tree.group).tolist()]
            if len(tree) or of == choice.of:
                views.append(FlameView(of, tree, profile(trace, own).labels, threads))
            advance(1)
    warnings = (each.rstrip(".") for each in dict.fromkeys(warnings_of(trace)))
    notes = [f"{each[:1].upper()}{each[1:]}." for each in warnings]
    return FlameContent(source_name(trace.meta.paths), notes, views, choice, tables)
