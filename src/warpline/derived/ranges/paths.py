"""The call tree of push/pop ranges: the nesting of names over all instances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, zip_longest
from typing import Literal, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray, Integers
from warpline.ops.group import factorize_rows, group_stats
from warpline.ops.tiling import by_group
from warpline.ops.tree import Nesting, accumulate_up, enclosing
from warpline.trace import Trace

Numbered = Literal["counters", "merged", "apart"]

UNNAMED = "[unnamed]"

_DIGITS = lazy_pattern(r"[0-9]+")
_LEAST_MERGED = 3


class Paths(NamedTuple):
    """Distinct paths of range names, outermost first, in model order.

    A path precedes its children. Siblings are ordered by their first start. Threads are ordered
    in the same way, grouped by process.

    Attributes:
        rows: Shape (n,), int64, the ranges that have a path, rows of the range table, ascending.
        of_row: Shape (n,), int64, the path of each of them.
        first: Shape (paths,), int64, the first range of each path, a row of the range table.
        tree: The nesting of the paths.
        texts: The last name of each path, or the pattern of several merged names: ``step_*``.
        thread: Shape (paths,), int64, rows of the thread table.
    """

    rows: I64
    of_row: I64
    first: I64
    tree: Nesting
    texts: tuple[str, ...]
    thread: I64


class WarmUp(NamedTuple):
    """The first instances of the outermost repeated range of each process.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        process: Shape (n,), rows of the process table.
        names: Names of these ranges.
    """

    start_ns: I64
    end_ns: I64
    process: I64
    names: tuple[str, ...]


class _Level(NamedTuple):
    """The paths of one depth; their numbers ascend from level to level."""

    up: Integers  # the parent path, or at depth 0 the thread
    label: I64
    first: I64  # the first range of each


class _Labels(NamedTuple):
    """The texts shown for names: the name itself, or its pattern ``step_*``."""

    texts: Sequence[str]  # the names, then the patterns
    pattern: I64  # by name, position in `texts`


@derived
def range_paths(trace: Trace, numbered: Numbered = "counters", skip: int = 0) -> Paths:
    """Return the paths of push/pop ranges.

    Args:
        trace: The trace; MissingTableError if it has no `range` table.
        numbered: Which groups of at least three sibling names that differ only in numbers are
            merged. ``"counters"``: those that occur less than twice on average (step_17, unlike
            layer_3, which recurs in every step). ``"merged"``: all. ``"apart"``: none.
        skip: Number of instances of the outermost repeated range to skip, with all ranges of the
            process that start meanwhile and the ranges nested in them; see `warm_up`. Merging
            and order do not depend on it.
    """
    if skip:
        return _without(range_paths(trace, numbered), _is_warm_up(trace, numbered, skip))
    names = range_names(trace)
    labels = _labels([UNNAMED if text is None else text for text in names.texts])
    levels, path = _levels(trace, labels, numbered)
    up, label, first = (np.concatenate(part) for part in zip(*levels, strict=True))
    depth = np.repeat(np.arange(len(levels), dtype=np.int32), [len(level.up) for level in levels])
    thread = trace.columns("range", "thread_id")["thread_id"].values[first].astype(np.int64)
    nesting = Nesting(np.where(depth > 0, up, 0), depth > 0, depth)
    place = _model_order(trace, nesting, thread, first)
    order = np.argsort(place)
    tree = Nesting(
        np.where(depth > 0, place[nesting.parent], 0)[order],
        nesting.has_parent[order],
        depth[order],
    )
    texts = tuple(labels.texts[code] for code in label[order].tolist())
    rows = np.flatnonzero(push_pop_ranges(trace))
    return Paths(rows, place[path[rows]], first[order], tree, texts, thread[order])


def warm_up(trace: Trace, numbered: Numbered, skip: int) -> WarmUp:
    """Return the first `skip` instances of the outermost range that repeats, by process.

    On each thread, this is the path with several instances and the smallest depth. Ties are
    decided by the longest total time without the longest instance. The thread of a process is
    chosen likewise. A process without repeated ranges has no warm-up.
    """
    paths = range_paths(trace, numbered)
    columns = trace.columns("range", "start_ns", "end_ns", "process_id")
    start, end, process = (column.values for column in columns.values())
    owner = np.zeros(len(paths.texts), np.int64)
    owner[paths.of_row] = process[paths.rows]
    lengths = group_stats(paths.of_row, (end - start)[paths.rows], len(paths.texts))
    took = lengths.sum - lengths.max
    repeated = np.flatnonzero(lengths.count > 1)
    chosen = _first_of(repeated, paths.thread, paths.tree.depth, -took)
    chosen = _first_of(chosen, owner, -took)
    rows = [paths.rows[paths.of_row == path][:skip] for path in chosen.tolist()]
    first = np.concatenate([np.zeros(0, np.int64), *rows])
    names = tuple(dict.fromkeys(paths.texts[path] for path in chosen.tolist()))
    return WarmUp(start[first], end[first], process[first].astype(np.int64), names)


def _first_of(paths: I64, group: Integers, *by: Integers) -> I64:
    """Return for each group the first path in the order of some columns."""
    keys = [column[paths] for column in (*reversed(by), group)]
    ordered = paths[np.lexsort(keys)]
    return ordered[np.flatnonzero(np.diff(group[ordered], prepend=-1))]


def _is_warm_up(trace: Trace, numbered: Numbered, skip: int) -> BoolArray:
    """Return which ranges start during warm-up, or are nested in one that does."""
    warm, nesting = warm_up(trace, numbered, skip), range_nesting(trace)
    columns = trace.columns("range", "start_ns", "process_id")
    start, process = (column.values for column in columns.values())
    gone = enclosing(
        start, warm.start_ns, warm.end_ns, point_group=process, group=warm.process
    ).found.copy()
    for rows in _by_depth(nesting)[1:]:
        gone[rows] |= gone[nesting.parent[rows]]
    return gone


def _by_depth(nesting: Nesting) -> list[I64]:
    """Return the rows of each depth, ascending."""
    return by_group(nesting.depth) or [np.zeros(0, np.int64)]


def _without(paths: Paths, gone: BoolArray) -> Paths:
    """Return the paths of the remaining ranges; removing a range removes its descendants."""
    stays = ~gone[paths.rows]
    of_row = paths.of_row[stays]
    used = np.bincount(of_row, minlength=len(paths.texts)) > 0
    place = np.cumsum(used) - 1
    tree = paths.tree
    parent = np.where(tree.has_parent, place[tree.parent], 0)
    rows, of_row = paths.rows[stays], place[of_row]
    return Paths(
        rows=rows,
        of_row=of_row,
        first=_first_rows(rows, of_row, int(np.count_nonzero(used))),
        tree=Nesting(parent[used], tree.has_parent[used], tree.depth[used]),
        texts=tuple(compress(paths.texts, used.tolist())),
        thread=paths.thread[used],
    )


def _labels(names: Sequence[str]) -> _Labels:
    """Return the names, and for each the pattern shared by names that differ only in numbers."""
    shapes: dict[tuple[str, ...], int] = {}
    numbers: list[list[str]] = []
    place = []
    for name in names:
        shape = shapes.setdefault(tuple(_DIGITS.split(name)), len(shapes))
        digits = _DIGITS.findall(name)
        if shape == len(numbers):
            numbers.append(digits)
        for position, number in enumerate(digits):
            if numbers[shape][position] != number:
                numbers[shape][position] = "*"
        place.append(shape)
    patterns = [
        "".join(chain.from_iterable(zip_longest(pieces, known, fillvalue="")))
        for pieces, known in zip(shapes, numbers, strict=True)
    ]
    return _Labels([*names, *patterns], np.array(place, np.int64) + len(names))


def _levels(trace: Trace, labels: _Labels, numbered: Numbered) -> tuple[list[_Level], I32]:
    """Return the paths level by level, outermost first, and the path of each push/pop range."""
    nesting, codes, nests = range_nesting(trace), range_names(trace).codes, push_pop_ranges(trace)
    path = trace.columns("range", "thread_id")["thread_id"].values.astype(np.int32)
    levels: list[_Level] = []
    n_paths = 0
    for depth, here in enumerate(_by_depth(nesting)):
        rows = here[nests[here]]
        up = path[nesting.parent[rows]] if depth else path[rows]
        names = factorize_rows(up, codes[rows])
        count = np.bincount(names.codes, minlength=names.n_groups)
        up = up[names.first]
        label = _merged(up, codes[rows[names.first]], count, labels.pattern, numbered)
        groups = factorize_rows(up, label)
        path[rows] = (n_paths + groups.codes)[names.codes]
        first = _first_rows(rows[names.first], groups.codes, groups.n_groups)
        levels.append(_Level(up[groups.first], label[groups.first], first))
        n_paths += groups.n_groups
    return levels, path


def _merged(up: Integers, codes: Integers, count: I64, pattern: I64, numbered: Numbered) -> I64:
    """Return the label of each name in a parent path: the name itself, or its pattern.

    Args:
        up: Shape (n,), the parent path.
        codes: Shape (n,), the name; no two rows are alike.
        count: Shape (n,), the number of ranges of each.
        pattern: By name, its pattern.
        numbered: See `range_paths`.
    """
    if numbered == "apart":
        return codes.astype(np.int64)
    families = factorize_rows(up, pattern[codes])
    n_names = np.bincount(families.codes, minlength=families.n_groups)
    merges = n_names >= _LEAST_MERGED
    if numbered == "counters":
        n_ranges = np.zeros(families.n_groups, np.int64)
        np.add.at(n_ranges, families.codes, count)
        merges &= n_ranges < 2 * n_names
    return np.where(merges[families.codes], pattern[codes], codes)


def _first_rows(rows: I64, of_row: Integers, n_paths: int) -> I64:
    """Return the first range of each path."""
    first = np.full(n_paths, np.iinfo(np.int64).max)
    np.minimum.at(first, of_row, rows)
    return first


def _model_order(trace: Trace, tree: Nesting, thread: I64, first: I64) -> I64:
    """Return the position of each path: after its parent and all earlier siblings."""
    sizes = accumulate_up(tree, np.ones(len(first), np.int64))
    place = np.zeros(len(first), np.int64)
    for depth, level in enumerate(_by_depth(tree)):
        if depth:
            around = place[tree.parent[level]]
            order = level[np.lexsort((first[level], around))]
            above = place[tree.parent[order]]
        else:
            order = level[_thread_order(trace, thread[level], first[level])]
            above = np.full(len(level), -1)
        before = np.cumsum(sizes[order]) - sizes[order]
        opens = np.flatnonzero(np.diff(above, prepend=-2))
        family = np.repeat(before[opens], np.diff(np.append(opens, len(order))))
        place[order] = above + 1 + before - family
    return place


def _thread_order(trace: Trace, thread: I64, first: I64) -> I64:
    """Return outermost paths by first range of their process, then thread, then path."""
    owner = trace.columns("thread", "process_id")["process_id"].values
    process = owner[thread]
    return np.lexsort((first, _least(first, thread), _least(first, process)))


def _least(values: I64, group: Integers) -> I64:
    """Return for each row the minimum of its group."""
    least = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least[group]
