"""Collectives of the job: waits against transfers, bandwidth, and groups that are slower."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.collectives.ring import ring_factor
from warpline.fleet.jobs import Job
from warpline.fleet.waiting import GroupSums, Waits
from warpline.result.fleet import FleetCollective

_LEAST_COUNT = 5  # collectives, to compare groups
_SLOWER = 1.3  # times the median of the other groups


class SlowGroup(NamedTuple):
    """A communicator whose transfers take longer than those of others of its kind.

    Attributes:
        operation: Such as AllReduce.
        bytes: Message size; -1 if unknown.
        ranks: Its ranks, places in the job.
        median_ns: The median transfer.
        usual_ns: The median over the other communicators.
        more_ns: How much longer all its transfers take per step.
    """

    operation: str
    bytes: int
    ranks: tuple[int, ...]
    median_ns: float
    usual_ns: float
    more_ns: float


class Networks(NamedTuple):
    """The collectives of a job.

    Attributes:
        collectives: Sums, those with the longest times first.
        slow: Communicators that are slower than others of their kind.
        transfer_ns: Mean transfer time of a rank per step.
    """

    collectives: tuple[FleetCollective, ...]
    slow: tuple[SlowGroup, ...]


def collectives_of(job: Job, waits: Waits) -> Networks:
    """Return the collectives by operation, size and number of ranks."""
    kinds: dict[tuple[str, int, int], list[GroupSums]] = {}
    for item in waits.sums:
        kinds.setdefault((item.operation, item.bytes, len(item.ranks)), []).append(item)
    found, slow = [], []
    for (operation, size, ranks), groups in kinds.items():
        count = sum(group.calls for group in groups)
        transfer = float(np.median([group.median_ns for group in groups]))
        factor = ring_factor(operation, ranks)
        is_known = size > 0 and factor > 0 and transfer > 0
        found.append(
            FleetCollective(
                operation=operation,
                communicators=len(groups),
                ranks=ranks,
                bytes=size if size >= 0 else None,
                count=count,
                wait_ns=sum(group.wait_ns for group in groups) / count,
                transfer_ns=transfer,
                bus_bytes_per_s=size * factor / transfer * 1e9 if is_known else None,
            )
        )
        slow += _slow(job, groups)
    found.sort(key=lambda item: -item.count * (item.wait_ns + item.transfer_ns))
    slow.sort(key=lambda group: -group.more_ns)
    return Networks(tuple(found), tuple(slow))


def _slow(job: Job, groups: list[GroupSums]) -> list[SlowGroup]:
    """Return the groups whose transfers take longer than those of the others of their kind."""
    enough = [group for group in groups if group.calls >= _LEAST_COUNT]
    if len(enough) < 3:  # of two, neither is the usual one
        return []
    count = max(len(job.step_index), 1)
    found = []
    for place, group in enumerate(enough):
        others = enough[:place] + enough[place + 1 :]
        usual = float(np.median([other.median_ns for other in others]))
        more = (group.median_ns - usual) * group.calls / count
        if group.median_ns > _SLOWER * usual:
            found.append(
                SlowGroup(group.operation, group.bytes, group.ranks, group.median_ns, usual, more)
            )
    return found
