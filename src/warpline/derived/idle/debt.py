"""What a hold of the host is to blame for after it is over.

A host that runs ahead of the device keeps it busy while it does something else. A wait ends that:
afterwards the host is behind by the time that it lost. So the idle time that follows is charged
to the wait, up to what the host lost in it. A hold that lost more than what an earlier one has
left takes its place; one that lost less changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.idle.host_blocking import Blocking
from warpline.ops.arrays import I8, I64
from warpline.ops.tiling import by_group


class Idle(NamedTuple):
    """Idle time of devices.

    Attributes:
        device: Shape (n,), int64, rows of the device table.
        process: Shape (n,), int64, rows of the process table: who launched what ended it.
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64, none before its start.
    """

    device: I64
    process: I64
    start_ns: I64
    end_ns: I64


class Charged(NamedTuple):
    """What is charged of idle times, from the start of each.

    Attributes:
        ns: Shape (n,), int64, no longer than the idle time.
        cause: Shape (n,), int8, places in `IDLE_CAUSES`; it says nothing where nothing is charged.
    """

    ns: I64
    cause: I8


class Pool(NamedTuple):
    """What may still be charged after each hold of a process.

    Attributes:
        left_ns: Shape (k,), int64.
        owner: Shape (k,), int64, the hold that lost it.
    """

    left_ns: I64
    owner: I64


def charge(holds: Blocking, lost_ns: I64, idle: Idle) -> Charged:
    """Charge idle times to the holds before them.

    Args:
        holds: What held the host.
        lost_ns: Shape (holds, devices), int64, what each may be charged for on each device.
        idle: Not inside any of the holds that it may be charged to.
    """
    found = Charged(np.zeros(len(idle.device), np.int64), np.zeros(len(idle.device), np.int8))
    if not len(holds.cause) or not len(idle.device):
        return found
    lane = idle.process * (int(idle.device.max()) + 1) + idle.device
    by_end = np.argsort(holds.end_ns, kind="stable")
    for rows in by_group(lane):
        device, process = idle.device[rows[0]], idle.process[rows[0]]
        chosen = by_end[holds.process[by_end] == process]
        chosen = chosen[lost_ns[chosen, device] > 0]
        if len(chosen):
            _charge_lane(holds, chosen, lost_ns[chosen, device], idle, rows, found)
    return found


def _charge_lane(
    holds: Blocking, chosen: I64, lost_ns: I64, idle: Idle, rows: I64, found: Charged
) -> None:
    """Charge the idle times of one process on one device; holds and rows are in time."""
    length = idle.end_ns[rows] - idle.start_ns[rows]
    passed = np.append(0, np.cumsum(length))
    # The first idle time after each hold, and what had passed by then.
    first = np.searchsorted(idle.start_ns[rows], holds.end_ns[chosen], side="left")
    pool = _pool(lost_ns, np.diff(passed[first], prepend=0))
    last = np.searchsorted(holds.end_ns[chosen], idle.start_ns[rows], side="right") - 1
    after = np.flatnonzero(last >= 0)
    last = last[after]
    spent = passed[after] - passed[first[last]]
    found.ns[rows[after]] = np.clip(pool.left_ns[last] - spent, 0, length[after])
    found.cause[rows[after]] = holds.cause[chosen[pool.owner[last]]]


def _pool(lost_ns: I64, idle_before_ns: I64) -> Pool:
    """Return what is left to charge after each hold, given the idle time since the one before."""
    left, owner = 0, 0
    lefts, owners = [], []
    for place, (lost, idle) in enumerate(
        zip(lost_ns.tolist(), idle_before_ns.tolist(), strict=True)
    ):
        left = max(left - idle, 0)
        if lost >= left:
            left, owner = lost, place
        lefts.append(left)
        owners.append(owner)
    return Pool(np.array(lefts, np.int64), np.array(owners, np.int64))
