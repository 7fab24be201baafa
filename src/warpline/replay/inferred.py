"""What operations waited for on other streams, where the recording does not tell.

Some recordings show that a stream was made to wait for an event, but neither the stream nor the
event. An operation that began late, after such a call, just when an operation of another stream
had ended, waited for that one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np

from warpline.derived.host_calls import numbers_of_texts
from warpline.derived.tiling import by_group
from warpline.ops.arrays import I64
from warpline.replay.edges import NEVER
from warpline.replay.host import NONE, host_side
from warpline.replay.lanes import Lanes, lanes
from warpline.trace import Trace

_LATE_NS = 3_000
_JUST_NS = 25_000
_WAIT = re.compile(r"\A(cuda|cu|hip)StreamWaitEvent(_|\Z)")


class Inferred(NamedTuple):
    """Items that waited for others.

    Attributes:
        item: Shape (k,), int64.
        awaited: Shape (k,), int64, items.
    """

    item: I64
    awaited: I64


def inferred_waits(trace: Trace, start_ns: I64, expected_ns: I64, name: str | None) -> Inferred:
    """Return what late items seem to have waited for.

    Args:
        trace: The trace.
        start_ns: Shape (items,), when each began.
        expected_ns: Shape (items,), when it could have, by what is known; NEVER where unknown.
        name: The name of the steps' ranges.
    """
    none = np.zeros(0, np.int64)
    if trace.has("stream_wait") and trace.row_count("stream_wait"):
        return Inferred(none, none)
    host, found = host_side(trace, name), lanes(trace, name)
    asks = np.flatnonzero(numbers_of_texts(trace, host.name, _is_wait) > 0)
    late = np.flatnonzero((expected_ns != NEVER) & (start_ns - expected_ns > _LATE_NS))
    late = late[(found.operation[late] >= 0) & (found.call[late] >= 0)]
    if not len(asks) or not len(late):
        return Inferred(none, none)
    late = late[_asked_since(host.start_ns[asks], found.asked_ns, found.stream, late)]
    awaited = np.full(len(late), NONE)
    work = np.flatnonzero(found.operation >= 0)
    for rows in by_group(found.process[late]):
        own = work[found.process[work] == found.process[late[rows[0]]]]
        own = own[np.argsort(found.end_ns[own], kind="stable")]
        for row in rows.tolist():
            item = int(late[row])
            awaited[row] = _just_before(found, own, item, int(found.start_ns[item]))
    known = awaited >= 0
    return Inferred(late[known], awaited[known])


def _asked_since(asks_ns: I64, asked_ns: I64, stream: I64, late: I64) -> I64:
    """Return which late items had a wait asked for since the item before them was given."""
    before = np.where(
        (late > 0) & (stream[late - 1] == stream[late]), asked_ns[late - 1], np.iinfo(np.int64).min
    )
    first = np.searchsorted(asks_ns, before, side="left")
    last = np.searchsorted(asks_ns, asked_ns[late], side="right")
    return np.flatnonzero(last > first)


def _just_before(found: Lanes, own: I64, item: int, start_ns: int) -> int:
    """Return the latest of the items `own`, by end, that ended just before one began."""
    ends = found.end_ns[own]
    low, high = np.searchsorted(ends, [start_ns - _JUST_NS, start_ns + 1])
    chosen = own[low:high]
    earlier = (found.stream[chosen] != found.stream[item]) & (
        found.asked_ns[chosen] <= found.asked_ns[item]
    )
    chosen = chosen[earlier]
    return int(chosen[-1]) if len(chosen) else NONE


@cache
def _is_wait(name: str) -> int:
    return int(_WAIT.search(name) is not None)
