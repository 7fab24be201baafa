"""Lanes for events that overlap, so that a viewer which nests or chains them drops none."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

_NESTED_LANES = 32  # how many are searched for one that an event nests in


def assign_lanes(start_ns: Iterable[int], end_ns: Iterable[int], *, nested: bool) -> list[int]:
    """Return a lane for each event; on a lane, events are disjoint or, if `nested`, nest.

    Args:
        start_ns: Starts, ascending; where they are equal, longer events come first if `nested`.
        end_ns: Ends.
        nested: Whether an event may lie within another one of its lane.

    The first lane that fits is taken. Beyond some open nested lanes events are kept disjoint,
    which bounds the time to n log n.
    """
    stacks: list[list[int]] = []  # ends of the open events of each nested lane
    busy: list[tuple[int, int]] = []  # (end, lane) of the disjoint lanes in use
    free: list[int] = []
    lanes: list[int] = []
    count = 0
    for start, end in zip(start_ns, end_ns, strict=True):
        lane = _nesting_lane(stacks, start, end) if nested else None
        if lane is None:
            while busy and busy[0][0] <= start:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if nested and len(stacks) < _NESTED_LANES:
                lane = len(stacks)
                stacks.append([end])
                count += 1
            else:
                lane = heapq.heappop(free) if free else count
                count = max(count, lane + 1)
                heapq.heappush(busy, (end, lane))
        lanes.append(lane)
    return lanes


def _nesting_lane(stacks: list[list[int]], start: int, end: int) -> int | None:
    """Put the event on the first lane where it nests, and return that lane, or None."""
    for lane, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or stack[-1] >= end:
            stack.append(end)
            return lane
    return None
