"""How long each rank waits in collectives, and how long others wait for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import RankWindows
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.steps.times import measure_windows
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.interval import intersect, union
from warpline.trace import Run


@dataclass(frozen=True)
class RankWaits:
    """Sums over the analyzed collectives, per rank (one process on one device).

    Attributes:
        process: Shape (ranks,), int64, rows of the process table.
        device: Shape (ranks,), int64, rows of the device table.
        collectives: Shape (ranks,), int64, how many it took part in.
        last: Shape (ranks,), int64, in how many it arrived last, by more than the clock error.
        caused_ns: Shape (ranks,), int64, how long the others waited in the collectives in which it
            arrived last, summed over ranks. The sum over ranks equals that of `wait_ns`.
        exposed_ns: Shape (ranks,), int64, the part of `caused_ns` in which the waiting GPUs
            computed nothing.
        late_ns: Shape (ranks,), int64, how much later than the second-to-last rank it arrived in
            them: how much earlier they would have started without it.
        wait_ns: Shape (ranks,), int64, how long it waited for others.
        exposed_wait_ns: Shape (ranks,), int64, the part of it in which its GPU computed nothing.
        transfer_ns: Shape (ranks,), int64, the rest of its kernels' time.
        median_behind_ns: Shape (ranks,), int64, median delay after the first rank's arrival.
    """

    process: I64
    device: I64
    collectives: I64
    last: I64
    caused_ns: I64
    exposed_ns: I64
    late_ns: I64
    wait_ns: I64
    exposed_wait_ns: I64
    transfer_ns: I64
    median_behind_ns: I64

    def __len__(self) -> int:
        return len(self.process)


@derived
def rank_waits(run: Run) -> RankWaits:
    """Return the waits of each rank that took part in a matched collective."""
    waits = collective_waits(run)
    ranks = distinct_values(waits.rank)
    row = np.searchsorted(ranks, waits.rank)
    last = row[waits.last]
    first = np.full(waits.count, np.iinfo(np.int64).max)
    np.minimum.at(first, waits.collective, waits.arrival_ns)
    behind = waits.arrival_ns - first[waits.collective]
    wait_of, exposed_of = (
        _summed(waits.collective, part, waits.count) for part in (waits.wait_ns, waits.exposed_ns)
    )
    n = len(ranks)
    return RankWaits(
        process=waits.matches.rank_process[ranks],
        device=waits.matches.rank_device[ranks],
        collectives=np.bincount(row, minlength=n).astype(np.int64),
        last=np.bincount(last[waits.is_late], minlength=n).astype(np.int64),
        caused_ns=_summed(last, wait_of, n),
        exposed_ns=_summed(last, exposed_of, n),
        late_ns=_summed(last, waits.late_ns, n),
        wait_ns=_summed(row, waits.wait_ns, n),
        exposed_wait_ns=_summed(row, waits.exposed_ns, n),
        transfer_ns=_summed(row, waits.transfer_ns, n),
        median_behind_ns=np.array(
            [np.median(behind[row == place]) for place in range(n)], np.int64
        ),
    )


def waiting_ns(run: Run, rank: RankWindows) -> int | None:
    """Return how long a process waited in collectives on a device, in the analyzed windows.

    None if none of its collectives is matched with another rank. Waits in several collectives at
    once count once.

    Args:
        run: The trace, and the choice of its steps.
        rank: One of the ranks of `step_partition`.
    """
    waits, windows = collective_waits(run), measure_windows(run)
    matches = waits.matches
    own = rank.owns(matches.rank_process[waits.rank], matches.rank_device[waits.rank])
    if not own.any():
        return None
    start = operations(run.trace).start_ns[waits.operation[own]]
    waiting = union(start, start + waits.wait_ns[own])
    chosen = rank.windows
    inside = intersect(waiting, union(windows.start_ns[chosen], windows.end_ns[chosen]))
    return int((inside.end - inside.start).sum())


def _summed(group: I64, values: I64, n_groups: int) -> I64:
    sums = np.zeros(n_groups, np.int64)
    np.add.at(sums, group, values)
    return sums
