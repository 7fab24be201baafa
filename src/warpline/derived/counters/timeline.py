"""Profiled launches in the timeline of the same program.

Counters and a timeline are recorded in two runs, because collecting counters serializes launches.
Merged, they are one trace, with different processes.
"""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.ops.join import lookup_rows
from warpline.trace import ColumnData, Trace

NOT_FOUND = -1
_SHAPE = tuple(f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz")
_NAMES = ("mangled_name_id", "name_id")


@derived
def timeline_kernels(trace: Trace) -> I64:
    """Return the row of `kernel` of each profiled launch, `NOT_FOUND` without one.

    A launch and its kernel have the same name, grid, block, and place among the launches of their
    process. If this finds other kernels for some launches, such as in a timeline that begins later,
    the place is that among launches of the same name, grid and block. Kernels of CUDA graphs are no
    launches. The first process with profiled launches is the first one with kernels, and so on.

    Returns:
        Shape (launches,).
    """
    found = np.full(trace.row_count("profiled_kernel"), NOT_FOUND, np.int64)
    is_range = trace.columns("profiled_kernel", "is_range")["is_range"]
    is_node = trace.columns("kernel", "graph_node_id")["graph_node_id"].is_valid()
    is_one = ~is_range.filled(0).astype(np.bool_)
    launches = _Launches(trace, "profiled_kernel", "launch_number", is_one)
    kernels = _Launches(trace, "kernel", "correlation_id", ~is_node)
    if not (len(launches.rows) and len(kernels.rows)):
        return found
    name = next(name for name in _NAMES if launches.has(name) and kernels.has(name))
    n = len(launches.rows)
    columns = [np.concatenate((launches.column(of), kernels.column(of))) for of in (name, *_SHAPE)]
    processes = np.concatenate((launches.process, kernels.process))
    shapes = factorize_rows(processes, *columns).codes.astype(np.int64)
    earlier = trace.columns("profiled_kernel", "earlier_launches")["earlier_launches"]
    place, is_there = lookup_rows(
        (launches.process, earlier.filled(NOT_FOUND)[launches.rows]),
        (kernels.process, _places(kernels.process)),
    )
    if not (is_there & (shapes[:n] == shapes[n:][place])).all():
        place, is_there = lookup_rows(
            (shapes[:n], _places(shapes[:n])), (shapes[n:], _places(shapes[n:]))
        )
    found[launches.rows[is_there]] = kernels.rows[place[is_there]]
    return found


class _Launches:
    """Launches of a table, in the order of their processes and of launching.

    Attributes:
        rows: Their rows, shape (n,).
        process: Number of their process among those of the table, shape (n,).
    """

    def __init__(self, trace: Trace, table: str, order: str, is_launch: BoolArray) -> None:
        names = ("process_id", order, *_NAMES, *_SHAPE)
        self._columns: dict[str, ColumnData] = trace.columns(table, *names)
        process = self._columns["process_id"].filled(NOT_FOUND)
        rows = np.flatnonzero(is_launch)
        number = self._columns[order].filled(NOT_FOUND)[rows]
        self.rows: I64 = rows[np.lexsort((number, process[rows]))]
        self.process: I64 = np.unique(process[self.rows], return_inverse=True)[1].astype(np.int64)

    def has(self, name: str) -> bool:
        """Return whether all launches have a value of a column."""
        return bool(self._columns[name].is_valid()[self.rows].all())

    def column(self, name: str) -> I64:
        """Return the values of a column, shape (n,)."""
        return self._columns[name].values[self.rows].astype(np.int64)


def _places(codes: I64) -> I64:
    """Return how many equal codes come before each, shape (n,)."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    places = np.empty(len(codes), np.int64)
    places[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered)
    return places
