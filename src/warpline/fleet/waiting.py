"""Who arrived last in each collective, and how long the others waited for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.fleet.blocks import blocks_of
from warpline.fleet.collectives import CollectiveRows, hidden_ns
from warpline.fleet.exchanging import exchange_waits
from warpline.fleet.jobs import Job, Steps, steps_of
from warpline.fleet.matching import Group, Matches, Member
from warpline.ops.arrays import F64, I64, BoolArray


@dataclass(frozen=True)
class Waits:
    """Waits in the collectives of the steps that count, by rank and step, float64 ns.

    Attributes:
        wait_ns: Shape (ranks, steps), how long it waited for others.
        exposed_ns: Shape (ranks, steps), the part of it in which its GPU computed nothing.
        caused_ns: Shape (ranks, steps), how long others waited where it arrived last.
        caused_exposed_ns: Shape (ranks, steps), the exposed part of that.
        transfer_ns: Shape (ranks, steps), the rest of its collectives' time.
        between_ns: Shape (blocks, blocks), of `blocks_of`: how long ranks of the second block
            waited, exposed, where a rank of the first arrived last.
        last: Shape (ranks,), in how many collectives it arrived last, by more than the error.
        collectives: Shape (ranks,), how many it took part in.
        sums: Sums over the collectives of each group.
        used: The number of collectives.
        incomplete: The number of them that some members of their group have no record of.
        exchange_ns: Shape (ranks, steps), how long it waited for neighbors in sends and receives.
        exchange_exposed_ns: Shape (ranks, steps), the exposed part of that.
        across_ns: Shape (ranks, steps), the part of `exposed_ns` in collectives of several pipeline
            stages.
    """

    wait_ns: F64
    exposed_ns: F64
    caused_ns: F64
    caused_exposed_ns: F64
    transfer_ns: F64
    between_ns: F64
    last: I64
    collectives: I64
    sums: tuple[GroupSums, ...]
    used: int
    incomplete: int
    exchange_ns: F64
    exchange_exposed_ns: F64
    across_ns: F64

    @property
    def all_exposed_ns(self) -> F64:
        """Shape (ranks, steps), exposed waits in collectives, sends and receives."""
        return self.exposed_ns + self.exchange_exposed_ns

    @property
    def all_wait_ns(self) -> F64:
        """Shape (ranks, steps), waits in collectives, sends and receives."""
        return self.wait_ns + self.exchange_ns


class GroupSums(NamedTuple):
    """The collectives of one group and size.

    Attributes:
        operation: Such as AllReduce.
        communicator: Its id, name, or place of the stream.
        ranks: The members, places in the job.
        bytes: Message size; -1 if unknown.
        algorithm: Such as RING; "" if unknown, or if it differs.
        calls: Number of collectives.
        wait_ns: How long a rank waited in them, mean over the ranks.
        transfer_ns: Sum of the times from the last arrival to the end.
        median_ns: The median of these times.
        step_wait_ns: Shape (steps,), float64: how long a rank waited in those of each step.
        step_transfer_ns: Shape (steps,), float64: their transfers.
    """

    operation: str
    communicator: str
    ranks: tuple[int, ...]
    bytes: int
    algorithm: str
    calls: int
    wait_ns: float
    transfer_ns: float
    median_ns: float
    step_wait_ns: F64
    step_transfer_ns: F64


class _Arrivals(NamedTuple):
    """The arrivals in a group's collectives; shape (collectives,) each, on the group's time."""

    last_ns: F64
    second_ns: F64
    last: I64  # rank that arrived last, -1 without any
    present: I64
    counts: BoolArray


def waits(job: Job, matched: Matches, stage: I64) -> Waits:
    """Return the waits of each rank.

    Args:
        job: The job.
        matched: Its collectives.
        stage: Shape (ranks,), int64, the pipeline stage of each rank; -1 for none.

    A rank arrives in a collective when its kernel starts. Until the last rank arrives, the others
    wait in their kernels; the rest is the transfer. A collective counts if most of its kernels
    start in steps that count. What the GPU computed meanwhile is known by quarters of the kernel.
    """
    shape = (len(job), max(len(job.step_index), 1))
    arrays = [np.zeros(shape) for _ in range(5)]
    blocks = blocks_of(job)
    between = np.zeros((len(blocks.names), len(blocks.names)))
    last, taken = np.zeros(len(job), np.int64), np.zeros(len(job), np.int64)
    step_of = [
        steps_of(job, place, rank.collectives.start_ns) for place, rank in enumerate(job.ranks)
    ]
    sums: list[GroupSums] = []
    used = incomplete = 0
    across = np.zeros(shape)
    for group in matched.groups:
        arrivals = _arrivals(job, group, step_of)
        stages = set(stage[[member.rank for member in group.members]].tolist()) - {-1}
        is_across = len(stages) > 1
        before = arrays[1].copy() if is_across else across
        waited = _add(job, group, arrivals, step_of, arrays)
        for member, late_exposed in zip(group.members, waited, strict=True):
            between[:, blocks.of_rank[member.rank]] += np.bincount(
                blocks.of_rank, late_exposed, len(blocks.names)
            )
        if is_across:
            across += arrays[1] - before
        late = arrivals.counts & (arrivals.last_ns - arrivals.second_ns > group.error_ns)
        np.add.at(last, arrivals.last[late], 1)
        for member in group.members:
            taken[member.rank] += int(np.count_nonzero(arrivals.counts[member.place]))
        sums += _sums(job, group, arrivals, step_of)
        used += int(np.count_nonzero(arrivals.counts))
        partly = arrivals.counts & (arrivals.present < len(group.members))
        incomplete += int(np.count_nonzero(partly))
    wait_ns, exposed_ns, caused_ns, caused_exposed_ns, transfer_ns = arrays
    exchange_ns, exchange_exposed_ns = exchange_waits(job)
    return Waits(
        wait_ns=wait_ns,
        exposed_ns=exposed_ns,
        caused_ns=caused_ns,
        caused_exposed_ns=caused_exposed_ns,
        transfer_ns=transfer_ns,
        between_ns=between,
        last=last,
        collectives=taken,
        sums=tuple(sums),
        used=used,
        incomplete=incomplete,
        exchange_ns=exchange_ns,
        exchange_exposed_ns=exchange_exposed_ns,
        across_ns=across,
    )


def _arrivals(job: Job, group: Group, step_of: Sequence[Steps]) -> _Arrivals:
    last, second = np.full(group.total, -np.inf), np.full(group.total, -np.inf)
    who = np.full(group.total, -1, np.int64)
    present, counted = np.zeros(group.total, np.int64), np.zeros(group.total, np.int64)
    for member in group.members:
        at = _start(_rows(job, member), member)
        place = member.place
        is_later = at > last[place]
        second[place] = np.where(is_later, last[place], np.maximum(second[place], at))
        who[place[is_later]] = member.rank
        last[place[is_later]] = at[is_later]
        present[place] += 1
        counted[place] += step_of[member.rank][member.rows] >= 0
    counts = (present > 1) & (2 * counted > present)
    return _Arrivals(last, second, who, present, counts)


def _rows(job: Job, member: Member) -> CollectiveRows:
    return job.ranks[member.rank].collectives.taken(member.rows)


def _start(rows: CollectiveRows, member: Member) -> F64:
    return member.on_common_time(rows.start_ns)


def _add(
    job: Job,
    group: Group,
    arrivals: _Arrivals,
    step_of: Sequence[Steps],
    arrays: Sequence[F64],
) -> Iterator[F64]:
    """Add a group's waits to the sums by rank and step.

    Yields of each member how long it waited, exposed, for each rank; shape (ranks,).
    """
    wait_sum, exposed_sum, caused, caused_exposed, transfer = arrays
    for member in group.members:
        step = step_of[member.rank][member.rows]
        chosen = np.flatnonzero(arrivals.counts[member.place] & (step >= 0))
        place, step = member.place[chosen], step[chosen]
        rows = job.ranks[member.rank].collectives.taken(member.rows[chosen])
        duration = rows.end_ns - rows.start_ns
        late = arrivals.last_ns[place] - _start(rows, member)
        wait: F64 = np.clip(late, 0.0, duration)
        exposed = np.maximum(wait - hidden_ns(rows, wait), 0.0)
        np.add.at(wait_sum[member.rank], step, wait)
        np.add.at(exposed_sum[member.rank], step, exposed)
        np.add.at(transfer[member.rank], step, duration - wait)
        late_rank = arrivals.last[place]
        np.add.at(caused, (late_rank, step), wait)
        np.add.at(caused_exposed, (late_rank, step), exposed)
        waited = np.zeros(len(job))
        np.add.at(waited, late_rank, exposed)
        yield waited


def _sums(job: Job, group: Group, arrivals: _Arrivals, step_of: Sequence[Steps]) -> list[GroupSums]:
    """Return the sums of a group's collectives by message size."""
    transfer = np.zeros(group.total)
    size = np.full(group.total, -1, np.int64)
    waited, algorithm = np.zeros(group.total), np.full(group.total, "", object)
    step = np.full(group.total, -1, np.int32)
    for member in group.members:
        place, rows = member.place, _rows(job, member)
        kinds = job.ranks[member.rank].kinds
        names = np.array([kind.algorithm for kind in kinds], object)
        sizes = np.array([kind.bytes for kind in kinds], np.int64)
        duration = rows.end_ns - rows.start_ns
        late = arrivals.last_ns[place] - _start(rows, member)
        waited[place] += np.clip(late, 0.0, duration)
        step[place] = np.maximum(step[place], step_of[member.rank][member.rows])
        is_last = arrivals.last[place] == member.rank
        transfer[place[is_last]] = duration[is_last]
        kind = rows.kind[is_last]
        size[place[is_last]], algorithm[place[is_last]] = sizes[kind], names[kind]
    found = []
    ranks = tuple(member.rank for member in group.members)
    steps = max(len(job.step_index), 1)
    for each in np.unique(size[arrivals.counts]).tolist():
        chosen = np.flatnonzero(arrivals.counts & (size == each))
        used = set(algorithm[chosen].tolist())
        mean_wait = waited[chosen] / arrivals.present[chosen]
        found.append(
            GroupSums(
                group.operation,
                group.communicator,
                ranks,
                each,
                used.pop() if len(used) == 1 else "",
                len(chosen),
                float(mean_wait.sum()),
                float(transfer[chosen].sum()),
                float(np.median(transfer[chosen])),
                np.bincount(step[chosen], mean_wait, steps).astype(np.float64),
                np.bincount(step[chosen], transfer[chosen], steps).astype(np.float64),
            )
        )
    return found
