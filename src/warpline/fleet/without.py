"""The step of a job if late ranks were as fast as their peers: a joint simulation of summaries.

Each collective of the job ends as long after its last arrival as it was recorded. A rank arrives as
long after the end of its previous collective as it was recorded, less what is removed. If a wait
becomes shorter, the rank goes on earlier by the part of that wait in which its GPU computed
nothing: what it computed meanwhile takes as long as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.estimate import Estimate
from warpline.fleet.causes import cpu_work_ns
from warpline.fleet.collectives import QUARTERS, SHARES
from warpline.fleet.jobs import Job
from warpline.fleet.lateness import peers_of
from warpline.fleet.matching import Clock, Group, Member
from warpline.ops.arrays import F64, I32, I64, U8, BoolArray

# Ranks times their collectives that are simulated: of larger jobs, late ranks and some others.
_MOST_ROWS = 4_000_000
_LEAST_RANKS = 64
_MODEL_ERROR = 0.01  # of the step: simulated jobs without the straggler are within that
_STAYS = 0.25  # at worst, of what late ranks take longer


class _Event(NamedTuple):
    """A collective: its ranks, and for each of them when it arrived, left, and computed."""

    rank: I32
    arrival_ns: F64
    end_ns: F64
    duration_ns: F64
    hidden: U8  # shape (ranks, quarters), shares in 255ths
    counts: bool


def step_without(
    job: Job,
    groups: Sequence[Group],
    clocks: Sequence[Clock | None],
    late: Sequence[int],
) -> Estimate | None:
    """Return the mean step of the job if some ranks were as fast as their peers; None if unknown.

    Without late ranks, all are as fast as the median of their peers in each step between two
    collectives, as if none had to wait for another.

    Args:
        job: The job.
        groups: Its matched collectives.
        clocks: The clock of each rank.
        late: Places in the job of the late ranks; none for all in turn.
    """
    if not job.has_steps or not groups:
        return None
    events = _events(job, groups, clocks, late)
    if not events:
        return None
    count = max(len(job.step_index), 1)
    now_ns = job.usual_step_ns
    peers = {rank: _peers(job, rank, late) for rank in late}
    begin_ns = _begin_ns(job, clocks)
    saved = [
        _saved_ns(events, begin_ns, peers, share, is_hidden=is_hidden) / count
        for share, is_hidden in ((1.0, False), (1.0, True), (1.0 - _STAYS, True))
    ]
    # The CPUs of the other ranks may limit the step instead, as far as their speed is known.
    most_ns = max(now_ns - _least_ns(job, late), 0.0)
    optimistic, central, pessimistic = (max(saving, 0.0) for saving in saved)
    low = min(pessimistic, central) if central <= most_ns else 0.0
    central, high = min(central, most_ns), max(optimistic, central)
    error_ns = _MODEL_ERROR * now_ns
    return Estimate(now_ns - high - error_ns, now_ns - central, now_ns - low + error_ns)


def _begin_ns(job: Job, clocks: Sequence[Clock | None]) -> F64:
    """Return when the first step of each rank begins, on the job's time; NaN if unknown."""
    begin = np.full(len(job), np.nan)
    for rank, (summary, clock) in enumerate(zip(job.ranks, clocks, strict=True)):
        if clock is not None and len(summary.windows.start_ns):
            begin[rank] = float(clock.job_time(summary.windows.start_ns[:1])[0])
    return begin


def _peers(job: Job, rank: int, late: Sequence[int]) -> I64:
    peers = peers_of(job, rank, tuple(late))
    return peers if len(peers) else np.setdiff1d(np.arange(len(job)), tuple(late))


def _least_ns(job: Job, late: Sequence[int]) -> float:
    """Return how long the CPUs of the other ranks work per step: no step can be shorter."""
    known = [
        ns
        for rank, summary in enumerate(job.ranks)
        if rank not in late and (ns := cpu_work_ns(summary)) is not None
    ]
    return max(known, default=0.0)


def _events(
    job: Job, groups: Sequence[Group], clocks: Sequence[Clock | None], late: Sequence[int]
) -> list[_Event]:
    """Return the collectives in order of their last arrivals, on the job's time."""
    chosen = _simulated(job, late)
    events: list[tuple[float, _Event]] = []
    for group in groups:
        members = [
            (member, clock)
            for member in group.members
            if (clock := clocks[member.rank]) is not None and chosen[member.rank]
        ]
        events += _events_of_group(job, group, members)
    events.sort(key=lambda event: event[0])
    return [event for _, event in events]


def _simulated(job: Job, late: Sequence[int]) -> BoolArray:
    chosen = np.ones(len(job), np.bool_)
    rows = max(rank.collectives.total for rank in job.ranks)
    most = max(_MOST_ROWS // max(rows, 1), _LEAST_RANKS)
    if len(job) > most:
        chosen[:] = False
        chosen[np.linspace(0, len(job) - 1, most).astype(np.int64)] = True
        chosen[list(late)] = True
    return chosen


def _is_counted(job: Job, rank: int, start: I64) -> BoolArray:
    windows, step = job.ranks[rank].windows, job.window_step[rank]
    row = np.searchsorted(windows.start_ns, start, side="right") - 1
    inside = (row >= 0) & (start < windows.end_ns[np.maximum(row, 0)])
    counted: BoolArray = inside & (step[np.maximum(row, 0)] >= 0)
    return counted


def _events_of_group(
    job: Job, group: Group, members: Sequence[tuple[Member, Clock]]
) -> list[tuple[float, _Event]]:
    """Return the collectives of a group in which two ranks or more took part, and their arrivals.

    All events are parts of the same few columns, by collective and then rank: they are most of the
    memory.
    """
    number = np.zeros(group.total, np.int64)
    for member, _ in members:
        number[member.place] += 1
    bounds = np.concatenate(([0], np.cumsum(number)))
    size, free = int(bounds[-1]), bounds[:-1].copy()
    rank, hidden = np.zeros(size, np.int32), np.zeros((size, QUARTERS), np.uint8)
    arrival, end, duration = np.zeros(size), np.zeros(size), np.zeros(size)
    counted = np.zeros(group.total, np.int64)
    for member, clock in members:
        rows = job.ranks[member.rank].collectives.taken(member.rows)
        start_ns, end_ns = rows.start_ns, rows.end_ns
        at = free[member.place]
        free[member.place] += 1
        rank[at], hidden[at] = member.rank, rows.hidden
        arrival[at], end[at] = clock.job_time(start_ns), clock.job_time(end_ns)
        duration[at] = end_ns - start_ns
        counted[member.place] += _is_counted(job, member.rank, start_ns)
    found = []
    for place in np.flatnonzero(number > 1).tolist():
        own = slice(bounds[place], bounds[place + 1])
        counts = bool(counted[place] > number[place] / 2)
        event = _Event(rank[own], arrival[own], end[own], duration[own], hidden[own], counts)
        found.append((float(event.arrival_ns.max()), event))
    return found


def _saved_ns(
    events: Sequence[_Event],
    begin_ns: F64,
    peers: dict[int, I64],
    share: float,
    *,
    is_hidden: bool,
) -> float:
    """Return how much earlier the ranks end, median.

    Args:
        events: The collectives, in order.
        begin_ns: When each rank begins; NaN if unknown.
        peers: The ranks that each late one becomes as fast as; none for all in turn.
        share: Of what a late rank takes longer than its peers: how much is removed.
        is_hidden: Whether computing during a wait limits how much earlier a rank goes on.
    """
    count = len(begin_ns)
    shift, previous, is_moved = np.zeros(count), begin_ns.copy(), np.zeros(count, np.bool_)
    of_rank = {rank: np.isin(np.arange(count), rows) for rank, rows in peers.items()}
    for event in events:
        rank = event.rank
        gap = event.arrival_ns - previous[rank]
        arrival = event.arrival_ns + shift[rank]
        if event.counts:
            arrival = arrival - share * _removed(rank, gap, of_rank)
        before, after = float(event.arrival_ns.max()), float(arrival.max())
        old = np.clip(before - event.arrival_ns, 0.0, event.duration_ns)
        new = old + (after - arrival) - (before - event.arrival_ns)
        change = _exposed(event, new) - _exposed(event, old) if is_hidden else new - old
        shift[rank] = (arrival - event.arrival_ns) + change
        previous[rank], is_moved[rank] = event.end_ns, True
    moved = shift[is_moved]
    return -float(np.median(moved)) if len(moved) else 0.0


def _removed(rank: I32, gap: F64, of_rank: dict[int, BoolArray]) -> F64:
    """Return what late ranks took longer than their peers since their previous collective."""
    removed = np.zeros(len(rank))
    if not of_rank:
        if np.isfinite(gap).sum() > 1:
            removed = np.nan_to_num(gap - np.nanmedian(gap))
        return removed
    for late, is_peer in of_rank.items():
        row, others = np.flatnonzero(rank == late), gap[is_peer[rank]]
        others = others[np.isfinite(others)]
        if len(row) and len(others) and np.isfinite(gap[row[0]]):
            removed[row[0]] = gap[row[0]] - float(np.median(others))
    return removed


def _exposed(event: _Event, wait_ns: F64) -> F64:
    """Return the part of waits in which a GPU computes nothing; all beyond the recorded time."""
    quarter = event.duration_ns / QUARTERS
    hidden = np.zeros(len(wait_ns))
    for place in range(QUARTERS):
        within = np.minimum(np.maximum(wait_ns - place * quarter, 0.0), quarter)
        hidden += within * (event.hidden[:, place] / SHARES)
    return wait_ns - hidden
