"""Kernels by the ranges that launched them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from warpline import native
from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.sweeping import read_ahead, sweep_input
from warpline.derived.ranges.threads import launches_within
from warpline.derived.summaries.kernel_names import kernel_name_ids
from warpline.derived.summaries.summary import PERCENTS, AnyStats
from warpline.derived.texts import number_texts
from warpline.derived.work.launches import launch_calls, launch_calls_in_any_order
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import (
    CollectedStats,
    GroupStats,
    RowGroups,
    factorize,
    factorize_rows,
    group_stats,
)
from warpline.trace import Trace

_NOTHING = -1

# Sorted at a time, in 8 MB.
_VALUES_PER_BLOCK = 2**20


class RangeKernels(NamedTuple):
    """Kernels grouped by range name, style, thread and kernel name.

    A kernel is in the group of every range that contains its whole launch call, once per group.
    Kernels outside all ranges are in a group without a range. In the attributes, -1 means none.

    Attributes:
        stats: The durations of the kernels of each group, in ns.
        ranges: Shape (groups,), int64, number of ranges that contain a kernel of the group.
        range_name: Shape (groups,), int64, position in the texts of `range_names`.
        style: Shape (groups,), int64, 0 push/pop, 1 start/end.
        thread: Shape (groups,), int64, the launching thread's row.
        kernel_name: Shape (groups,), int64, position in `kernel_names`.
        kernel_names: Distinct names, ascending.
    """

    stats: AnyStats
    ranges: I64
    range_name: I64
    style: I64
    thread: I64
    kernel_name: I64
    kernel_names: tuple[str, ...]


class _Pairs(NamedTuple):
    """Kernels in groups, numbered by range group times number of kernel names plus kernel name."""

    group: I64
    kernel: I64
    group_of_instance: I64


def range_kernels(trace: Trace, name_column: str) -> RangeKernels:
    """Return the kernels of each range name and thread.

    Args:
        trace: The trace, which has a `range` and a `kernel` table.
        name_column: From `kernel_name_column`.
    """
    return _swept(trace, name_column) or _by_pairs(trace, name_column)


def _swept(trace: Trace, name_column: str) -> RangeKernels | None:
    """Return the groups by a sweep of the native core; None without it.

    No pair of a range and a kernel is ever made; see ``native/core/src/range_kernels.cpp``.
    """
    core = native.core()
    if core is None:
        return None
    read_ahead(trace, "kernel", also=(name_column,))
    keys, columns = _range_keys(trace), sweep_input(trace)
    ranges = factorize_rows(*keys)
    name, names = _kernel_names(trace, name_column, ordered=False)
    call = launch_calls_in_any_order(trace, "kernel")
    durations = _durations(trace, ordered=False)
    launched = native.LaunchedKernels(
        range_groups=ranges.n_groups,
        range_group=ranges.codes.ctypes.data,
        kernels=len(call),
        call=call.ctypes.data,
        name=name.ctypes.data,
        value=durations.ctypes.data,
    )
    with _opened(core, columns.structure(), launched) as handle:
        if handle is None:
            return None
        n_groups = core.wl_range_kernels_groups(handle, None, None, None, None)
        group, kernel_name = np.empty(n_groups, np.int32), np.empty(n_groups, np.int32)
        instances, count = np.empty(n_groups, np.int64), np.empty(n_groups, np.int64)
        buffers = (group, kernel_name, instances, count)
        core.wl_range_kernels_groups(handle, *(buffer.ctypes.data for buffer in buffers))
        stats = CollectedStats.of(_blocks(core, handle, count), PERCENTS)
    inside = group < ranges.n_groups
    first = ranges.first[group[inside]]
    parts = []
    for key in keys:
        values = np.full(n_groups, _NOTHING)
        values[inside] = key[first]
        parts.append(values)
    range_name, style, thread = parts
    # The groups outside all ranges: that of no thread, then those of the threads.
    thread[~inside] = group[~inside] - ranges.n_groups - 1
    return RangeKernels(
        stats=stats,
        ranges=instances,
        range_name=range_name,
        style=style,
        thread=thread,
        kernel_name=kernel_name.astype(np.int64),
        kernel_names=names,
    )


@contextmanager
def _opened(
    core: native.Core, launches: native.Launches, launched: native.LaunchedKernels
) -> Iterator[ctypes.c_void_p | None]:
    handle = ctypes.c_void_p()
    status = core.wl_range_kernels_open(launches, launched, ctypes.byref(handle))
    try:
        yield handle if status == native.OK else None
    finally:
        core.wl_range_kernels_close(handle)


def _blocks(core: native.Core, handle: ctypes.c_void_p, count: I64) -> Iterator[GroupStats]:
    """Yield the durations of some groups at a time."""
    reach = np.cumsum(count)
    begin, done = 0, 0
    while begin < len(count):
        end = max(begin + 1, int(np.searchsorted(reach, done + _VALUES_PER_BLOCK, side="right")))
        starts = np.append(0, reach[begin:end] - done)
        values = np.empty(int(starts[-1]), np.int64)
        status = core.wl_range_kernels_values(handle, begin, end, values.ctypes.data)
        if status != native.OK:
            raise MemoryError
        yield GroupStats(starts, values)
        begin, done = end, int(reach[end - 1])


def _by_pairs(trace: Trace, name_column: str) -> RangeKernels:
    """Return the same groups from the pairs of a range and a kernel."""
    durations = _durations(trace, ordered=True)
    name, names = _kernel_names(trace, name_column, ordered=True)
    keys = _range_keys(trace)
    ranges = factorize_rows(*keys)
    pairs = _pairs(trace, ranges.codes, name.astype(np.int64), len(names))
    inside = factorize(pairs.group)
    codes, kernel = _once(
        inside.codes, pairs.kernel, _repeats(trace, ranges)[pairs.group // len(names)]
    )
    place = np.searchsorted(inside.uniques, pairs.group_of_instance)
    instances = np.bincount(place, minlength=inside.n_groups)
    outside, thread = _outside(trace, pairs.kernel)
    free = factorize_rows(thread, name[outside])
    none = np.full(free.n_groups, _NOTHING)
    first = ranges.first[inside.uniques // len(names)]
    groups = zip((key[first] for key in keys), (none, none, thread[free.first]), strict=True)
    range_name, style, of_thread = (np.concatenate(parts) for parts in groups)
    n_groups = inside.n_groups + free.n_groups
    return RangeKernels(
        stats=group_stats(
            np.concatenate((codes, free.codes + inside.n_groups)),
            np.concatenate((durations[kernel], durations[outside])),
            n_groups,
        ),
        ranges=np.concatenate((instances, np.zeros(free.n_groups, np.int64))),
        range_name=range_name,
        style=style,
        thread=of_thread,
        kernel_name=np.concatenate((inside.uniques % len(names), name[outside][free.first])),
        kernel_names=names,
    )


def _durations(trace: Trace, *, ordered: bool) -> I64:
    columns = trace.columns("kernel", "start_ns", "end_ns", ordered=ordered)
    durations: I64 = columns["end_ns"].values - columns["start_ns"].values
    return durations


def _kernel_names(trace: Trace, column: str, *, ordered: bool) -> tuple[I32, tuple[str, ...]]:
    """Return each kernel's position in the distinct names, and these in ascending order."""
    ids = kernel_name_ids(trace, column, ordered=ordered)
    codes, distinct = number_texts(ids, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    names = tuple(sorted(set(texts)))
    place = {text: number for number, text in enumerate(names)}
    return np.array([place[text] for text in texts], np.int32)[codes], names


def _range_keys(trace: Trace) -> tuple[I32, I32, I32]:
    """Return name, style and thread of each range."""
    columns = trace.columns("range", "style", "thread_id")
    return range_names(trace).codes, columns["style"].values, columns["thread_id"].values


def _pairs(trace: Trace, of_range: I32, name: I64, n_names: int) -> _Pairs:
    """Return each range with each kernel that it contains."""
    nothing = np.zeros(0, np.int64)
    parts = [_Pairs(nothing, nothing, nothing)]
    for interval, kernel in launches_within(trace, "kernel"):
        instances = np.sort(interval * n_names + name[kernel])  # faster than numpy's unique
        instances = instances[np.flatnonzero(np.diff(instances, prepend=-1))]
        owner, called = instances // n_names, instances % n_names
        group = of_range[interval].astype(np.int64) * n_names + name[kernel]
        parts.append(_Pairs(group, kernel, of_range[owner].astype(np.int64) * n_names + called))
    return _Pairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _repeats(trace: Trace, ranges: RowGroups) -> BoolArray:
    """Return which groups have overlapping ranges, and so may contain a kernel twice."""
    columns = trace.columns("range", "start_ns", "end_ns")
    order = np.argsort(ranges.codes, kind="stable")
    start, end, group = (
        c[order] for c in (columns["start_ns"].values, columns["end_ns"].values, ranges.codes)
    )
    # In order of starts, ranges overlap only if some neighbors do.
    overlaps = np.zeros(ranges.n_groups, np.bool_)
    overlaps[group[1:][(group[1:] == group[:-1]) & (start[1:] < end[:-1])]] = True
    return overlaps


def _once(codes: I32, kernel: I64, repeated: BoolArray) -> tuple[I32, I64]:
    """Return the distinct pairs of group and kernel; only `repeated` pairs may have duplicates."""
    if not repeated.any():
        return codes, kernel
    distinct = factorize_rows(codes[repeated], kernel[repeated]).first
    kept = np.concatenate((np.flatnonzero(~repeated), np.flatnonzero(repeated)[distinct]))
    return codes[kept], kernel[kept]


def _outside(trace: Trace, held: I64) -> tuple[I64, I64]:
    """Return the kernels outside all ranges and their threads, _NOTHING where unknown."""
    launches = launch_calls(trace)["kernel"]
    is_free = np.ones(len(launches.found), np.bool_)
    is_free[held] = False
    rows = np.flatnonzero(is_free)
    thread = np.full(len(rows), _NOTHING)
    known = launches.found[rows]
    if known.any():
        of_call = trace.columns("api_call", "thread_id")["thread_id"].values
        thread[known] = of_call[launches.row[rows[known]]]
    return rows, thread
