"""Sweeps of the native core that keep no ranges, only the groups that these are listed in.

They take ranges and calls as blocks of rows in order of their starts, as most files have them, so
memory does not grow with either; see ``native/core/src/launch_sweep.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.derived.ranges.names import range_text
from warpline.derived.ranges.threads import own_thread
from warpline.derived.summaries.summary import PERCENTS
from warpline.ops.arrays import I32, I64
from warpline.ops.group import CollectedStats, GroupStats, factorize_rows
from warpline.trace import ColumnData, Trace
from warpline.trace.source import LARGE_TABLE_ROWS

Block = Mapping[str, ColumnData]

_NAME = ("domain_id", "name_id")
_RANGE = ("start_ns", "end_ns", "thread_id", "end_thread_id", *_NAME, "style", "source_id")
_CALL = ("start_ns", "end_ns", "thread_id", "process_id", "correlation_id")
_OPERATION = ("start_ns", "end_ns", "process_id", "correlation_id")

# Sorted at a time, in 8 MB.
_VALUES_PER_BLOCK = 2**20


class RangeGroups:
    """Numbers for ranges by name and other columns, in order of appearance.

    Args:
        trace: The trace.
        columns: Columns of `range` that are part of a group's key.

    A key is the name, as in `RangeNames`, and the values of the columns.
    """

    def __init__(self, trace: Trace, *columns: str) -> None:
        self._trace = trace
        self._columns = columns
        self._numbers: dict[tuple[Any, ...], int] = {}

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        """The key of each number."""
        return list(self._numbers)

    def of(self, ranges: Block) -> I32:
        """Return the group of each range, shape (n,)."""
        names = [ranges[name].filled(-1) for name in _NAME]
        others = [ranges[name].values for name in self._columns]
        groups = factorize_rows(*names, *others)
        distinct = zip(
            *(column[groups.first].tolist() for column in (*names, *others)), strict=True
        )
        numbers = [
            self._numbers.setdefault(
                (range_text(self._trace, domain, name), *values), len(self._numbers)
            )
            for domain, name, *values in distinct
        ]
        return np.array(numbers, np.int32)[groups.codes]


class Grouped(NamedTuple):
    """What a sweep found.

    Attributes:
        columns: Shape (columns, groups), int64; see ``wl_range_sweep_groups``.
        stats: The values of each group.
    """

    columns: I64
    stats: CollectedStats


class Kind(NamedTuple):
    """A kind of sweep, whose groups have some columns.

    Attributes:
        number: The native core's number for it.
        columns: How many there are.
        counting: The one that counts the values of a group.
    """

    number: int
    columns: int
    counting: int


KERNELS = Kind(native.SWEEP_KERNELS, 4, 3)
PROJECTIONS = Kind(native.SWEEP_PROJECTIONS, 6, 0)


def sweep(
    trace: Trace,
    kind: Kind,
    tables: Sequence[str],
    groups: RangeGroups,
    names: tuple[tuple[str, ...], Callable[[Block], I32]] | None = None,
) -> Grouped | None:
    """Return the groups of operations in ranges, None if the native core cannot find them.

    Args:
        trace: The trace, which has a `range` table.
        kind: KERNELS or PROJECTIONS.
        tables: The GPU tables; those that were not recorded are skipped.
        groups: Numbers the ranges.
        names: Columns of operations, and what makes of them the number of each one's name.
    """
    core = native.core()
    if core is None:
        return None
    name_columns, number_names = names or ((), None)
    recorded = [table for table in tables if trace.has(table)]
    columns = {"range": _RANGE, "api_call": _CALL}
    columns.update(dict.fromkeys(recorded, (*_OPERATION, *name_columns)))
    trace.foresee({table: of for table, of in columns.items() if _is_small(trace, table)})
    for ordered in (False, True):
        with _opened(core, kind, trace, [*columns]) as handle:
            for table in recorded:
                for block in trace.blocks(table, *columns[table]):
                    rows = _operations(block, number_names)
                    if core.wl_range_sweep_operations(handle, rows.structure) != native.OK:
                        return None
            status = _pass(trace, core, handle, groups, ordered=ordered)
            if status == native.UNSUPPORTED and not ordered:
                continue  # maybe only because of the order of rows
            if status != native.OK:
                return None
            return _results(core, handle, kind)
    return None


def _is_small(trace: Trace, table: str) -> bool:
    return trace.has(table) and trace.row_count(table) <= LARGE_TABLE_ROWS


@contextmanager
def _opened(
    core: native.Core, kind: Kind, trace: Trace, tables: Sequence[str]
) -> Iterator[ctypes.c_void_p]:
    def count(table: str) -> int:
        return trace.row_count(table) if trace.has(table) else 0

    counts = [sum(map(count, tables)), count("thread"), count("process")]
    handle = ctypes.c_void_p()
    try:
        if core.wl_range_sweep_open(kind.number, *counts, ctypes.byref(handle)) != native.OK:
            raise MemoryError
        yield handle
    finally:
        core.wl_range_sweep_close(handle)


def _pass(
    trace: Trace, core: native.Core, handle: ctypes.c_void_p, groups: RangeGroups, *, ordered: bool
) -> int:
    """Pass ranges and calls to a sweep: before some calls, all ranges that start no later."""
    ranges = trace.blocks("range", *_RANGE, ordered=ordered)
    calls = trace.blocks("api_call", *_CALL, ordered=ordered) if trace.has("api_call") else ()
    status, reached = native.OK, -(2**63)

    def add_ranges(block: Block) -> int:
        rows = _ranges(block, groups)
        return core.wl_range_sweep_ranges(handle, rows.structure)

    for block in calls:
        last = _last_start(block)
        while status == native.OK and reached <= last:
            of_ranges = next(ranges, None)
            if of_ranges is None:
                break
            reached = max(reached, _last_start(of_ranges))
            status = add_ranges(of_ranges)
        if status == native.OK:
            rows = _calls(block)
            status = core.wl_range_sweep_calls(handle, rows.structure)
        if status != native.OK:
            return status
    for of_ranges in ranges:  # they contain nothing, if they are in order
        status = add_ranges(of_ranges)
        if status != native.OK:
            return status
    return status


def _last_start(block: Block) -> int:
    starts = block["start_ns"].values
    return int(starts[-1]) if len(starts) else -(2**63)


class _Rows(NamedTuple):
    """A C structure and the arrays that it refers to, which must outlive it."""

    structure: ctypes.Structure
    arrays: dict[str, npt.NDArray[Any] | None]


def _rows(kind: type[ctypes.Structure], **columns: npt.NDArray[Any] | None) -> _Rows:
    arrays = {
        name: None if column is None else np.ascontiguousarray(column)
        for name, column in columns.items()
    }
    addresses = {
        name: None if array is None else array.ctypes.data for name, array in arrays.items()
    }
    count = next(len(array) for array in arrays.values() if array is not None)
    return _Rows(kind(count=count, **addresses), arrays)


def _operations(block: Block, number_names: Callable[[Block], I32] | None) -> _Rows:
    return _rows(
        native.OperationRows,
        start=block["start_ns"].values,
        end=block["end_ns"].values,
        correlation=block["correlation_id"].values,
        known=block["correlation_id"].valid,
        process=block["process_id"].values,
        name=None if number_names is None else number_names(block),
    )


def _ranges(block: Block, groups: RangeGroups) -> _Rows:
    return _rows(
        native.RangeRows,
        start=block["start_ns"].values,
        end=block["end_ns"].values,
        id=block["source_id"].values,
        thread=own_thread(block["thread_id"], block["end_thread_id"]),
        group=groups.of(block),
    )


def _calls(block: Block) -> _Rows:
    return _rows(
        native.CallRows,
        start=block["start_ns"].values,
        end=block["end_ns"].values,
        correlation=block["correlation_id"].values,
        known=block["correlation_id"].valid,
        thread=block["thread_id"].values,
        process=block["process_id"].values,
    )


def _results(core: native.Core, handle: ctypes.c_void_p, kind: Kind) -> Grouped | None:
    n_groups = core.wl_range_sweep_finish(handle)
    if n_groups < 0:
        return None
    columns = np.empty((kind.columns, n_groups), np.int64)
    core.wl_range_sweep_groups(handle, columns.ctypes.data)
    count = columns[kind.counting]
    return Grouped(columns, CollectedStats.of(_values(core, handle, count), PERCENTS))


def _values(core: native.Core, handle: ctypes.c_void_p, count: I64) -> Iterator[GroupStats]:
    """Yield the values of some groups at a time."""
    reach = np.cumsum(count)
    begin, done = 0, 0
    while begin < len(count):
        end = max(begin + 1, int(np.searchsorted(reach, done + _VALUES_PER_BLOCK, side="right")))
        starts = np.append(0, reach[begin:end] - done)
        values = np.empty(int(starts[-1]), np.int64)
        status = core.wl_range_sweep_values(handle, begin, end, values.ctypes.data)
        if status != native.OK:
            raise MemoryError
        yield GroupStats(starts, values)
        begin, done = end, int(reach[end - 1])
