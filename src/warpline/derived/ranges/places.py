"""Where in the nesting of ranges operations are launched, the same on all threads and processes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.paths import range_paths
from warpline.derived.ranges.stacks import innermost_range
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.trace import Trace

_DEEPEST = 32  # ranges nested deeper have the path of the range around them


class PathTexts(NamedTuple):
    """The path of names of each push/pop range.

    Attributes:
        code: Shape (ranges,), int64, places in `paths`; -1 for a range without one.
        paths: Distinct paths, names outermost first. Counters are patterns: ``step_*``.
    """

    code: I64
    paths: tuple[tuple[str, ...], ...]


@derived
def path_texts(trace: Trace) -> PathTexts:
    """Return the path of each range; equal paths on two threads have one code."""
    if not trace.has("range"):
        return PathTexts(np.zeros(0, np.int64), ())
    paths = range_paths(trace)
    tree = paths.tree
    full: list[tuple[str, ...]] = []
    for path, text in enumerate(paths.texts):  # a path precedes its children
        above = full[int(tree.parent[path])] if tree.has_parent[path] else ()
        full.append((*above, text)[:_DEEPEST])
    number = {path: place for place, path in enumerate(dict.fromkeys(full))}
    code = np.full(trace.row_count("range"), -1)
    code[paths.rows] = np.array([number[path] for path in full], np.int64)[paths.of_row]
    return PathTexts(code, tuple(number))


@derived
def range_of_operations(trace: Trace) -> I64:
    """Return the innermost push/pop range around the launch of each operation, -1 for none.

    Shape (operations,), int64, rows of the range table.
    """
    call = operations(trace).call
    row = np.full(len(call), -1)
    if not trace.has("range") or not trace.has("api_call"):
        return row
    inside = innermost_range(trace, "api_call")
    known = np.flatnonzero(call >= 0)
    found = known[inside.found[call[known]]]
    row[found] = inside.row[call[found]]
    return row
