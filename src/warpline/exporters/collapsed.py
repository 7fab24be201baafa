"""Collapsed stacks, one line each, for flamegraph.pl, inferno and speedscope.

A line is the thread, the frames from the outermost to the innermost, and the time in ns:
``python3 (1414);main (train.py:9);decode (dataset.py:41) 12000000``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpline.derived.flame.call_tree import CallTree, tree_by_thread
from warpline.derived.flame.profiles import Labels, profile
from warpline.derived.flame.threads import thread_name
from warpline.derived.flame.weighted import Choice
from warpline.exporters import EXPORTERS, stack_exporter
from warpline.files import complete_file
from warpline.trace import Trace

_ESCAPED = str.maketrans({";": ":", "\n": " ", "\r": " "})


def write(trace: Trace, path: Path, choice: Choice) -> None:
    """Write a line for each stack of each thread; a stack without any time is left out."""
    tree, labels = tree_by_thread(trace, choice), profile(trace, choice).labels
    with complete_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as out:
        texts = _stack_texts(trace, tree, labels)
        for row in np.flatnonzero(tree.self_ns > 0).tolist():
            out.write(f"{texts[row]} {tree.self_ns[row]}\n")


def _stack_texts(trace: Trace, tree: CallTree, labels: Labels) -> list[str]:
    """Return the text of each node with those of its callers, which are earlier nodes."""
    threads = {row: thread_name(trace, row).text for row in np.unique(tree.group).tolist()}
    texts: list[str] = []
    columns = (tree.group.tolist(), tree.parent.tolist(), tree.label.tolist())
    for group, parent, label in zip(*columns, strict=True):
        caller = texts[parent] if parent >= 0 else threads[group].translate(_ESCAPED)
        texts.append(f"{caller};{labels.text(label).translate(_ESCAPED)}")
    return texts


EXPORTERS.add(
    "collapsed",
    stack_exporter(
        "collapsed", "Collapsed stacks for flamegraph.pl, one line each.", ".folded", write
    ),
)
