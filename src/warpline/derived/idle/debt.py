"""Attribution of later idle time to an earlier blocking call.

A CPU that runs ahead of the GPU keeps it busy while doing something else. A blocking call ends
this: afterwards the CPU is behind by the time it lost. So the following idle time is charged to the
blocking call, up to the time lost in it. A blocking call that lost more than the remaining debt of
an earlier one replaces it. One that lost less changes nothing.
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
        process: Shape (n,), int64, rows of the process table: the launcher of the operation that
            ended the idle time.
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64, none before its start.
    """

    device: I64
    process: I64
    start_ns: I64
    end_ns: I64


class Charged(NamedTuple):
    """The charged part of idle times, from the start of each.

    Attributes:
        ns: Shape (n,), int64, at most the idle time.
        cause: Shape (n,), int8, idle members of `TimePart`; meaningless where `ns` is 0.
    """

    ns: I64
    cause: I8


class Pool(NamedTuple):
    """The remaining debt after each blocking call of a process.

    Attributes:
        left_ns: Shape (k,), int64.
        owner: Shape (k,), int64, the blocking call that caused it.
    """

    left_ns: I64
    owner: I64


def charge(holds: Blocking, lost_ns: I64, idle: Idle) -> Charged:
    """Charge idle times to preceding blocking calls.

    Args:
        holds: The blocking calls.
        lost_ns: Shape (holds, devices), int64, the debt that each causes on each device.
        idle: Idle times outside the blocking calls that they may be charged to.
    """
    charged = Charged(np.zeros(len(idle.device), np.int64), np.zeros(len(idle.device), np.int8))
    if not len(holds.cause) or not len(idle.device):
        return charged
    rank = idle.process * (int(idle.device.max()) + 1) + idle.device
    by_end = np.argsort(holds.end_ns, kind="stable")
    for rows in by_group(rank):
        device, process = idle.device[rows[0]], idle.process[rows[0]]
        chosen = by_end[holds.process[by_end] == process]
        chosen = chosen[lost_ns[chosen, device] > 0]
        if len(chosen):
            _charge_rank(holds, chosen, lost_ns[chosen, device], idle, rows, charged)
    return charged


def _charge_rank(
    holds: Blocking, chosen: I64, lost_ns: I64, idle: Idle, rows: I64, charged: Charged
) -> None:
    """Charge the idle times of one process on one device; holds and rows are ordered by time."""
    length = idle.end_ns[rows] - idle.start_ns[rows]
    passed = np.append(0, np.cumsum(length))
    # The first idle time after each blocking call, and the idle time before it.
    first = np.searchsorted(idle.start_ns[rows], holds.end_ns[chosen], side="left")
    pool = _pool(lost_ns, np.diff(passed[first], prepend=0))
    last = np.searchsorted(holds.end_ns[chosen], idle.start_ns[rows], side="right") - 1
    after = np.flatnonzero(last >= 0)
    last = last[after]
    spent = passed[after] - passed[first[last]]
    charged.ns[rows[after]] = np.clip(pool.left_ns[last] - spent, 0, length[after])
    charged.cause[rows[after]] = holds.cause[chosen[pool.owner[last]]]


def _pool(lost_ns: I64, idle_before_ns: I64) -> Pool:
    """Return the debt after each blocking call, given the idle time since the previous one."""
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
