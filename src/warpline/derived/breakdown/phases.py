"""GPU time by the ranges that launched the work: forward, backward, layer_7...

Time belongs to the range of its operation: a busy segment to the range in which its operation was
launched, an idle segment to the range of the operation that ended it. The tail after the last
operation belongs to no range.

An operation was launched in the innermost push/pop range that was open on the launching thread when
the launch call began. The ranges of a process form one tree, whose trunk is its main thread: the
thread that runs the steps or, without steps, the one with the longest total time in ranges.
Outermost ranges of other threads, and their launches outside ranges, are placed inside the range
that the main thread had open when they began. This covers the backward pass, which frameworks run
on a separate thread. Start/end ranges do not nest and are not phases.

Ranges with the same path of names form one phase, across threads and processes. Names that differ
only in a number, such as step_0 and step_1, count as one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived, forget
from warpline.derived.breakdown.partition import sums_in
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.paths import Paths, range_paths
from warpline.derived.ranges.stacks import innermost_range, range_nesting
from warpline.derived.steps.times import Steps, measure_windows, steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64, BoolArray, taken
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.tiling import by_group
from warpline.ops.tree import Nesting, accumulate_up, enclosing
from warpline.trace import Run, Trace

_NO_PHASE = -1
_NO_THREAD = -1
_NO_PROCESS = -1


class Phases(NamedTuple):
    """The time of each phase in the windows of `measure_windows`, in program order.

    A phase precedes its nested phases. The last row is the time outside ranges. Together with the
    outermost phases, it makes up all of the windows' time.

    Attributes:
        texts: The last name of each phase; empty for the last row.
        tree: Nesting of the phases, shape (phases,).
        calls: Shape (phases,), int64, ranges that began in an included step; without steps, all.
        self_ns: Shape (phases, parts), int64, by index into `TimePart`, without nested phases.
        total_ns: Shape (phases, parts), int64, including nested phases.
    """

    texts: tuple[str, ...]
    tree: Nesting
    calls: I64
    self_ns: I64
    total_ns: I64

    def path(self, phase: int) -> tuple[str, ...]:
        """Return the path of names of a phase; empty for the row outside ranges."""
        names: list[str] = []
        place, has_more = phase, phase < len(self.texts) - 1
        while has_more:
            names.append(self.texts[place])
            place, has_more = int(self.tree.parent[place]), bool(self.tree.has_parent[place])
        return tuple(reversed(names))


@derived
def phases(run: Run) -> Phases:
    """Return the time of each phase; without ranges or calls, all time is outside ranges."""
    texts, tree, of_range = _phase_of_ranges(run)
    n_phases = len(texts)
    of_operation = _phase_of_operations(run, of_range)
    segments = device_segments(run.trace)
    # Outside ranges is the last phase. So is the tail, whose operation -1 is one behind the last.
    row = np.append(np.where(of_operation < 0, n_phases, of_operation), n_phases).astype(np.int32)
    cell = row[segments.operation]
    cell *= len(TimePart)
    cell += segments.part
    sums = sums_in(run.trace, measure_windows(run), cell, (n_phases + 1) * len(TimePart))
    self_ns = sums.reshape(n_phases + 1, len(TimePart))
    total_ns = self_ns.copy()
    used = np.flatnonzero(self_ns.any(axis=0))
    for part in used.tolist():
        total_ns[:, part] = accumulate_up(tree, self_ns[:, part])
    calls = _calls(run.trace, steps(run), of_range, n_phases)
    return Phases(texts=(*texts, ""), tree=tree, calls=calls, self_ns=self_ns, total_ns=total_ns)


def _phase_of_ranges(run: Run) -> tuple[tuple[str, ...], Nesting, I32]:
    """Return the phases, how they nest, and the phase of each range, _NO_PHASE for start/end ones.

    The tree has one extra row for the time outside ranges.
    """
    forest = _Forest()
    of_range = np.zeros(0, np.int32)
    if run.trace.has("range") and run.trace.row_count("range"):
        of_range = _numbered(run, forest)
    texts, tree, place = forest.in_order()
    place[-1] = _NO_PHASE  # which is the index of the last
    return texts, tree, place.astype(np.int32)[of_range]


class _Forest:
    """Phases, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}

    def add(self, around: I64, label: I32, texts: Sequence[str]) -> I64:
        """Return the number of the phase of each range.

        Args:
            around: Shape (n,), the enclosing phase, _NO_PHASE for none.
            label: Shape (n,), indices of names.
            texts: The names.
        """
        groups = factorize_rows(around, label)
        keys = zip(around[groups.first].tolist(), label[groups.first].tolist(), strict=True)
        # Earlier starts come first: rows are ordered by start.
        by_row = np.argsort(groups.first, kind="stable")
        number = np.zeros(groups.n_groups, np.int64)
        pairs = [(phase, texts[place]) for phase, place in keys]
        for group in by_row.tolist():
            number[group] = self._numbers.setdefault(pairs[group], len(self._numbers))
        return number[groups.codes]

    def in_order(self) -> tuple[tuple[str, ...], Nesting, I64]:
        """Return names and nesting in program order, and the index of each number."""
        inside: list[list[int]] = [[] for _ in range(len(self._numbers) + 1)]
        for row, (around, _) in enumerate(self._numbers):
            inside[around].append(row)  # outermost phases are in the last list
        keys = list(self._numbers)
        depth = np.zeros(len(keys) + 1, np.int32)
        order: list[int] = []
        pending = inside[-1][::-1]
        while pending:
            row = pending.pop()
            order.append(row)
            depth[inside[row]] = depth[row] + 1
            pending.extend(inside[row][::-1])
        place = np.zeros(len(keys) + 1, np.int64)
        place[order] = np.arange(len(order))
        rows = np.append(np.array(order, np.int64), len(keys))
        parent = np.array([around for around, _ in keys] + [_NO_PHASE], np.int64)[rows]
        has_parent = parent >= 0
        tree = Nesting(np.where(has_parent, place[parent], 0), has_parent, depth[rows])
        return tuple(keys[row][1] for row in order), tree, place


def _numbered(run: Run, forest: _Forest) -> I32:
    """Return the number of each range's phase in the forest; _NO_PHASE for start/end ranges."""
    trace, paths = run.trace, range_paths(run.trace)
    forget(trace, range_paths)  # large, and used for nothing else here
    label, texts = _labels(paths)
    process = trace.columns("thread", "process_id")["process_id"].values[paths.thread]
    is_trunk = paths.thread == leading_threads(run)[process]
    # Ranges of one path are in one phase, and so may be paths of several processes.
    of_path = np.full(len(label), _NO_PHASE, np.int64)
    by_start = np.argsort(paths.first)
    for level in _by_depth(by_start[is_trunk[by_start]], paths.tree.depth):
        around = np.where(
            paths.tree.has_parent[level], of_path[paths.tree.parent[level]], _NO_PHASE
        )
        of_path[level] = forest.add(around, label[level], texts)
    of_range = np.full(trace.row_count("range"), _NO_PHASE, np.int32)
    of_range[paths.rows] = of_path.astype(np.int32)[paths.of_row]
    if not is_trunk.all():
        _add_branches(trace, forest, paths, is_trunk, of_range)
    return of_range


def _add_branches(
    trace: Trace, forest: _Forest, paths: Paths, is_trunk: BoolArray, of_range: I32
) -> None:
    """Fill in the phases of ranges on other threads.

    Args:
        trace: The trace.
        forest: Has the phases of the trunk; others are added.
        paths: The paths of all ranges.
        is_trunk: Shape (paths,), whether each is on the main thread of its process.
        of_range: Shape (ranges,), the number of each range's phase, known for those of the trunk.
    """
    label, texts = _labels(paths)
    nesting = range_nesting(trace)
    columns = trace.columns("range", "start_ns", "end_ns", "process_id")
    start, end, process = (column.values for column in columns.values())
    on_trunk = is_trunk[paths.of_row]
    owner = np.full(len(start), _NO_PROCESS, np.int64)
    owner[paths.rows[on_trunk]] = process[paths.rows[on_trunk]]
    rows, label = paths.rows[~on_trunk], label[paths.of_row[~on_trunk]]
    outermost = ~nesting.has_parent[rows]
    branches = rows[outermost]
    trunk = enclosing(start[branches], start, end, point_group=process[branches], group=owner)
    around = np.full(len(rows), _NO_PHASE, np.int64)
    around[outermost] = np.where(trunk.found, of_range[trunk.row], _NO_PHASE)
    for level in _by_depth(np.arange(len(rows)), nesting.depth[rows]):
        inner = level[~outermost[level]]
        around[inner] = of_range[nesting.parent[rows[inner]]]
        of_range[rows[level]] = forest.add(around[level], label[level], texts)


def _labels(paths: Paths) -> tuple[I32, list[str]]:
    """Return the last name of each path as a number, shape (paths,), and the names."""
    texts = list(dict.fromkeys(paths.texts))
    place = {text: number for number, text in enumerate(texts)}
    return np.array([place[text] for text in paths.texts], np.int32), texts


def _by_depth(rows: I64, depth: I32) -> Iterator[I64]:
    """Yield the rows of each depth, outermost first, in order."""
    yield from (rows[places] for places in by_group(depth[rows]))


def _phase_of_operations(run: Run, of_range: I32) -> I32:
    """Return the phase in which each operation was launched, _NO_PHASE outside ranges."""
    work = operations(run.trace)
    if not len(of_range) or not len(work) or int(work.call.max()) < 0:
        return np.full(len(work), _NO_PHASE, np.int32)
    inner = innermost_range(run.trace, "api_call")
    # The last one is for operations without a call, whose call is -1.
    of_call = np.full(len(inner.row) + 1, _NO_PHASE, np.int32)
    np.copyto(of_call[:-1], of_range[inner.row], where=inner.found)
    phase = of_call[work.call]
    if not inner.found.all():
        elsewhere = np.flatnonzero(~np.append(inner.found, True)[work.call])
        phase[elsewhere] = _by_leading_thread(run, elsewhere, of_range)
    return phase


def _by_leading_thread(run: Run, rows: I64, of_range: I32) -> I32:
    """Return the phase of the main thread of each operation's process at its launch."""
    trace = run.trace
    work, leads = operations(trace), leading_threads(run)
    ranges = trace.columns("range", "start_ns", "end_ns", "thread_id")
    calls = trace.columns("api_call", "start_ns")["start_ns"].values
    thread = np.where(push_pop_ranges(trace), ranges["thread_id"].values, _NO_THREAD)
    lead = leads[work.process[rows]]
    inner = enclosing(
        calls[work.call[rows]],
        ranges["start_ns"].values,
        ranges["end_ns"].values,
        point_group=np.where(lead < 0, _NO_THREAD - 1, lead),
        group=thread,
    )
    return np.where(inner.found, of_range[inner.row], np.int32(_NO_PHASE))


@derived
def leading_threads(run: Run) -> I64:
    """Return the main thread of each process, shape (processes,), int64; -1 for none."""
    trace = run.trace
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.values for column in columns.values())
    pushed = push_pop_ranges(trace)
    if not pushed.all():
        rows = np.flatnonzero(pushed)
        start, end, thread = (taken(column, rows) for column in (start, end, thread))
    threads = distinct_values(thread)
    if len(threads) > 1:
        took, last = (np.zeros(trace.row_count("thread"), np.int64) for _ in range(2))
        np.add.at(took, thread, end - start)
        last[thread] = np.arange(len(thread))
        threads = threads[np.lexsort((last[threads], took[threads]))]
    leads = np.full(trace.row_count("process"), _NO_THREAD, np.int64)
    leads[trace.columns("thread", "process_id")["process_id"].values[threads]] = threads
    run_steps = steps(run)
    known = np.flatnonzero(run_steps.thread >= 0)[::-1]
    leads[run_steps.process[known]] = run_steps.thread[known]
    return leads


def _calls(trace: Trace, run_steps: Steps, of_range: I32, n_phases: int) -> I64:
    """Return the number of ranges of each phase in included steps; without steps, of all."""
    counted = of_range >= 0
    if run_steps.included.any() and len(of_range):
        columns = trace.columns("range", "start_ns", "process_id")
        chosen = np.flatnonzero(run_steps.included)
        counted = (
            counted
            & enclosing(
                columns["start_ns"].values,
                run_steps.host_start_ns[chosen],
                run_steps.host_end_ns[chosen],
                point_group=columns["process_id"].values,
                group=run_steps.process[chosen],
            ).found
        )
    return np.bincount(of_range[counted], minlength=n_phases + 1).astype(np.int64)
