"""Lanes for overlapping events, so that viewers that nest or chain events drop none."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

_NESTED_LANES = 32  # at most this many are searched for one that the event nests in


def assign_lanes(start_ns: Iterable[int], end_ns: Iterable[int], *, nested: bool) -> list[int]:
    """Return a lane for each event. Events on a lane are disjoint or, if `nested`, nest.

    Args:
        start_ns: Starts, ascending. If `nested`, ties are ordered longest event first.
        end_ns: Ends.
        nested: Whether an event may lie inside another event of its lane.

    The first lane that fits is used. Past a number of open nested lanes, events are kept
    disjoint, which bounds the time to O(n log n).
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
    """Add the event to the first lane where it nests and return the lane, or None."""
    for lane, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or stack[-1] >= end:
            stack.append(end)
            return lane
    return None
