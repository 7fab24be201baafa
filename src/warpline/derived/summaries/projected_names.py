"""Projections of ranges onto the GPU by their names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import in_order, push_pop_ranges, range_names
from warpline.derived.ranges.projection import OPERATION_TABLES, projected_ranges
from warpline.derived.summaries.range_sweep import PROJECTIONS, RangeGroups, sweep
from warpline.derived.summaries.summary import AnyStats
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows, group_stats, group_sums
from warpline.trace import Trace


class ProjectedNames(NamedTuple):
    """The ranges that launch GPU work, grouped by name and style, in that order.

    Attributes:
        stats: The projected durations of the ranges of each group, in ns.
        name: Shape (groups,), int64, position in `names`.
        names: Distinct names, as in `RangeNames`.
        style: Shape (groups,), int64, 0 push/pop, 1 start/end.
        range_ns: Shape (groups,), int64, sum of the durations on the CPU.
        launches: Shape (groups,), int64, sum of the launch calls in the ranges.
        depth: Shape (groups,), int64, sum of the numbers of enclosing ranges.
        children: Shape (groups,), int64, sum of the direct child ranges that launch GPU work.
        operations: Shape (groups,), int64, sum of the kernels, copies and memsets.
    """

    stats: AnyStats
    name: I64
    names: tuple[str | None, ...]
    style: I64
    range_ns: I64
    launches: I64
    depth: I64
    children: I64
    operations: I64


def projected_names(trace: Trace) -> ProjectedNames:
    """Return the projections of each name and style of ranges."""
    return _swept(trace) or _by_ranges(trace)


def _swept(trace: Trace) -> ProjectedNames | None:
    """Return the groups by a sweep of the native core; None if it cannot find them."""
    groups = RangeGroups(trace, "style")
    found = sweep(trace, PROJECTIONS, OPERATION_TABLES, groups)
    if found is None:
        return None
    used = np.flatnonzero(found.columns[0])
    names = in_order({name for name, _ in groups.keys})
    number = {name: place for place, name in enumerate(names)}
    keys = np.array([(number[name], style) for name, style in groups.keys], np.int64).reshape(-1, 2)
    name, style = keys[used].T
    order = np.lexsort((style, name))
    _, *sums = found.columns[:, used[order]]
    return ProjectedNames(found.stats.take(used[order]), name[order], names, style[order], *sums)


def _by_ranges(trace: Trace) -> ProjectedNames:
    """Return the same groups from the projection of each range."""
    ranges, names = projected_ranges(trace), range_names(trace)
    styles = (~push_pop_ranges(trace)[ranges.row]).astype(np.int32)
    codes = names.codes[ranges.row]
    groups = factorize_rows(codes, styles)
    columns = trace.columns("range", "start_ns", "end_ns")
    lasted = (columns["end_ns"].values - columns["start_ns"].values)[ranges.row]
    summed = (lasted, ranges.launches, ranges.depth, ranges.children, ranges.operations)
    return ProjectedNames(
        group_stats(groups.codes, ranges.end_ns - ranges.start_ns, groups.n_groups),
        codes[groups.first].astype(np.int64),
        names.texts,
        styles[groups.first].astype(np.int64),
        *(group_sums(groups.codes, values, groups.n_groups) for values in summed),
    )
