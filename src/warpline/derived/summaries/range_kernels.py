"""Kernels by the ranges that launched them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.threads import launches_within
from warpline.derived.summaries.kernel_names import kernel_name_ids
from warpline.derived.texts import number_texts
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import RowGroups, factorize, factorize_rows
from warpline.trace import Trace

_NOTHING = -1


class RangeKernels(NamedTuple):
    """Kernels grouped by range name, style, thread and kernel name.

    A kernel is in the group of every range that contains its whole launch call, once per group.
    Kernels outside all ranges are in a group without a range. In the attributes, -1 means none.

    Attributes:
        codes: Shape (n,), int32, the group of each kernel.
        durations_ns: Shape (n,), int64.
        ranges: Shape (groups,), int64, number of ranges that contain a kernel of the group.
        range_name: Shape (groups,), int64, position in the texts of `range_names`.
        style: Shape (groups,), int64, 0 push/pop, 1 start/end.
        thread: Shape (groups,), int64, the launching thread's row.
        kernel_name: Shape (groups,), int64, position in `kernel_names`.
        kernel_names: Distinct names, ascending.
    """

    codes: I32
    durations_ns: I64
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
    columns = trace.columns("kernel", "start_ns", "end_ns")
    durations = columns["end_ns"].values - columns["start_ns"].values
    name, names = _kernel_names(trace, name_column)
    keys = _range_keys(trace)
    ranges = factorize_rows(*keys)
    pairs = _pairs(trace, ranges.codes, name, len(names))
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
    return RangeKernels(
        codes=np.concatenate((codes, free.codes + inside.n_groups)),
        durations_ns=np.concatenate((durations[kernel], durations[outside])),
        ranges=np.concatenate((instances, np.zeros(free.n_groups, np.int64))),
        range_name=range_name,
        style=style,
        thread=of_thread,
        kernel_name=np.concatenate((inside.uniques % len(names), name[outside][free.first])),
        kernel_names=names,
    )


def _kernel_names(trace: Trace, column: str) -> tuple[I64, tuple[str, ...]]:
    """Return each kernel's position in the distinct names, and these in ascending order."""
    ids = kernel_name_ids(trace, column, ordered=True)
    codes, distinct = number_texts(ids, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    names = tuple(sorted(set(texts)))
    place = {text: number for number, text in enumerate(names)}
    return np.array([place[text] for text in texts], np.int64)[codes], names


def _range_keys(trace: Trace) -> tuple[I64, I64, I64]:
    """Return name, style and thread of each range."""
    columns = trace.columns("range", "style", "thread_id")
    keys = range_names(trace).codes, columns["style"].values, columns["thread_id"].values
    name, style, thread = (key.astype(np.int64) for key in keys)
    return name, style, thread


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
