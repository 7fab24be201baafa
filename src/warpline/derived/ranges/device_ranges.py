"""The ranges that launch work on a GPU, by name, as they are on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.projection import projected_ranges
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.trace import Trace


class NamedRanges(NamedTuple):
    """The ranges of one name, from their first GPU operation to the end of the last.

    Attributes:
        name: Their name.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, after the start.
    """

    name: str | None
    start_ns: I64
    end_ns: I64


def ranges_on_device(trace: Trace, device: int) -> Iterator[NamedRanges]:
    """Yield the ranges of each name that launch work, of processes that use a GPU.

    Args:
        trace: The trace.
        device: Row of the device table.
    """
    if not trace.has("range") or not trace.row_count("range"):
        return
    work, names, projected = operations(trace), range_names(trace), projected_ranges(trace)
    users = distinct_values(work.process[work.device == device])
    process = trace.columns("range", "process_id")["process_id"].values[projected.row]
    rows = np.flatnonzero(np.isin(process, users) & (projected.end_ns > projected.start_ns))
    codes = names.codes[projected.row[rows]]
    for group in by_group(codes):
        own = rows[group]
        name = names.texts[codes[group[0]]]
        yield NamedRanges(name, projected.start_ns[own], projected.end_ns[own])
