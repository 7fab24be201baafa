"""Kernels by the ranges that launched them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import in_order, range_names
from warpline.derived.ranges.threads import launches_within
from warpline.derived.summaries.kernel_names import kernel_name_ids
from warpline.derived.summaries.range_sweep import KERNELS, Block, RangeGroups, sweep
from warpline.derived.summaries.summary import AnyStats
from warpline.derived.texts import TextNumbers, number_texts
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import (
    RowGroups,
    factorize,
    factorize_rows,
    group_stats,
)
from warpline.trace import Trace

_NOTHING = -1


class RangeKernels(NamedTuple):
    """Kernels grouped by range name, style, thread and kernel name.

    A kernel is in the group of every range that contains its whole launch call, once per group.
    Kernels outside all ranges are in a group without a range. In the attributes, -1 means none.

    Attributes:
        stats: The durations of the kernels of each group, in ns.
        ranges: Shape (groups,), int64, number of ranges that contain a kernel of the group.
        range_name: Shape (groups,), int64, position in `range_names`.
        range_names: Distinct names of ranges, as in `RangeNames`.
        style: Shape (groups,), int64, 0 push/pop, 1 start/end.
        thread: Shape (groups,), int64, the launching thread's row.
        kernel_name: Shape (groups,), int64, position in `kernel_names`.
        kernel_names: Distinct names, ascending.
    """

    stats: AnyStats
    ranges: I64
    range_name: I64
    range_names: tuple[str | None, ...]
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
    """Return the groups by a sweep of the native core; None if it cannot find them.

    No pair of a range and a kernel is ever made; see ``native/core/src/range_kernels.cpp``.
    """
    names, ranges = TextNumbers(trace.strings), RangeGroups(trace, "style", "thread_id")

    def kernel_names(block: Block) -> I32:
        ids, full = block[name_column], block["name_id"].values
        return names.of(ids.values if ids.valid is None else np.where(ids.valid, ids.values, full))

    named = tuple(dict.fromkeys((name_column, "name_id"))), kernel_names
    found = sweep(trace, KERNELS, ("kernel",), ranges, named)
    if found is None:
        return None
    group, kernel_name, instances, _ = found.columns
    keys, texts = ranges.keys, names.texts
    kernel_texts = tuple(sorted(set(texts)))
    place = {text: number for number, text in enumerate(kernel_texts)}
    by_name = np.array([place[text] for text in texts], np.int64)[kernel_name]
    range_texts = in_order({key[0] for key in keys})
    number = {text: place for place, text in enumerate(range_texts)}
    of_groups = np.array(
        [(number[name], style, thread) for name, style, thread in keys], np.int64
    ).reshape(-1, 3)
    inside = group >= 0
    parts = np.full((3, len(group)), _NOTHING)
    parts[:, inside] = of_groups[group[inside]].T
    # The groups outside all ranges: -1 is that of no thread, then come those of the threads.
    parts[2, ~inside] = -2 - group[~inside]
    order = np.lexsort((by_name, *parts[::-1], ~inside))
    range_name, style, thread = parts[:, order]
    return RangeKernels(
        stats=found.stats.take(order),
        ranges=instances[order],
        range_name=range_name,
        range_names=range_texts,
        style=style,
        thread=thread,
        kernel_name=by_name[order],
        kernel_names=kernel_texts,
    )


def _by_pairs(trace: Trace, name_column: str) -> RangeKernels:
    """Return the same groups from the pairs of a range and a kernel."""
    durations = _durations(trace)
    name, names = _kernel_names(trace, name_column)
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
        range_names=range_names(trace).texts,
        style=style,
        thread=of_thread,
        kernel_name=np.concatenate((inside.uniques % len(names), name[outside][free.first])),
        kernel_names=names,
    )


def _durations(trace: Trace) -> I64:
    columns = trace.columns("kernel", "start_ns", "end_ns")
    durations: I64 = columns["end_ns"].values - columns["start_ns"].values
    return durations


def _kernel_names(trace: Trace, column: str) -> tuple[I32, tuple[str, ...]]:
    """Return each kernel's position in the distinct names, and these in ascending order."""
    ids = kernel_name_ids(trace, column, ordered=True)
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
