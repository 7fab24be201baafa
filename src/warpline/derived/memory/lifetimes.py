"""Which blocks are in use when, numbered by allocations and frees: exact at every one of them."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import FRAMEWORK, Pool, allocations, until_next
from warpline.frozen import frozen
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace

NOT_RECORDED = -1


@frozen
class Lifetimes:
    """The blocks of one pool over its states.

    State 0 is before the first allocation or free that was recorded, state n is after the n-th.

    Attributes:
        pool: The pool.
        first: The first state whose bytes in use were recorded: 0 if the blocks that were there
            before are known, otherwise 1.
        time_ns: Shape (states,), int64, when each state begins; that of state 0 is the next one's.
        allocated_bytes: Shape (states,), int64, bytes in use.
        rest_bytes: Shape (states,), int64, the part of them that is in no block: allocated before
            the recording, and not freed in it.
        reserved_bytes: Shape (states,), int64, bytes reserved from the driver; None if unknown.
        allocation: Shape (blocks,), int64, positions in `allocations`; -1 for blocks that were
            allocated before the recording.
        start: Shape (blocks,), int64, the first state in which a block is in use, ascending.
        end: Shape (blocks,), int64, the first state in which it is not; the number of states if
            it is in use at the end.
        bytes: Shape (blocks,), int64.
    """

    pool: Pool
    first: int
    time_ns: I64
    allocated_bytes: I64
    rest_bytes: I64
    reserved_bytes: I64 | None
    allocation: I64
    start: I64
    end: I64
    bytes: I64

    @property
    def peak(self) -> int:
        """The first state with the most bytes in use."""
        return self.first + int(np.argmax(self.allocated_bytes[self.first :]))

    def in_use(self, state: int) -> I64:
        """Return the blocks that are in use in a state."""
        return np.flatnonzero((self.start <= state) & (self.end > state))


@derived
def lifetimes(trace: Trace, number: int) -> Lifetimes:
    """Return the blocks of a pool, by its position in `Allocations.pools`."""
    events, until = allocations(trace), until_next(trace)
    own = np.flatnonzero(events.pool == number)
    is_existing = were_there(trace)[own]
    taken = own[~is_existing]
    count = len(taken)
    state = np.zeros(len(events) + 1, np.int64)  # of each event; the last is of no event
    state[taken] = np.arange(1, count + 1)
    state[-1] = count + 1
    made = own[events.change_bytes[own] > 0]
    freed = own[(events.change_bytes[own] < 0) & events.has_address[own]]
    earlier = freed[~np.isin(freed, until[made])]
    start = np.concatenate((np.zeros(len(earlier), np.int64), state[made]))
    end = np.concatenate((state[earlier], state[until[made]]))
    size = np.concatenate((-events.change_bytes[earlier], events.change_bytes[made]))
    event = np.concatenate((np.full(len(earlier), NOT_RECORDED), made))
    order = np.argsort(start, kind="stable")
    order = order[start[order] < end[order]]  # others were freed before the recording
    start, end, size, event = start[order], end[order], size[order], event[order]
    known = _sums(start, end, size, count + 1)
    allocated = events.allocated_bytes[taken]
    is_counted = events.is_counted[taken].all()  # from 0, as if nothing had been in use
    rest = np.zeros(count, np.int64) if is_counted else allocated - known[1:]
    rest = np.append(rest[:1] if count else np.zeros(1, np.int64), rest)
    has_reserved = bool(count and events.has_reserved[own].all())
    reserved = events.reserved_bytes[taken]
    return Lifetimes(
        pool=events.pools[number],
        first=0 if is_existing.any() or not count else 1,
        time_ns=events.time_ns[np.append(taken[:1] if count else own[-1:], taken)],
        allocated_bytes=known + rest,
        rest_bytes=rest,
        reserved_bytes=np.append(reserved[:1], reserved) if has_reserved else None,
        allocation=event,
        start=start,
        end=end,
        bytes=size,
    )


@derived
def were_there(trace: Trace) -> BoolArray:
    """Return which events of `allocations` stand for blocks that were there before."""
    events = allocations(trace)
    found = np.zeros(len(events), np.bool_)
    if trace.has("allocator_event"):
        existing = trace.columns("allocator_event", "is_existing")["is_existing"].filled(0)
        own = np.flatnonzero(events.allocator == FRAMEWORK)
        found[own] = existing[events.row[own]] > 0
    return found


def _sums(start: I64, end: I64, size: I64, states: int) -> I64:
    """Return the bytes of blocks in each state."""
    change = np.zeros(states + 1, np.int64)
    np.add.at(change, start, size)
    np.add.at(change, end, -size)
    return np.cumsum(change)[:states]
