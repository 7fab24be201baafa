"""How long ranks wait for their neighbors in sends and receives."""

from __future__ import annotations

import numpy as np

from warpline.fleet.collectives import CollectiveKind, hidden_ns
from warpline.fleet.jobs import Job, steps_of
from warpline.fleet.summary import RankSummary
from warpline.ops.arrays import F64, I64

_AT_ONCE = 0.05  # of the sends and receives of a size: they wait least, so they show the transfer

_Key = tuple[str, str, int]


def exchange_waits(job: Job) -> tuple[F64, F64]:
    """Return how long each rank waits in its sends and receives, and the exposed part.

    Shape (ranks, steps) each, float64 ns, in steps that count. What a kernel takes beyond the
    transfer is a wait. A transfer takes as long as the fastest ones of the same size among the
    same ranks. Where several kernels of a rank wait at once, time counts once; where a collective
    runs, it counts there.
    """
    shape = (len(job), max(len(job.step_index), 1))
    wait_ns, exposed_ns = np.zeros(shape), np.zeros(shape)
    transfers = _transfers(job)
    for place, rank in enumerate(job.ranks):
        if not rank.exchanges.total:
            continue
        step = steps_of(job, place, rank.exchanges.start_ns)
        wait, exposed = _waits(rank, transfers)
        counted = step >= 0
        np.add.at(wait_ns[place], step[counted], wait[counted])
        np.add.at(exposed_ns[place], step[counted], exposed[counted])
    return wait_ns, exposed_ns


def _key(kind: CollectiveKind) -> _Key:
    return kind.operation, kind.communicator if kind.is_named else "", kind.bytes


def _transfers(job: Job) -> dict[_Key, float]:
    """Return how long the transfers of each operation, communicator and size take."""
    every: dict[_Key, list[I64]] = {}
    for rank in job.ranks:
        length, kind = rank.exchanges.end_ns - rank.exchanges.start_ns, rank.exchanges.kind
        for code in np.unique(kind).tolist():
            own = length[kind == code]
            every.setdefault(_key(rank.kinds[code]), []).append(own)
    return {
        key: float(np.quantile(np.concatenate(parts), _AT_ONCE)) for key, parts in every.items()
    }


def _waits(rank: RankSummary, transfers: dict[_Key, float]) -> tuple[F64, F64]:
    """Return the wait of each send and receive, and its exposed part, without what others have."""
    rows = rank.exchanges
    of_kind = np.array([transfers.get(_key(kind), 0.0) for kind in rank.kinds])
    start = rows.start_ns
    length = (rows.end_ns - start).astype(np.float64)
    until = np.maximum(length - of_kind[rows.kind], 0.0)
    before = np.maximum.accumulate(start + until)
    begin = np.zeros(len(until))
    begin[1:] = np.clip(before[:-1] - start[1:], 0.0, until[1:])
    hidden = hidden_ns(rows, until) - hidden_ns(rows, begin)
    wait = until - begin
    free = 1.0 - _covered(rank, start + begin, start + until) / np.maximum(wait, 1)
    return wait * free, np.maximum(wait - hidden, 0.0) * free


def _covered(rank: RankSummary, begin: F64, end: F64) -> F64:
    """Return how long collectives of the rank run between some times."""
    start, stop = rank.collectives.start_ns, rank.collectives.end_ns
    if not len(start):
        return np.zeros(len(begin))
    reach = np.maximum.accumulate(stop)
    low = np.maximum(start, np.concatenate((start[:1], reach[:-1])))
    sums = np.concatenate(([0.0], np.cumsum(np.maximum(stop - low, 0))))

    def until(moment: F64) -> F64:
        row = np.searchsorted(start, moment, side="right")
        last = np.maximum(row - 1, 0)
        beyond = np.where(row > 0, np.maximum(reach[last] - moment, 0.0), 0.0)
        result: F64 = sums[row] - beyond
        return result

    covered: F64 = np.clip(until(end) - until(begin), 0.0, end - begin)
    return covered
