"""CPU time that one rank spends and the others do not, by range or in CPU gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.data_waits import SHORTEST_SILENCE_NS
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.idle.silences import ThreadTimes, silences
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.places import path_texts
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.ranks.peers import Compared, Ranks, compared, step_label, working_ranks
from warpline.derived.steps.times import steps
from warpline.derived.texts import number_texts
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows, group_stats
from warpline.ops.interval import covered
from warpline.ops.tiling import Grouped, cut
from warpline.ops.tree import enclosing
from warpline.trace import Run, Trace

# Of all time that a rank spends in ranges beyond the others: the deepest range with at least this
# much of it is the place.
_MOST_OF = 0.6
# Of the additional time; the time before the first recorded call is unknown.
_MOST_OF_IT = 0.75
_DIGITS = lazy_pattern("[0-9]+")


class HostTime(NamedTuple):
    """CPU time of one rank beyond that of the others.

    Attributes:
        ns: By how much per step, compared with the most of any other rank.
        range_path: Names of the range with this time, outermost first; empty for CPU gaps.
        os_call: The OS function in which most of it passes; empty if none is recorded.
        times: The executions of the range, or the gaps, in all steps.
        remaining: Time of the other ranks relative to that of the rank.
    """

    ns: float
    range_path: tuple[str, ...]
    os_call: str
    times: ThreadTimes
    remaining: float


@derived
def extra_host_time(run: Run, process: int, device: int) -> HostTime | None:
    """Return where a rank's launching threads spend more time than those of any other rank.

    By range, or in CPU gaps where no range explains it. None if there is no such time, or if
    several ranks are threads of one process.

    Args:
        run: The trace, and the choice of its steps.
        process: Row of the process table.
        device: Row of the device table.
    """
    ranks = working_ranks(run)
    place = ranks.place(process, device)
    if place < 0 or not _are_comparable(run.trace, ranks):
        return None
    found = _in_ranges(run, ranks, place) or _in_gaps(run, ranks, place)
    if found is None:
        return None
    name, ns = _longest_os_call(run, ranks, place)
    return found._replace(os_call=name) if ns >= found.ns / 2 else found


@derived
def more_cpu_work_ns(run: Run, process: int, device: int) -> float | None:
    """Return how much longer the CPU of a rank works per step than that of any other rank.

    Its work is the time from one step to the next in which its launching threads are not blocked
    and make calls at least every half millisecond. None if that is unknown.

    Args:
        run: The trace, and the choice of its steps.
        process: Row of the process table.
        device: Row of the device table.
    """
    ranks, found = working_ranks(run), steps(run)
    place = ranks.place(process, device)
    if place < 0 or not _are_comparable(run.trace, ranks):
        return None
    idle = _not_working_ns(run, int(ranks.process.max()) + 1)
    counted = np.flatnonzero(found.included & found.has_next)
    work: list[float] = []
    for own, number in zip(ranks.process.tolist(), ranks.steps.tolist(), strict=True):
        period = found.host_period_ns[counted[found.process[counted] == own]]
        if not len(period):
            return None
        work.append(float(period.mean()) - float(idle[own]) / number)
    others = work[:place] + work[place + 1 :]
    return work[place] - max(others)


def _not_working_ns(run: Run, n_processes: int) -> I64:
    """Return how long launching threads of each process are blocked or make no calls, in steps."""
    held, silent = blocking(run.trace), silences(run.trace).times
    silent = silent.taken(silent.end_ns - silent.start_ns >= SHORTEST_SILENCE_NS)
    process = run.trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    total = np.zeros(n_processes, np.int64)
    for own in distinct_values(held.process[held.process < n_processes]).tolist():
        start, end, thread = (
            np.concatenate((one[held.process == own], other[process[silent.thread] == own]))
            for one, other in zip(held[:3], silent, strict=True)
        )
        counted = _is_included(run, start, thread)
        total[own] = covered(start[counted], end[counted])
    return total


class RangeTimes(NamedTuple):
    """CPU time in the ranges of launching threads, in the included steps, by rank and path.

    Attributes:
        rank: Shape (n,), int64, places in `working_ranks`.
        path: Shape (n,), int64, places in the paths of `path_texts`.
        ns: Shape (n,), int64, total time of the executions.
        number: Shape (n,), int64, number of the executions.
    """

    rank: I64
    path: I64
    ns: I64
    number: I64


@derived
def range_times(run: Run) -> RangeTimes:
    """Return the CPU time of each rank in ranges; none if several ranks share a process."""
    ranks, none = working_ranks(run), np.zeros(0, np.int64)
    if not run.trace.has("range") or not _are_comparable(run.trace, ranks):
        return RangeTimes(none, none, none, none)
    start, end, thread, every = _executions(run.trace)
    rows = every[_is_included(run, start[every], thread[every])]
    rank, path = _rank_of(run.trace, ranks, thread[rows]), path_texts(run.trace).code[rows]
    rows, path, rank = (values[rank >= 0] for values in (rows, path, rank))
    groups = factorize_rows(rank, path)
    length = group_stats(groups.codes, np.maximum(end - start, 0)[rows], groups.n_groups)
    return RangeTimes(rank[groups.first], path[groups.first], length.sum, length.count)


def _executions(trace: Trace) -> tuple[I64, I64, I64, I64]:
    """Return start, end, and thread of all ranges, and which have paths on launching threads."""
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.values for column in columns.values())
    works = push_pop_ranges(trace) & working_threads(trace)[thread]
    return start, end, thread, np.flatnonzero(works & (path_texts(trace).code >= 0))


def _in_ranges(run: Run, ranks: Ranks, place: int) -> HostTime | None:
    """Return the deepest range in which a rank spends most of its additional time."""
    trace = run.trace
    if not trace.has("range"):
        return None
    texts = path_texts(trace)
    start, end, thread, every = _executions(trace)
    rows = every[_is_included(run, start[every], thread[every])]
    if not len(rows):
        return None
    length = np.maximum(end - start, 0)
    inner, nesting = np.zeros(len(length), np.int64), range_nesting(trace)
    nested = rows[nesting.has_parent[rows]]
    np.add.at(inner, nesting.parent[nested], length[nested])
    code, rank = texts.code[rows], _rank_of(trace, ranks, thread[rows])
    whole, of_self = (
        compared(ranks, place, rank, code, values[rows], len(texts.paths))
        for values in (length, np.maximum(length - inner, 0))
    )
    more, everywhere = whole.more, np.maximum(of_self.more, 0).sum()
    depth = np.array([len(path) for path in texts.paths], np.int64)
    is_step = np.array([step_label(run) == path[-1] for path in texts.paths], np.bool_)
    fits = (more >= _MOST_OF * everywhere) & (more > 0) & ~is_step
    fits &= ~_is_renamed(texts.paths, whole)
    if not fits.any():
        return None
    chosen = max(np.flatnonzero(fits).tolist(), key=lambda at: (int(depth[at]), float(more[at])))
    mine = every[(texts.code[every] == chosen) & (_rank_of(trace, ranks, thread[every]) == place)]
    times = ThreadTimes(start[mine], end[mine], thread[mine].astype(np.int64))
    times, ns = _where_spent(run, ranks, place, times, float(more[chosen]))
    stays = max(1 - float(more[chosen]) / ns, 0.0)
    return HostTime(float(more[chosen]), texts.paths[chosen], "", times, stays)


def _is_renamed(paths: Sequence[tuple[str, ...]], times: Compared) -> BoolArray:
    """Return which paths of a rank others have with other numbers, such as ``rank_1``."""
    shapes = [tuple(_DIGITS.sub("#", name) for name in path) for path in paths]
    elsewhere = {shapes[at] for at in np.flatnonzero(times.most > 0).tolist()}
    is_alone = (times.own > 0) & (times.most == 0)
    return np.array(
        [alone and shape in elsewhere for alone, shape in zip(is_alone, shapes, strict=True)],
        np.bool_,
    )


def _where_spent(
    run: Run, ranks: Ranks, place: int, times: ThreadTimes, more_ns: float
) -> tuple[ThreadTimes, float]:
    """Return the times without calls in the executions of a range, and their sum per step.

    Return the whole executions if that is well below the additional time: calls take longer, too.
    """
    process = run.trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    silent = silences(run.trace).times
    inside = cut(
        Grouped(times.start_ns, times.end_ns, process[times.thread]),
        Grouped(silent.start_ns, silent.end_ns, process[silent.thread]),
    )
    without_calls = ThreadTimes(inside.start_ns, inside.end_ns, silent.thread[inside.row])
    ns = 0.0
    for chosen in (without_calls, times):
        counted = _is_included(run, chosen.start_ns, chosen.thread)
        ns = float((chosen.end_ns - chosen.start_ns)[counted].sum()) / float(ranks.steps[place])
        if ns >= _MOST_OF_IT * more_ns:
            return chosen, ns
    return times, more_ns


def _in_gaps(run: Run, ranks: Ranks, place: int) -> HostTime | None:
    """Return the long CPU gaps of a rank, if its gaps take longer than those of the others."""
    silent = silences(run.trace).times
    counted = silent.taken(_is_included(run, silent.start_ns, silent.thread))
    length = counted.end_ns - counted.start_ns
    rank, same = _rank_of(run.trace, ranks, counted.thread), np.zeros(len(length), np.int64)
    more = float(compared(ranks, place, rank, same, length, 1).more[0])
    is_long = (rank == place) & (length >= SHORTEST_SILENCE_NS)
    long_ns = float(length[is_long].sum()) / float(ranks.steps[place])
    if more <= 0 or long_ns <= 0:
        return None
    own = _rank_of(run.trace, ranks, silent.thread) == place
    times = silent.taken(own & (silent.end_ns - silent.start_ns >= SHORTEST_SILENCE_NS))
    more = min(more, long_ns)
    return HostTime(more, (), "", times, 1 - more / long_ns)


def _longest_os_call(run: Run, ranks: Ranks, place: int) -> tuple[str, float]:
    """Return the OS function that a rank's launching threads spend more time in, and how much."""
    trace = run.trace
    if not trace.has("os_call"):
        return "", 0.0
    columns = trace.columns("os_call", "start_ns", "end_ns", "thread_id", "name_id")
    start, end, thread, name = (column.values for column in columns.values())
    rows = np.flatnonzero(working_threads(trace)[thread])
    rows = rows[_is_included(run, start[rows], thread[rows])]
    if not len(rows):
        return "", 0.0
    code, distinct = number_texts(name[rows], len(trace.strings))
    length, rank = np.maximum(end - start, 0)[rows], _rank_of(trace, ranks, thread[rows])
    more = compared(ranks, place, rank, code.astype(np.int64), length, len(distinct)).more
    most = int(np.argmax(more))
    return trace.strings.text(int(distinct[most])), float(more[most])


def _are_comparable(trace: Trace, ranks: Ranks) -> bool:
    """Return whether the CPU time of ranks is known: each is a process, with recorded calls."""
    is_process_each = len(distinct_values(ranks.process)) == len(ranks) > 1
    return is_process_each and trace.has("api_call") and trace.has("thread")


def _is_included(run: Run, start: I64, thread: I64) -> BoolArray:
    """Return which moments on threads are in included steps of their process."""
    found = steps(run)
    rows = np.flatnonzero(found.included)
    if not len(rows):
        return np.ones(len(start), np.bool_)
    process = run.trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    inside: BoolArray = enclosing(
        start,
        found.host_start_ns[rows],
        found.host_end_ns[rows],
        point_group=process[thread],
        group=found.process[rows],
    ).found
    return inside


def _rank_of(trace: Trace, ranks: Ranks, thread: I64) -> I64:
    """Return the rank of each thread's process, a place in the ranks; -1 for none."""
    process = trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    place = np.full(int(max(process.max(initial=0), ranks.process.max(initial=0))) + 1, -1)
    place[ranks.process] = np.arange(len(ranks))
    return place[process[thread]]
