"""Links from PyTorch's backward work to the forward operators that created it."""

from __future__ import annotations

import numpy as np

from warpline.derived.operators.labels import forward_operators
from warpline.derived.ranges.autograd import forward_ranges
from warpline.ops.arrays import I64
from warpline.trace import Trace
from warpline.viewer.rows import Link, narrow

_LINKS = {"range": ("forward", forward_ranges), "op": ("forward_op", forward_operators)}


def forward_links(trace: Trace, table: str, rows: I64) -> dict[str, Link]:
    """Return the link of each backward range or operator to its forward one, by sequence number.

    Args:
        trace: The trace.
        table: Of the events; only `range` and `op` have such links.
        rows: Shape (n,), rows of the table.
    """
    if table not in _LINKS:
        return {}
    name, find = _LINKS[table]
    backward, forward = find(trace)
    of_row = np.full(trace.row_count(table), -1, np.int64)
    of_row[backward] = forward
    own = of_row[rows]
    return {name: Link(narrow(np.maximum(own, 0)), own >= 0)} if (own >= 0).any() else {}
