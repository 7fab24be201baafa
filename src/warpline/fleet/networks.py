"""Collectives of the job: waits against transfers, bandwidth, and groups that are slower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.collectives.ring import ring_factor
from warpline.fleet.jobs import Job
from warpline.fleet.waiting import GroupSums, Waits
from warpline.hardware import peaks_of
from warpline.result.fleet import FleetCollective

_FEW_SIZES = 2
_SUMS = ("wait_ns", "transfer_ns")
_LEAST_SLOW = 2  # communicators: one alone is not a matter of its machines
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


class SlowHosts(NamedTuple):
    """Machines whose transfers take longer: as if they were behind one slow switch.

    Attributes:
        hosts: Their names.
        groups: Their communicators, all slow.
        ratio: How many times as long transfers take as those of others.
        more_ns: How much longer a rank transfers per step.
    """

    hosts: tuple[str, ...]
    groups: tuple[SlowGroup, ...]
    ratio: float
    more_ns: float


class Networks(NamedTuple):
    """The collectives of a job.

    Attributes:
        collectives: Sums, those with the longest times first.
        slow: Communicators that are slower than others of their kind.
        slow_hosts: Machines whose communicators are all slow, and no others.
    """

    collectives: tuple[FleetCollective, ...]
    slow: tuple[SlowGroup, ...]
    slow_hosts: SlowHosts | None


def collectives_of(job: Job, waits: Waits) -> Networks:
    """Return the collectives by operation, size and number of ranks."""
    kinds: dict[tuple[str, int, int], list[GroupSums]] = {}
    for item in _without_many_sizes(waits.sums):
        kinds.setdefault((item.operation, item.bytes, len(item.ranks)), []).append(item)
    found, slow, machines = [], [], []
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
                algorithm=_algorithm(groups),
                link_bytes_per_s=_link(job, groups),
            )
        )
        own = _slow(job, groups)
        slow += own
        machines.append(_slow_hosts(job, groups, own))
    found.sort(key=lambda item: -item.count * (item.wait_ns + item.transfer_ns))
    slow.sort(key=lambda group: -group.more_ns)
    hosts = max(filter(None, machines), key=lambda item: item.more_ns, default=None)
    return Networks(tuple(found), tuple(slow), hosts)


def _without_many_sizes(sums: Sequence[GroupSums]) -> list[GroupSums]:
    """Return sums with one entry for all-to-alls of ranks whose sizes differ in each call."""
    found: list[GroupSums] = []
    of_group: dict[tuple[str, tuple[int, ...]], list[GroupSums]] = {}
    for item in sums:
        of_group.setdefault((item.operation, item.ranks), []).append(item)
    for own in of_group.values():
        if own[0].operation != "AllToAll" or len(own) <= _FEW_SIZES:
            found += own
            continue
        medians = np.repeat([item.median_ns for item in own], [item.calls for item in own])
        calls = sum(item.calls for item in own)
        wait, transfer = (sum(getattr(item, name) for item in own) for name in _SUMS)
        found.append(
            own[0]._replace(
                bytes=-1,
                calls=calls,
                wait_ns=wait,
                transfer_ns=transfer,
                median_ns=float(np.median(medians)),
            )
        )
    return found


def _algorithm(groups: Sequence[GroupSums]) -> str | None:
    names = {group.algorithm for group in groups}
    return names.pop() or None if len(names) == 1 else None


def _link(job: Job, groups: Sequence[GroupSums]) -> int | None:
    """Return the peak of the slowest link between ranks on one machine; None if it is not known.

    NVLink, or PCIe where the GPU has none. What links machines is not known.
    """
    peaks = []
    for rank in {rank for group in groups for rank in group.ranks}:
        name = job.ranks[rank].identity.gpu_name
        peak = peaks_of(name) if name else None
        if peak is None:
            return None
        peaks.append(peak.nvlink_bytes_per_s or peak.pcie_bytes_per_s)
    for group in groups:
        hosts = {job.ranks[rank].identity.host for rank in group.ranks}
        if len(hosts) > 1 or None in hosts:
            return None
    known = [peak for peak in peaks if peak is not None]
    return min(known) if len(known) == len(peaks) and known else None


def _slow_hosts(
    job: Job, groups: Sequence[GroupSums], slow: Sequence[SlowGroup]
) -> SlowHosts | None:
    """Return the machines that all slow communicators have in common with no other one."""
    if len(slow) < _LEAST_SLOW or not job.hosts:
        return None
    of_slow = {group.ranks for group in slow}
    touched: dict[bool, set[str]] = {True: set(), False: set()}
    for group in groups:
        hosts = {job.ranks[rank].identity.host or "" for rank in group.ranks}
        touched[group.ranks in of_slow] |= hosts
    hosts = touched[True] - touched[False]
    is_each = all(
        any(job.ranks[rank].identity.host in hosts for rank in group.ranks) for group in slow
    )
    if not hosts or not is_each or len(hosts) == len(job.hosts):
        return None
    more: dict[int, float] = {}
    for one in slow:
        for rank in one.ranks:
            more[rank] = more.get(rank, 0.0) + one.more_ns
    ratio = sum(one.median_ns for one in slow) / max(sum(one.usual_ns for one in slow), 1.0)
    mean = sum(more.values()) / len(more)
    return SlowHosts(tuple(sorted(hosts)), tuple(slow), ratio, mean)


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
